//! Counters of devices and of the CPU's own kind: how the kernel describes them below /sys/bus/event_source/devices.

use super::select::Encoding;
use crate::host::Host;

pub(super) const DEVICES: &str = "sys/bus/event_source/devices";
/// The kernel's own kinds have a folder too, and no events in it.
const OWN_KINDS: [&str; 5] = ["breakpoint", "kprobe", "software", "tracepoint", "uprobe"];
/// A device with more boxes than this is not counted whole.
const MAX_BOXES: usize = 128;

/// A device that counts (`cpu`, `power`, `uncore_imc_0`).
#[derive(Debug, Clone)]
pub(super) struct Device {
    pub(super) name: String,
    kind: u32,
    /// The CPUs on which it can be asked; all if none are named.
    pub(super) cpus: Option<Vec<u32>>,
    /// Whether each of these answers for more than itself (`cpumask` in place of `cpus`).
    pub(super) shared: bool,
}

/// What the terms between the slashes say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Terms {
    pub(super) encoding: Encoding,
    /// `name=…`.
    pub(super) name: Option<String>,
    /// What one count stands for, and in which unit.
    pub(super) scale: Option<f64>,
    pub(super) unit: Option<String>,
}

/// The names of all devices that count, sorted.
pub(super) fn devices(host: &Host) -> Vec<String> {
    let mut names = host.list(DEVICES).unwrap_or_default();
    names.retain(|name| !OWN_KINDS.contains(&name.as_str()));
    names
}

/// The devices that a name means: the one with this name, or all boxes NAME_0, NAME_1 …
pub(super) fn find(host: &Host, name: &str) -> Vec<Device> {
    let all = devices(host);
    let is_box = |other: &&String| {
        let rest = other.strip_prefix(name).map(|rest| rest.strip_prefix('_').unwrap_or(rest));
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let exact: Vec<&String> = all.iter().filter(|other| *other == name).collect();
    let named = if exact.is_empty() { all.iter().filter(is_box).take(MAX_BOXES).collect() } else { exact };
    named.into_iter().filter_map(|name| open(host, name)).collect()
}

fn open(host: &Host, name: &str) -> Option<Device> {
    let kind = u32::try_from(host.read_u64(&format!("{DEVICES}/{name}/type")).ok()?).ok()?;
    let list = |file: &str| host.read_line(&format!("{DEVICES}/{name}/{file}")).ok();
    let mask = list("cpumask");
    let shared = mask.is_some();
    let cpus = mask.or_else(|| list("cpus")).map(|list| super::cpus::parse(&list));
    Some(Device { name: name.to_owned(), kind, cpus, shared })
}

/// The events that a device names itself, sorted.
pub(super) fn events(host: &Host, device: &str) -> Vec<String> {
    let mut names = host.list(&format!("{DEVICES}/{device}/events")).unwrap_or_default();
    names.retain(|name| ![".scale", ".unit", ".snapshot", ".per-pkg"].iter().any(|suffix| name.ends_with(suffix)));
    names
}

impl Device {
    /// Reads `event,config=0x3c,umask=1,name=x`. An error is a sentence, with what could have been meant.
    pub(super) fn terms(&self, host: &Host, text: &str) -> Result<Terms, (String, String, Vec<String>)> {
        let mut terms = Terms::default();
        terms.encoding.kind = self.kind;
        for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            self.term(host, term, &mut terms, true)?;
        }
        Ok(terms)
    }

    fn term(
        &self,
        host: &Host,
        term: &str,
        terms: &mut Terms,
        may_be_event: bool,
    ) -> Result<(), (String, String, Vec<String>)> {
        let (name, value) =
            term.split_once('=').map_or((term, None), |(name, value)| (name.trim(), Some(value.trim())));
        let wrong = |message: String| (message, name.to_owned(), Vec::new());
        if name == "name" {
            terms.name = value.map(str::to_owned);
            return Ok(());
        }
        let number = || match value {
            None => Ok(1),
            Some(text) => number(text).ok_or_else(|| wrong(format!("{text:?} of {term:?} is no number"))),
        };
        let encoding = &mut terms.encoding;
        match name {
            "config" => encoding.config = number()?,
            "config1" => encoding.config1 = number()?,
            "config2" => encoding.config2 = number()?,
            _ => {
                let plain = is_plain(name);
                let place = format!("{DEVICES}/{}", self.name);
                let format = host.read_line(&format!("{place}/format/{name}")).ok().filter(|_| plain);
                if let Some(format) = format {
                    let value = number()?;
                    return put(&format, value, encoding)
                        .ok_or_else(|| wrong(format!("{term:?} does not fit into {name} of {}: {format}", self.name)));
                }
                let event = host.read_line(&format!("{place}/events/{name}")).ok();
                let Some(event) = event.filter(|_| plain && may_be_event && value.is_none()) else {
                    let mut near = events(host, &self.name);
                    near.extend(host.list(&format!("{place}/format")).unwrap_or_default());
                    return Err((format!("{} has no event or field {name:?}", self.name), name.to_owned(), near));
                };
                if event.contains('?') {
                    let text = format!("{name} of {} wants values: write its fields out ({event})", self.name);
                    return Err(wrong(text));
                }
                for part in event.split(',') {
                    self.term(host, part.trim(), terms, false)?;
                }
                let beside = |suffix: &str| host.read_line(&format!("{place}/events/{name}{suffix}")).ok();
                terms.scale = beside(".scale").and_then(|text| text.parse().ok()).or(terms.scale);
                terms.unit = beside(".unit").or(terms.unit.take());
                terms.name.get_or_insert_with(|| format!("{}/{name}/", self.name));
            }
        }
        Ok(())
    }
}

/// Names of files, and of nothing else.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Puts a value into the bits that a format names (`config:0-7,32-35`), lowest bits first; none if it does not fit.
fn put(format: &str, value: u64, encoding: &mut Encoding) -> Option<()> {
    let (word, ranges) = format.split_once(':')?;
    let target = match word {
        "config" => &mut encoding.config,
        "config1" => &mut encoding.config1,
        "config2" => &mut encoding.config2,
        _ => return None,
    };
    let mut left = value;
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        let width = high.checked_sub(low)?.checked_add(1)?;
        let mask = 1_u64.checked_shl(width).map_or(u64::MAX, |bit| bit - 1);
        let bits = (left & mask).checked_shl(low)?;
        let place = mask.checked_shl(low)?;
        *target = *target & !place | bits;
        left = left.checked_shr(width).unwrap_or(0);
    }
    (left == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_into_the_bits_that_the_format_names() {
        let fill = |format: &str, value| {
            let mut encoding = Encoding::default();
            put(format, value, &mut encoding).map(|()| (encoding.config, encoding.config1))
        };
        assert_eq!(fill("config:0-7", 0x3c), Some((0x3c, 0)));
        assert_eq!(fill("config:0-7,32-35", 0x1_3c), Some((0x1_0000_003c, 0)));
        assert_eq!(fill("config1:21", 1), Some((0, 1 << 21)));
        assert_eq!(fill("config:0-63", u64::MAX), Some((u64::MAX, 0)));
        for (format, value) in [("config:0-7", 256), ("config:64-70", 1), ("config:7-0", 1), ("config", 1), ("x:1", 1)]
        {
            assert_eq!(fill(format, value), None, "{format}");
        }
    }
}
