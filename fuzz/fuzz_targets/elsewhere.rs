#![no_main]

rdiag_fuzz::fuzz!("elsewhere", rdiag_fuzz::mutate::json::mutate);
