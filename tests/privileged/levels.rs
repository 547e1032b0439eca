//! Which account of a task's time is chosen, what it says of itself, and what it says when it had to end early.

use std::path::PathBuf;

use serde_json::Value;

use super::task_states::{Account, Counting};
use crate::support::ledger::{Ledger, ON_ONE_CPU};
use crate::support::{Need, Series, alone, has, rdiag, skip};

#[test]
#[ignore = "needs: root, setpriv, a disk under /var/tmp"]
fn root_without_bpf_gets_the_kernels_count_of_waits_for_disks_and_is_told_why_no_more() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("setpriv")]) {
        return;
    }
    let _counting = Counting::on();
    let program = Ledger::start("direct-read", &[("folder", "/var/tmp")]);
    let pid = program.pid().to_string();
    let mut command = assert_cmd::Command::new("setpriv");
    command.args(["--bounding-set", "-bpf,-perfmon,-sys_admin"]).arg(rdiag().get_program());
    command.args(["run", "method-r", "--duration", "3s", "--format", "json", "--out", "-", "--pid", &pid]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = &report["profile"];
    assert_eq!(profile["level"], "L2", "{:#}", profile["notes"]);
    assert_eq!(profile["refused"][0]["source"], "response");
    let limits = report["verdict"]["limits"].to_string();
    assert!(limits.contains("A more exact account was not possible"), "{limits}");
    let truth = program.truth();
    let (truth, unsure) = (truth.share("io.block.read"), truth.unsure());
    let components = profile["components"].as_array().unwrap();
    let row = components.iter().find(|row| row["id"] == "io.block.read").unwrap();
    let share = row["share"].as_f64().unwrap();
    // It is said to be exact only if nothing but waits for a CPU was beside it, which is up to the samples.
    assert!((share - truth).abs() < 0.05 + unsure, "{share}, and should be {truth}");
}

/// A group whose memory is too small for the program in it.
struct SmallMemory {
    group: PathBuf,
    limit: &'static str,
}

impl SmallMemory {
    fn new() -> Option<Self> {
        let v1 = PathBuf::from("/sys/fs/cgroup/memory");
        let (root, file) =
            if v1.exists() { (v1, "memory.limit_in_bytes") } else { ("/sys/fs/cgroup".into(), "memory.max") };
        let group = root.join("rdiag-test-small-memory");
        let _ = std::fs::create_dir(&group);
        let group = Self { group, limit: file };
        group.limit("32M").ok().map(|()| group)
    }

    fn limit(&self, bytes: &str) -> std::io::Result<()> {
        std::fs::write(self.group.join(self.limit), bytes)
    }
}

impl Drop for SmallMemory {
    fn drop(&mut self) {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let _ = std::fs::remove_dir(&self.group);
    }
}

#[test]
#[ignore = "needs: root, the memory controller, a disk under /var/tmp"]
fn a_program_that_must_free_memory_itself_is_said_to_do_so() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let Some(group) = SmallMemory::new() else {
        return skip("no control group with the memory controller can be made");
    };
    let _counting = Counting::on();
    let program = Ledger::start_in(&group.group.join("cgroup.procs"), "fault-file", &[("folder", "/var/tmp")]);
    // Half of the file that it reads again and again; what the disk has not taken yet cannot be freed at once.
    let mut limited = group.limit("8M");
    for _ in 0..100 {
        if !limited.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        limited = group.limit("8M");
    }
    limited.unwrap();
    let account = Account::of(&program);
    drop(program);
    let delays = account.threads().iter().filter_map(|thread| thread["delays"].as_array()).flatten();
    let reclaim: Vec<&Value> = delays.filter(|delay| delay["kind"] == "reclaim").collect();
    let counted: u64 = reclaim.iter().map(|delay| delay["count"].as_u64().unwrap()).sum();
    assert!(counted > 0, "{}", account.ledger());
}

