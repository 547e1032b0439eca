//! What is recorded of an interface, and what follows from it.

use rdiag_model::metric::{Formula, MetricDef, SeriesDef, Term, optional, term, times};
use rdiag_model::{Deed, RawUnit, Unit};

const fn count(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Count, source)
}

const fn bytes(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Bytes, source)
}

/// `virtual_…` has interfaces without a device behind them (lo, veth, bridges, bonds); `line_…`, `link_…` and
/// `device_…` have the devices; the rest has all.
pub(super) const SERIES: &[SeriesDef] = &[
    bytes("interfaces.receive_bytes", "/proc/net/dev, receive bytes"),
    count("interfaces.receive_packets", "/proc/net/dev, receive packets"),
    bytes("interfaces.transmit_bytes", "/proc/net/dev, transmit bytes"),
    count("interfaces.transmit_packets", "/proc/net/dev, transmit packets"),
    count("interfaces.virtual_transmit_drops", "/proc/net/dev, transmit drop"),
    count("interfaces.identity", "/sys/class/net/IF/ifindex"),
    bytes("interfaces.line_receive_bytes", "/proc/net/dev, receive bytes"),
    count("interfaces.line_receive_packets", "/proc/net/dev, receive packets"),
    bytes("interfaces.line_transmit_bytes", "/proc/net/dev, transmit bytes"),
    count("interfaces.line_transmit_packets", "/proc/net/dev, transmit packets"),
    SeriesDef::gauge("interfaces.link_speed", RawUnit::Bytes, "/sys/class/net/IF/speed, in bytes per second"),
    count("interfaces.device_receive_errors", "/proc/net/dev, receive errs"),
    count("interfaces.device_transmit_errors", "/proc/net/dev, transmit errs"),
    count("interfaces.device_receive_drops", "/proc/net/dev, receive drop (rx_dropped and rx_missed_errors)"),
    count("interfaces.device_transmit_drops", "/proc/net/dev, transmit drop"),
    count("interfaces.device_fifo", "/proc/net/dev, receive fifo"),
    count("interfaces.device_missed", "/sys/class/net/IF/statistics/rx_missed_errors"),
    count("interfaces.device_over", "/sys/class/net/IF/statistics/rx_over_errors"),
    count("interfaces.device_carrier_changes", "/sys/class/net/IF/carrier_changes"),
    SeriesDef::gauge("interfaces.device_half_duplex", RawUnit::Count, "/sys/class/net/IF/duplex: 1 is half"),
];

/// What a frame takes on the line besides what is counted: checksum 4, preamble 8, gap 12 bytes.
const FRAME_OVERHEAD: f64 = 24.0;
const LINK: &[Term] = &[term("interfaces.link_speed")];

