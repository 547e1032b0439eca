#![no_main]

rdiag_fuzz::fuzz!("elf", rdiag_fuzz::mutate::elf::mutate);
