#![no_main]

rdiag_fuzz::fuzz!("class", rdiag_fuzz::mutate::json::mutate);
