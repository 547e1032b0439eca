//! /sys/bus/pci/devices/DEVICE/current_link_*: PCI Express links that run below what both of their ends support.
//!
//! A card in a slot of fewer lanes, and a link that saves power while it is idle, look like one that failed to train; so nothing here
//! claims a fault. Devices that sleep are not asked: on newer kernels the question wakes them.

use crate::def::{Cadence, Collect, CollectorDef, Sink, unless_virtual};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "pcie_links",
    help: "Width and speed of PCI Express links, from /sys/bus/pci/devices/DEVICE/current_link_*.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "at the beginning of a window nine short files for each PCI Express device below a port (about 10 µs each)",
    start: |_| Box::new(PcieLinks::default()),
};

const JUDGED: &str = "pcie_links.judged";
const BELOW: &str = "pcie_links.below";
const LOST: &str = "pcie_links.lost";

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge(JUDGED, RawUnit::Count, "links below a port whose both ends tell current_link_* and max_link_*"),
    SeriesDef::gauge(
        BELOW,
        RawUnit::Count,
        "those of them whose current_link_width or current_link_speed is below max_link_* of both ends",
    ),
    SeriesDef::gauge(LOST, RawUnit::Ratio, "1 less width times speed, per those that both ends support"),
];

const MANUAL: &str = "lspci -vv | grep -E '^[0-9a-f]|LnkCap:|LnkSta:' (as root)";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "hardware.pcie_links.count",
        unit: Unit::Count,
        help: "PCI Express links whose width and speed are known at both ends.",
        sources: &[Formula::level(&[term(JUDGED)])],
        caveat: "Links of devices that sleep are not asked.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.pcie_links_below.count",
        unit: Unit::Count,
        help: "PCI Express links with fewer lanes or a lower speed than both of their ends support.",
        sources: &[Formula::level(&[term(BELOW)])],
        caveat: "Idle links may save power at a lower speed, and a slot may have fewer lanes than its port.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.pcie_link_lost.ratio",
        unit: Unit::Ratio,
        dimension: Some("pci device"),
        help: "Share of the capacity that both ends of a PCI Express link support which it does not have now.",
        sources: &[Formula::level(&[term(LOST)])],
        caveat: "Of links below their capacity only. Idle links may save power at a lower speed.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

const DEVICES: &str = "sys/bus/pci/devices";
/// More functions than this are not looked at, and then nothing is claimed about any.
const MAX: usize = 4096;

#[derive(Default)]
struct PcieLinks {
    seen: Option<Links>,
}

#[derive(Default)]
struct Links {
    judged: u32,
    below: Vec<(String, f64)>,
}

impl Collect for PcieLinks {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        if self.seen.is_none() {
            self.seen = Some(look(host)?);
        }
        if let Some(Links { judged, below }) = &self.seen {
            out.level(JUDGED, "", f64::from(*judged));
            out.level(BELOW, "", below.len() as f64);
            below.iter().for_each(|(name, lost)| out.level(LOST, name, *lost));
        }
        Ok(())
    }
}

fn look(host: &Host) -> Result<Links, Unavailable> {
    let mut links = Links::default();
    let names = match host.list(DEVICES) {
        Ok(names) => names,
        Err(error) if error.reason == Reason::Absent => Vec::new(),
        Err(error) => return Err(error.gap()),
    };
    if names.len() > MAX {
        return Err(Unavailable::new(Reason::Malformed, format!("/{DEVICES} has more than {MAX} devices")));
    }
    // Functions of one device share its link.
    for name in names.iter().filter(|name| name.ends_with(".0")) {
        let Some((now, most)) = link(host, name) else { continue };
        links.judged += 1;
        if now < most * 0.99 {
            links.below.push((name.clone(), 1.0 - now / most));
        }
    }
    if links.judged == 0 {
        let why = "no PCI Express link here tells its width and speed at both ends";
        return Err(unless_virtual(host.facts(), why, Unavailable::new(Reason::NotApplicable, why)));
    }
    Ok(links)
}

