//! /proc/loadavg.

use crate::{number, words};

/// What /proc/loadavg says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadAverage {
    /// Fields 1 to 3: load averages over about one, five and fifteen minutes, in tasks.
    pub loads: [f64; 3],
    /// Field 4 before the slash: tasks that can run now, the reader of the file among them.
    pub runnable: u32,
    /// Field 4 after the slash: tasks that exist, threads among them, of all namespaces.
    pub tasks: u32,
    /// Field 5: the newest process id of the reader's namespace; none where it is not given.
    pub newest: Option<u64>,
}

impl LoadAverage {
    /// None for a line that lacks one of the first four fields.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = words(bytes);
        let mut load = || std::str::from_utf8(fields.next()?).ok()?.parse().ok().filter(|load: &f64| load.is_finite());
        let loads = [load()?, load()?, load()?];
        let mut tasks = fields.next()?.split(|byte| *byte == b'/').map(|half| u32::try_from(number(half)?).ok());
        let (runnable, tasks) = (tasks.next()??, tasks.next()??);
        Some(Self { loads, runnable, tasks, newest: fields.next().and_then(number) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fields_are_read_and_more_may_follow() {
        let parsed = LoadAverage::parse(b"0.02 0.13 0.16 3/92 14173 more\n").unwrap();
        let expected = LoadAverage { loads: [0.02, 0.13, 0.16], runnable: 3, tasks: 92, newest: Some(14173) };
        assert_eq!(parsed, expected);
        assert_eq!(LoadAverage::parse(b"0.02 0.13 0.16 3/92\n"), Some(LoadAverage { newest: None, ..expected }));
    }

    #[test]
    fn a_short_or_broken_line_gives_nothing() {
        for text in ["", "0.02 0.13 0.16", "0.02 0.13 0.16 3", "0.02 0.13 0.16 a/b 1", "NaN 0.1 0.1 1/2", "1 1 1 -1/2"]
        {
            assert_eq!(LoadAverage::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_no_load_is_infinite(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..60),
            line in "[0-9./ -]{0,40}",
        ) {
            for bytes in [&bytes[..], line.as_bytes()] {
                let parsed = LoadAverage::parse(bytes);
                proptest::prop_assert!(parsed.is_none_or(|parsed| parsed.loads.iter().all(|load| load.is_finite())));
            }
        }
    }
}
