//! Listening TCP sockets: how many finished connections wait in each to be accepted, and whose socket it is.

use std::collections::{BTreeMap, BTreeSet};

use super::socket_table::{label_owners, listeners};
use super::sockets::value;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::protocols::column;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "listeners",
    help: "Connections that wait at each listening TCP socket to be accepted, and its process, from /proc/net/tcp and tcp6.",
    cadence: Cadence::Gauge,
    series: SERIES,
    metrics: METRICS,
    overhead: "one look per second, four while connections wait; 50 µs each on a busy host and up to 1 ms on one with hardly \
               any connection, where the kernel searches its empty table: such a host is looked at every three seconds",
    start: |_| Box::new(Listeners::default()),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("listeners.accept_queue", RawUnit::Count, "/proc/net/tcp, tcp6, state 0A, rx_queue"),
    SeriesDef::counter("listeners.waited", RawUnit::Microseconds, "/proc/net/tcp, tcp6, state 0A, rx_queue × time"),
];

const MANUAL: &str = "ss -lntp (Recv-Q)";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.listener.accept_queue.count",
        unit: Unit::Count,
        dimension: Some("listener"),
        help: "Finished connections that wait for the application to accept them.",
        sources: &[Formula::level(&[term("listeners.accept_queue")])],
        caveat: "The queue's size, the smaller of the listen call's backlog and net.core.somaxconn, is not in this \
                 file (ss -lnt).",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.listener.waiting.seconds",
        unit: Unit::Seconds,
        dimension: Some("listener"),
        help: "Time that finished connections waited to be accepted, summed over the connections.",
        sources: &[Formula::change(&[term("listeners.waited")])],
        caveat: "From looks at the queue: what waits for less than the time between two of them is mostly missed.",
        manual: MANUAL,
        deed: Some(Deed { verb: "had", of: "the waiting in accept queues", ..Deed::USUAL }),
    },
];

/// Listeners beyond this are recorded only if a connection waits in them.
const MAX_QUIET: usize = 256;
/// So many owners are looked for.
const MAX_OWNERS: usize = 64;
/// While nothing waits, a look costs more than it tells: between two of them pass as many seconds as keep the cost below
/// one in two thousand, within these limits.
const PAUSE_SECONDS: (f64, f64) = (0.9, 2.9);
const PAUSE_PER_LOOK: f64 = 2000.0;

#[derive(Default)]
struct Listeners {
    /// Time of the last look, and the CPU time that it took.
    looked: Option<(f64, f64)>,
    /// Time at which the overflows were last read.
    checked: Option<f64>,
    /// Whether connections waited at the last look, or were refused within the window.
    watching: bool,
    /// ListenOverflows at the beginning.
    overflows: Option<u64>,
    seen: BTreeMap<String, Listener>,
}

#[derive(Default)]
struct Listener {
    /// One for each socket of this address (SO_REUSEPORT has several).
    inodes: BTreeSet<u64>,
    uid: u32,
    queue: u64,
    /// Microseconds times connections.
    waited: f64,
    ever_waited: bool,
}

