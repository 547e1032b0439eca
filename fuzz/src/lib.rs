//! Fuzzing of what in rdiag reads files that strangers made: see README.md.

pub mod meter;
pub mod mutate;
pub mod targets;

/// A target of libFuzzer: the function of that name in [`targets::ALL`], within its limits.
#[macro_export]
macro_rules! fuzz {
    ($name:literal) => {
        $crate::fuzz!($name, |data, size, most, _| libfuzzer_sys::fuzzer_mutate(data, size, most));
    };
    ($name:literal, $mutate:expr) => {
        #[global_allocator]
        static METER: $crate::meter::Meter = $crate::meter::Meter;

        static TARGET: std::sync::LazyLock<&$crate::targets::Target> =
            std::sync::LazyLock::new(|| $crate::targets::find($name).expect("a target in the table"));

        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::meter::measured(&TARGET, data));
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            let mutate: fn(&mut [u8], usize, usize, u32) -> usize = $mutate;
            mutate(data, size, max_size, seed)
        });
    };
}
