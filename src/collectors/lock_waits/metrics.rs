//! What follows from the threads that wait for one lock.

use super::{MOST_IDLE, MOST_THREADS, MOST_WAITING, THREADS, WAITING};
use rdiag_model::metric::{Formula, MetricDef, term};
use rdiag_model::{Deed, Unit};

const CAVEAT: &str = "Seen at the samples only. Mutexes of glibc, musl and Rust; those of Java, Python and Go \
                      wait as condition variables and semaphores do, and are not seen. A lock that was never handed on does not count.";
const MANUAL: &str = "grep -H ^202 /proc/PID/task/*/syscall, a few times (x86-64): third field 0x80 or 0x89, fourth 0x2, \
                      of a mutex of musl one that ends in 80000010";

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "locks.waiting.count",
        unit: Unit::Count,
        help: "Threads that waited for the same lock of their program, at the lock where most did.",
        sources: &[Formula::level(&[term(MOST_WAITING)])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "locks.waiting.ratio",
        unit: Unit::Ratio,
        help: "Share of the threads seen waiting for that lock that wait for it at one moment: the share of its time \
               that each loses there.",
        sources: &[Formula::level_ratio(&[term(MOST_WAITING)], &[term(MOST_THREADS)])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "locks.idle.ratio",
        unit: Unit::Ratio,
        help: "Share of the samples in which every thread that was ever seen waiting for that lock waited: for it, or \
               for work.",
        sources: &[Formula::level(&[term(MOST_IDLE)])],
        caveat: "Waiting for work: in accept, poll, epoll, a condition variable or another futex. A thread that has \
                 the lock and was never seen waiting for it is not known.",
        manual: "cat /proc/PID/task/*/syscall, a few times",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "lock.waiting.count",
        unit: Unit::Count,
        dimension: Some("program_lock"),
        help: "Threads that waited for one lock of their program.",
        sources: &[Formula::level(&[term(WAITING)])],
        caveat: CAVEAT,
        manual: MANUAL,
        deed: Some(Deed {
            verb: "had",
            of: "the threads that waited for locks",
            alone: Some(("had", "threads that waited for one lock")),
            ..Deed::USUAL
        }),
    },
    MetricDef {
        id: "lock.threads.count",
        unit: Unit::Count,
        dimension: Some("program_lock"),
        help: "Threads that were seen waiting for one lock of their program.",
        sources: &[Formula::level(&[term(THREADS)])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];
