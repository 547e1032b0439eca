//! What a load may be at most: nothing beyond it is started.

use super::kinds::{FetchFrom, TableOf};
use super::work::{Between, Work};

/// What is not safe about a piece of work.
pub fn unsafe_work(work: &Work, disk_mib: u32) -> Option<&'static str> {
    let within =
        |between: Between, low: u32, high: u32| low <= between[0] && between[0] <= between[1] && between[1] <= high;
    match work {
        Work::Bursts { processes_per_cpu, busy_ms, every_ms } => {
            let safe = within(*processes_per_cpu, 1, 16) && within(*busy_ms, 1, 50) && within(*every_ms, 100, 10_000);
            let share = processes_per_cpu[1] as f64 * busy_ms[1] as f64 / f64::from(every_ms[0].max(1));
            (!safe || share > 0.35).then_some(
                "1 to 16 processes for each CPU, 1 to 50 ms, every 100 ms to 10 s, and at most 35 % of the CPUs",
            )
        }
        Work::Pulse { busy_ms, every_ms } | Work::Poll { busy_ms, every_ms, .. } => {
            let safe = within(*busy_ms, 1, 100) && within(*every_ms, 100, 10_000);
            (!safe || f64::from(busy_ms[1]) > 0.35 * f64::from(every_ms[0]))
                .then_some("1 to 100 ms, every 100 ms to 10 s, and at most 35 % of the time")
        }
        Work::Fetch { from, threads, wait_ms, at_once } => {
            let safe = within(*threads, 1, 64) && within(*wait_ms, 1, 100) && within(*at_once, 1, 64);
            let is_one = *from == FetchFrom::SlowDisk || *at_once == [1, 1];
            (!safe || !is_one).then_some("1 to 64 threads, 1 to 100 ms, and 1 to 64 at once: of a lock only one")
        }
        Work::Crew { workers, every_ms, .. } => (!(1..=200).contains(workers) || !(50..=10_000).contains(every_ms))
            .then_some("1 to 200 workers, every 50 ms to 10 s"),
        Work::Reads { file_mib, block_bytes, threads } => {
            let safe = (1..=1024).contains(file_mib) && *file_mib <= disk_mib && within(*threads, 1, 64);
            let block = (4096..=1 << 20).contains(block_bytes) && block_bytes.is_power_of_two();
            (!safe || !block).then_some(
                "a file of 1 to 1024 MiB within disk_mib, blocks of 4 KiB to 1 MiB (a power of two), 1 to 64 threads",
            )
        }
        Work::Rewrite { file_mib, every_ms } => {
            let safe = within(*file_mib, 1, 64) && file_mib[1] <= disk_mib && within(*every_ms, 200, 10_000);
            (!safe || f64::from(file_mib[1]) / f64::from(every_ms[0].max(1)) > 0.06)
                .then_some("a file of 1 to 64 MiB within disk_mib, every 200 ms to 10 s, at most 60 MiB per second")
        }
        Work::Copy { file_mib, block_bytes, every_ms, .. } => {
            let safe = (1..=64).contains(file_mib) && 2 * file_mib <= disk_mib && (200..=10_000).contains(every_ms);
            let block = (64..=1 << 20).contains(block_bytes) && block_bytes.is_power_of_two();
            (!safe || !block).then_some(
                "a file of 1 to 64 MiB, twice within disk_mib, blocks of 64 bytes to 1 MiB (a power of two), every 200 ms to 10 s",
            )
        }
        Work::Compute { threads, for_each_cpu, busy_ms, rest_ms, .. } => {
            let most = if *for_each_cpu { 4 } else { 32 };
            (!within(*threads, 1, most) || !within(*busy_ms, 1, 1000) || !within(*rest_ms, 0, 10_000)).then_some(
                "1 to 32 threads, or 1 to 4 for each CPU, that compute for 1 ms to 1 s and rest for 0 to 10 s",
            )
        }
        Work::TakeTurns { threads, hold_ms, computed_percent } => {
            let safe = within(*threads, 2, 32) && within(*hold_ms, 1, 100) && (1..=100).contains(computed_percent);
            (!safe).then_some("2 to 32 threads that hold the lock for 1 to 100 ms, and compute for 1 to 100 % of it")
        }
        Work::OpenFiles { limit, every_ms } => (!(64..=4096).contains(limit) || !(1..=1000).contains(every_ms))
            .then_some("64 to 4096 files, every 1 ms to 1 s"),
        Work::LeaveChildren { every_ms } => (!(5..=1000).contains(every_ms)).then_some("every 5 ms to 1 s"),
        Work::Accept { backlog, hold_ms } => (!(1..=128).contains(backlog) || !within(*hold_ms, 1, 1000))
            .then_some("1 to 128 connections that wait, 1 ms to 1 s for each"),
        Work::Connect { clients } => (!within(*clients, 1, 64)).then_some("1 to 64 clients"),
        Work::Grow { mib, every_ms, .. } => (!(16..=256).contains(mib) || !(200..=10_000).contains(every_ms))
            .then_some("16 to 256 MiB in 200 ms to 10 s"),
        Work::TakeMemory { mib, written_percent, every_ms, .. } => {
            let safe = (1..=64).contains(mib) && (1..=100).contains(written_percent) && within(*every_ms, 10, 10_000);
            (!safe).then_some("1 to 64 MiB, 1 to 100 % of it written to, every 10 ms to 10 s")
        }
        Work::TakePieces { pieces } => {
            (!within(*pieces, 100, 10_000)).then_some("100 to 10000 pieces for each request")
        }
        Work::LookUp { every_ms, .. } => (!within(*every_ms, 1, 1000)).then_some("every 1 ms to 1 s"),
        Work::Send { usual_bytes, every_ms, .. } => (!within(*usual_bytes, 64, 8192) || !within(*every_ms, 5, 10_000))
            .then_some("messages of 64 to 8192 bytes, ten every 5 ms to 10 s"),
        Work::Commit { bytes, every_ms } => {
            let safe = (16..=4096).contains(bytes) && within(*every_ms, 2, 1000) && disk_mib > 1;
            (!safe).then_some("16 to 4096 bytes every 2 ms to 1 s, and a file of 1 MiB well within disk_mib")
        }
        Work::TakeDatagrams { buffer_kib, hold_ms } => (!(4..=256).contains(buffer_kib) || !within(*hold_ms, 1, 100))
            .then_some("a buffer of 4 to 256 KiB, 1 to 100 ms for each"),
        Work::SendDatagrams { per_second } => (!within(*per_second, 20, 20_000)).then_some("20 to 20000 per second"),
        Work::Fill { mib, files, every_ms, .. } => {
            let safe = (1..=64).contains(mib) && *mib < disk_mib && (50..=10_000).contains(files);
            (!safe || !(10..=1000).contains(every_ms)).then_some(
                "a file system of 1 to 64 MiB below disk_mib with 50 to 10000 files, a try every 10 ms to 1 s",
            )
        }
        Work::Answer { in_thousand, .. } => {
            (!within(*in_thousand, 1, 200)).then_some("1 to 200 of a thousand requests")
        }
        Work::Ask { clients, every_ms } => (!within(*clients, 1, 16) || !(1..=1000).contains(every_ms))
            .then_some("1 to 16 clients that ask every 1 ms to 1 s"),
        Work::AddUp { thousands, every_ms, .. } => {
            let safe = within(*thousands, 10, 5000) && (100..=10_000).contains(every_ms);
            (!safe).then_some("10000 to 5 million additions every 100 ms to 10 s")
        }
        Work::LookThrough { table, mib, every_ms } => {
            let space = if *table == TableOf::Memory { 5 * mib / 2 } else { *mib };
            let safe = (16..=128).contains(mib) && space <= disk_mib && (500..=10_000).contains(every_ms);
            (!safe).then_some(
                "a table of 16 to 128 MiB, every 500 ms to 10 s; the file, or two and a half times the memory, within disk_mib",
            )
        }
        Work::Flood { duty_percent } => (!within(*duty_percent, 10, 80)).then_some("10 to 80 percent of the time"),
        Work::ReadBytes => (disk_mib == 0).then_some("a file of 1 MiB within disk_mib"),
        Work::Reread { file_mib, every_ms } => {
            let safe = (16..=256).contains(file_mib) && *file_mib <= disk_mib && (500..=10_000).contains(every_ms);
            (!safe).then_some("a file of 16 to 256 MiB within disk_mib, every 500 ms to 10 s")
        }
        Work::Restart { every_ms, .. } => (!(100..=10_000).contains(every_ms)).then_some("every 100 ms to 10 s"),
        Work::HoldUp { parents } => (!within(*parents, 1, 64)).then_some("1 to 64 parents"),
    }
}
