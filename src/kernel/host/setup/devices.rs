//! Disks and interfaces: drivers, firmware, queues. Each is called by its role where it has one, so that hosts compare.

use rdiag_model::Setup;

use super::{Host, chosen, link_name, note, note_file};

/// Disks and interfaces that are listed.
const MOST: usize = 16;
/// Block devices that are no hardware.
const NO_DISKS: [&str; 7] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd"];
const OF_DISKS: [(&str, &str); 9] = [
    ("scheduler", "queue/scheduler"),
    ("nr_requests", "queue/nr_requests"),
    ("read_ahead_kb", "queue/read_ahead_kb"),
    ("rotational", "queue/rotational"),
    ("write_cache", "queue/write_cache"),
    ("max_sectors_kb", "queue/max_sectors_kb"),
    ("model", "device/model"),
    ("firmware", "device/firmware_rev"),
    ("firmware", "device/rev"),
];

pub(super) fn read(host: &Host, setup: &mut Setup) {
    let disks = host.list("sys/block").unwrap_or_default();
    let is_disk = |name: &&String| !NO_DISKS.iter().any(|kind| name.starts_with(kind));
    for name in disks.iter().filter(is_disk).take(MOST) {
        let role = setup.role("device", name).map_or_else(|| format!("disk:{name}"), str::to_owned);
        for (what, file) in OF_DISKS {
            if let Ok(text) = host.read_line(&format!("sys/block/{name}/{file}")) {
                note(
                    &mut setup.facts,
                    format!("{role} {what}"),
                    if what == "scheduler" { chosen(&text) } else { &text },
                );
            }
        }
        // A namespace of an NVMe drive has a controller, and that a driver.
        let driver = ["device/driver", "device/device/driver"];
        let driver = driver.iter().find_map(|link| link_name(host, &format!("sys/block/{name}/{link}")));
        note(&mut setup.facts, format!("{role} driver"), &driver.unwrap_or_default());
    }
    let interfaces = host.list("sys/class/net").unwrap_or_default();
    let is_hardware = |name: &&String| host.exists(&format!("sys/class/net/{name}/device"));
    let is_default = |name: &&String| setup.role("interface", name).is_some();
    // Bridges and bonds are no hardware, but the default route may lead there.
    let wanted: Vec<&String> =
        interfaces.iter().filter(|name| is_hardware(name) || is_default(name)).take(MOST).collect();
    for name in wanted {
        let role = setup.role("interface", name).map_or_else(|| format!("net:{name}"), str::to_owned);
        note_file(host, &mut setup.facts, format!("{role} mtu"), &format!("sys/class/net/{name}/mtu"));
        let queue = format!("sys/class/net/{name}/tx_queue_len");
        note_file(host, &mut setup.facts, format!("{role} tx_queue_len"), &queue);
        if let Some(driver) = link_name(host, &format!("sys/class/net/{name}/device/driver")) {
            note_file(
                host,
                &mut setup.facts,
                format!("{role} driver version"),
                &format!("sys/module/{driver}/version"),
            );
            note(&mut setup.facts, format!("{role} driver"), &driver);
        }
    }
}
