//! Handlers and vectors, against /proc/interrupts and /proc/softirqs.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::process::Command;

use serde_json::Value;

use super::{Running, is_guest, number, output, reading_took, ready, rows};
use crate::support::alone;

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

/// So many fewer than /proc counts may have been seen: some virtual machines' kernels run no programs on the time of tasks that they
/// protect, and what interrupts such a task is not seen. The kernels of the matrix see all.
fn unseen(counted: f64) -> f64 {
    if is_guest() { 0.0 } else { 3.0 + 0.1 * counted }
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
        assert!(
            (least - cpus - unseen(least)..=most + cpus).contains(&count),
            "{name}: {count}, /proc says {least} to {most}"
        );
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
        assert!(
            (least - 1.0 - unseen(least)..=most + 1.0).contains(&count),
            "{name}: {count}, /proc says {least} to {most}"
        );
    }
    let counts = output(&reading, "durations")["rows"].as_array().unwrap().iter();
    let buckets = counts.flat_map(|row| row["buckets"].as_array().unwrap()).map(|pair| pair[1].as_f64().unwrap());
    // Interrupts go on between the readings of the two maps: those are in the second one only, the distributions.
    let counts: f64 = rows.iter().map(|row| number(row, "count")).sum();
    let buckets: f64 = buckets.sum();
    let between = 3.0 * counts / 6.0 * reading_took(&reading, 6.0) + 5.0;
    assert!(
        (-(rows.len() as f64)..=between).contains(&(buckets - counts)),
        "{buckets} in the distributions, {counts} runs, {between} between them at most"
    );
    println!("interrupts: {} are only in the distributions, of {between:.1} at most", buckets - counts);
}
holds!(
    hardirqs_counts_what_proc_counts,
    vm_hardirqs_counts_what_proc_counts,
    the_count_of_each_handler_is_that_of_proc_interrupts
);
