//! What disks and interfaces are for. `vda` on one host and `nvme0n1` on another are the same for a comparison: the disk of `/`.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::Setup;
use rdiag_proc::DiskLine;

use super::Host;
use super::mounts::{Mount, mounts};

/// Disks and interfaces that are looked at, and how deep they may be stacked (LVM on LUKS on md).
const MOST: usize = 256;
const DEEPEST: usize = 6;

pub(super) fn read(host: &Host, setup: &mut Setup) {
    let disks = disks(host);
    if !disks.is_empty() {
        setup.roles.insert("device".into(), disks);
    }
    let interfaces = interfaces(host);
    if !interfaces.is_empty() {
        setup.roles.insert("interface".into(), interfaces);
    }
}

/// Disk → `disk:root`, or `disk:/data`. Several disks below one file system are numbered.
fn disks(host: &Host) -> BTreeMap<String, String> {
    let names = numbers(host);
    let mut roles = BTreeMap::new();
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    // `/` first, then by name: of a disk with several file systems the first is its role.
    let mut all = mounts(host);
    all.sort_by(|a, b| (a.point != "/", &a.point).cmp(&(b.point != "/", &b.point)));
    for Mount { point, number, .. } in all {
        let Some(name) = names.get(&number) else { continue };
        let mut found = BTreeSet::new();
        below(host, name, 0, &mut found);
        for disk in found {
            if roles.len() >= MOST || roles.contains_key(&disk) {
                continue;
            }
            let role = if point == "/" { "disk:root".to_owned() } else { format!("disk:{point}") };
            let count = taken.entry(role.clone()).or_default();
            *count += 1;
            roles.insert(disk, if *count == 1 { role } else { format!("{role}#{count}") });
        }
    }
    roles
}

/// `254:1` → `vda1`.
fn numbers(host: &Host) -> BTreeMap<String, String> {
    let table = host.read("proc/diskstats").unwrap_or_default();
    let row = |line: DiskLine<'_>| (format!("{}:{}", line.major, line.minor), line.name.to_owned());
    table.lines().filter_map(DiskLine::parse).map(row).collect()
}

/// A block device, and the disks that it lies on.
fn below(host: &Host, name: &str, depth: usize, found: &mut BTreeSet<String>) {
    if depth > DEEPEST || found.len() >= MOST {
        return;
    }
    let whole = whole(host, name);
    found.insert(whole.clone());
    for lower in host.list(&format!("sys/block/{whole}/slaves")).unwrap_or_default().iter().take(MOST) {
        below(host, lower, depth + 1, found);
    }
}

/// The disk of a partition; a disk itself.
fn whole(host: &Host, name: &str) -> String {
    if host.exists(&format!("sys/block/{name}")) {
        return name.to_owned();
    }
    // A partition is a folder within that of its disk, whose name it begins with.
    let ends = name.char_indices().skip(1).map(|(at, _)| at);
    let disks = ends.filter_map(|end| name.get(..end)).filter(|disk| host.exists(&format!("sys/block/{disk}")));
    disks.last().unwrap_or(name).to_owned()
}

/// Interface → `net:default` where the default route leads.
fn interfaces(host: &Host) -> BTreeMap<String, String> {
    // IPv4: interface, destination, gateway, flags, reference count, use, metric, mask.
    let table = host.read("proc/net/route").unwrap_or_default();
    let default = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_default = fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000");
        let metric: u64 = fields.get(6)?.parse().ok()?;
        is_default.then(|| Some((metric, (*fields.first()?).to_owned())))?
    };
    let found = table.lines().skip(1).filter_map(default).min().map(|(_, name)| name).or_else(|| {
        // IPv6: destination, its length, source, its length, next hop, metric, …, interface. A reject route is of lo.
        let table = host.read("proc/net/ipv6_route").unwrap_or_default();
        let default = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_default = fields.get(1) == Some(&"00") && fields.last() != Some(&"lo");
            let metric = u64::from_str_radix(fields.get(5)?, 16).ok()?;
            is_default.then(|| Some((metric, (*fields.last()?).to_owned())))?
        };
        table.lines().filter_map(default).min().map(|(_, name)| name)
    });
    found.into_iter().map(|name| (name, "net:default".to_owned())).collect()
}