impl Collect for Listeners {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let now = host.now();
        if !self.watching && self.checked.is_some_and(|checked| now - checked < PAUSE_SECONDS.0) {
            return Ok(());
        }
        self.checked = Some(now);
        let overflows = overflows(host);
        let before = *self.overflows.get_or_insert(overflows.unwrap_or(0));
        self.watching |= overflows.is_some_and(|now| now > before);
        let pause = |took: f64| (took * PAUSE_PER_LOOK).clamp(PAUSE_SECONDS.0, PAUSE_SECONDS.1);
        if !self.watching && self.looked.is_some_and(|(looked, took)| now - looked < pause(took)) {
            return Ok(());
        }
        let began = host.thread_usage();
        let mut rows = Vec::new();
        // Where no socket of the kind exists, the kernel would search its whole table to say so.
        if in_use(host, "proc/net/sockstat", "TCP") {
            rows = listeners(host, "proc/net/tcp")?;
        }
        if in_use(host, "proc/net/sockstat6", "TCP6") {
            rows.extend(listeners(host, "proc/net/tcp6").unwrap_or_default());
        }
        let elapsed = self.looked.map_or(0.0, |(looked, _)| (now - looked).max(0.0));
        self.looked = Some((now, host.thread_usage() - began));
        let before: BTreeMap<String, u64> =
            self.seen.iter_mut().map(|(name, listener)| (name.clone(), std::mem::take(&mut listener.queue))).collect();
        let mut present = BTreeSet::new();
        for row in rows {
            let known = self.seen.contains_key(&row.local);
            if !known && row.receive_queue == 0 && self.seen.len() >= MAX_QUIET {
                continue;
            }
            let listener = self.seen.entry(row.local.clone()).or_default();
            listener.inodes.insert(row.inode);
            listener.uid = row.uid;
            listener.queue = listener.queue.saturating_add(row.receive_queue);
            listener.ever_waited |= row.receive_queue > 0;
            present.insert(row.local);
        }
        for (name, listener) in self.seen.iter_mut().filter(|(name, _)| present.contains(*name)) {
            // Between two looks the queue is taken to have been as long as the mean of both.
            let mean = (before.get(name).copied().unwrap_or(0) as f64 + listener.queue as f64) / 2.0;
            listener.waited += mean * elapsed * 1e6;
            out.level("listeners.accept_queue", name, listener.queue as f64);
            out.count("listeners.waited", name, listener.waited as u64);
        }
        let moved = overflows.is_some_and(|now| now > self.overflows.unwrap_or(now));
        self.watching = moved || self.seen.values().any(|listener| listener.queue > 0);
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        if self.seen.is_empty() {
            let why = "no TCP socket listens in this network namespace";
            out.gap("listeners.", "", Unavailable::new(Reason::NotApplicable, why));
        }
        let refused = overflows(host).is_some_and(|now| now > self.overflows.unwrap_or(now));
        let waited = self.seen.values().any(|listener| listener.ever_waited);
        // Where no listener was seen waiting although connections were refused, any listener may be the one.
        let wanted = |listener: &Listener| listener.ever_waited || (refused && !waited);
        let sockets: BTreeMap<String, BTreeSet<u64>> = self
            .seen
            .iter()
            .filter(|(_, listener)| wanted(listener))
            .take(MAX_OWNERS)
            .map(|(name, listener)| (name.clone(), listener.inodes.clone()))
            .collect();
        for name in sockets.keys() {
            self.seen.get(name).into_iter().for_each(|listener| out.label(name, "uid", listener.uid.to_string()));
        }
        label_owners(host, out, &sockets);
    }
}

/// Whether there are sockets of a kind; if that is unknown, there may be.
fn in_use(host: &Host, file: &str, group: &str) -> bool {
    let count = host.read(file).ok().and_then(|text| value(&text, group, "inuse"));
    count.is_none_or(|count| count > 0.0)
}

