//! Files of /proc/pressure, and those of control groups, which look the same.

use crate::{number, words};

/// A line of a pressure file. A figure is read when it is asked for: most callers want one, of each control group and sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure<'f>(&'f [u8]);

impl<'f> Pressure<'f> {
    /// The line of this kind: `some` (at least one task stalled) or `full` (all did that were not idle).
    #[must_use]
    pub fn parse(bytes: &'f [u8], kind: &str) -> Option<Self> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        lines.find_map(|line| line.strip_prefix(kind.as_bytes())?.strip_prefix(b" ")).map(Self)
    }

    /// Percent of the last ten seconds, as the kernel damps it, 0 to 100; none where it is not there, or cannot be.
    #[must_use]
    pub fn avg10(self) -> Option<f64> {
        self.percent(b"avg10=")
    }

    /// The same of the last minute.
    #[must_use]
    pub fn avg60(self) -> Option<f64> {
        self.percent(b"avg60=")
    }

    /// Microseconds in all; none where they are not there, or too many.
    #[must_use]
    pub fn total(self) -> Option<u64> {
        self.figure(b"total=").and_then(number)
    }

    fn percent(self, name: &[u8]) -> Option<f64> {
        let share: f64 = std::str::from_utf8(self.figure(name)?).ok()?.parse().ok()?;
        (0.0..=100.0).contains(&share).then_some(share)
    }

    fn figure(self, name: &[u8]) -> Option<&'f [u8]> {
        words(self.0).find_map(|word| word.strip_prefix(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// avg10, avg60 and total.
    type Figures = (Option<f64>, Option<f64>, Option<u64>);

    fn figures(text: &str, kind: &str) -> Option<Figures> {
        Pressure::parse(text.as_bytes(), kind).map(|line| (line.avg10(), line.avg60(), line.total()))
    }

    #[test]
    fn each_line_gives_its_own_figures() {
        let file = "some avg10=0.12 avg60=50.50 avg300=1.53 total=24289182\nfull avg10=0.00 avg60=0.25 total=7\n";
        assert_eq!(figures(file, "some"), Some((Some(0.12), Some(50.5), Some(24_289_182))));
        assert_eq!(figures(file, "full"), Some((Some(0.0), Some(0.25), Some(7))));
    }

    #[test]
    fn a_line_that_is_not_there_is_none_and_so_is_a_figure_that_cannot_be() {
        for text in ["", "some", "full avg10=1 total=5", "something avg10=1"] {
            assert_eq!(figures(text, "some"), None, "{text}");
        }
        assert_eq!(figures("some avg10=nan avg60=100.5 total=-5", "some"), Some((None, None, None)));
        let other = figures("some total=5 avg900=0.00", "some");
        assert_eq!(other, Some((None, None, Some(5))), "columns may be added, or come in another order");
        let large = figures("some avg10=0.00 total=99999999999999999999999", "some");
        assert_eq!(large, Some((Some(0.0), None, None)));
        assert_eq!(figures("some avg10=100.00 avg60=", "some"), Some((Some(100.0), None, None)));
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(text in "\\PC{0,200}", kind in "[a-z]{0,4}") {
            let _ = figures(&text, &kind);
            let _ = figures(&format!("{kind} {text}"), &kind);
        }
    }
}
