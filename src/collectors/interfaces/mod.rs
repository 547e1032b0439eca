//! Network interfaces: /proc/net/dev for all of them, and /sys/class/net for those with a device behind them.

mod metrics;

use std::collections::{BTreeSet, HashMap};

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::{Reason, Unavailable};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "interfaces",
    help: "Traffic, drops, errors and link state of the network interfaces, from /proc/net/dev and /sys/class/net.",
    cadence: Cadence::Interval,
    series: metrics::SERIES,
    metrics: metrics::METRICS,
    overhead: "one read per interval for all interfaces, and five small reads for each of at most 64 devices (about 20 µs each)",
    start: |_| Box::new(Interfaces::default()),
};

/// More devices than this are not read in detail: a host with hundreds of virtual functions must not pay for each.
const MAX_DEVICES: usize = 64;
/// More interfaces than this are not recorded at all.
const MAX_INTERFACES: usize = 4000;
/// /sys/class/net/IF/speed counts in 10^6 bits per second.
const BYTES_PER_MEGABIT: f64 = 125_000.0;

#[derive(Default)]
struct Interfaces {
    /// By name; none is an interface without a device behind it.
    known: HashMap<String, Option<Device>>,
    /// Devices beyond [`MAX_DEVICES`].
    left_out: BTreeSet<String>,
}

/// What is remembered of a device from one sample to the next.
#[derive(Default)]
struct Device {
    /// ifindex: another one is another device that took the name.
    index: Option<u64>,
    carrier_changes: Option<u64>,
    /// Bytes per second of the link; asked again only when the link changed, since drivers may take long to answer.
    speed: Option<f64>,
    half_duplex: Option<bool>,
    driver: String,
    state: String,
}

impl Collect for Interfaces {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/net/dev")?;
        let mut seen = 0;
        for (name, fields) in text.lines().filter_map(parse_line).take(MAX_INTERFACES) {
            seen += 1;
            out.count("interfaces.receive_bytes", name, fields.receive.bytes);
            out.count("interfaces.receive_packets", name, fields.receive.packets);
            out.count("interfaces.transmit_bytes", name, fields.transmit.bytes);
            out.count("interfaces.transmit_packets", name, fields.transmit.packets);
            if !self.known.contains_key(name) {
                let device = self.device(host, name, fields.receive.bytes);
                out.label(name, "kind", if device.is_some() { "device" } else { "virtual" });
                self.known.insert(name.to_owned(), device);
            }
            match self.known.get_mut(name) {
                Some(Some(device)) => device.sample(host, out, name, &fields),
                _ if self.left_out.contains(name) => {}
                _ => out.count("interfaces.virtual_transmit_drops", name, fields.transmit.drops),
            }
        }
        if seen == 0 {
            return Err(Unavailable::new(Reason::Malformed, "/proc/net/dev shows no interface"));
        }
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        let devices: Vec<(&String, &Device)> =
            self.known.iter().filter_map(|(name, device)| Some((name, device.as_ref()?))).collect();
        if devices.is_empty() {
            no_devices(host, out);
        }
        let no_speed: Vec<Unavailable> = devices
            .iter()
            .filter(|(_, device)| device.speed.is_none())
            .map(|(name, device)| {
                let gap = device.no_speed(name, host.facts().virtual_machine);
                out.gap("interfaces.link_speed", name, gap.clone());
                gap
            })
            .collect();
        // Where no link has a known speed, there is one gap to show and not one for each link.
        if no_speed.len() == devices.len() {
            let worst = no_speed.into_iter().max_by_key(|gap| gap.reason != Reason::NotApplicable);
            worst.into_iter().for_each(|gap| out.gap("interfaces.link_speed", "", gap));
        }
        for (name, device) in devices {
            if device.half_duplex.is_none() {
                let why = format!("{name} does not say whether its link is full duplex");
                out.gap("interfaces.device_half_duplex", name, Unavailable::new(Reason::NotApplicable, why.clone()));
                out.gap("interfaces.device_half_duplex", "", Unavailable::new(Reason::NotApplicable, why));
            }
            for (key, value) in [("driver", &device.driver), ("state", &device.state)] {
                if !value.is_empty() {
                    out.label(name, key, value.as_str());
                }
            }
        }
        if !self.left_out.is_empty() {
            let why = format!(
                "only the first {MAX_DEVICES} network devices are read in detail; {} more are left out",
                self.left_out.len()
            );
            out.gap("interfaces.device_", "(others)", Unavailable::new(Reason::Disabled, why));
        }
    }
}

