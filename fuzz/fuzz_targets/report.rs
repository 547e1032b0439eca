#![no_main]

rdiag_fuzz::fuzz!("report", rdiag_fuzz::mutate::json::mutate);
