#![no_main]

rdiag_fuzz::fuzz!("diff", rdiag_fuzz::mutate::json::mutate);
