#![no_main]

rdiag_fuzz::fuzz!("trace_events");
