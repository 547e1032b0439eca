#![no_main]

rdiag_fuzz::fuzz!("perf_data", rdiag_fuzz::mutate::perf::mutate);
