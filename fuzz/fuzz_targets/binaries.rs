#![no_main]

rdiag_fuzz::fuzz!("binaries", rdiag_fuzz::mutate::elf::mutate);