#[test]
#[ignore = "needs: root, eBPF"]
fn an_account_that_costs_more_than_its_budget_does_with_less_and_goes_on_from_samples() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    let program = Ledger::start("pipe-ping-pong", &[]);
    let pid = program.pid().to_string();
    let output = rdiag()
        .args(["run", "method-r", "--no-guided", "--duration", "6s", "--budget", "0.05%", "--format", "json"])
        .args(["--out", "-", "--pid", &pid])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = &report["profile"];
    assert!(profile["level"] != "L3" && profile["partial"].is_null(), "{:#}", report["verdict"]);
    let (elapsed, window) =
        (profile["elapsed_seconds"].as_f64().unwrap(), report["window"]["seconds"].as_f64().unwrap());
    assert!(elapsed > 0.5 * window, "{elapsed} of {window} s");
    let refused = &profile["refused"][0];
    let why = refused["why"].as_str().unwrap();
    assert!(refused["source"] == "response" && why.contains("the budget is 0.05%"), "{refused:#}");
    let limits = report["verdict"]["limits"].to_string();
    assert!(limits.contains("A more exact account was not possible") && limits.contains("--budget"), "{limits}");
    let truth = program.truth();
    let components = profile["components"].as_array().unwrap();
    let share =
        |id: &str| components.iter().find(|row| row["id"] == id).map_or(0.0, |row| row["share"].as_f64().unwrap());
    let cpu = share("cpu.user") + share("cpu.sys");
    let (is, unsure) = (truth.share("cpu"), truth.unsure());
    assert!((cpu - is).abs() < 0.08 + unsure, "{cpu}, and should be {is}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn an_account_of_single_requests_that_its_budget_stopped_is_said_to_be_that_of_the_beginning() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    let program = Ledger::start("pipe-ping-pong", &[]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let pid = program.pid().to_string();
    let output = rdiag()
        .args(["run", "method-r", "--no-guided", "--duration", "6s", "--budget", "0.05%", "--pid", &pid])
        .args([
            "--each-from",
            "tracepoint=syscalls:sys_enter_read",
            "--each-to",
            "tracepoint=syscalls:sys_exit_read",
            "--out",
        ])
        .arg(&out)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    let profile = &report["profile"];
    let share = profile["partial"]["share"].as_f64().unwrap_or_else(|| panic!("{:#}", report["verdict"]));
    let (elapsed, window) =
        (profile["elapsed_seconds"].as_f64().unwrap(), report["window"]["seconds"].as_f64().unwrap());
    assert!(
        share < 0.9 && (share - elapsed / window).abs() < 0.02,
        "{share} of {window} s, and {elapsed} s were observed"
    );
    let terminal = String::from_utf8_lossy(&output.stdout).into_owned();
    let page = |file: &str| std::fs::read_to_string(out.join(file)).unwrap();
    for (name, text) in [("terminal", terminal), ("html", page("report.html")), ("markdown", page("report.md"))] {
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        // The screen says it in front, and again in the verdict, which stands last.
        let at = ["Early end:", "all that was observed"].iter().filter_map(|words| text.find(words)).min();
        let at = at.unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(at < text.find("unaccounted").unwrap(), "{name}: it stands before the table");
        assert!(text.contains("the budget is 0.05%"), "{name}: {text}");
    }
}

/// Seconds of the first CPU that a hypervisor took (/proc/stat, line `cpu0`, field 8).
fn stolen() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().find(|line| line.starts_with("cpu0 ")).unwrap();
    line.split_whitespace().nth(8).unwrap().parse::<f64>().unwrap() / 100.0
}

/// Seconds for which the first CPU ran tasks and interrupts.
fn busy() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().find(|line| line.starts_with("cpu0 ")).unwrap();
    let fields: Vec<f64> = line.split_whitespace().skip(1).map(|field| field.parse().unwrap()).collect();
    // user, nice, system, and behind idle and iowait those of interrupts.
    fields.iter().take(3).chain(fields.iter().skip(5).take(2)).sum::<f64>() / 100.0
}

