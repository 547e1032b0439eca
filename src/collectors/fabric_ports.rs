//! /sys/class/fc_host and /sys/class/infiniband: links that Fibre Channel and InfiniBand ports lost, and errors on them.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "fabric_ports",
    help: "Lost links and errors of Fibre Channel and InfiniBand ports, from /sys/class/fc_host and /sys/class/infiniband.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window six short files for each port (the card answers each); nothing on hosts without such ports",
    start: |_| Box::new(FabricPorts),
};

const LOST: &str = "fabric_ports.lost";
const ERRORS: &str = "fabric_ports.errors";

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter(
        LOST,
        RawUnit::Count,
        "/sys/class/fc_host/HOST/statistics: link_failure_count, loss_of_sync_count, loss_of_signal_count; \
         /sys/class/infiniband/DEVICE/ports/N/counters: link_downed, link_error_recovery",
    ),
    SeriesDef::counter(
        ERRORS,
        RawUnit::Count,
        "/sys/class/fc_host/HOST/statistics: invalid_tx_word_count, invalid_crc_count, error_frames; \
         /sys/class/infiniband/DEVICE/ports/N/counters: symbol_error, port_rcv_errors, local_link_integrity_errors",
    ),
];

const MANUAL: &str = "grep . /sys/class/fc_host/*/statistics/* /sys/class/infiniband/*/ports/*/counters/*, twice";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "hardware.port_links_lost.count",
        unit: Unit::Count,
        dimension: Some("port"),
        help: "Times that a Fibre Channel or InfiniBand port lost its link, or had to recover it, within the window.",
        sources: &[Formula::change(&[term(LOST)])],
        caveat: "A switch that is restarted on purpose counts like a broken cable. One loss may be counted in several \
                 ways.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.port_errors.count",
        unit: Unit::Count,
        dimension: Some("port"),
        help: "Symbols, words and frames that a Fibre Channel or InfiniBand port received in error within the window.",
        sources: &[Formula::change(&[term(ERRORS)])],
        caveat: "Counters of InfiniBand that are full stand still until they are cleared. Not each card counts each \
                 kind.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

const FC: &str = "sys/class/fc_host";
const IB: &str = "sys/class/infiniband";
/// More ports than this are not read.
const MAX: usize = 512;

const OF_FC: [(&str, [&str; 3]); 2] = [
    (LOST, ["link_failure_count", "loss_of_sync_count", "loss_of_signal_count"]),
    (ERRORS, ["invalid_tx_word_count", "invalid_crc_count", "error_frames"]),
];
const OF_IB: [(&str, [&str; 3]); 2] = [
    (LOST, ["link_downed", "link_error_recovery", ""]),
    (ERRORS, ["symbol_error", "port_rcv_errors", "local_link_integrity_errors"]),
];

struct FabricPorts;

impl Collect for FabricPorts {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut ports = Vec::new();
        for name in host.list(FC).unwrap_or_default() {
            ports.push((name.clone(), format!("{FC}/{name}/statistics"), OF_FC));
        }
        for device in host.list(IB).unwrap_or_default() {
            for port in host.list(&format!("{IB}/{device}/ports")).unwrap_or_default() {
                ports.push((format!("{device}/{port}"), format!("{IB}/{device}/ports/{port}/counters"), OF_IB));
            }
        }
        if ports.is_empty() {
            return Err(Unavailable::new(Reason::NotApplicable, "this host has no Fibre Channel or InfiniBand port"));
        }
        for (name, folder, files) in ports.into_iter().take(MAX) {
            for (series, files) in files {
                match sum(host, &folder, &files) {
                    Ok(sum) => out.count(series, &name, sum),
                    Err(gap) => out.gap(series, &name, gap),
                }
            }
        }
        Ok(())
    }
}

/// The sum of those counters that the port has.
fn sum(host: &Host, folder: &str, files: &[&str]) -> Result<u64, Unavailable> {
    let mut sum = None;
    for file in files.iter().filter(|file| !file.is_empty()) {
        let path = format!("{folder}/{file}");
        match host.read_line(&path) {
            Ok(text) => match number(&text) {
                // All ones: the card does not count this.
                Some(u64::MAX) => {}
                Some(count) => sum = Some(count.saturating_add(sum.unwrap_or(0))),
                None => return Err(Unavailable::new(Reason::Malformed, format!("/{path} holds no number"))),
            },
            Err(error) if error.reason == Reason::Absent => {}
            Err(error) => return Err(error.gap()),
        }
    }
    sum.ok_or_else(|| {
        Unavailable::new(Reason::Absent, format!("/{folder} has none of the counters {}", files.join(" ")))
    })
}

/// Those of Fibre Channel are hexadecimal, those of InfiniBand are not.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::COLLECTOR;
    use crate::testing::{Story, gap, instances, stats};
    use rdiag_model::Reason;

    const LOST: &str = "hardware.port_links_lost.count";
    const ERRORS: &str = "hardware.port_errors.count";

    #[test]
    fn lost_links_and_errors_of_both_kinds_of_port_are_counted() {
        let story = Story::of_seconds(3)
            .file(0, "sys/class/fc_host/host3/statistics/link_failure_count", "0x1\n")
            .file(0, "sys/class/fc_host/host3/statistics/loss_of_sync_count", "0xffffffffffffffff\n")
            .file(0, "sys/class/fc_host/host3/statistics/invalid_crc_count", "0xf\n")
            .file(0, "sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "2\n")
            .file(0, "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "10\n")
            .file(2, "sys/class/fc_host/host3/statistics/link_failure_count", "0x3\n")
            .file(2, "sys/class/fc_host/host3/statistics/invalid_crc_count", "0x1a\n")
            .file(2, "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "17\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, LOST), ["host3", "mlx5_0/1"]);
        assert_eq!(stats(&metrics, LOST, "host3").total, 2.0);
        assert_eq!(stats(&metrics, ERRORS, "host3").total, 11.0);
        assert_eq!(stats(&metrics, LOST, "mlx5_0/1").total, 0.0);
        assert_eq!(stats(&metrics, ERRORS, "mlx5_0/1").total, 7.0);
    }

    #[test]
    fn what_is_not_counted_or_broken_is_a_gap_and_no_zero() {
        let story = Story::of_seconds(2)
            .file(0, "sys/class/fc_host/host3/statistics/link_failure_count", "0xffffffffffffffff\n")
            .file(0, "sys/class/fc_host/host3/statistics/invalid_crc_count", "many\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, LOST, "host3").reason, Reason::Absent);
        assert_eq!(gap(&metrics, ERRORS, "host3").reason, Reason::Malformed);
        let none = Story::of_seconds(2).file(0, "sys/class/net/lo/mtu", "1\n").record(&COLLECTOR);
        assert_eq!(none.unavailable.unwrap().reason, Reason::NotApplicable);
    }
}
