//! What was chosen of the kernel: sysctls, parameters at boot, memory management, firmware, the tuned profile.

use rdiag_model::Setup;

use super::{Host, chosen, note, note_file};

/// Sysctls that decide about performance and are not derived from the size of the host.
const SYSCTLS: [&str; 66] = [
    "fs.aio-max-nr",
    "fs.inotify.max_user_instances",
    "fs.inotify.max_user_watches",
    "fs.nr_open",
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "kernel.pid_max",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_runtime_us",
    "kernel.sched_schedstats",
    "kernel.task_delayacct",
    "kernel.timer_migration",
    "kernel.unprivileged_bpf_disabled",
    "kernel.watchdog_thresh",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_forward",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.neigh.default.gc_thresh3",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
    "vm.compaction_proactiveness",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_ratio",
    "vm.max_map_count",
    "vm.min_free_kbytes",
    "vm.nr_hugepages",
    "vm.overcommit_memory",
    "vm.page-cluster",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
    "vm.watermark_scale_factor",
    "vm.zone_reclaim_mode",
];
/// Parameters of the kernel's command line that are listed; any other may be a secret, or differs on every host.
const PARAMETERS: [&str; 52] = [
    "amd_iommu",
    "amd_pstate",
    "audit",
    "cgroup_disable",
    "cgroup_enable",
    "cgroup_no_v1",
    "clocksource",
    "default_hugepagesz",
    "elevator",
    "fips",
    "hugepages",
    "hugepagesz",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "iommu.passthrough",
    "irqaffinity",
    "isolcpus",
    "kpti",
    "kvm.nx_huge_pages",
    "mce",
    "mem",
    "maxcpus",
    "mitigations",
    "nmi_watchdog",
    "nohz",
    "nohz_full",
    "nohz_full_nocbs",
    "nopti",
    "nosmt",
    "nospectre_v2",
    "nowatchdog",
    "nr_cpus",
    "numa_balancing",
    "nvme_core.default_ps_max_latency_us",
    "page_poison",
    "pcie_aspm",
    "preempt",
    "processor.max_cstate",
    "psi",
    "rcu_nocbs",
    "skew_tick",
    "slub_debug",
    "swapaccount",
    "systemd.unified_cgroup_hierarchy",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
];
/// A fact, its file, and whether the file lists choices.
const FILES: [(&str, &str, bool); 13] = [
    ("kernel build", "proc/sys/kernel/version", false),
    ("kernel tainted", "proc/sys/kernel/tainted", false),
    ("thp enabled", "sys/kernel/mm/transparent_hugepage/enabled", true),
    ("thp defrag", "sys/kernel/mm/transparent_hugepage/defrag", true),
    ("ksm", "sys/kernel/mm/ksm/run", false),
    ("zswap", "sys/module/zswap/parameters/enabled", false),
    ("clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource", false),
    ("security modules", "sys/kernel/security/lsm", false),
    ("tuned profile", "etc/tuned/active_profile", false),
    ("firmware", "sys/class/dmi/id/bios_version", false),
    ("hardware vendor", "sys/class/dmi/id/sys_vendor", false),
    ("hardware", "sys/class/dmi/id/product_name", false),
    ("numa nodes", "sys/devices/system/node/online", false),
];

pub(super) fn read(host: &Host, setup: &mut Setup) {
    let facts = &mut setup.facts;
    for (name, path, lists) in FILES {
        if let Ok(text) = host.read_line(path) {
            note(facts, name, if lists { chosen(&text) } else { &text });
        }
    }
    for name in SYSCTLS {
        note_file(host, facts, format!("sysctl {name}"), &format!("proc/sys/{}", name.replace('.', "/")));
    }
    let line = host.read_line("proc/cmdline").unwrap_or_default();
    for word in line.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, "set"));
        if PARAMETERS.contains(&name) {
            note(facts, format!("boot {name}"), value);
        }
    }
    if let Ok(table) = host.read("proc/swaps") {
        let kib: u64 = rdiag_proc::swaps(&table).map(|swap| swap.size).sum();
        note(facts, "swap", &format!("{:.0} GiB", kib as f64 / f64::from(1 << 20)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_name_each_once() {
        assert!(SYSCTLS.is_sorted());
        let mut unique = PARAMETERS.to_vec();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), PARAMETERS.len());
    }
}
