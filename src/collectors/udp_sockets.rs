//! UDP sockets that lost datagrams within the window, and whose they are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::socket_table::{big_endian, label_owners, row};
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "udp_sockets",
    help: "Datagrams that each UDP socket dropped, and its process, from /proc/net/udp and udp6.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "two reads at each end of the window; they grow with the UDP sockets (about 50 µs and 1 µs for each)",
    start: |_| Box::new(UdpSockets::default()),
};

const SERIES: &[SeriesDef] = &[SeriesDef::gauge(
    "udp_sockets.drops",
    RawUnit::Count,
    "/proc/net/udp, udp6, drops: change since the window began",
)];

const METRICS: &[MetricDef] = &[MetricDef {
    id: "network.udp.socket_drops.count",
    unit: Unit::Count,
    dimension: Some("udp_socket"),
    help: "Datagrams dropped at one socket, because its receive buffer was full or they were broken.",
    sources: &[Formula::level(&[term("udp_sockets.drops")])],
    caveat: "A socket that was closed before the window ended is not seen.",
    manual: "ss -ulnpm (skmem: d); cat /proc/net/udp (drops)",
    deed: Some(Deed { verb: "lost", of: "the dropped UDP datagrams", ..Deed::USUAL }),
}];

/// So many sockets, those with the most drops, are recorded.
const MAX_SOCKETS: usize = 64;

#[derive(Default)]
struct UdpSockets {
    /// Drops of each socket when the window began, by inode.
    before: Option<HashMap<u64, u64>>,
    /// The sockets that dropped something, with their inodes.
    dropped: BTreeMap<String, BTreeSet<u64>>,
}

impl Collect for UdpSockets {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut text = host.read("proc/net/udp")?;
        text.push_str(&host.read("proc/net/udp6").unwrap_or_default());
        let big_endian = big_endian(host);
        let rows = text.lines().filter_map(|line| row(line, big_endian));
        let Some(before) = &self.before else {
            self.before = Some(rows.map(|row| (row.inode, row.drops)).collect());
            return Ok(());
        };
        self.dropped.clear();
        let mut drops: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows {
            // A socket that was not there before dropped all of it within the window.
            let change = row.drops.saturating_sub(before.get(&row.inode).copied().unwrap_or(0));
            if change > 0 {
                *drops.entry(row.local.clone()).or_default() += change;
                self.dropped.entry(row.local).or_default().insert(row.inode);
            }
        }
        let mut worst: Vec<(String, u64)> = drops.into_iter().collect();
        worst.sort_by_key(|(_, change)| std::cmp::Reverse(*change));
        worst.truncate(MAX_SOCKETS);
        for (socket, change) in &worst {
            out.level("udp_sockets.drops", socket, *change as f64);
        }
        self.dropped.retain(|socket, _| worst.iter().any(|(kept, _)| kept == socket));
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        if self.dropped.is_empty() {
            let why = "no UDP socket dropped a datagram within the window";
            out.gap("udp_sockets.drops", "", Unavailable::new(Reason::NotApplicable, why));
        }
        label_owners(host, out, &self.dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, gap, instances, stats};

    const DROPS: &str = "network.udp.socket_drops.count";

    fn socket(port: u16, inode: u32, drops: u64) -> String {
        format!(
            " 12: 00000000:{port:04X} 00000000:0000 07 00000000:00000000 00:00000000 00000000   101        0 {inode} 2 0 {drops}\n"
        )
    }

    fn udp(tree: &Story, sockets: &[String]) {
        tree.put("proc/net/udp", format!("   sl  local_address\n{}", sockets.concat()));
    }

    #[test]
    fn only_what_was_dropped_within_the_window_counts_and_its_process_is_named() {
        let mut tree = Story::of_seconds(1);
        udp(&tree, &[socket(53, 1, 500), socket(514, 2, 10)]);
        tree.next();
        udp(&tree, &[socket(53, 1, 500), socket(514, 2, 30), socket(5000, 3, 7)]);
        tree.link("proc/8/fd/4", "socket:[2]").put("proc/8/comm", "rsyslogd\n");
        let metrics = tree.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, DROPS), ["0.0.0.0:5000", "0.0.0.0:514"]);
        assert_eq!(stats(&metrics, DROPS, "0.0.0.0:514").total, 20.0);
        assert_eq!(stats(&metrics, DROPS, "0.0.0.0:5000").total, 7.0);
        assert_eq!(metrics.labels["udp_socket"]["0.0.0.0:514"]["name"], "rsyslogd 0.0.0.0:514");
    }

    #[test]
    fn old_drops_are_no_finding() {
        let mut tree = Story::of_seconds(1);
        udp(&tree, &[socket(53, 1, 500)]);
        tree.next();
        assert_eq!(gap(&tree.metrics(&COLLECTOR), DROPS, "").reason, Reason::NotApplicable);
    }

    #[test]
    fn a_new_socket_on_the_same_port_is_not_compared_with_the_old_one() {
        let mut tree = Story::of_seconds(1);
        udp(&tree, &[socket(53, 1, 500)]);
        tree.next();
        udp(&tree, &[socket(53, 2, 3)]);
        assert_eq!(stats(&tree.metrics(&COLLECTOR), DROPS, "0.0.0.0:53").total, 3.0);
    }
}