/// Width times speed of the link above a device: now, and what the device and the port above it both support.
fn link(host: &Host, name: &str) -> Option<(f64, f64)> {
    let figure = |device: &str, file: &str| -> Option<f64> {
        let text = host.read_line(&format!("{DEVICES}/{device}/{file}")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok().filter(|figure| (0.5..1000.0).contains(figure))
    };
    let target = host.link(&format!("{DEVICES}/{name}")).ok()?;
    let port = target.rsplit('/').nth(1).filter(|port| port.contains(':') && port.contains('.'))?;
    let is_asleep = host
        .read_line(&format!("{DEVICES}/{name}/power/runtime_status"))
        .is_ok_and(|state| state != "active" && state != "unsupported");
    if is_asleep {
        return None;
    }
    let most = |file: &str| Some(figure(name, file)?.min(figure(port, file)?));
    let most = most("max_link_width")? * most("max_link_speed")?;
    Some((figure(name, "current_link_width")? * figure(name, "current_link_speed")?, most))
}

#[cfg(test)]
mod tests {
    use super::COLLECTOR;
    use crate::testing::{Story, instances, stats};
    use rdiag_model::Reason;

    /// Width and speed, now and at most, of a device on a bus or below a port.
    fn device(story: &Story, place: &str, [width, of, speed, most]: [&str; 4]) {
        let name = place.rsplit('/').next().unwrap();
        for (file, text) in [
            ("current_link_width", width),
            ("max_link_width", of),
            ("current_link_speed", speed),
            ("max_link_speed", most),
        ] {
            story.put(&format!("sys/devices/pci0000:00/{place}/{file}"), format!("{text}\n"));
        }
        story.put("sys/bus/pci/devices/.keep", "");
        story.link(&format!("sys/bus/pci/devices/{name}"), &format!("../../../devices/pci0000:00/{place}"));
    }

    #[test]
    fn a_link_is_compared_with_what_both_of_its_ends_support() {
        let story = Story::of_seconds(1);
        device(&story, "0000:00:01.0", ["8", "16", "8.0 GT/s PCIe", "8.0 GT/s PCIe"]);
        device(&story, "0000:00:01.0/0000:01:00.0", ["8", "16", "8.0 GT/s PCIe", "16.0 GT/s PCIe"]);
        device(&story, "0000:00:02.0", ["4", "4", "8.0 GT/s PCIe", "16.0 GT/s PCIe"]);
        device(&story, "0000:00:02.0/0000:02:00.0", ["4", "16", "8.0 GT/s PCIe", "8.0 GT/s PCIe"]);
        device(&story, "0000:00:03.0", ["0", "4", "2.5 GT/s PCIe", "8.0 GT/s PCIe"]);
        device(&story, "0000:00:03.0/0000:03:00.0", ["255", "4", "Unknown", "8.0 GT/s PCIe"]);
        device(&story, "0000:00:04.0", ["1", "4", "2.5 GT/s PCIe", "8.0 GT/s PCIe"]);
        device(&story, "0000:00:04.0/0000:04:00.0", ["1", "4", "2.5 GT/s PCIe", "8.0 GT/s PCIe"]);
        story.put("sys/devices/pci0000:00/0000:00:04.0/0000:04:00.0/power/runtime_status", "suspended\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "hardware.pcie_links.count", "").last, 2.0, "one is unknown, one sleeps");
        assert_eq!(stats(&metrics, "hardware.pcie_links_below.count", "").last, 1.0);
        assert_eq!(instances(&metrics, "hardware.pcie_link_lost.ratio"), ["0000:01:00.0"]);
        assert_eq!(stats(&metrics, "hardware.pcie_link_lost.ratio", "0000:01:00.0").last, 0.5);
    }

    #[test]
    fn a_host_without_links_has_nothing_to_judge() {
        let none = Story::of_seconds(2).file(0, "sys/bus/pci/devices/0000:00:00.0/class", "0\n").record(&COLLECTOR);
        assert_eq!(none.unavailable.unwrap().reason, Reason::NotApplicable);
        let no_bus = Story::of_seconds(2).file(0, "proc/stat", "").record(&COLLECTOR);
        assert_eq!(no_bus.unavailable.unwrap().reason, Reason::NotApplicable);
    }
}
