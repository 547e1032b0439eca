#![no_main]

rdiag_fuzz::fuzz!("kernel_log");
