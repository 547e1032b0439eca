//! Hosts of another world than those of the proof: recorded trees, rewritten to what an older kernel on another architecture shows.

use std::path::Path;

use crate::support::{assert_nothing_else_fired, finding, path, report_of_tree};

/// What /proc/vmstat of Linux 4.18 does not have yet: names that begin so.
const NEWER_COUNTERS: [&str; 26] = [
    "nr_free_pages_blocks",
    "nr_throttled_written",
    "nr_foll_pin",
    "nr_file_hugepages",
    "nr_file_pmdmapped",
    "nr_sec_page_table",
    "nr_iommu",
    "nr_swapcached",
    "nr_hugetlb",
    "nr_balloon",
    "nr_kernel_file",
    "nr_memmap",
    "nr_unstable ",
    "pgpromote",
    "pgdemote",
    "pgreuse",
    "pgsteal_khugepaged",
    "pgsteal_proactive",
    "pgscan_khugepaged",
    "pgscan_proactive",
    "pgscan_anon",
    "pgscan_file",
    "pgsteal_anon",
    "pgsteal_file",
    "zswp",
    "direct_map",
];
/// The same of /proc/meminfo; the last ones are of x86 alone.
const NEWER_SIZES: [&str; 9] = [
    "KReclaimable",
    "SecPageTables",
    "Percpu",
    "FileHugePages",
    "FilePmdMapped",
    "Zswap",
    "Balloon",
    "Hugetlb",
    "DirectMap",
];

/// A processor of arm64 as /proc/cpuinfo has it: no name, no frequency.
const PROCESSOR: &str = "BogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop\n\
    CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n";

/// A story as Red Hat's 4.18 shows it on arm64, with pages of 64 KiB, and pressure accounting off, as it is there by default.
fn on_arm64_with_4_18(story: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let story = path("tests/fixtures/hosts").join(story);
    copy(&story, folder.path(), &mut |name, text| match name {
        "osrelease" => "4.18.0-553.el8_10.aarch64\n".to_owned(),
        "cpuinfo" => (0..2).map(|cpu| format!("processor\t: {cpu}\n{PROCESSOR}")).collect(),
        "diskstats" => lines(&text, |line| Some(line.split_whitespace().take(18).collect::<Vec<_>>().join(" "))),
        "meminfo" => lines(&text, |line| (!begins(line, &NEWER_SIZES)).then(|| line.to_owned())),
        "vmstat" => lines(&text, counter),
        "interrupts" => lines(&text, |line| {
            // Of a GIC there are numbers, and of the CPUs' own interrupts those between them.
            let names = [("LOC:", "IPI5:"), ("RES:", "IPI0:"), ("CAL:", "IPI1:")];
            let own = names.iter().find(|(name, _)| line.trim_start().starts_with(name));
            let is_of_x86 =
                line.trim_start().starts_with(|first: char| first.is_ascii_uppercase()) && !line.contains("CPU0");
            match own {
                Some((name, there)) => Some(line.replacen(name, there, 1)),
                None if is_of_x86 => None,
                None => Some(line.replace("PCI-MSIX-0000", "ITS-MSI").replace("IO-APIC", "GICv3")),
            }
        }),
        "host.yaml" => text + "facts: {arch: aarch64, page_size: 65536, ticks_per_second: 100, cpus: 2, root: true}\n",
        _ => text,
    });
    for instant in std::fs::read_dir(folder.path()).unwrap() {
        let _ = std::fs::remove_dir_all(instant.unwrap().path().join("proc/pressure"));
    }
    folder
}

/// Pages are sixteen times as large, so there are fewer of them; and refaults are not told apart yet.
fn counter(line: &str) -> Option<String> {
    let (name, value) = line.split_once(' ')?;
    if begins(line, &NEWER_COUNTERS) || (name.starts_with("workingset_") && name.ends_with("_anon")) {
        return None;
    }
    let value: u64 = value.parse().ok()?;
    let value = if name.starts_with("nr_") { value / 16 } else { value };
    Some(format!("{} {value}", name.strip_suffix("_file").filter(|_| name.starts_with("workingset_")).unwrap_or(name)))
}

fn begins(line: &str, names: &[&str]) -> bool {
    names.iter().any(|name| line.starts_with(name))
}

fn lines(text: &str, of: impl Fn(&str) -> Option<String>) -> String {
    text.lines().filter_map(of).map(|line| line + "\n").collect()
}

fn copy(from: &Path, to: &Path, changed: &mut dyn FnMut(&str, String) -> String) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(&name), changed);
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            std::fs::write(to.join(&name), changed(&name, text)).unwrap();
        } else {
            std::fs::copy(entry.path(), to.join(&name)).unwrap();
        }
    }
}

#[test]
fn a_quiet_arm64_host_with_an_old_kernel_and_large_pages_raises_nothing() {
    let tree = on_arm64_with_4_18("whole-host-quiet");
    let report = report_of_tree(tree.path());
    assert_eq!(report["host"]["arch"], "aarch64");
    assert_nothing_else_fired(&report, &[]);
    for rule in ["cpu.saturation", "memory.utilization", "memory.saturation.direct_reclaim"] {
        let quiet = finding(&report, rule, None);
        assert!(["ok", "info"].iter().any(|status| quiet["status"] == *status), "{rule}: {quiet:#}");
    }
    assert_eq!(finding(&report, "disk.utilization", Some("vda"))["status"], "ok");
    // Red Hat's kernel has it, and it is off.
    let pressure = finding(&report, "memory.saturation", None);
    assert!(pressure["unavailable"]["remedy"].as_str().unwrap().contains("psi=1"), "{pressure:#}");
}

#[test]
fn a_busy_arm64_host_with_an_old_kernel_is_short_of_cpus_as_it_was() {
    let tree = on_arm64_with_4_18("whole-host-short-of-cpu");
    let report = report_of_tree(tree.path());
    let short = finding(&report, "cpu.saturation", None);
    assert_eq!(short["status"], "critical", "{short:#}");
    // Memory in use is what it was, counted in other pages.
    let before = report_of_tree(&path("tests/fixtures/hosts/whole-host-short-of-cpu"));
    let used = |report: &serde_json::Value| finding(report, "memory.utilization", None)["value"].as_f64().unwrap();
    assert!((used(&report) - used(&before)).abs() < 0.01, "{} and {}", used(&report), used(&before));
}