impl Interfaces {
    /// A device, if there is one behind the interface and not too many others. `bytes` are those that /proc shows.
    fn device(&mut self, host: &Host, name: &str, bytes: u64) -> Option<Device> {
        let link = host.link(&format!("sys/class/net/{name}/device/driver"));
        let is_device = link.is_ok() || host.exists(&format!("sys/class/net/{name}/device"));
        if !is_device || !same_namespace(host, name, bytes) {
            return None;
        }
        if self.known.values().flatten().count() >= MAX_DEVICES {
            self.left_out.insert(name.to_owned());
            return None;
        }
        let driver = link.ok().and_then(|target| Some(target.rsplit('/').next()?.to_owned())).unwrap_or_default();
        Some(Device { driver, ..Device::default() })
    }
}

/// Those of some interfaces of /sys that are the same in /proc/net/dev, which is read twice for all of them together.
pub(super) fn of_this_namespace(host: &Host, names: Vec<String>) -> Vec<String> {
    let Ok(before) = host.read("proc/net/dev") else { return names };
    let bytes = |name: &String| host.read_u64(&format!("sys/class/net/{name}/statistics/rx_bytes")).ok();
    let names: Vec<(Option<u64>, String)> = names.into_iter().map(|name| (bytes(&name), name)).collect();
    let after = host.read("proc/net/dev").unwrap_or_default();
    let [before, after] = [&before, &after].map(|text| received(text));
    let is_same = |(bytes, name): &(Option<u64>, String)| {
        let most = after.get(name.as_str()).copied().unwrap_or(u64::MAX);
        before.get(name.as_str()).is_some_and(|least| bytes.is_none_or(|bytes| (*least..=most).contains(&bytes)))
    };
    names.into_iter().filter(is_same).map(|(_, name)| name).collect()
}

/// The interfaces of this network namespace that have a device behind them, at most [`MAX_DEVICES`].
pub(super) fn devices(host: &Host) -> Result<Vec<String>, Unavailable> {
    let text = host.read("proc/net/dev")?;
    let names = text.lines().filter_map(parse_line).map(|(name, _)| name.to_owned());
    let names = names.filter(|name| host.exists(&format!("sys/class/net/{name}/device"))).take(MAX_DEVICES).collect();
    Ok(of_this_namespace(host, names))
}

/// Interfaces of /proc/net/dev, each with the bytes that it has received.
fn received(text: &str) -> HashMap<&str, u64> {
    text.lines().filter_map(parse_line).map(|(name, fields)| (name, fields.receive.bytes)).collect()
}

/// Whether /sys shows the same interface as /proc. /proc/net belongs to the network namespace of the reader, /sys to that
/// of its mount: after `nsenter --net` the two have different interfaces, perhaps of the same name. A counter that is
/// read between two readings of the other file lies between them.
fn same_namespace(host: &Host, name: &str, before: u64) -> bool {
    let Ok(bytes) = host.read_u64(&format!("sys/class/net/{name}/statistics/rx_bytes")) else { return true };
    let text = host.read("proc/net/dev").unwrap_or_default();
    let of_name = |line: &&str| line.split_once(':').is_some_and(|(of, _)| of.trim() == name);
    let after = text.lines().find(of_name).and_then(parse_line).map(|(_, fields)| fields.receive.bytes);
    (before..=after.unwrap_or(u64::MAX)).contains(&bytes)
}

