//! Probes of the scheduler and of interrupts, against what the kernel counts itself. Each check runs on the host and on
//! every kernel of the matrix.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::support::{Load, Need, alone, has, rdiag, wait_until};

/// One check as two tests: on this host, and on the kernels of the matrix.
macro_rules! holds {
    ($here:ident, $vm:ident, $check:expr) => {
        #[test]
        #[ignore = "needs: root, eBPF"]
        fn $here() {
            let _alone = alone();
            if ready() {
                $check();
            }
        }

        #[test]
        #[ignore = "needs: root, eBPF, a kernel of the matrix"]
        fn $vm() {
            let _alone = alone();
            if ready() {
                $check();
            }
        }
    };
}

fn ready() -> bool {
    has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Tool("python3"), Need::Tool("chrt")])
}

/// A probe that is attached.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let binary = std::env::var_os("RDIAG_BINARY")
            .map_or_else(|| assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf(), PathBuf::from);
        let mut command = Command::new(binary);
        command.args(["probe", "--format", "json"]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("measuring") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "the probe did not start: {said}");
        }
        std::thread::spawn(move || stderr.read_to_string(&mut said));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Waits for its next reading, and for nothing else: the process may still be detaching.
    fn reading(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let reading: Value = serde_json::from_str(&line).unwrap();
        assert!(reading["lost"].is_null(), "{:#}", reading["lost"]);
        reading
    }

    /// Waits for its end; the readings.
    fn readings(mut self) -> Vec<Value> {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.wait();
    }
}

/// An output by its id.
fn output<'r>(reading: &'r Value, id: &str) -> &'r Value {
    let outputs = reading["outputs"].as_array().unwrap();
    let inner = |output: &'r Value| output.as_object().unwrap().values().next().unwrap();
    outputs.iter().map(inner).find(|output| output["id"] == id).unwrap_or_else(|| panic!("no {id} in {reading:#}"))
}

/// The cells of a table or of events, row by row, by column id.
fn rows(table: &Value) -> Vec<BTreeMap<String, Value>> {
    let columns: Vec<&str> = table["columns"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    let cells = |row: &Value| {
        let cells = row["cells"].as_array().unwrap();
        columns.iter().map(|id| (*id).to_owned()).zip(cells.iter().cloned()).collect()
    };
    table["rows"].as_array().unwrap().iter().map(cells).collect()
}

fn number(row: &BTreeMap<String, Value>, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column} is no number: {row:?}"))
}

/// Something for the disks and the network of host or guest to do.
fn disturb() {
    let script = "import os, time\nend = time.time() + 1.5\n\
                  for place in ('/var/tmp', '/tmp'):\n    try: name = place + '/rdiag-test-%d' % os.getpid(); open(name, 'w').close(); break\n    except OSError: pass\n\
                  while time.time() < end:\n    f = open(name, 'w'); f.write('x' * 65536); f.flush(); os.fsync(f.fileno()); f.close()\n    os.listdir('/usr/share'); os.stat('/usr/lib'); time.sleep(0.01)\n\
                  os.unlink(name)";
    assert!(Command::new("python3").args(["-c", script]).status().unwrap().success());
}

/// By line: the sum over the CPUs, and the rest of the line.
type Counters = BTreeMap<String, (f64, String)>;

