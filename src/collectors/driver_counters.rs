//! Counters that drivers of network devices keep under names of their own, as `ethtool -S` shows them: what the limits of a cloud delayed
//! or dropped, and packets for which the device had no buffer. No file shows them.

use std::collections::BTreeMap;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use crate::interfaces;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::driver_counters::DriverCounters;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, optional};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "driver_counters",
    help: "Packets beyond the limits of a cloud, and packets that found no buffer, as drivers of network devices count them (ethtool -S).",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window: three requests to the driver of each network device (half a ms; more where it asks firmware)",
    start: |_| Box::new(Drivers::default()),
};

const BANDWIDTH_IN: &str = "driver_counters.allowance_bandwidth_in";
const BANDWIDTH_OUT: &str = "driver_counters.allowance_bandwidth_out";
const PACKETS: &str = "driver_counters.allowance_packets";
const CONNECTIONS: &str = "driver_counters.allowance_connections";
const LOCAL: &str = "driver_counters.allowance_local";
const NO_BUFFER: &str = "driver_counters.no_buffer";

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter(BANDWIDTH_IN, RawUnit::Count, "ethtool -S, bw_in_allowance_exceeded"),
    SeriesDef::counter(BANDWIDTH_OUT, RawUnit::Count, "ethtool -S, bw_out_allowance_exceeded"),
    SeriesDef::counter(PACKETS, RawUnit::Count, "ethtool -S, pps_allowance_exceeded"),
    SeriesDef::counter(CONNECTIONS, RawUnit::Count, "ethtool -S, conntrack_allowance_exceeded"),
    SeriesDef::counter(LOCAL, RawUnit::Count, "ethtool -S, linklocal_allowance_exceeded"),
    SeriesDef::counter(NO_BUFFER, RawUnit::Count, "ethtool -S, frames without a receive buffer, by driver"),
];

/// Names of counters, each with its series. One that a driver keeps for each queue, under the same name, is the sum over the queues.
const NAMES: [(&str, &str); 10] = [
    // ena (Amazon): packets that the provider delayed or dropped, and in the last two dropped.
    ("bw_in_allowance_exceeded", BANDWIDTH_IN),
    ("bw_out_allowance_exceeded", BANDWIDTH_OUT),
    ("pps_allowance_exceeded", PACKETS),
    ("conntrack_allowance_exceeded", CONNECTIONS),
    ("linklocal_allowance_exceeded", LOCAL),
    // Not rx_no_buffer_count (e1000, e1000e, igb, igc): the card keeps such frames; those that it loses are in rx_missed_errors, which
    // network.saturation.ring judges. ixgbe:
    ("rx_no_dma_resources", NO_BUFFER),
    // mlx5: of the queues, and of the port.
    ("rx_out_of_buffer", NO_BUFFER),
    ("rx_discards_phy", NO_BUFFER),
    // vmxnet3, once for each queue.
    ("pkts rx OOB", NO_BUFFER),
    // sfc.
    ("port_rx_nodesc_drops", NO_BUFFER),
];

/// No such device.
const ENODEV: i32 = rustix::io::Errno::NODEV.raw_os_error();

const MANUAL: &str = "ethtool -S IF | grep -E 'allowance_exceeded|no_dma|out_of_buffer|discards_phy|OOB|nodesc'";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.interface.allowance_delays.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "Packets that the provider of the machine delayed or dropped beyond its allowance of bandwidth or \
               packets.",
        sources: &[Formula::change(&[optional(BANDWIDTH_IN), optional(BANDWIDTH_OUT), optional(PACKETS)])],
        caveat: "Only where the driver tells (ena of Amazon). Delayed and dropped packets are one figure.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.allowance_drops.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "Packets that the provider of the machine dropped beyond its allowance of connections, or of packets to \
               its own services.",
        sources: &[Formula::change(&[optional(CONNECTIONS), optional(LOCAL)])],
        caveat: "Only where the driver tells (ena of Amazon).",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.no_buffer.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "Frames that a device dropped because it had no free receive buffer.",
        sources: &[Formula::change(&[optional(NO_BUFFER)])],
        caveat: "Only of drivers whose names for it are known. Some count them in the drops of /proc/net/dev as well.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

#[derive(Default)]
struct Drivers {
    kernel: Option<DriverCounters>,
    /// By device and series, what was counted when the window began.
    before: Option<BTreeMap<(String, &'static str), u64>>,
}

impl Collect for Drivers {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        if host.is_seen_from_outside() {
            let why = "drivers answer for the network namespace that rdiag runs in only";
            return Err(Unavailable::new(Reason::NotVisible, why).with_remedy("run rdiag on the host itself"));
        }
        let (mut counted, mut is_refused) = (BTreeMap::new(), false);
        for name in interfaces::devices(host)? {
            let told = self.counters(host, &name)?;
            if let Err(why) = &told {
                is_refused = true;
                out.gap("driver_counters.", &name, why.clone());
            }
            for (counter, value) in told.unwrap_or_default() {
                let Some((_, series)) = NAMES.iter().find(|(known, _)| *known == counter) else { continue };
                let sum: &mut u64 = counted.entry((name.clone(), *series)).or_default();
                *sum = sum.saturating_add(value);
            }
        }
        for ((name, series), value) in &counted {
            out.count(series, name, *value);
        }
        for (kind, what) in [("allowance_", "a limit of its provider"), ("no_buffer", "frames that found no buffer")] {
            let prefix = format!("driver_counters.{kind}");
            if !is_refused && !counted.keys().any(|(_, series)| series.starts_with(&prefix)) {
                let why = format!("no driver of a network device here counts {what} under a name that rdiag knows");
                out.gap(&prefix, "", Unavailable::new(Reason::NotApplicable, why));
            }
        }
        match &self.before {
            None => self.before = Some(counted),
            Some(before) => label(before, &counted, out),
        }
        Ok(())
    }
}

