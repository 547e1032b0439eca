//! Trees of hosts far larger than those that tests run on: files as the kernel would show them, at two instants.

use std::fmt::Write as _;
use std::path::Path;

fn write(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, text).unwrap();
}

/// A tree with two instants, five seconds apart.
pub fn tree() -> tempfile::TempDir {
    // Tens of thousands of files: in memory where that can be.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    write(dir.path(), "host.yaml", "story: made for a test\ntimes: [0.0, 5.0]\n");
    dir
}

/// What CPUs show: each is busy for as many hundredths as its number says, at most 50.
pub fn add_cpus(root: &Path, cpus: usize) {
    for folder in ["online", "present", "possible"] {
        write(root, &format!("t0/sys/devices/system/cpu/{folder}"), &format!("0-{}\n", cpus - 1));
    }
    for at in [0, 1] {
        let (mut cores, mut waits) = (String::new(), String::from("version 15\ntimestamp 4300000000\n"));
        let (mut all_busy, mut all_idle) = (0, 0);
        for cpu in 0..cpus {
            let busy = 1000 + at * 5 * (cpu % 51);
            let idle = 1000 + at * (500 - 5 * (cpu % 51));
            (all_busy, all_idle) = (all_busy + busy, all_idle + idle);
            writeln!(cores, "cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0").unwrap();
            writeln!(waits, "cpu{cpu} 0 0 0 0 0 0 {busy}0000000 1000000 100").unwrap();
        }
        let rest = format!("intr {}\nctxt {}\nprocesses {}\n", 1000 + at * 500, 1000 + at * 500, 1000 + at * 5);
        write(root, &format!("t{at}/proc/stat"), &format!("cpu  {all_busy} 0 0 {all_idle} 0 0 0 0 0 0\n{cores}{rest}"));
        write(root, &format!("t{at}/proc/schedstat"), &waits);
        let mut lines = String::from("     ");
        (0..cpus).for_each(|cpu| write!(lines, " CPU{cpu}").unwrap());
        lines.push('\n');
        for line in 0..400 {
            write!(lines, "{line}:").unwrap();
            (0..cpus).for_each(|cpu| write!(lines, " {}", 1000 + at * ((cpu + line) % 7)).unwrap());
            writeln!(lines, " PCI-MSI {line}-edge queue{line}").unwrap();
        }
        write(root, &format!("t{at}/proc/interrupts"), &lines);
    }
}

/// Disks with twenty reads a second of 2 ms each.
pub fn add_disks(root: &Path, disks: usize) {
    for at in [0, 1] {
        let mut lines = String::new();
        for disk in 0..disks {
            let (reads, milliseconds) = (1000 + at * 100, 1000 + at * 200);
            let moved = format!("{reads} 0 {} {milliseconds} 0 0 0 0 0 {milliseconds} {milliseconds}", reads * 8);
            writeln!(lines, " 259 {disk} nvme{disk}n1 {moved}").unwrap();
        }
        write(root, &format!("t{at}/proc/diskstats"), &lines);
    }
    for disk in 0..disks {
        let below = format!("t0/sys/block/nvme{disk}n1");
        write(root, &format!("{below}/size"), "2000000\n");
        write(root, &format!("{below}/queue/rotational"), "0\n");
        write(root, &format!("{below}/queue/iostats"), "1\n");
    }
}

/// Processes of which one in twenty used a tenth of a CPU; the first used all of one. The files of most are shared: making sixty
/// thousand would take longer than reading them.
pub fn add_processes(root: &Path, processes: usize) {
    for at in [0, 1] {
        let look = |place: &str, name: &str, ticks: usize| {
            let rest = format!("1 1 0 -1 0 7 0 0 0 {ticks} 0 0 0 20 0 1 0 100 900000 50 1");
            write(root, &format!("t{at}/{place}/stat"), &format!("7 ({name}) S 1 {rest}\n"));
            write(root, &format!("t{at}/{place}/schedstat"), &format!("{ticks}0000000 5 5\n"));
        };
        for kind in 0..100 {
            look(&format!("idle{kind}"), &format!("idle{kind}"), 100);
            look(&format!("busy{kind}"), &format!("busy{kind}"), 100 + at * 50);
        }
        look("proc/1", "spinner", 100 + at * 500);
        for pid in 2..=processes {
            let kind = if pid % 20 == 0 { "busy" } else { "idle" };
            let (files, place) = (format!("../{kind}{}", pid % 100), root.join(format!("t{at}/proc/{pid}")));
            std::os::unix::fs::symlink(files, place).unwrap();
        }
        write(root, &format!("t{at}/proc/loadavg"), &format!("0.00 0.00 0.00 1/{processes} {}\n", processes + at));
    }
}

