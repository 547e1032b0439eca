use std::path::Path;

use super::*;
use crate::host::replay::HostSpec;

#[expect(clippy::disallowed_methods, reason = "the test's own tree")]
fn write(root: &Path, path: &str, text: &str) {
    let place = root.join("t0").join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, text).unwrap();
}

fn link(root: &Path, path: &str, target: &str) {
    let place = root.join("t0").join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(target, place).unwrap();
}

fn setup_of(root: &Path) -> Setup {
    read(&std::sync::Arc::new(Host::recorded(root, HostSpec { times: vec![0.0], ..HostSpec::default() })))
}

#[test]
fn the_disk_below_a_stack_has_the_role_of_what_is_mounted() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let mounts = "20 1 253:0 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw,errors=remount-ro\n\
                  21 20 254:16 / /srv/my\\040data rw,noatime - xfs /dev/vdb rw\n\
                  22 20 254:33 / /a rw - xfs /dev/vdc1 rw\n\
                  23 20 254:16 /x /srv/bind rw - xfs /dev/vdb rw\n\
                  24 20 0:30 / /home rw - nfs4 filer:/home rw,vers=4.2,addr=10.0.0.9,clientaddr=10.0.0.1\n\
                  25 20 0:31 / /sys rw - sysfs sysfs rw\n";
    write(root, "proc/self/mountinfo", mounts);
    let table =
        " 254 0 vda 1 2\n 254 1 vda1 1 2\n 254 16 vdb 1\n 254 32 vdc 1\n 254 33 vdc1 1\n 253 0 dm-0 1 2\n 9 0 md0 1\n";
    write(root, "proc/diskstats", table);
    for disk in ["vda", "vdb", "vdc"] {
        write(root, &format!("sys/block/{disk}/queue/scheduler"), "[mq-deadline] none\n");
    }
    write(root, "sys/block/dm-0/slaves/vda1/size", "1");
    write(root, "sys/block/dm-0/slaves/vdc1/size", "1");
    let setup = setup_of(root);
    let role = |name| setup.role("device", name);
    assert_eq!(role("dm-0"), Some("disk:root"));
    assert_eq!([role("vda"), role("vdc")], [Some("disk:root#2"), Some("disk:root#3")], "the first role counts");
    assert_eq!(role("vdb"), Some("disk:/srv/my data"));
    assert_eq!(setup.facts["disk:/srv/my data scheduler"], "mq-deadline");
    assert_eq!(setup.facts["mount /home options"], "rw,vers=4.2", "no addresses");
    assert_eq!(setup.facts["mount / options"], "errors=remount-ro,relatime,rw");
    assert!(!setup.facts.keys().any(|name| name.contains("bind") || name.contains("/sys")), "{:?}", setup.facts);
    assert_eq!(setup.clock, None);
}

#[test]
fn the_interface_of_the_default_route_is_known_and_its_driver() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";
    let rows = "eth1 00000000 0102000A 0003 0 0 200 00000000 0 0 0\nens3 00000000 0101000A 0003 0 0 100 00000000 0 0 0\n\
                ens3 0001000A 00000000 0001 0 0 100 00FFFFFF 0 0 0\n";
    write(root, "proc/net/route", &format!("{head}{rows}"));
    write(root, "sys/class/net/ens3/mtu", "9000\n");
    write(root, "sys/class/net/eth1/mtu", "1500\n");
    write(root, "sys/class/net/br0/mtu", "1500\n");
    for name in ["ens3", "eth1"] {
        link(root, &format!("sys/class/net/{name}/device/driver"), "../../../bus/pci/drivers/ixgbe");
    }
    write(root, "sys/module/ixgbe/version", "5.1\n");
    let setup = setup_of(root);
    assert_eq!(setup.role("interface", "ens3"), Some("net:default"));
    assert_eq!(setup.role("interface", "eth1"), None);
    let fact = |name: &str| setup.facts.get(name).map(String::as_str);
    assert_eq!(fact("net:default mtu"), Some("9000"));
    assert_eq!(fact("net:default driver"), Some("ixgbe"));
    assert_eq!(fact("net:eth1 driver version"), Some("5.1"));
    assert_eq!(fact("net:br0 mtu"), None, "a bridge without the default route");
    write(root, "proc/net/route", head);
    let far = "00000000000000000000000000000000 00 00000000000000000000000000000000 00";
    let near = format!("{far} fe800000000000000000000000000001 00000400 1 0 3 eth1\n{far} 0 ffffffff 1 0 200200 lo\n");
    write(root, "proc/net/ipv6_route", &near);
    assert_eq!(setup_of(root).role("interface", "eth1"), Some("net:default"), "by IPv6 alone");
}

#[test]
fn of_the_command_line_only_known_parameters_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    write(
        root,
        "proc/cmdline",
        "root=UUID=1 ds=http://u:hunter2@x/ quiet nosmt isolcpus=1-3 mitigations=off token=abc\n",
    );
    write(root, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write(root, "proc/sys/vm/swappiness", "1\n");
    write(root, "proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    write(root, "sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n");
    for (policy, governor) in [(0, "powersave"), (1, "performance"), (2, "powersave")] {
        write(root, &format!("sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor"), governor);
    }
    write(root, "proc/swaps", "Filename Type Size Used Priority\n/swap file 8388604 0 -2\n");
    write(root, "etc/tuned/active_profile", &"x".repeat(5000));
    let facts = setup_of(root).facts;
    let boot: Vec<(&str, &str)> = facts
        .iter()
        .filter(|(name, _)| name.starts_with("boot "))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(boot, [("boot isolcpus", "1-3"), ("boot mitigations", "off"), ("boot nosmt", "set")]);
    assert!(!format!("{facts:?}").contains("hunter2"));
    let fact = |name: &str| facts.get(name).map(String::as_str);
    assert_eq!(fact("thp enabled"), Some("madvise"));
    assert_eq!(fact("sysctl vm.swappiness"), Some("1"));
    assert_eq!(fact("sysctl net.ipv4.tcp_rmem"), Some("4096 131072 6291456"));
    assert_eq!(fact("mitigation meltdown"), Some("Mitigation: PTI"));
    assert_eq!(fact("governor"), Some("performance, powersave"), "where CPUs differ, all are named");
    assert_eq!(fact("swap"), Some("8 GiB"));
    assert_eq!(fact("tuned profile").map(str::len), Some(LONGEST));
}

#[test]
fn garbage_and_nothing_give_no_facts() {
    let root = tempfile::tempdir().unwrap();
    assert!(setup_of(root.path()).is_empty());
    for path in ["proc/self/mountinfo", "proc/diskstats", "proc/net/route", "proc/net/ipv6_route", "proc/cmdline"] {
        write(root.path(), path, "- - \u{fffd} 00 : / / - \n\n - ext4 /dev/vda\n 1 2 / / / / - \n");
    }
    let setup = setup_of(root.path());
    assert!(setup.roles.is_empty() && setup.facts.is_empty(), "{setup:?}");
}