impl Drivers {
    /// The counters of a device, or why it tells none; an error where no device can be asked. In a recorded tree they are what
    /// `ethtool -S` said, in `ethtool/IF`.
    fn counters(&mut self, host: &Host, name: &str) -> Result<Result<Counters, Unavailable>, Unavailable> {
        if host.is_recorded() {
            return Ok(Ok(host.read(&format!("ethtool/{name}")).map(|text| parse(&text)).unwrap_or_default()));
        }
        let kernel = match &mut self.kernel {
            Some(kernel) => kernel,
            None => self.kernel.insert(DriverCounters::open().map_err(|error| refused("a socket", &error))?),
        };
        Ok(kernel.of(name).map_err(|error| refused(name, &error)))
    }
}

/// Counters with their names.
type Counters = Vec<(String, u64)>;

fn refused(what: &str, error: &std::io::Error) -> Unavailable {
    // A device that went away meanwhile lacks nothing.
    let reason = if error.raw_os_error() == Some(ENODEV) { Reason::NotApplicable } else { Reason::Denied };
    Unavailable::new(reason, format!("its driver could not be asked for counters: {what}: {error}"))
}

/// Names the limits that were exceeded within the window.
fn label(before: &BTreeMap<(String, &'static str), u64>, after: &BTreeMap<(String, &'static str), u64>, out: &Sink) {
    const WORDS: [(&str, &str, &str); 5] = [
        (BANDWIDTH_IN, "allowance", "incoming bandwidth"),
        (BANDWIDTH_OUT, "allowance", "outgoing bandwidth"),
        (PACKETS, "allowance", "packets per second"),
        (CONNECTIONS, "refused", "connections"),
        (LOCAL, "refused", "packets to its DNS, time and metadata services"),
    ];
    let mut words: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for ((name, series), now) in after {
        let grew = before.get(&(name.clone(), *series)).is_some_and(|then| now > then);
        for (_, key, text) in WORDS.iter().filter(|(of, ..)| grew && of == series) {
            words.entry((name, key)).or_default().push(text);
        }
    }
    words.into_iter().for_each(|((name, key), texts)| out.label(name, key, texts.join(", ")));
}

/// The lines `name: value` of `ethtool -S`.
fn parse(text: &str) -> Counters {
    let counter = |line: &str| {
        let (name, value) = line.rsplit_once(':')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(counter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, gap, stats};

    const DEV: &str = "Inter-| Receive | Transmit\n face |bytes packets\n  \
        eth0: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n";

    fn story() -> Story {
        Story::of_seconds(2).file(0, "proc/net/dev", DEV).file(0, "sys/class/net/eth0/device/vendor", "0x1d0f\n")
    }

    #[test]
    fn packets_beyond_an_allowance_are_summed_and_the_limits_named() {
        let told = |values: [u64; 5]| {
            let [received, sent, packets, connections, local] = values;
            format!(
                "NIC statistics:\n     bw_in_allowance_exceeded: {received}\n     bw_out_allowance_exceeded: {sent}\n     \
                 pps_allowance_exceeded: {packets}\n     conntrack_allowance_exceeded: {connections}\n     \
                 linklocal_allowance_exceeded: {local}\n     tx_timeout: 3\n"
            )
        };
        let story =
            story().file(0, "ethtool/eth0", told([5, 7, 1, 2, 0])).file(1, "ethtool/eth0", told([5, 10, 3, 4, 0]));
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "network.interface.allowance_delays.count", "eth0").total, 5.0);
        assert_eq!(stats(&metrics, "network.interface.allowance_drops.count", "eth0").total, 2.0);
        let labels = &metrics.labels["interface"]["eth0"];
        assert_eq!(
            (&*labels["allowance"], &*labels["refused"]),
            ("outgoing bandwidth, packets per second", "connections")
        );
        assert_eq!(gap(&metrics, "network.interface.no_buffer.count", "").reason, Reason::NotApplicable);
    }

    #[test]
    fn what_each_queue_counts_is_one_sum_and_a_driver_that_was_loaded_anew_makes_no_spike() {
        let queues = |first: u64, second: u64| {
            format!("     Rx Queue#: 0\n       pkts rx OOB: {first}\n     Rx Queue#: 1\n       pkts rx OOB: {second}\n")
        };
        let told =
            story().file(0, "ethtool/eth0", queues(4, 1)).file(1, "ethtool/eth0", queues(6, 2)).metrics(&COLLECTOR);
        assert_eq!(stats(&told, "network.interface.no_buffer.count", "eth0").total, 3.0);
        let anew =
            story().file(0, "ethtool/eth0", queues(40, 10)).file(1, "ethtool/eth0", queues(1, 0)).metrics(&COLLECTOR);
        assert!(anew.stats("network.interface.no_buffer.count", "eth0").is_err(), "it began anew within the window");
    }

    #[test]
    fn a_driver_without_such_counters_is_not_said_to_have_none_exceeded() {
        let metrics = story()
            .file(0, "ethtool/eth0", "     rx_drops: 9\n     broken\n     huge: 99999999999999999999\n")
            .metrics(&COLLECTOR);
        for metric in METRICS {
            assert_eq!(gap(&metrics, metric.id, "").reason, Reason::NotApplicable, "{}", metric.id);
        }
    }

    #[test]
    fn each_counter_has_one_meaning() {
        let names: std::collections::BTreeSet<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), NAMES.len());
        assert!(SERIES.iter().all(|series| NAMES.iter().any(|(_, of)| *of == series.name)));
    }
}