/// Lines `NAME: count count … rest` of /proc/softirqs and /proc/interrupts: sum over the CPUs, and the rest.
fn counters(path: &str) -> Counters {
    let text = read_to_string(path).unwrap();
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let counts = fields.iter().map_while(|field| field.parse::<f64>().ok());
        let sum = counts.clone().sum();
        Some((name.trim().to_owned(), (sum, fields.get(counts.count()..)?.join(" "))))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// Runs a probe around a load; the kernel's counters at four moments: before, attached, at the end of the load, after.
fn counted(path: &str, args: &[&str]) -> (Value, [Counters; 4]) {
    let before = counters(path);
    let mut running = Running::start(args);
    let attached = counters(path);
    disturb();
    let loaded = counters(path);
    let reading = running.reading();
    (reading, [before, attached, loaded, counters(path)])
}

fn the_count_of_each_vector_is_that_of_proc_softirqs() {
    let (reading, [before, attached, loaded, after]) =
        counted("/proc/softirqs", &["softirqs", "--duration", "6s", "--param", "hist=true"]);
    let rows = rows(output(&reading, "vectors"));
    assert!(!rows.is_empty());
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let (least, most) = (loaded[name].0 - attached[name].0, after[name].0 - before[name].0);
        // One on each CPU may be between its count and its end.
        let count = number(row, "count");
        assert!((least - cpus..=most + cpus).contains(&count), "{name}: {count}, /proc says {least} to {most}");
        assert!(number(row, "max") <= number(row, "time") && number(row, "time") > 0.0, "{row:?}");
    }
    let timer = rows.iter().find(|row| row["name"] == "TIMER").expect("timers expire on any machine");
    assert!(number(timer, "count") > 0.0);
    let dist = output(&reading, "durations");
    let counts: f64 = dist["rows"].as_array().unwrap().iter().map(|row| row["count"].as_f64().unwrap()).sum();
    assert_eq!(counts, rows.iter().map(|row| number(row, "count")).sum::<f64>());
}
holds!(
    softirqs_counts_what_proc_counts,
    vm_softirqs_counts_what_proc_counts,
    the_count_of_each_vector_is_that_of_proc_softirqs
);

fn the_count_of_each_handler_is_that_of_proc_interrupts() {
    let (reading, [before, attached, loaded, after]) =
        counted("/proc/interrupts", &["hardirqs", "--duration", "6s", "--param", "hist=true"]);
    let rows = rows(output(&reading, "handlers"));
    assert!(!rows.is_empty(), "{reading:#}");
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let (mut least, mut most) = (0.0, 0.0);
        for irq in row["irq"].as_str().unwrap().split(',') {
            // The line names every handler on it.
            assert!(after[irq].1.contains(name), "irq {irq} is {:?}, not {name}", after[irq].1);
            least += loaded[irq].0 - attached[irq].0;
            most += after[irq].0 - before[irq].0;
        }
        let count = number(row, "count");
        assert!((least - 1.0..=most + 1.0).contains(&count), "{name}: {count}, /proc says {least} to {most}");
    }
    let counts = output(&reading, "durations")["rows"].as_array().unwrap().iter();
    let buckets = counts.flat_map(|row| row["buckets"].as_array().unwrap()).map(|pair| pair[1].as_f64().unwrap());
    // Interrupts go on between the readings of the two maps.
    let counts: f64 = rows.iter().map(|row| number(row, "count")).sum();
    let buckets: f64 = buckets.sum();
    assert!((buckets - counts).abs() <= counts * 0.05 + 5.0, "{buckets} in the distributions, {counts} runs");
}
holds!(
    hardirqs_counts_what_proc_counts,
    vm_hardirqs_counts_what_proc_counts,
    the_count_of_each_handler_is_that_of_proc_interrupts
);

