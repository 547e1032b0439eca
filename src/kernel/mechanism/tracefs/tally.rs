//! What the buffer of a CPU says of itself (`per_cpu/cpuN/stats`).

/// Events of an instance, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// They are in the buffers.
    pub unread: u64,
    /// They were read.
    pub read: u64,
    /// They were overwritten before they were read, or dropped at once.
    pub lost: u64,
}

impl Tally {
    /// The `stats` of one CPU's buffer.
    pub(super) fn parse(stats: &str) -> Self {
        let mut tally = Self::default();
        for (name, value) in stats.lines().filter_map(|line| line.split_once(':')) {
            let sum = match name {
                "entries" => &mut tally.unread,
                "read events" => &mut tally.read,
                "overrun" | "commit overrun" | "dropped events" => &mut tally.lost,
                _ => continue,
            };
            *sum = sum.saturating_add(value.trim().parse().unwrap_or(0));
        }
        tally
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            unread: self.unread.saturating_add(other.unread),
            read: self.read.saturating_add(other.read),
            lost: self.lost.saturating_add(other.lost),
        }
    }

    /// How many there were.
    #[must_use]
    pub fn all(self) -> u64 {
        self.unread.saturating_add(self.read).saturating_add(self.lost)
    }
}

/// `now ts: 24862.382425`, in seconds; of a clock that does not count seconds a whole number.
pub(super) fn stamp(stats: &str) -> Option<u64> {
    let now = stats.lines().find_map(|line| line.strip_prefix("now ts:"))?.trim();
    match now.split_once('.') {
        Some((seconds, micros)) if micros.len() == 6 => {
            seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)?.checked_mul(1000)
        }
        Some(_) => None,
        None => now.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_or_still_there_or_lost() {
        let stats = "entries: 238\noverrun: 3\ncommit overrun: 1\nbytes: 12952\nnow ts: 37823.4\ndropped events: 5\nread events: 40\n";
        let tally = Tally::parse(stats);
        assert_eq!(tally, Tally { unread: 238, read: 40, lost: 9 });
        assert_eq!((tally.all(), tally.plus(tally).all()), (287, 574));
        assert_eq!(Tally::parse("overrun: x\n\n:"), Tally::default());
    }

    #[test]
    fn the_time_now_is_told_in_nanoseconds_or_as_the_clock_counts() {
        assert_eq!(stamp("entries: 2\nnow ts: 24862.382425\n"), Some(24_862_382_425_000));
        assert_eq!(stamp("now ts:     7.000001\n"), Some(7_000_001_000));
        assert_eq!(stamp("now ts: 4711\n"), Some(4711));
        for other in ["", "now ts: 1.5\n", "now ts: x\n", "now ts: 99999999999999999999.000000\n"] {
            assert_eq!(stamp(other), None, "{other}");
        }
    }
}
