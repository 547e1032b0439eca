#![no_main]

rdiag_fuzz::fuzz!("fleet", rdiag_fuzz::mutate::json::mutate);