const STACKED: &str = "A bond, bridge or VLAN counts the traffic of the device below it a second time.";
const MERGED: &str = "Packets that the device merges or splits itself (GRO, TSO) count once.";

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.interface.receive.bytes_per_second",
        unit: Unit::BytesPerSecond,
        dimension: Some("interface"),
        help: "Bytes received by an interface per second.",
        sources: &[Formula::rate(&[term("interfaces.receive_bytes")])],
        caveat: STACKED,
        manual: "sar -n DEV 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.transmit.bytes_per_second",
        unit: Unit::BytesPerSecond,
        dimension: Some("interface"),
        help: "Bytes sent by an interface per second.",
        sources: &[Formula::rate(&[term("interfaces.transmit_bytes")])],
        caveat: STACKED,
        manual: "sar -n DEV 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.receive.per_second",
        unit: Unit::PerSecond,
        dimension: Some("interface"),
        help: "Packets received by an interface per second.",
        sources: &[Formula::rate(&[term("interfaces.receive_packets")])],
        caveat: MERGED,
        manual: "sar -n DEV 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.transmit.per_second",
        unit: Unit::PerSecond,
        dimension: Some("interface"),
        help: "Packets sent by an interface per second.",
        sources: &[Formula::rate(&[term("interfaces.transmit_packets")])],
        caveat: MERGED,
        manual: "sar -n DEV 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.virtual_transmit_drops.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "Packets that an interface without a device (veth, tap, bridge, bond) dropped instead of passing them on.",
        sources: &[Formula::change(&[term("interfaces.virtual_transmit_drops")])],
        caveat: "Packets sent into a peer that is down count too.",
        manual: "ip -s link",
        deed: Some(Deed { verb: "made", of: "the drops of virtual interfaces", ..Deed::USUAL }),
    },
    MetricDef {
        id: "network.interface.speed.bytes_per_second",
        unit: Unit::BytesPerSecond,
        dimension: Some("interface"),
        help: "Speed of a device's link, in one direction.",
        sources: &[Formula::level(LINK)],
        caveat: "Virtual devices often report none; a limit set by tc or by the hypervisor does not show.",
        manual: "cat /sys/class/net/IF/speed",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.receive_utilization.ratio",
        unit: Unit::Ratio,
        dimension: Some("interface"),
        help: "Share of the link's speed taken by received frames, with their overhead on the line.",
        sources: &[Formula::of_capacity(
            &[term("interfaces.line_receive_bytes"), times(FRAME_OVERHEAD, "interfaces.line_receive_packets")],
            LINK,
        )],
        caveat: "Merged packets hide some of the overhead; bursts shorter than the interval do not show.",
        manual: "sar -n DEV 1 10 (rxkB/s against the speed)",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.transmit_utilization.ratio",
        unit: Unit::Ratio,
        dimension: Some("interface"),
        help: "Share of the link's speed taken by sent frames, with their overhead on the line.",
        sources: &[Formula::of_capacity(
            &[term("interfaces.line_transmit_bytes"), times(FRAME_OVERHEAD, "interfaces.line_transmit_packets")],
            LINK,
        )],
        caveat: "Packets that the device splits itself hide some of the overhead; bursts shorter than the interval do \
                 not show.",
        manual: "sar -n DEV 1 10 (txkB/s against the speed)",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.errors.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "Frames that a device received or sent with an error: checksum, alignment, length, carrier.",
        sources: &[Formula::change(&[
            term("interfaces.device_receive_errors"),
            term("interfaces.device_transmit_errors"),
        ])],
        caveat: "Drivers differ in what they count; some include frames missed because no buffer was free.",
        manual: "ip -s -s link; sar -n EDEV 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.ring_drops.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "Frames that a device dropped because the host had not emptied its receive buffers.",
        sources: &[Formula::change(&[
            term("interfaces.device_fifo"),
            optional("interfaces.device_missed"),
            optional("interfaces.device_over"),
        ])],
        caveat: "The sum of three counters: a driver may count one frame in two of them.",
        manual: "ip -s -s link (missed, fifo, overrun)",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.receive_drops.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "Received packets that the kernel dropped before any protocol saw them.",
        sources: &[Formula::change(&[
            term("interfaces.device_receive_drops"),
            Term { series: "interfaces.device_missed", weight: -1.0, optional: true },
        ])],
        caveat: "Frames of protocols or VLANs that are not configured here count too: not 0 on many healthy networks.",
        manual: "ip -s link (dropped)",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.transmit_drops.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "Packets that a device or its driver dropped instead of sending.",
        sources: &[Formula::change(&[term("interfaces.device_transmit_drops")])],
        caveat: "Drops of the queueing discipline above the driver are not in it (tc -s qdisc).",
        manual: "ip -s link (dropped); tc -s qdisc",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.carrier_changes.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "How often the link went up or down.",
        sources: &[Formula::change(&[term("interfaces.device_carrier_changes")])],
        caveat: "An administrator's `ip link set down` counts too.",
        manual: "cat /sys/class/net/IF/carrier_changes",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.interface.half_duplex.count",
        unit: Unit::Count,
        dimension: Some("interface"),
        help: "1 where the link is half duplex: both ends take turns.",
        sources: &[Formula::level(&[term("interfaces.device_half_duplex")])],
        caveat: "Virtual devices do not say.",
        manual: "cat /sys/class/net/IF/duplex",
        ..MetricDef::EMPTY
    },
];
