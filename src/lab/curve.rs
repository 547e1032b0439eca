//! What copying a file costs by size of block, tried out in a folder: the answer to a question of tuning is a curve, not a number.

use std::io;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use super::load::CopyKind;
use super::load::copy::Pair;

/// Size of the copied file: small enough to try all blocks in a second, and large beside any block.
const FILE_MIB: u32 = 8;
/// The blocks, as powers of two: 64 bytes to 1 MiB.
const POWERS: std::ops::RangeInclusive<u32> = 6..=20;
/// Each copy is made so often, and the cheapest counts: what others do to the caches only adds.
const TRIES: usize = 3;

/// CPU seconds for each MiB.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// By system calls: bytes of a block and cost, smallest block first.
    pub by_calls: Vec<(f64, f64)>,
    /// In mapped memory.
    pub mapped: f64,
}

impl Curve {
    /// Tries out all blocks with files in this folder.
    pub fn measure(folder: &Path) -> io::Result<Self> {
        let scratch = tempfile::tempdir_in(folder)?;
        let pair = Pair::new(scratch.path(), "trial", FILE_MIB)?;
        let mapped = cost(|| pair.copy(CopyKind::Mapped, 1 << 20))?;
        let cost_of = |power: u32| Ok((f64::from(1 << power), cost(|| pair.copy(CopyKind::Calls, 1 << power))?));
        Ok(Self { by_calls: POWERS.map(cost_of).collect::<io::Result<_>>()?, mapped })
    }

    /// The cheapest block in bytes, and its cost.
    #[must_use]
    pub fn best(&self) -> Option<(f64, f64)> {
        self.by_calls.iter().copied().min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// The cost with a block of so many bytes: that of the power of two next to it.
    #[must_use]
    pub fn at(&self, bytes: f64) -> Option<f64> {
        let away = |block: f64| (block / bytes).ln().abs();
        self.by_calls.iter().min_by(|(one, _), (other, _)| away(*one).total_cmp(&away(*other))).map(|(_, cost)| *cost)
    }
}

/// CPU time of this thread for one MiB.
fn cost(copy: impl Fn() -> io::Result<()>) -> io::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..TRIES {
        let before = thread_seconds();
        copy()?;
        least = least.min(thread_seconds() - before);
    }
    Ok(least / f64::from(FILE_MIB))
}

fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_for_each_few_bytes_costs_more_than_one_for_many() {
        let folder = tempfile::tempdir().unwrap();
        let curve = Curve::measure(folder.path()).unwrap();
        assert_eq!(curve.by_calls.len(), 15);
        let (best, least) = curve.best().unwrap();
        assert!(best > 1024.0 && curve.at(64.0).unwrap() > 2.0 * least && curve.mapped > 0.0, "{curve:?}");
        // A folder that holds anything cannot be removed in this way.
        std::fs::remove_dir(folder.path()).unwrap();
    }

    #[test]
    fn the_cost_is_that_of_the_nearest_block() {
        let curve = Curve { by_calls: vec![(64.0, 9.0), (128.0, 5.0), (256.0, 6.0)], mapped: 1.0 };
        assert_eq!((curve.at(100.0), curve.at(1.0), curve.at(1e9)), (Some(5.0), Some(9.0), Some(6.0)));
        assert_eq!((curve.best(), Curve::default().best()), (Some((128.0, 5.0)), None));
    }
}
