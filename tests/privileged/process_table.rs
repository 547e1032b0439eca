//! The table of processes from the kernel's tasks, against /proc: the same figures either way.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Need, has, path, rdiag};

/// Many idle processes, one with threads, and one that computes; they end with their standard input.
const CROWD: &str = "
import os, sys, threading, time
for _ in range(1100):
    if os.fork() == 0:
        os.close(1)
        sys.stdin.read()
        os._exit(0)
ballast = bytearray(20 << 20)
threads = [threading.Thread(target=time.sleep, args=(60,), daemon=True) for _ in range(5)]
[thread.start() for thread in threads]
print('ready', flush=True)
end = time.monotonic() + 60
while time.monotonic() < end and os.getppid() != 1:
    sum(range(20000))
os._exit(0)
";

struct Crowd(Child);

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn crowd() -> Crowd {
    use std::io::BufRead as _;
    let mut child =
        Command::new("python3").args(["-c", CROWD]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    Crowd(child)
}

fn stat(pid: u64) -> Option<Vec<u64>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let numbers = text.rsplit_once(')')?.1.split_whitespace();
    Some(numbers.map(|field| field.parse().unwrap_or(0)).collect())
}

#[test]
#[ignore = "needs: root, eBPF"]
fn vm_the_table_from_the_kernels_tasks_has_the_figures_of_proc() {
    if !has(&[Need::Root, Need::Tool("python3"), Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    let crowd = crowd();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.json.gz");
    let playbook = path("tests/playbooks/valid/processes.yaml");
    let mut record = rdiag();
    record.env("RDIAG_ITERATE_TASKS_FROM", "1000").arg("record").arg(&playbook);
    let output = record.args(["--duration", "3s", "--out"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let busy = u64::from(crowd.0.id());
    let now: HashMap<u64, Vec<u64>> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect();
    drop(crowd);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()), &mut text)
        .unwrap();
    let recording: Value = serde_json::from_str(&text).unwrap();
    let record = &recording["windows"][0]["collectors"]["processes"];
    assert_eq!(record["labels"][""]["back_end"], "task iterator", "{:#}", record["labels"]);
    let processes = record["processes"].as_array().unwrap();
    let idle = processes.iter().filter(|process| process["ppid"] == busy).count();
    assert_eq!(idle, 1100);
    let mut compared = 0;
    for process in processes {
        let pid = process["pid"].as_u64().unwrap();
        let Some(proc) = now.get(&pid).filter(|_| process["ppid"] == busy) else { continue };
        let last = process["points"].as_array().unwrap().last().unwrap();
        let field = |name: &str| last[name].as_u64().unwrap();
        assert_eq!(process["start_ticks"].as_u64().unwrap(), proc[19], "{process:#}");
        assert_eq!(field("threads"), proc[17], "{process:#}");
        // The kernel keeps resident pages per CPU and adds them up now and then.
        assert!(field("resident_pages").abs_diff(proc[21]) <= 512, "{proc:?} {process:#}");
        assert!(field("minor_faults").abs_diff(proc[7]) <= 2, "{proc:?} {process:#}");
        assert_eq!((field("utime"), field("stime")), (proc[11], proc[12]), "{process:#}");
        compared += 1;
    }
    assert_eq!(compared, 1100);
    let process = processes.iter().find(|process| process["pid"] == busy).unwrap();
    let points = process["points"].as_array().unwrap();
    assert_eq!(points.last().unwrap()["threads"], 6);
    let cpu = |point: &Value| point["utime"].as_u64().unwrap() + point["stime"].as_u64().unwrap();
    let run = |point: &Value| point["run_ns"].as_u64().unwrap();
    let (first, last) = (&points[0], points.last().unwrap());
    let (ticks, nanoseconds) = (cpu(last) - cpu(first), run(last) - run(first));
    assert!(ticks.abs_diff(nanoseconds / 10_000_000) <= 2, "{ticks} ticks are not {nanoseconds} ns");
    assert!(ticks > 20, "it computed all the time");
    let resident = last["resident_pages"].as_u64().unwrap();
    assert!((5_000..200_000).contains(&resident), "{resident} pages");
}
