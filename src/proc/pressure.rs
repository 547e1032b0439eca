//! Files of /proc/pressure, and those of control groups, which look the same.

use crate::{number, words};

/// A line of a pressure file; a figure that is not there, or cannot be, is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// Percent of the last ten seconds, as the kernel damps it, 0 to 100.
    pub avg10: Option<f64>,
    /// The same of the last minute.
    pub avg60: Option<f64>,
    /// Microseconds in all.
    pub total: Option<u64>,
}

impl Pressure {
    /// The line of this kind: `some` (at least one task stalled) or `full` (all did that were not idle).
    #[must_use]
    pub fn parse(bytes: &[u8], kind: &str) -> Option<Self> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let figures = lines.find_map(|line| line.strip_prefix(kind.as_bytes())?.strip_prefix(b" "))?;
        let figure = |name: &[u8]| words(figures).find_map(|word| word.strip_prefix(name));
        let percent = |name| {
            let share: f64 = std::str::from_utf8(figure(name)?).ok()?.parse().ok()?;
            (0.0..=100.0).contains(&share).then_some(share)
        };
        Some(Self { avg10: percent(b"avg10="), avg60: percent(b"avg60="), total: figure(b"total=").and_then(number) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_line_gives_its_own_figures() {
        let file = b"some avg10=0.12 avg60=50.50 avg300=1.53 total=24289182\nfull avg10=0.00 avg60=0.25 total=7\n";
        let some = Pressure { avg10: Some(0.12), avg60: Some(50.5), total: Some(24_289_182) };
        assert_eq!(Pressure::parse(file, "some"), Some(some));
        assert_eq!(
            Pressure::parse(file, "full"),
            Some(Pressure { avg10: Some(0.0), avg60: Some(0.25), total: Some(7) })
        );
    }

    #[test]
    fn a_line_that_is_not_there_is_none_and_so_is_a_figure_that_cannot_be() {
        for text in ["", "some", "full avg10=1 total=5", "something avg10=1"] {
            assert_eq!(Pressure::parse(text.as_bytes(), "some"), None, "{text}");
        }
        let broken = Pressure::parse(b"some avg10=nan avg60=100.5 total=-5", "some");
        assert_eq!(broken, Some(Pressure { avg10: None, avg60: None, total: None }));
        let other = Pressure::parse(b"some total=5 avg900=0.00", "some");
        assert_eq!(other.and_then(|line| line.total), Some(5), "columns may be added, or come in another order");
        let large = Pressure::parse(b"some avg10=0.00 total=99999999999999999999999", "some");
        assert_eq!(large.and_then(|line| line.total), None);
        let cut = Pressure::parse(b"some avg10=100.00 avg60=", "some");
        assert_eq!(cut, Some(Pressure { avg10: Some(100.0), avg60: None, total: None }));
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in "[a-z]{0,4}") {
            let _ = Pressure::parse(&bytes, &kind);
        }
    }
}
