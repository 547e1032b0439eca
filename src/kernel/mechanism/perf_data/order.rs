//! Records in the order in which they happened: each CPU wrote its own, and perf took them over in rounds. What a round
//! brings is not older than what the round before the last one had.

/// Bytes that wait at most; then the older half goes on, in whatever order it is.
const MAX_WAITING: usize = 64 << 20;

/// Records that wait for what may have happened before them.
#[derive(Debug, Default)]
pub(super) struct Order {
    bytes: Vec<u8>,
    /// Time, and place in `bytes`.
    waiting: Vec<(u64, usize, usize)>,
    last_round: u64,
    latest: u64,
}

impl Order {
    pub(super) fn add(&mut self, time: u64, record: &[u8]) {
        self.latest = self.latest.max(time);
        self.waiting.push((time, self.bytes.len(), record.len()));
        self.bytes.extend_from_slice(record);
    }

    /// Whether so much waits that no end of a round can be waited for.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() > MAX_WAITING
    }

    /// At the end of a round, or (`all`) of the file: hands on what nothing older can follow.
    pub(super) fn flush(&mut self, all: bool, mut each: impl FnMut(&[u8])) {
        let mut until = if all { u64::MAX } else { self.last_round };
        self.last_round = self.latest;
        self.waiting.sort_unstable_by_key(|(time, at, _)| (*time, *at));
        if !all && self.is_full() {
            until = until.max(self.waiting.get(self.waiting.len() / 2).map_or(0, |(time, ..)| *time));
        }
        let ready = self.waiting.partition_point(|(time, ..)| *time <= until);
        for (_, at, length) in self.waiting.drain(..ready) {
            each(self.bytes.get(at..at + length).unwrap_or_default());
        }
        let before = std::mem::take(&mut self.bytes);
        for (_, at, length) in &mut self.waiting {
            let kept = before.get(*at..*at + *length).unwrap_or_default();
            *at = self.bytes.len();
            self.bytes.extend_from_slice(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_round_wait_for_those_of_the_next_that_are_older() {
        let mut order = Order::default();
        let mut seen = Vec::new();
        for (time, name) in [(5, b"e"), (1, b"a")] {
            order.add(time, name);
        }
        order.flush(false, |record| seen.extend_from_slice(record));
        assert!(seen.is_empty());
        for (time, name) in [(3, b"c"), (9, b"z"), (5, b"f")] {
            order.add(time, name);
        }
        order.flush(false, |record| seen.extend_from_slice(record));
        assert_eq!(seen, b"acef");
        order.flush(true, |record| seen.extend_from_slice(record));
        assert_eq!(seen, b"acefz");
    }

    #[test]
    fn a_file_without_rounds_does_not_fill_the_memory() {
        let mut order = Order::default();
        let record = vec![0; 60_000];
        let mut handed_on = 0;
        for time in 0..4000 {
            order.add(time, &record);
            if order.is_full() {
                order.flush(false, |_| handed_on += 1);
            }
        }
        assert!(order.bytes.len() <= MAX_WAITING + record.len() && handed_on > 2000, "{handed_on}");
    }
}