#[test]
#[ignore = "needs: root, eBPF, a hypervisor that takes CPU time"]
fn what_a_hypervisor_takes_is_no_time_of_the_thread_that_it_hits() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Tool("taskset")]) {
        return;
    }
    // rdiag is elsewhere, and the program has its CPU nearly all the time.
    let program = Ledger::start("spin", &[(ON_ONE_CPU, "yes")]);
    let pid = program.pid().to_string();
    let moved = std::process::Command::new("taskset").args(["-acp", "0", &pid]).output();
    assert!(moved.unwrap().status.success());
    let other = Ledger::start("spin", &[]);
    let (before, taken) = (stolen(), Series::of(stolen));
    let busy_before = busy();
    let args = ["run", "method-r", "--no-guided", "--duration", "6s", "--format", "json", "--out", "-", "--pid", &pid];
    let output = rdiag().args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (stolen, busy) = (stolen() - before, busy() - busy_before);
    drop(other);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = &report["profile"];
    assert_eq!(profile["level"], "L3", "{:#}", profile["refused"]);
    let rows = profile["components"].as_array().unwrap();
    let said = rows.iter().find(|row| row["id"] == "cpu.steal").map_or(0.0, |row| row["seconds"].as_f64().unwrap());
    assert!(said <= stolen + 0.02, "{said} s are said to be stolen, of {stolen}");
    // The scheduler's own account of these threads leaves out what was stolen, or is corrected by what is said here.
    let checks = profile["quality"]["checks"].as_array().unwrap();
    let cpu = checks.iter().find(|check| check["id"] == "cpu").unwrap();
    assert_eq!(cpu["agrees"], true, "{cpu:#}, {stolen} s were stolen");
    // How much of it fell into the window, which is shorter than the run, and on this thread, which is not all that the CPU ran.
    let (least, most) = taken.within(profile["elapsed_seconds"].as_f64().unwrap());
    let on_cpu = rows.iter().filter(|row| ["cpu.user", "cpu.sys"].iter().any(|id| row["id"] == *id));
    let own = on_cpu.map(|row| row["seconds"].as_f64().unwrap()).sum::<f64>() / busy.max(0.01);
    assert!(said <= most + 0.02, "{said} s are said to be stolen, of at most {most}");
    if least < 0.1 {
        return skip("in part: the hypervisor took too little of the first CPU");
    }
    assert!(said > 0.7 * own.min(1.0) * least, "{said} s are said to be stolen, of at least {least}, {own} of the CPU");
}

/// A byte goes back and forth between two processes, each on a CPU of its own. Writes what getrusage says of both.
const BACK_AND_FORTH: &str = "
import os, resource, sys
cpus = sorted(os.sched_getaffinity(0))
there, back = os.pipe(), os.pipe()
child = os.fork()
os.sched_setaffinity(0, {cpus[-1] if child else cpus[0]})
mine, other = (there, back) if child else (back, there)
for _ in range(40000):
    if child:
        os.write(mine[1], b'x'); os.read(other[0], 1)
    else:
        os.read(other[0], 1); os.write(mine[1], b'x')
if not child: os._exit(0)
os.waitpid(child, 0)
of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
open(sys.argv[1], 'w').write(str(sum(one.ru_utime + one.ru_stime for one in of)))
";

#[test]
#[ignore = "needs: root, eBPF, two CPUs"]
fn what_the_kernel_counts_as_cpu_time_out_of_idleness_makes_no_account_less_sure() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Tool("python3")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cpu");
    let args =
        ["run", "method-r", "--no-guided", "--format", "json", "--out", "-", "--", "python3", "-c", BACK_AND_FORTH];
    let output = rdiag().args(args).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = &report["profile"];
    assert_eq!(profile["level"], "L3", "{:#}", profile["refused"]);
    let checks = profile["quality"]["checks"].as_array().unwrap();
    let of = |id: &str| checks.iter().find(|check| check["id"] == id).unwrap();
    let (cpu, waiting) = (of("cpu"), of("run_queue"));
    assert_eq!((&cpu["agrees"], &waiting["agrees"]), (&true.into(), &true.into()), "{cpu:#}, {waiting:#}");
    assert_eq!(profile["quality"]["grade"], "A", "{:#}", profile["quality"]);
    let rows = profile["components"].as_array().unwrap();
    let on_cpu = rows.iter().filter(|row| ["cpu.user", "cpu.sys"].iter().any(|id| row["id"] == *id));
    let own: f64 = on_cpu.map(|row| row["seconds"].as_f64().unwrap()).sum();
    let by_getrusage: f64 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    let Some(otherwise) = cpu["otherwise_seconds"].as_f64() else {
        return skip("in part: no CPU was idle when it was woken");
    };
    assert!((by_getrusage - own - otherwise).abs() < 0.1 * by_getrusage, "{by_getrusage} s, here {own} s: {cpu:#}");
}