/// Memory nodes, each with a zone for which the kernel prints lines for every CPU. Of what was meant for node 5, a quarter went elsewhere.
pub fn add_nodes(root: &Path, nodes: usize, cpus: usize) {
    write(root, "t0/sys/devices/system/node/online", &format!("0-{}\n", nodes - 1));
    let mut zones = String::new();
    for node in 0..nodes {
        writeln!(
            zones,
            "Node {node}, zone   Normal\n  pages free     900000\n        min      10000\n        low      20000"
        )
        .unwrap();
        writeln!(zones, "        high     30000\n        managed  8000000\n  pagesets").unwrap();
        (0..cpus).for_each(|cpu| {
            writeln!(zones, "    cpu: {cpu}\n              count: 3\n              high:  99").unwrap()
        });
        for at in [0, 1] {
            let foreign = if node == 5 { at * 100_000 } else { 0 };
            let text = format!("numa_hit {}\nnuma_miss 0\nnuma_foreign {foreign}\n", 7_000_000 + at * 300_000);
            write(root, &format!("t{at}/sys/devices/system/node/node{node}/numastat"), &text);
        }
    }
    write(root, "t0/proc/zoneinfo", &zones);
}

/// Control groups of version 2 (the root is one of them), each with limits on CPU, memory and tasks that it is far from. The last was
/// throttled in each period.
pub fn add_groups(root: &Path, groups: usize) {
    write(
        root,
        "t0/proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    write(root, "t0/proc/self/cgroup", "0::/\n");
    write(root, "t0/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    write(root, "t0/sys/fs/cgroup/cgroup.stat", &format!("nr_descendants {}\nnr_dying_descendants 0\n", groups - 1));
    for group in 1..groups {
        let folder = format!("sys/fs/cgroup/pod{group}");
        for (file, text) in [
            ("cgroup.type", "domain\n"),
            ("cgroup.procs", ""),
            ("cpu.max", "10000 100000\n"),
            ("memory.max", "1073741824\n"),
            ("memory.high", "max\n"),
            ("memory.current", "209715200\n"),
            ("memory.stat", "anon 104857600\nfile 104857600\npgmajfault 3\nworkingset_refault_file 5\n"),
            ("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"),
            ("pids.max", "500\n"),
            ("pids.current", "20\n"),
            ("pids.events", "max 0\n"),
        ] {
            write(root, &format!("t0/{folder}/{file}"), text);
        }
        for at in [0, 1] {
            let (used, stopped) = if group == groups - 1 { (300_000, 50) } else { (100 * (group % 50), 0) };
            let (used, stopped) = (1_000_000 + at * used, at * stopped);
            let periods =
                format!("nr_periods {}\nnr_throttled {stopped}\nthrottled_usec {}\n", at * 50, stopped * 80_000);
            write(root, &format!("t{at}/{folder}/cpu.stat"), &format!("usage_usec {used}\n{periods}"));
        }
    }
}

/// Interfaces: each other one is a device with a link of 10 Gb/s, the rest are ends of pairs. A device receives as many MB/s as its number
/// says.
pub fn add_interfaces(root: &Path, interfaces: usize) {
    let name = |number: usize| format!("{}{}", if number.is_multiple_of(2) { "eth" } else { "veth" }, number / 2);
    for at in [0, 1] {
        let mut lines = String::from("Inter-|   Receive\n face |bytes    packets errs\n");
        for number in 0..interfaces {
            let (bytes, packets) = (1000 + at * 5_000_000 * (number / 2), 1000 + at * 5000 * (number / 2));
            writeln!(lines, "{:>9}: {bytes} {packets} 0 0 0 0 0 0 {bytes} {packets} 0 0 0 0 0 0", name(number))
                .unwrap();
        }
        write(root, &format!("t{at}/proc/net/dev"), &lines);
    }
    for number in 0..interfaces {
        let below = format!("t0/sys/class/net/{}", name(number));
        write(root, &format!("{below}/ifindex"), &format!("{}\n", number + 1));
        write(root, &format!("{below}/operstate"), "up\n");
        write(root, &format!("{below}/statistics/rx_bytes"), "1000\n");
        if number.is_multiple_of(2) {
            for (file, text) in [
                ("device/vendor", "0x8086\n"),
                ("speed", "10000\n"),
                ("duplex", "full\n"),
                ("carrier_changes", "2\n"),
                ("statistics/rx_missed_errors", "0\n"),
                ("statistics/rx_over_errors", "0\n"),
                ("queues/tx-0/tx_timeout", "0\n"),
            ] {
                write(root, &format!("{below}/{file}"), text);
            }
        }
    }
}
