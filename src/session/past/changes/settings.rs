//! Mounts, swap space and settings of the kernel, as far as a block has them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Before, Seen, short};
use rdiag_history::Block;
use rdiag_kernel::host::Zone;
use rdiag_model::Reason;
use rdiag_model::recording::{CollectorRecord, Number};
use rdiag_model::report::ChangeKind;

/// Limits that are recorded as figures, and the settings that they are.
const LIMITS: [(&str, &str, &str); 9] = [
    ("conntrack", "conntrack.limit", "net.netfilter.nf_conntrack_max"),
    ("file_handles", "file_handles.aio_max", "fs.aio-max-nr"),
    ("file_handles", "file_handles.file_max", "fs.file-max"),
    ("kernel_tables", "kernel_tables.mounts_limit", "fs.mount-max"),
    ("kernel_tables", "kernel_tables.ptys_limit", "kernel.pty.max"),
    ("memory_maps", "memory_maps.limit", "vm.max_map_count"),
    ("task_limits", "task_limits.pid_max", "kernel.pid_max"),
    ("task_limits", "task_limits.threads_max", "kernel.threads-max"),
    ("held_descriptors", "held_descriptors.watches_limit", "fs.inotify.max_user_watches"),
];

/// Weights among changes: a mount is more than a setting.
const OF_MOUNT: f64 = 1e6;
const OF_SETTING: f64 = 1e5;
/// Changes of one kind at one time that are listed one by one.
const ONE_BY_ONE: usize = 4;

/// Settings that are listed one by one.
const SETTINGS: usize = 8;
/// What is reported as a change of the host or of a mount, or changes by itself.
const NOT_TOLD: [&str; 3] = ["kernel build", "kernel tainted", "swap"];

