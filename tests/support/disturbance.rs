//! How much of the CPUs others had while a test ran, measured during the test: what no test can hold against rdiag, and what tells whoever
//! reads of a failure whether the machine was to blame.

use std::collections::BTreeMap;
use std::time::Instant;

use super::full_before::FullBefore;

/// The figures of /proc/stat and of the test's own processes when it began.
pub struct Disturbance {
    began: Instant,
    busy: f64,
    stolen: f64,
    own: f64,
}

/// What others had of the CPUs in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Seconds of the window.
    pub window: f64,
    pub cpus: f64,
    /// CPU seconds of processes that are not the test's.
    pub others: f64,
    /// CPU seconds that a hypervisor gave to other machines.
    pub stolen: f64,
    /// CPU seconds that tasks had, the test's own among them.
    pub busy: f64,
}

impl Disturbance {
    pub fn begin() -> Self {
        FullBefore::remember();
        let own = own_seconds();
        let (busy, stolen) = cpu_seconds();
        Self { began: Instant::now(), busy, stolen, own }
    }

    pub fn so_far(&self) -> Figures {
        let (busy, stolen) = cpu_seconds();
        let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        let (busy, stolen) = (busy - self.busy, stolen - self.stolen);
        let others = (busy - (own_seconds() - self.own)).max(0.0);
        Figures { window: self.began.elapsed().as_secs_f64(), cpus, others, stolen, busy }
    }
}

impl Figures {
    /// The share of all CPU time that the test and rdiag could not have, from 0 to 1.
    pub fn share(&self) -> f64 {
        ((self.others + self.stolen) / (self.window * self.cpus).max(0.01)).min(1.0)
    }

    pub fn stolen_share(&self) -> f64 {
        (self.stolen / (self.window * self.cpus).max(0.01)).min(1.0)
    }

    /// Whether others took as much of the CPUs as a finding about them says, with a quarter to spare since the window of the report is not
    /// quite that of these figures. No other finding is theirs to explain.
    pub fn explain(&self, finding: &serde_json::Value) -> bool {
        let value = finding["value"].as_f64().unwrap_or(f64::INFINITY);
        let stolen_of_wanted = self.stolen / (self.stolen + self.busy).max(0.01);
        match finding["id"].as_str().unwrap_or_default() {
            "cpu.saturation.steal" => stolen_of_wanted > 0.75 * value,
            // The share of one interval of a second, on one CPU.
            "cpu.saturation.steal_burst" => self.stolen > 0.75 * value,
            // Who wants a CPU waits as long as others have it.
            "cpu.saturation" | "cpu.saturation.core" | "cpu.saturation.pressure" => self.share() > 0.75 * value,
            // Tasks of others beyond the number of CPUs leave none idle.
            "cpu.saturation.runnable" => self.share() > 0.75,
            // A wait of a tenth of a second is a matter of who comes when.
            "cpu.saturation.run_queue_latency" => self.share() > 0.1,
            "cpu.utilization.core" | "cpu.utilization.single_thread" => self.others > 0.75 * value * self.window,
            // What no visible process used is theirs if they used as much.
            "cpu.utilization.unseen" => self.others > 0.75 * value * self.busy,
            "cpu.utilization" => value - self.others / (self.window * self.cpus).max(0.01) < 0.6,
            _ => false,
        }
    }

    /// The share of one CPU that others may have had at worst: where a test is bound to one, all of it may have been there.
    pub fn share_of_one(&self) -> f64 {
        ((self.others + self.stolen) / self.window.max(0.01)).min(1.0)
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = self.others / self.window.max(0.01);
        let (cpus, stolen, window) = (self.cpus, self.stolen_share() * 100.0, self.window);
        write!(f, "others used {of:.1} of {cpus} CPUs, stolen {stolen:.0} %, in {window:.1} s")
    }
}

/// A test that fails says how it was disturbed.
impl Drop for Disturbance {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("disturbance during the test: {}", self.so_far());
        }
    }
}

/// Seconds that the CPUs were busy, and those that were stolen, since the boot (the first line of /proc/stat).
fn cpu_seconds() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let sum = |at: &[usize]| at.iter().filter_map(|at| ticks.get(*at)).sum::<f64>() / ticks_per_second();
    (sum(&[0, 1, 2, 5, 6]), sum(&[7]))
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// CPU seconds of this process and of all that descend from it, with those of children that ended.
fn own_seconds() -> f64 {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = folders.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: BTreeMap<u32, (u32, f64)> = pids.filter_map(|pid| Some((pid, of_process(pid)?))).collect();
    let own = std::process::id();
    let descends = |mut pid: u32| {
        // A process that ended meanwhile may leave a parent out; no chain is longer than there are processes.
        for _ in 0..all.len() {
            if pid == own {
                return true;
            }
            let Some((parent, _)) = all.get(&pid) else { return false };
            pid = *parent;
        }
        false
    };
    all.iter().filter(|(pid, _)| descends(**pid)).map(|(_, (_, seconds))| seconds).sum()
}

/// The parent, and the CPU seconds with those of the children that were waited for.
fn of_process(pid: u32) -> Option<(u32, f64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<f64>().unwrap_or(0.0)).sum::<f64>();
    Some((fields.get(1)?.parse().ok()?, ticks / ticks_per_second()))
}

#[test]
fn what_a_test_starts_is_its_own_and_no_disturbance() {
    let disturbance = Disturbance::begin();
    let before = own_seconds();
    let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let used = super::wait_until(60, || own_seconds() > before + 0.3);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(used, "a child is counted while it runs");
    assert!(own_seconds() > before + 0.29, "and when it has ended");
    let figures = disturbance.so_far();
    assert!(figures.others <= figures.window * figures.cpus + 0.1 && figures.window > 0.0, "{figures:?}");
    let undisturbed = Figures { window: 2.0, cpus: 2.0, others: 0.0, stolen: 0.0, busy: 1.0 };
    let disturbed = Figures { others: 1.6, stolen: 0.12, ..undisturbed };
    assert_eq!((undisturbed.share(), undisturbed.share_of_one()), (0.0, 0.0));
    assert_eq!(disturbed.to_string(), "others used 0.8 of 2 CPUs, stolen 3 %, in 2.0 s");
    assert!((disturbed.share() - 0.43).abs() < 1e-9 && (disturbed.share_of_one() - 0.86).abs() < 1e-9);
    let finding = |id: &str, value: f64| serde_json::json!({"id": id, "value": value});
    for (id, value) in [("cpu.saturation", 0.5), ("cpu.saturation.steal", 0.14), ("cpu.saturation.steal_burst", 0.15)] {
        assert!(disturbed.explain(&finding(id, value)), "{id}");
        assert!(!disturbed.explain(&finding(id, value * 1.5)), "{id}: more than was measured");
        assert!(!undisturbed.explain(&finding(id, 0.01)), "{id}: nobody did it");
    }
    assert!(!disturbed.explain(&finding("disk.saturation", 0.1)));
    let of_busy = Figures { others: 0.6, ..undisturbed };
    assert!(of_busy.explain(&finding("cpu.utilization.unseen", 0.7)));
    assert!(!of_busy.explain(&finding("cpu.utilization.unseen", 0.9)), "others used less than that");
}