impl Device {
    fn sample(&mut self, host: &Host, out: &Sink, name: &str, fields: &Fields) {
        let read = |file: &str| host.read_u64(&format!("sys/class/net/{name}/{file}")).ok();
        let (Some(index), changes) = (read("ifindex"), read("carrier_changes")) else { return };
        let state = host.read_line(&format!("sys/class/net/{name}/operstate")).unwrap_or_default();
        if self.index != Some(index) || self.carrier_changes != changes || self.state != state {
            self.speed = read("speed").filter(|speed| (1..u64::from(u32::MAX)).contains(speed)).map(|s| s as f64);
            self.speed = self.speed.map(|megabits| megabits * BYTES_PER_MEGABIT);
            let duplex = host.read_line(&format!("sys/class/net/{name}/duplex")).unwrap_or_default();
            self.half_duplex = ["half", "full"].contains(&duplex.as_str()).then(|| duplex == "half");
        }
        (self.index, self.carrier_changes, self.state) = (Some(index), changes, state);

        out.count("interfaces.identity", name, index);
        out.count("interfaces.line_receive_bytes", name, fields.receive.bytes);
        out.count("interfaces.line_receive_packets", name, fields.receive.packets);
        out.count("interfaces.line_transmit_bytes", name, fields.transmit.bytes);
        out.count("interfaces.line_transmit_packets", name, fields.transmit.packets);
        out.count("interfaces.device_receive_errors", name, fields.receive.errors);
        out.count("interfaces.device_transmit_errors", name, fields.transmit.errors);
        out.count("interfaces.device_receive_drops", name, fields.receive.drops);
        out.count("interfaces.device_transmit_drops", name, fields.transmit.drops);
        out.count("interfaces.device_fifo", name, fields.receive.fifo);
        for (series, value) in [
            ("interfaces.device_missed", read("statistics/rx_missed_errors")),
            ("interfaces.device_over", read("statistics/rx_over_errors")),
            ("interfaces.device_carrier_changes", changes),
        ] {
            if let Some(value) = value {
                out.count(series, name, value);
            }
        }
        if let Some(speed) = self.speed {
            out.level("interfaces.link_speed", name, speed);
        }
        if let Some(half) = self.half_duplex {
            out.level("interfaces.device_half_duplex", name, f64::from(u8::from(half)));
        }
    }

    /// Why the utilisation of the link is not known.
    fn no_speed(&self, name: &str, virtual_machine: bool) -> Unavailable {
        if ["down", "lowerlayerdown", "notpresent"].contains(&self.state.as_str()) {
            return Unavailable::new(Reason::NotApplicable, format!("the link of {name} is down"));
        }
        let driver = if self.driver.is_empty() { String::new() } else { format!(" ({})", self.driver) };
        let usual = if virtual_machine { ", as is usual in virtual machines" } else { "" };
        let why = format!("{name}{driver} reports no link speed{usual}");
        Unavailable::new(Reason::Absent, why)
    }
}

/// Nothing but virtual interfaces: in a container the device belongs to another network namespace.
fn no_devices(host: &Host, out: &Sink) {
    let none = Unavailable::new(
        Reason::NotApplicable,
        "this network namespace has no network device, only virtual interfaces",
    );
    out.gap("interfaces.device_", "", none.clone());
    // Settings of the whole host are shown in its own network namespace only.
    let below_host = host.exists("proc/sys/net/core/somaxconn") && !host.exists("proc/sys/net/core/netdev_max_backlog");
    let line = if below_host || host.facts().container.is_some() {
        Unavailable::new(
            Reason::NotVisible,
            "the network device belongs to another network namespace, so its load is not seen here",
        )
        .with_remedy("run rdiag in the host's network namespace")
    } else {
        none
    };
    out.gap("interfaces.line_", "", line);
}

/// One direction of an interface.
#[derive(Debug, Default, PartialEq, Eq)]
struct Direction {
    bytes: u64,
    packets: u64,
    errors: u64,
    drops: u64,
    fifo: u64,
}

/// A line of /proc/net/dev.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fields {
    receive: Direction,
    transmit: Direction,
}

/// Name and fields; none for the two head lines and for a line with a field missing or broken, which is left out whole.
fn parse_line(line: &str) -> Option<(&str, Fields)> {
    let (name, rest) = line.split_once(':')?;
    let name = name.trim();
    // The name becomes part of a path, and a recorded tree is not trusted.
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return None;
    }
    let mut fields = [0_u64; 16];
    let mut words = rest.split_whitespace();
    for field in &mut fields {
        *field = words.next()?.parse().ok()?;
    }
    let [bytes, packets, errors, drops, fifo, _, _, _, tx_bytes, tx_packets, tx_errors, tx_drops, tx_fifo, ..] = fields;
    Some((
        name,
        Fields {
            receive: Direction { bytes, packets, errors, drops, fifo },
            transmit: Direction {
                bytes: tx_bytes,
                packets: tx_packets,
                errors: tx_errors,
                drops: tx_drops,
                fifo: tx_fifo,
            },
        },
    ))
}

#[cfg(test)]
mod tests;