/// How a host was set up during a block. What could not be read is not there.
#[derive(Debug, Default)]
pub(super) struct Settings {
    mounts: Option<BTreeMap<String, Mount>>,
    swaps: Option<BTreeSet<String>>,
    /// The first value of the block.
    limits: BTreeMap<&'static str, f64>,
    facts: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Mount {
    kind: String,
    device: String,
    is_read_only: bool,
}

impl Settings {
    pub(super) fn of(block: &Block) -> Self {
        let record = |id: &str| block.collectors.get(id).filter(|record| !record.times.is_empty());
        let mut limits = BTreeMap::new();
        for (collector, series, name) in LIMITS {
            let whole = |value: &Option<Number>| value.map(Number::as_f64).filter(|value| value.is_finite());
            let series = record(collector).and_then(|record| {
                record.series.iter().find(|one| one.name == series && one.instance.as_deref().unwrap_or("").is_empty())
            });
            let mut values = series.into_iter().flat_map(|series| series.values.iter().filter_map(whole));
            if let Some(first) = values.next() {
                limits.insert(name, first);
            }
        }
        Self {
            mounts: record("filesystems").and_then(mounts),
            swaps: record("swaps").and_then(swaps),
            limits,
            facts: block.header.settings.clone(),
        }
    }
}

/// Mounts by their point; none where the list is not whole.
fn mounts(record: &CollectorRecord) -> Option<BTreeMap<String, Mount>> {
    let is_whole = record.unavailable.is_none() && !record.gaps.contains_key("filesystems.|(more)");
    if !is_whole || record.labels.is_empty() {
        return None;
    }
    let mount = |(point, labels): (&String, &BTreeMap<String, String>)| {
        let label = |key: &str| labels.get(key).map(|text| short(text)).unwrap_or_default();
        let mount = Mount {
            kind: label("type"),
            device: label("device"),
            is_read_only: labels.get("read_only").is_some_and(|is| is == "yes"),
        };
        (point.clone(), mount)
    };
    Some(record.labels.iter().filter(|(_, labels)| labels.contains_key("type")).map(mount).collect())
}

fn swaps(record: &CollectorRecord) -> Option<BTreeSet<String>> {
    match &record.unavailable {
        Some(gap) if gap.reason == Reason::NotApplicable => return Some(BTreeSet::new()),
        Some(_) => return None,
        None => {}
    }
    let sizes = record.series.iter().filter(|series| series.name == "swaps.size");
    // What was enabled later in the block is reported for the next one.
    let first = sizes.filter(|series| series.values.first().is_some_and(Option::is_some));
    Some(first.filter_map(|series| series.instance.clone()).collect())
}

/// What changed from one block to the next. Each is read at the beginning of a block, so a change lies between the two beginnings.
pub(super) fn between(before: &Before, now: &Before, zone: &Zone) -> Vec<Seen> {
    let (a, b) = (&before.settings, &now.settings);
    let mut seen = Vec::new();
    let since = format!("between {} and {}", zone.time_of_day(before.part.from), zone.time_of_day(now.part.from));
    let at = now.part.from;
    let mut mount = |subject: &str, text: String| {
        seen.push(Seen { at, kind: ChangeKind::Mount, subject: short(subject), text, weight: OF_MOUNT });
    };
    if let (Some(a), Some(b)) = (&a.mounts, &b.mounts) {
        of_mounts(a, b, &since, &mut mount);
    }
    if let (Some(a), Some(b)) = (&a.swaps, &b.swaps) {
        b.difference(a)
            .take(ONE_BY_ONE)
            .for_each(|name| mount(name, format!("swap on {} enabled, {since}", short(name))));
        a.difference(b)
            .take(ONE_BY_ONE)
            .for_each(|name| mount(name, format!("swap on {} disabled, {since}", short(name))));
    }
    for (name, text) in of_settings(a, b) {
        let text = format!("{text}, {since}");
        seen.push(Seen { at, kind: ChangeKind::Setting, subject: short(&name), text, weight: OF_SETTING });
    }
    seen
}

/// Settings that both blocks have and that differ; many at once, as after a reboot, are one change.
fn of_settings(a: &Settings, b: &Settings) -> Vec<(String, String)> {
    let told = |name: &str, from: &str, to: &str| {
        let text = format!("{} {} → {}", short(name), short(from), short(to));
        (name.to_owned(), text)
    };
    let is_type = |name: &str| name.starts_with("mount ") && name.ends_with(" type");
    let is_told = |name: &str| !NOT_TOLD.contains(&name) && !is_type(name);
    let is_same = |name: &str, from: &str, to: &str| {
        // That a mount became read-only is reported as such.
        let options =
            |text: &str| text.split(',').filter(|one| !["ro", "rw"].contains(one)).map(str::to_owned).collect();
        let [from, to]: [Vec<String>; 2] = [options(from), options(to)];
        name.starts_with("mount ") && from == to
    };
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, from) in a.facts.iter().filter(|(name, _)| is_told(name)) {
        if let Some(to) = b.facts.get(name).filter(|to| *to != from && !is_same(name, from, to)) {
            all.push(told(name.strip_prefix("sysctl ").unwrap_or(name), from, to));
        }
    }
    for (name, to) in &b.limits {
        let is_fact = b.facts.contains_key(&format!("sysctl {name}"));
        if let Some(from) = a.limits.get(name).filter(|from| *from != to && !is_fact) {
            all.push(told(name, &format!("{from:.0}"), &format!("{to:.0}")));
        }
    }
    if all.len() > SETTINGS {
        let names: Vec<String> = all.iter().take(ONE_BY_ONE).map(|(name, _)| short(name)).collect();
        let text = format!("{} settings: {} and {} more", all.len(), names.join(", "), all.len() - names.len());
        return vec![(String::new(), text)];
    }
    all
}

fn of_mounts(
    a: &BTreeMap<String, Mount>,
    b: &BTreeMap<String, Mount>,
    since: &str,
    tell: &mut impl FnMut(&str, String),
) {
    let only = |one: &BTreeMap<String, Mount>, other: &BTreeMap<String, Mount>| -> Vec<(String, Mount)> {
        let gone = one.iter().filter(|(point, _)| !other.contains_key(*point));
        gone.map(|(point, mount)| (point.clone(), mount.clone())).collect()
    };
    for (what, list) in [("mounted", only(b, a)), ("unmounted", only(a, b))] {
        if list.len() > ONE_BY_ONE {
            tell("", format!("{} file systems {what}, {since}", list.len()));
            continue;
        }
        for (point, mount) in list {
            tell(&point, format!("{} {what} ({} on {}), {since}", short(&point), mount.kind, mount.device));
        }
    }
    let mut told = 0;
    for (point, from, to) in a.iter().filter_map(|(point, from)| Some((point, from, b.get(point)?))) {
        let what = match (from.is_read_only, to.is_read_only) {
            _ if (&from.kind, &from.device) != (&to.kind, &to.device) => {
                format!("now is {} on {}, before {} on {}", to.kind, to.device, from.kind, from.device)
            }
            (false, true) => "became read-only".to_owned(),
            (true, false) => "became writable".to_owned(),
            _ => continue,
        };
        told += 1;
        if told <= ONE_BY_ONE {
            tell(point, format!("{} {what}, {since}", short(point)));
        }
    }
}
