#![no_main]

rdiag_fuzz::fuzz!("stream");
