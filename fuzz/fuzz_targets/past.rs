#![no_main]

rdiag_fuzz::fuzz!("past", rdiag_fuzz::mutate::json::mutate);