fn overflows(host: &Host) -> Option<u64> {
    column(&host.read("proc/net/netstat").ok()?, "TcpExt", "ListenOverflows")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, gap, instances, stats};

    const QUEUE: &str = "network.listener.accept_queue.count";
    const WAITING: &str = "network.listener.waiting.seconds";

    /// A listening socket on 127.0.0.1.
    fn socket(port: u16, queue: u32, inode: u32) -> String {
        format!(
            "   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:{queue:08X} 00:00000000 00000000  1000        0 {inode} 1 0 100 0 0 10 0\n"
        )
    }

    fn tcp(tree: &Story, sockets: &[String]) {
        tree.put("proc/net/tcp", format!("  sl  local_address\n{}", sockets.concat()));
    }

    fn overflowed(tree: &Story, times: u64) {
        tree.put("proc/net/netstat", format!("TcpExt: ListenOverflows\nTcpExt: {times}\n"));
    }

    #[test]
    fn a_queue_is_named_by_its_socket_and_process() {
        let mut tree = Story::of_seconds(1);
        overflowed(&tree, 5);
        for second in 0..3 {
            tcp(&tree, &[socket(8080, 3, 77), socket(22, 0, 78)]);
            if second < 2 {
                tree.next();
            }
        }
        tree.link("proc/30/fd/3", "socket:[77]").link("proc/31/fd/3", "socket:[78]");
        tree.put("proc/30/comm", "sleepy\n").put("proc/31/comm", "sshd\n");
        let metrics = tree.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, QUEUE, "127.0.0.1:8080").max, 3.0);
        assert_eq!(stats(&metrics, QUEUE, "127.0.0.1:22").max, 0.0);
        assert_eq!(stats(&metrics, WAITING, "127.0.0.1:8080").total, 6.0, "three connections for two seconds");
        let labels = &metrics.labels["listener"];
        assert_eq!(labels["127.0.0.1:8080"]["name"], "sleepy 127.0.0.1:8080");
        assert_eq!(labels["127.0.0.1:8080"]["pid"], "30");
        assert_eq!(labels["127.0.0.1:8080"]["uid"], "1000");
        assert!(!labels.contains_key("127.0.0.1:22"), "nothing waited there, so its owner was not looked up");
    }

    #[test]
    fn sockets_that_share_an_address_are_one_listener() {
        let mut tree = Story::of_seconds(1);
        tcp(&tree, &[socket(80, 1, 5), socket(80, 2, 6)]);
        tree.next();
        let metrics = tree.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, QUEUE), ["127.0.0.1:80"]);
        assert_eq!(stats(&metrics, QUEUE, "127.0.0.1:80").last, 3.0);
    }

    #[test]
    fn after_refusals_that_no_look_caught_every_listener_is_named() {
        let mut tree = Story::of_seconds(1);
        tcp(&tree, &[socket(80, 0, 5)]);
        overflowed(&tree, 1);
        tree.next();
        overflowed(&tree, 2);
        tree.link("proc/9/fd/4", "socket:[5]").put("proc/9/comm", "web\n");
        assert_eq!(tree.metrics(&COLLECTOR).labels["listener"]["127.0.0.1:80"]["process"], "web");
    }

    #[test]
    fn an_owner_that_cannot_be_seen_is_said_to_be_so() {
        let mut tree = Story::of_seconds(1);
        tcp(&tree, &[socket(80, 1, 5)]);
        tree.link("proc/9/fd/4", "socket:[5]");
        tree.fault("proc/9/fd", Reason::Denied);
        let labels = &tree.metrics(&COLLECTOR).labels["listener"]["127.0.0.1:80"];
        assert!(labels["owner"].contains("not visible to this user"));
        assert!(!labels.contains_key("pid"));
    }

    #[test]
    fn a_table_that_is_known_to_be_empty_is_not_read() {
        let mut tree = Story::of_seconds(1);
        tcp(&tree, &[socket(80, 1, 5)]);
        tree.put("proc/net/sockstat", "TCP: inuse 1 orphan 0\n").put("proc/net/sockstat6", "TCP6: inuse 0\n");
        tree.fault("proc/net/tcp6", Reason::Hung);
        assert_eq!(instances(&tree.metrics(&COLLECTOR), QUEUE), ["127.0.0.1:80"]);
        tree.put("proc/net/sockstat", "TCP: inuse 0 orphan 0\n");
        assert_eq!(gap(&tree.metrics(&COLLECTOR), QUEUE, "").reason, Reason::NotApplicable);
    }

    #[test]
    fn a_host_on_which_nobody_listens_has_nothing_to_judge() {
        let tree = Story::of_seconds(1);
        tcp(&tree, &[]);
        assert_eq!(gap(&tree.metrics(&COLLECTOR), QUEUE, "").reason, Reason::NotApplicable);
    }

    #[test]
    fn thousands_of_quiet_listeners_are_not_all_recorded_but_a_waiting_one_always_is() {
        let mut tree = Story::of_seconds(1);
        let mut sockets: Vec<String> = (1..2000).map(|port| socket(port, 0, u32::from(port))).collect();
        sockets.push(socket(9999, 1, 9999));
        tcp(&tree, &sockets);
        tree.next();
        let found = instances(&tree.metrics(&COLLECTOR), QUEUE);
        assert_eq!(found.len(), MAX_QUIET + 1);
        assert!(found.contains(&"127.0.0.1:9999".to_owned()));
    }
}
