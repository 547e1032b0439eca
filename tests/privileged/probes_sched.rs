//! Probes of the scheduler and of interrupts, against what the kernel counts itself. Each check runs on the host and on
//! every kernel of the matrix.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Need, alone, has, rdiag};

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
struct Running(Child);

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
        Self(child)
    }

    /// Waits for its end; the readings.
    fn readings(mut self) -> Vec<Value> {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn reading(self) -> Value {
        let reading = self.readings().pop().unwrap();
        assert!(reading["lost"].is_null(), "{:#}", reading["lost"]);
        reading
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

/// Lines `NAME: count count … rest` of /proc/softirqs and /proc/interrupts: sum over the CPUs, and the rest.
fn counters(path: &str) -> BTreeMap<String, (f64, String)> {
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
fn counted(path: &str, args: &[&str]) -> (Value, [BTreeMap<String, (f64, String)>; 4]) {
    let before = counters(path);
    let running = Running::start(args);
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
    assert_eq!(buckets.sum::<f64>(), rows.iter().map(|row| number(row, "count")).sum::<f64>());
}
holds!(
    hardirqs_counts_what_proc_counts,
    vm_hardirqs_counts_what_proc_counts,
    the_count_of_each_handler_is_that_of_proc_interrupts
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
