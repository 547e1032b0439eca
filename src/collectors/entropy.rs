//! /proc/sys/kernel/random: whether the kernel's random number generator is ready. Until it is, programs that ask it for numbers wait;
//! after that no program ever does (Linux 5.18): `entropy_avail` stands at 256 from then on. The numbers of older kernels fall with use and
//! are not judged.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "entropy",
    help: "Whether the kernel's random number generator is ready, from /proc/sys/kernel/random.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "two short reads at the beginning and at the end (about 30 µs)",
    start: |_| Box::new(Entropy),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("entropy.available", RawUnit::Count, "/proc/sys/kernel/random/entropy_avail"),
    SeriesDef::gauge("entropy.needed", RawUnit::Count, "/proc/sys/kernel/random/poolsize"),
];

const METRICS: &[MetricDef] = &[MetricDef {
    id: "kernel.random_seeded.ratio",
    unit: Unit::Ratio,
    help: "Bits of randomness collected since boot, as a share of those that the random number generator waits for.",
    sources: &[Formula::level_ratio(&[term("entropy.available")], &[term("entropy.needed")])],
    caveat: "Once it is 1 it stays there. Before Linux 5.18 the same file went up and down in use and is not judged.",
    manual: "cat /proc/sys/kernel/random/entropy_avail /proc/sys/kernel/random/poolsize",
    ..MetricDef::EMPTY
}];

/// The pool of the generator that is seeded once, in bits. The older one says 4096, and some kernels of before 5.18 have
/// the newer one as well, so its size tells more than the version.
const POOL_OF_TODAY: u64 = 256;

struct Entropy;

impl Collect for Entropy {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let pool = host.read_u64("proc/sys/kernel/random/poolsize")?;
        if pool != POOL_OF_TODAY {
            let why = "before Linux 5.18 a low number is normal and makes no task wait";
            return Err(Unavailable::new(Reason::NotApplicable, why));
        }
        out.level("entropy.available", "", host.read_u64("proc/sys/kernel/random/entropy_avail")? as f64);
        out.level("entropy.needed", "", pool as f64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, gap, stats};
    use super::*;

    fn host(available: &str, pool: &str) -> Story {
        Story::of_seconds(2).file(0, "proc/sys/kernel/random/entropy_avail", available).file(
            0,
            "proc/sys/kernel/random/poolsize",
            pool,
        )
    }

    #[test]
    fn a_generator_that_is_seeded_is_told_from_one_that_waits() {
        for (available, share) in [("256\n", 1.0), ("64\n", 0.25), ("0\n", 0.0)] {
            let metrics = host(available, "256\n").metrics(&COLLECTOR);
            assert_eq!(stats(&metrics, "kernel.random_seeded.ratio", "").last, share);
        }
    }

    #[test]
    fn the_number_that_went_up_and_down_on_older_kernels_is_not_judged() {
        let metrics = host("93\n", "4096\n").metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "kernel.random_seeded.ratio", "").reason, Reason::NotApplicable);
    }

    #[test]
    fn missing_and_garbled_files_are_gaps() {
        let metrics = host("many\n", "256\n").metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "kernel.random_seeded.ratio", "").reason, Reason::Malformed);
        let metrics = Story::of_seconds(2).metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "kernel.random_seeded.ratio", "").reason, Reason::Absent);
    }
}
