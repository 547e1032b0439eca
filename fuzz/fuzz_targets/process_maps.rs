#![no_main]

rdiag_fuzz::fuzz!("process_maps");
