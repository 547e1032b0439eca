//! NFS mounts: how long the server takes to answer, what waits on this host before it is sent, and what was
//! retransmitted. Reading these numbers asks no server.

mod catalogue;
mod parse;

use parse::Nfs;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::{Reason, Unavailable};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "nfs",
    help: "Requests of each NFS mount to its server, their times and retries, from /proc/self/mountstats.",
    cadence: Cadence::Interval,
    series: catalogue::SERIES,
    metrics: catalogue::METRICS,
    overhead: "one read per interval: 40 µs on a host without NFS, and more for each NFS mount; no server is asked",
    start: |_| Box::new(NfsMounts),
};

struct NfsMounts;

impl Collect for NfsMounts {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let path = if host.is_seen_from_outside() { "proc/1/mountstats" } else { "proc/self/mountstats" };
        let (mounts, left_out) = parse::mounts(&host.read(path)?);
        if mounts.is_empty() {
            return Err(Unavailable::new(Reason::NotApplicable, "no NFS is mounted"));
        }
        if left_out > 0 {
            let why = format!("{left_out} more NFS are mounted than the {} that are looked at", parse::MAX_MOUNTS);
            out.gap("nfs.", "(others)", Unavailable::new(Reason::ShortWindow, why));
        }
        mounts.iter().for_each(|mount| record(mount, out));
        Ok(())
    }
}

fn record(nfs: &Nfs, out: &Sink) {
    let name = nfs.point.as_str();
    out.label(name, "type", nfs.kind.as_str());
    out.label(name, "device", nfs.source.as_str());
    let (reads, writes, lookups) = (nfs.reads, nfs.writes, nfs.lookups);
    for (series, value) in [
        ("nfs.reads", reads.count),
        ("nfs.read_round_trip_ms", reads.round_trip),
        ("nfs.read_execute_ms", reads.execute),
        ("nfs.writes", writes.count),
        ("nfs.write_round_trip_ms", writes.round_trip),
        ("nfs.write_execute_ms", writes.execute),
        ("nfs.lookups", lookups.count),
        ("nfs.lookup_round_trip_ms", lookups.round_trip),
        ("nfs.lookup_execute_ms", lookups.execute),
        ("nfs.awaited", reads.count.saturating_add(lookups.count)),
        ("nfs.awaited_queue_ms", reads.queue.saturating_add(lookups.queue)),
        ("nfs.requests", nfs.all.count),
        ("nfs.retransmits", nfs.retransmits),
        ("nfs.timeouts", nfs.timeouts),
    ] {
        out.count(series, name, value);
    }
    match nfs.backlog {
        Some((sends, waiting)) => {
            out.count("nfs.sends", name, sends);
            out.count("nfs.backlog", name, waiting);
        }
        None => {
            let why = "the connection of this mount does not tell how many requests wait for it";
            out.gap("nfs.backlog", name, Unavailable::new(Reason::Absent, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, gap, instances, stats};
    use super::*;

    const PATH: &str = "proc/self/mountstats";

    fn text(reads: &str, transport: &str) -> String {
        format!(
            "device proc mounted on /proc with fstype proc\n\
             device filer:/home mounted on /home with fstype nfs4 statvers=1.1\n\topts:\trw\n\
             \txprt:\t{transport}\n\tper-op statistics\n\t        READ: {reads}\n\n"
        )
    }

    #[test]
    fn times_are_those_of_the_requests_within_the_window() {
        let metrics = Story::of_seconds(2)
            .file(0, PATH, text("1000 1000 0 0 0 100 900 1000 0", "tcp 1 0 1 0 0 1000 1000 0 0 50 2 0 0"))
            .file(1, PATH, text("1100 1102 1 0 0 600 1900 2500 0", "tcp 1 0 1 0 0 1102 1100 0 0 560 2 0 0"))
            .metrics(&COLLECTOR);
        let mean = |metric: &str| stats(&metrics, metric, "/home").mean;
        assert!((mean("filesystem.nfs.read_round_trip.seconds") - 0.010).abs() < 1e-9);
        assert!((mean("filesystem.nfs.read_execute.seconds") - 0.015).abs() < 1e-9);
        assert!((mean("filesystem.nfs.queue.seconds") - 0.005).abs() < 1e-9);
        assert!((mean("filesystem.nfs.reads_outstanding.count") - 1.5).abs() < 1e-9);
        assert!((mean("filesystem.nfs.backlog.count") - 5.0).abs() < 1e-9);
        assert_eq!(stats(&metrics, "filesystem.nfs.retransmits.count", "/home").total, 2.0);
        assert_eq!(stats(&metrics, "filesystem.nfs.timeouts.count", "/home").total, 1.0);
        assert_eq!(metrics.labels["mount"]["/home"]["device"], "filer:/home");
        assert_eq!(gap(&metrics, "filesystem.nfs.write_round_trip.seconds", "/home").reason, Reason::NotApplicable);
    }

    #[test]
    fn a_mount_that_was_made_anew_starts_over() {
        let metrics = Story::of_seconds(2)
            .file(0, PATH, text("1000 1000 0 0 0 100 900 1000 0", "tcp 1 0 1 0 0 1000 1000 0 0 50 2 0 0"))
            .file(1, PATH, text("30 30 0 0 0 6 19 25 0", "tcp 1 0 1 0 0 30 30 0 0 5 2 0 0"))
            .metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "filesystem.nfs.read_round_trip.seconds", "/home").reason, Reason::Reset);
    }

    #[test]
    fn a_host_without_nfs_has_nothing_to_judge_and_a_missing_file_is_a_gap() {
        let metrics = Story::of_seconds(2).file(0, PATH, "device proc mounted on /proc with fstype proc\n");
        let metrics = metrics.metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "filesystem.nfs.retransmits.count", "").reason, Reason::NotApplicable);
        let metrics = Story::of_seconds(2).metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "filesystem.nfs.retransmits.count", "").reason, Reason::Absent);
    }

    #[test]
    fn a_transport_that_tells_no_backlog_leaves_the_rest() {
        let story = Story::of_seconds(2).file(0, PATH, text("1000 1000 0 0 0 100 900 1000 0", "local 1 0"));
        let metrics = story.file(1, PATH, text("1100 1100 0 0 0 100 1900 2000 0", "local 1 0")).metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "filesystem.nfs.read_round_trip.seconds"), ["/home"]);
        assert_eq!(gap(&metrics, "filesystem.nfs.backlog.count", "/home").reason, Reason::Absent);
    }
}
