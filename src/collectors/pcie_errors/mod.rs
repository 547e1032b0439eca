//! /sys/bus/pci/devices/DEVICE/aer_dev_*: errors of PCI Express links as the kernel counts them (advanced error reporting, from Linux 4.19
//! on).
//!
//! The files are there for each device that can report errors. They count only where the kernel's AER driver serves the ports above the
//! devices; where the firmware keeps that to itself (or `pci=noaer` is given) they stay 0 whatever happens, so that is asked first.

use crate::def::{Cadence, Collect, CollectorDef, Sink, unless_virtual};
use rdiag_kernel::host::{Host, SourceError};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "pcie_errors",
    help: "Errors of PCI Express links and devices, from /sys/bus/pci/devices/DEVICE/aer_dev_*.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window three short files for each device that reports errors (about 10 µs each); devices are looked for once",
    start: |_| Box::new(PcieErrors::default()),
};

const CORRECTED: &str = "pcie_errors.corrected";
const NONFATAL: &str = "pcie_errors.nonfatal";
const FATAL: &str = "pcie_errors.fatal";
const DEVICE: &str = "pcie_errors.device";

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter(
        CORRECTED,
        RawUnit::Count,
        "TOTAL_ERR_COR of /sys/bus/pci/devices/*/aer_dev_correctable, summed",
    ),
    SeriesDef::counter(
        NONFATAL,
        RawUnit::Count,
        "TOTAL_ERR_NONFATAL of /sys/bus/pci/devices/*/aer_dev_nonfatal, summed",
    ),
    SeriesDef::counter(FATAL, RawUnit::Count, "TOTAL_ERR_FATAL of /sys/bus/pci/devices/*/aer_dev_fatal, summed"),
    SeriesDef::gauge(
        DEVICE,
        RawUnit::Count,
        "the three of one device: by how much they grew within the window, where they did",
    ),
];

const MANUAL: &str = "grep TOTAL /sys/bus/pci/devices/*/aer_dev_*";
const CAVEAT: &str =
    "Needs the kernel's AER driver: where the firmware handles errors first, the kernel does not count them.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "hardware.pcie_corrected.count",
        unit: Unit::Count,
        help: "Errors that PCI Express links corrected by retransmission within the window, over all devices.",
        sources: &[Formula::change(&[term(CORRECTED)])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.pcie_nonfatal.count",
        unit: Unit::Count,
        help: "Uncorrected PCI Express errors that left the link working, within the window, over all devices.",
        sources: &[Formula::change(&[term(NONFATAL)])],
        caveat: "A program that reads a register that a device does not have may cause one.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.pcie_fatal.count",
        unit: Unit::Count,
        help: "Uncorrected PCI Express errors after which the link is not reliable, within the window, over all \
               devices.",
        sources: &[Formula::change(&[term(FATAL)])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.pcie_device_errors.count",
        unit: Unit::Count,
        dimension: Some("pci device"),
        help: "PCI Express errors of one device within the window, corrected ones too.",
        sources: &[Formula::level(&[term(DEVICE)])],
        caveat: "Of devices that counted any. Both ends of a link may count the same error.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

const DEVICES: &str = "sys/bus/pci/devices";
const FILES: [&str; 3] = ["aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"];
/// More functions than this are not looked at, and then nothing is claimed about any.
const MAX: usize = 4096;

/// Corrected, nonfatal and fatal errors.
type Counts = [u64; 3];

#[derive(Default)]
struct PcieErrors {
    /// Those whose errors are counted, once they were looked for.
    devices: Option<Vec<Device>>,
    sums: Counts,
}

struct Device {
    name: String,
    /// None before it was read.
    known: Option<Counts>,
    grown: u64,
}

impl Collect for PcieErrors {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        if self.devices.is_none() {
            let found = find(host)?.into_iter();
            self.devices = Some(found.map(|name| Device { name, known: None, grown: 0 }).collect());
        }
        for device in self.devices.iter_mut().flatten() {
            let now = match counts(host, &device.name) {
                Ok(now) => now,
                // It was unplugged: what it counted until then stands.
                Err(error) if error.reason == Reason::Absent => continue,
                Err(error) => return Err(error.gap()),
            };
            let known = device.known.replace(now);
            for ((sum, new), old) in self.sums.iter_mut().zip(now).zip(known.unwrap_or_default()) {
                // One that was plugged in anew begins at 0.
                let step = if new >= old { new - old } else { new };
                *sum = sum.saturating_add(step);
                device.grown = device.grown.saturating_add(if known.is_some() { step } else { 0 });
            }
            if device.grown > 0 {
                out.level(DEVICE, &device.name, device.grown as f64);
            }
        }
        let [corrected, nonfatal, fatal] = self.sums;
        out.count(CORRECTED, "", corrected);
        out.count(NONFATAL, "", nonfatal);
        out.count(FATAL, "", fatal);
        Ok(())
    }
}

/// Devices whose errors the kernel counts.
fn find(host: &Host) -> Result<Vec<String>, Unavailable> {
    let missing = |why: &str| unless_virtual(host.facts(), why, Unavailable::new(Reason::NotApplicable, why));
    let all = match host.list(DEVICES) {
        Ok(all) => all,
        Err(error) if error.reason == Reason::Absent => return Err(missing("there is no PCI bus")),
        Err(error) => return Err(error.gap()),
    };
    if all.len() > MAX {
        return Err(Unavailable::new(Reason::Malformed, format!("/{DEVICES} has more than {MAX} devices")));
    }
    let [first, ..] = FILES;
    let counting: Vec<String> =
        all.into_iter().filter(|name| host.exists(&format!("{DEVICES}/{name}/{first}"))).collect();
    if counting.is_empty() {
        return Err(missing("no PCI device here reports errors (AER; the kernel counts them from Linux 4.19 on)"));
    }
    let served = host.list("sys/bus/pci_express/drivers/aer").unwrap_or_default();
    if !served.iter().any(|entry| entry.contains(':')) {
        let why = "the kernel's AER driver serves no PCI Express port, so its error counters stand still";
        let gap = Unavailable::new(Reason::Disabled, why)
            .with_remedy("boot without pci=noaer, or let the firmware leave PCIe errors to the kernel; until then read its event log");
        return Err(unless_virtual(host.facts(), why, gap));
    }
    Ok(counting)
}

fn counts(host: &Host, device: &str) -> Result<Counts, SourceError> {
    let mut counts = [0; 3];
    for (count, file) in counts.iter_mut().zip(FILES) {
        let path = format!("{DEVICES}/{device}/{file}");
        let text = host.read(&path)?;
        *count = total(&text).ok_or_else(|| SourceError::malformed(&path, "it has no line TOTAL_ERR".into()))?;
    }
    Ok(counts)
}

/// The line of the sum, below those of each kind of error.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("TOTAL_ERR_"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
