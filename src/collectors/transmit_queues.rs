//! Transmit queues of network devices that were stuck, from /sys/class/net.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use crate::interfaces::of_this_namespace;
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "transmit_queues",
    help: "How often the transmit queues of network devices were stuck, from /sys/class/net.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "one small read for each transmit queue at each end of the window (about 5 µs each, at most 1024)",
    start: |_| Box::new(TransmitQueues),
};

const SERIES: &[SeriesDef] = &[SeriesDef::counter(
    "transmit_queues.timeouts",
    RawUnit::Count,
    "/sys/class/net/IF/queues/tx-N/tx_timeout, all queues",
)];

const METRICS: &[MetricDef] = &[MetricDef {
    id: "network.interface.transmit_timeouts.count",
    unit: Unit::Count,
    dimension: Some("interface"),
    help: "How often a device's transmit queue did not move for seconds, so that its driver was told to reset it.",
    sources: &[Formula::change(&[term("transmit_queues.timeouts")])],
    caveat: "A device that resets itself before the kernel's watchdog notices does not show.",
    manual: "grep . /sys/class/net/IF/queues/tx-*/tx_timeout; dmesg | grep 'NETDEV WATCHDOG'",
    ..MetricDef::EMPTY
}];

/// So many queues are read.
const MAX_QUEUES: usize = 1024;

struct TransmitQueues;

impl Collect for TransmitQueues {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut left = MAX_QUEUES;
        let mut seen = false;
        // In another network namespace than that of its mount, /sys shows devices that are not here.
        let mut devices = host.list("sys/class/net")?;
        devices.retain(|name| host.exists(&format!("sys/class/net/{name}/device")));
        for name in of_this_namespace(host, devices) {
            let queues = host.list(&format!("sys/class/net/{name}/queues")).unwrap_or_default();
            let queues = queues.iter().filter(|queue| queue.starts_with("tx-")).take(left);
            let counts: Vec<u64> = queues
                .filter_map(|queue| host.read_u64(&format!("sys/class/net/{name}/queues/{queue}/tx_timeout")).ok())
                .collect();
            left -= counts.len();
            if !counts.is_empty() {
                seen = true;
                out.count("transmit_queues.timeouts", &name, counts.iter().fold(0, |sum, n| n.saturating_add(sum)));
            }
        }
        if seen {
            return Ok(());
        }
        Err(Unavailable::new(Reason::NotApplicable, "no network device here counts transmit queues that were stuck"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, gap, instances, stats};

    const TIMEOUTS: &str = "network.interface.transmit_timeouts.count";

    #[test]
    fn the_queues_of_a_device_are_summed() {
        let mut tree = Story::of_seconds(1);
        tree.put("sys/class/net/eth0/device/vendor", "0x8086\n").put("sys/class/net/lo/queues/tx-0/tx_timeout", "0\n");
        for second in 0..2_u32 {
            for queue in 0..2 {
                tree.put(&format!("sys/class/net/eth0/queues/tx-{queue}/tx_timeout"), format!("{}\n", 4 + second));
            }
            tree.put("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n");
            if second == 0 {
                tree.next();
                for path in ["sys/class/net/eth0/device/vendor", "sys/class/net/lo/queues/tx-0/tx_timeout"] {
                    tree.put(path, "0\n");
                }
            }
        }
        let metrics = tree.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, TIMEOUTS), ["eth0"]);
        assert_eq!(stats(&metrics, TIMEOUTS, "eth0").total, 2.0);
    }

    #[test]
    fn a_device_of_another_network_namespace_is_left_out() {
        let here = |device: &str| {
            let tree = Story::of_seconds(1);
            tree.put("sys/class/net/eth0/device/vendor", "0x8086\n");
            tree.put("sys/class/net/eth0/queues/tx-0/tx_timeout", "4\n");
            let counters = "100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0";
            tree.put("proc/net/dev", format!("{device}: {counters}\n"));
            tree.metrics(&COLLECTOR)
        };
        assert_eq!(instances(&here("eth0"), TIMEOUTS), ["eth0"]);
        assert_eq!(gap(&here("lo"), TIMEOUTS, "").reason, Reason::NotApplicable);
    }

    #[test]
    fn without_a_device_nothing_applies() {
        let tree = Story::of_seconds(1);
        tree.put("sys/class/net/lo/operstate", "unknown\n");
        assert_eq!(gap(&tree.metrics(&COLLECTOR), TIMEOUTS, "").reason, Reason::NotApplicable);
    }
}
