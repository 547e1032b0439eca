#![no_main]

rdiag_fuzz::fuzz!("recording", rdiag_fuzz::mutate::json::mutate);