/// A python program that ends with the test; it runs on one CPU, if told.
fn python(cpu: Option<usize>, priority: Option<u32>, script: &str) -> Load {
    let mut args = vec!["python3".to_owned(), "-c".to_owned(), script.to_owned()];
    if let Some(priority) = priority {
        args.splice(0..0, ["chrt".into(), "--fifo".into(), priority.to_string()]);
    }
    if let Some(cpu) = cpu {
        args.splice(0..0, ["taskset".into(), "--cpu-list".into(), cpu.to_string()]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let load = Load::start(1, args[0], &args[1..]);
    let ready = |pid: &u32| read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("python3"));
    assert!(wait_until(20, || load.pids().iter().all(ready)), "{args:?} did not start");
    load
}

/// In a guest the CPUs themselves are held up, and readings that belong together lie farther apart.
fn is_guest() -> bool {
    std::env::var_os("RDIAG_BINARY").is_some()
}

/// What sleeps or spins for a time never takes less, and takes more where the CPU is held up.
fn assert_lasts(what: &str, found: f64, least: f64) {
    let slack = if is_guest() { 2.0 } else { 1.05 };
    assert!((least * 0.95..least * slack).contains(&found), "{what}: {found} is not {least}");
    println!("{what}: {found:.4} against {least:.4}");
}

/// What two readings of the kernel's counters say about a steady load: seconds per second.
struct Truth {
    began: Instant,
    counts: Vec<f64>,
}

impl Truth {
    fn begin(pids: &[String], count: impl Fn(&str) -> f64) -> Self {
        Self { began: Instant::now(), counts: pids.iter().map(|pid| count(pid)).collect() }
    }

    /// Compares sums of durations, each with the longest of them: at either end one may be settled between the readings.
    fn compare(&self, what: &str, at: usize, now: f64, elapsed: f64, found: (f64, f64), seconds: f64) {
        let (truth, (sum, longest)) = ((now - self.counts[at]) / elapsed, found);
        let share = if is_guest() { 0.15 } else { 0.05 };
        let slack = (truth * share).max(longest / seconds).max(0.003);
        let found = sum / seconds;
        assert!((found - truth).abs() <= slack, "{what}: {found} s/s, the kernel says {truth}, longest {longest} s");
        println!("{what}: {found:.4} s/s, the kernel says {truth:.4}");
    }
}

fn pid(load: &Load) -> String {
    load.pids()[0].to_string()
}

const SPIN: &str = "while True: pass";

/// Seconds on a CPU and seconds of waiting for one.
fn schedstat(pid: &str) -> (f64, f64) {
    let text = read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let fields: Vec<f64> = text.split_whitespace().map(|field| field.parse::<f64>().unwrap() * 1e-9).collect();
    (fields[0], fields[1])
}

fn assert_near(what: &str, found: f64, truth: f64, share: f64) {
    let off = (found - truth).abs() / truth.abs().max(1e-9);
    assert!(off <= share, "{what}: {found} is not {truth} (off by {:.1} %)", off * 100.0);
    println!("{what}: {found:.4} against {truth:.4}");
}

/// Runs runqlat over some loads for four seconds, and compares each one's waits with the kernel's account of it.
fn waits_agree(what: &str, loads: &[Load], more: &[&str]) {
    let pids: Vec<String> = loads.iter().map(pid).collect();
    let list = pids.join(",");
    let mut running = Running::start(&[&["runqlat", "--duration", "4s", "--pid", &list], more].concat());
    let truth = Truth::begin(&pids, |pid| schedstat(pid).1);
    let reading = running.reading();
    let (after, elapsed) = (Truth::begin(&pids, |pid| schedstat(pid).1).counts, truth.began.elapsed().as_secs_f64());
    let seconds = reading["seconds"].as_f64().unwrap();
    let rows = rows(output(&reading, "tasks"));
    assert_eq!(rows.len(), pids.len(), "other tasks are not in it: {rows:?}");
    for (at, (pid, after)) in pids.iter().zip(after).enumerate() {
        let row = rows.iter().find(|row| row["pid"] == pid.as_str()).unwrap_or_else(|| panic!("{pid} is missing"));
        truth.compare(what, at, after, elapsed, (number(row, "wait"), number(row, "max")), seconds);
    }
    let dist = &output(&reading, "wait")["rows"][0];
    let sum: f64 = rows.iter().map(|row| number(row, "wait")).sum();
    // A wait may end between the readings of the two maps.
    let (all, longest) = (dist["sum"].as_f64().unwrap(), dist["max"].as_f64().unwrap());
    let share = if is_guest() { 0.3 } else { 0.01 };
    assert!((all - sum).abs() <= (sum * share).max(longest), "{all} s in the distribution, {sum} s in the table");
}

fn last_cpu() -> usize {
    std::thread::available_parallelism().unwrap().get() - 1
}

fn waits_of_pinned_spinners_agree() {
    let loads: Vec<Load> = (0..3).map(|_| python(Some(last_cpu()), None, SPIN)).collect();
    waits_agree("pinned", &loads, &[]);
}
holds!(
    runqlat_agrees_with_schedstat_for_tasks_that_share_a_cpu,
    vm_runqlat_agrees_with_schedstat_for_tasks_that_share_a_cpu,
    waits_of_pinned_spinners_agree
);

fn waits_of_migrating_spinners_agree() {
    let loads: Vec<Load> = (0..2 * last_cpu() + 3).map(|_| python(None, None, SPIN)).collect();
    waits_agree("migrating", &loads, &[]);
}
holds!(
    runqlat_agrees_with_schedstat_for_tasks_that_move_between_cpus,
    vm_runqlat_agrees_with_schedstat_for_tasks_that_move_between_cpus,
    waits_of_migrating_spinners_agree
);

/// Runs 60 ms at a time, three times a second.
const BURSTS: &str = "import time\nwhile True:\n    end = time.monotonic() + 0.06\n    while time.monotonic() < end: pass\n    time.sleep(0.27)";

fn waits_behind_and_of_real_time_tasks_agree() {
    let cpu = Some(last_cpu());
    let loads = [python(cpu, Some(10), BURSTS), python(cpu, Some(10), BURSTS), python(cpu, None, SPIN)];
    waits_agree("real time", &loads, &[]);
}
holds!(
    runqlat_agrees_with_schedstat_for_real_time_tasks_and_those_they_hold_up,
    vm_runqlat_agrees_with_schedstat_for_real_time_tasks_and_those_they_hold_up,
    waits_behind_and_of_real_time_tasks_agree
);

fn waits_by_stamps_agree() {
    let pinned: Vec<Load> = (0..2).map(|_| python(Some(last_cpu()), None, SPIN)).collect();
    waits_agree("stamps, pinned", &pinned, &["--param", "stamps=true"]);
    let free: Vec<Load> = (0..last_cpu() + 2).map(|_| python(None, None, SPIN)).collect();
    waits_agree("stamps, migrating", &free, &["--param", "stamps=true"]);
}
holds!(
    runqlat_without_the_kernels_account_agrees_with_it,
    vm_runqlat_without_the_kernels_account_agrees_with_it,
    waits_by_stamps_agree
);

fn the_way_of_measuring_is_told() {
    for probe in ["runqlat", "runqslower"] {
        let reading =
            Running::start(&[probe, "--duration", "500ms", "--param", "stamps=true"]).readings().pop().unwrap();
        let events: Vec<&str> =
            reading["attached"].as_array().unwrap().iter().map(|a| a["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["sched_wakeup", "sched_wakeup_new", "sched_switch"]);
        assert!(reading["notes"][0].as_str().unwrap().contains("time stamps"), "{:#}", reading["notes"]);
        let reading = Running::start(&[probe, "--duration", "500ms"]).readings().pop().unwrap();
        assert_eq!(reading["attached"].as_array().unwrap().len(), 1);
        assert!(reading["notes"].is_null(), "{:#}", reading["notes"]);
    }
}
holds!(runqlat_tells_how_it_measures, vm_runqlat_tells_how_it_measures, the_way_of_measuring_is_told);

/// Runs nearly always, but leaves the CPU's other tasks enough for the kernel not to hold real-time tasks back.
const STEADY: &str = "import time\nwhile True:\n    end = time.monotonic() + 0.1\n    while time.monotonic() < end: pass\n    time.sleep(0.01)";

fn each_wait_behind_a_real_time_task_is_told() {
    for stamps in ["stamps=false", "stamps=true"] {
        let cpu = Some(last_cpu());
        let (bursts, victim) = (python(cpu, Some(10), BURSTS), python(cpu, Some(1), STEADY));
        let victim_pid = pid(&victim);
        let running = Running::start(&[
            "runqslower",
            "--duration",
            "4s",
            "--threshold",
            "30ms",
            "--pid",
            &victim_pid,
            "--param",
            stamps,
        ]);
        let readings = running.readings();
        let waits: Vec<_> = readings.iter().flat_map(|reading| rows(output(reading, "waits"))).collect();
        // A burst every 330 ms.
        assert!((10..=14).contains(&waits.len()), "{waits:#?}");
        for wait in &waits {
            assert_eq!((&wait["pid"], &wait["tid"]), (&Value::from(&*victim_pid), &Value::from(&*victim_pid)));
            assert_eq!(wait["cpu"].as_str(), Some(&*last_cpu().to_string()));
            assert!(number(wait, "wait") >= 0.03, "{wait:?}");
        }
        let mut lengths: Vec<f64> = waits.iter().map(|wait| number(wait, "wait")).collect();
        lengths.sort_by(f64::total_cmp);
        assert_lasts("the median wait", lengths[lengths.len() / 2], 0.06);
        let bursts = pid(&bursts);
        assert!(waits.iter().all(|wait| wait["prev_tid"] == bursts.as_str()), "{waits:#?}");
        assert!(waits.windows(2).all(|pair| number(&pair[0], "time") < number(&pair[1], "time")), "{waits:#?}");
    }
}
holds!(
    runqslower_tells_each_wait_behind_a_real_time_task,
    vm_runqslower_tells_each_wait_behind_a_real_time_task,
    each_wait_behind_a_real_time_task_is_told
);

fn the_queue_of_pinned_spinners_is_their_number_less_one() {
    let cpu = last_cpu().to_string();
    let _load = Load::start(20, "taskset", &["--cpu-list", &cpu, "sh", "-c", "while :; do :; done"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let reading = Running::start(&["runqlen", "--duration", "4s", "--param", "per_cpu=true"]).reading();
    let cpus = rows(output(&reading, "cpus"));
    let busy = cpus.iter().find(|row| row["cpu"] == cpu.as_str()).unwrap();
    // 19 wait and one runs; other tasks of the machine come and go.
    assert!(number(busy, "queued") > 0.98 && number(busy, "max") >= 19.0, "{busy:?}");
    assert!((18.5..30.0).contains(&number(busy, "mean")), "{busy:?}");
    let dist = output(&reading, "length_by_cpu")["rows"].as_array().unwrap();
    let own = dist.iter().find(|row| row["instance"] == cpu.as_str()).unwrap();
    assert_eq!(own["count"].as_f64().unwrap(), number(busy, "samples"));
    let host = &rows(output(&reading, "host"))[0];
    let samples: f64 = cpus.iter().map(|row| number(row, "samples")).sum();
    assert_eq!(number(host, "samples"), samples);
    let queued: f64 = cpus.iter().map(|row| number(row, "queued") * number(row, "samples")).sum();
    assert_near("the host's share", number(host, "queued"), queued / samples, 1e-6);
}
holds!(
    runqlen_shows_the_spinners_that_wait,
    vm_runqlen_shows_the_spinners_that_wait,
    the_queue_of_pinned_spinners_is_their_number_less_one
);

fn stays_on_the_cpu_add_up_to_the_cpu_time() {
    let loads = [python(Some(last_cpu()), None, SPIN), python(Some(last_cpu()), None, BURSTS)];
    let pids: Vec<String> = loads.iter().map(pid).collect();
    let mut running =
        Running::start(&["cpudist", "--duration", "4s", "--param", "by_task=true", "--pid", &pids.join(",")]);
    let truth = Truth::begin(&pids, |pid| schedstat(pid).0);
    let reading = running.reading();
    let (after, elapsed) = (Truth::begin(&pids, |pid| schedstat(pid).0).counts, truth.began.elapsed().as_secs_f64());
    let seconds = reading["seconds"].as_f64().unwrap();
    let tasks = rows(output(&reading, "tasks"));
    assert_eq!(tasks.len(), 2, "other tasks are not in it: {tasks:?}");
    for (at, (pid, after)) in pids.iter().zip(after).enumerate() {
        let task = tasks.iter().find(|task| task["pid"] == pid.as_str()).unwrap();
        truth.compare("CPU", at, after, elapsed, (number(task, "time"), number(task, "max")), seconds);
    }
    let dist = &output(&reading, "on_cpu")["rows"][0];
    let counts: f64 = tasks.iter().map(|task| number(task, "count")).sum();
    // Stays end between the readings of the two maps, which take a guest long.
    assert_near("stays", dist["count"].as_f64().unwrap(), counts, if is_guest() { 0.5 } else { 0.05 });
}
holds!(
    cpudist_adds_up_to_the_cpu_time_of_each_task,
    vm_cpudist_adds_up_to_the_cpu_time_of_each_task,
    stays_on_the_cpu_add_up_to_the_cpu_time
);

fn times_off_the_cpu_tell_sleep_from_preemption() {
    let cpu = Some(last_cpu());
    let (bursts, victim) = (python(cpu, Some(10), BURSTS), python(cpu, Some(1), STEADY));
    let off = |pid: &str| {
        let reading = Running::start(&["cpudist", "--duration", "4s", "--param", "off=true", "--pid", pid]).reading();
        let rows = output(&reading, "off_cpu")["rows"].as_array().unwrap().clone();
        let mean = |way: &str| {
            let row = rows.iter().find(|row| row["instance"] == way).unwrap();
            (
                row["count"].as_u64().unwrap(),
                row["sum"].as_f64().unwrap() / row["count"].as_f64().unwrap().max(1.0),
                row["max"].as_f64().unwrap(),
            )
        };
        (mean("slept"), mean("preempted"))
    };
    let ((slept, mean, _), (_, _, preempted)) = off(&pid(&bursts));
    assert!((9..=13).contains(&slept), "{slept} sleeps");
    assert_lasts("sleep", mean, 0.27);
    assert!(preempted < 0.05, "{preempted} s");
    let ((slept, _, _), (preempted, _, longest)) = off(&pid(&victim));
    assert!(slept >= 20 && preempted >= 6, "{slept} sleeps, {preempted} preemptions");
    assert_lasts("the longest preemption", longest, 0.06);
}
holds!(
    cpudist_off_tells_a_sleep_from_a_preemption,
    vm_cpudist_off_tells_a_sleep_from_a_preemption,
    times_off_the_cpu_tell_sleep_from_preemption
);

fn each_move_is_counted_between_its_cpus() {
    const MOVES: &str =
        "import os, time\ntime.sleep(3)\nfor at in range(200): os.sched_setaffinity(0, {1 - at % 2})\ntime.sleep(60)";
    if last_cpu() == 0 {
        println!("SKIPPED: a single CPU");
        return;
    }
    let mover = python(Some(0), None, MOVES);
    let reading = Running::start(&["migrations", "--duration", "6s", "--pid", &pid(&mover)]).reading();
    let tasks = rows(output(&reading, "tasks"));
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!((&tasks[0]["pid"], number(&tasks[0], "count")), (&Value::from(pid(&mover)), 200.0));
    assert_near("moves per second", number(&tasks[0], "rate"), 200.0 / reading["seconds"].as_f64().unwrap(), 0.1);
    let pairs = rows(output(&reading, "pairs"));
    let moves: Vec<(&str, &str, f64)> = pairs
        .iter()
        .map(|row| (row["from"].as_str().unwrap(), row["to"].as_str().unwrap(), number(row, "count")))
        .collect();
    assert_eq!(moves, [("0", "1", 100.0), ("1", "0", 100.0)]);
}
holds!(
    migrations_counts_each_move_between_its_cpus,
    vm_migrations_counts_each_move_between_its_cpus,
    each_move_is_counted_between_its_cpus
);

#[test]
#[ignore = "needs: root, eBPF"]
fn wrong_parameters_filters_and_ended_processes_are_usage_errors_that_say_what_is_right() {
    if !ready() {
        return;
    }
    for (args, says) in [
        (["softirqs", "--param", "hist=maybe"], "neither true nor false"),
        (["hardirqs", "--param", "his=true"], "it has hist"),
        (["hardirqs", "--pid", "1"], "cannot be limited by --pid"),
        (["runqlat", "--pid", "4194304"], "there is no process 4194304"),
    ] {
        let output = rdiag().arg("probe").args(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}
