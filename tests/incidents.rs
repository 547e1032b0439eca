//! Incidents: what the recorder notices, keeps before other times, and measures. Pressure is that of a tree that stands in for the machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::history::{Recorder, blocks, files, pieces_of, wait_until};
use crate::support::{path, rdiag};
use rdiag_history::{Incident, Resource, read_incidents, write_incidents};

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A host whose tasks stall for I/O when it is said.
struct Stalling {
    root: PathBuf,
    stalls: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Stalling {
    fn begin(root: PathBuf) -> Self {
        copy(&path("tests/fixtures/hosts/whole-host-short-of-cpu/t0"), &root);
        let pressure = root.join("proc/pressure");
        std::fs::create_dir_all(&pressure).unwrap();
        let write = move |io: u128| {
            for (name, total) in [("cpu", 0), ("memory", 0), ("io", io)] {
                let line = |kind: &str| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
                // A reader sees the one or the other, and nothing half.
                std::fs::write(pressure.join("new"), line("some") + &line("full")).unwrap();
                std::fs::rename(pressure.join("new"), pressure.join(name)).unwrap();
            }
        };
        write(0);
        let (stalls, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (begun, over) = (Arc::clone(&stalls), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            let (mut total, mut last) = (0, Instant::now());
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                let passed = last.elapsed().as_micros();
                last = Instant::now();
                total += if begun.load(Ordering::Relaxed) { passed * 9 / 10 } else { 0 };
                write(total);
            }
        });
        Self { root, stalls, ends, thread: Some(thread) }
    }
}

impl Drop for Stalling {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

fn listed(history: &Path) -> String {
    let output = rdiag().args(["history", "list", "--history"]).arg(history).env("TZ", "UTC").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_incident_is_pinned_and_measured_once_by_rdiag_itself() {
    let place = tempfile::tempdir().unwrap();
    let host = Stalling::begin(place.path().join("root"));
    let root = host.root.to_str().unwrap();
    let [run, pin, off] = ["run", "pin", "off"].map(|what| place.path().join(what));
    let start = |history: &Path, what: &str| {
        Recorder::start(history, &["--trigger", what, "--drill-down", "1s", "--root", root])
    };
    let recorders = [start(&run, "run"), start(&pin, "pin"), start(&off, "off")];
    wait_until("a quiet time", || [&run, &pin, &off].iter().all(|history| blocks(history) >= 3));
    host.stalls.store(true, Ordering::Relaxed);
    let drill_down = || files(&run).into_iter().find(|name| name.starts_with("incident-"));
    wait_until("a drill-down", || drill_down().is_some());
    wait_until("that its end is told", || recorders[0].said().contains("the drill-down has ended"));
    // It goes on, and is no second incident.
    let before = blocks(&run);
    wait_until("another block", || blocks(&run) > before);
    let [(code, said), (_, of_pin), (_, of_off)] = recorders.map(Recorder::end);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("incident: PSI io full ").count(), 1, "{said}");
    assert!(
        said.contains("a drill-down has begun") && said.contains("the drill-down has ended: rdiag analyze "),
        "{said}"
    );
    assert!(of_pin.contains("incident: PSI io full ") && of_pin.contains("no drill-down: switched off"), "{of_pin}");
    assert_eq!(of_off.lines().count(), 1, "{of_off}");
    assert!(!files(&off).iter().any(|name| name.starts_with("incident")), "{:?}", files(&off));

    let drill_down = run.join(drill_down().unwrap());
    let list = listed(&run);
    let line = list.lines().find(|line| line.contains("incident: ")).unwrap_or_else(|| panic!("{list}"));
    assert!(line.contains(" UTC  incident: PSI io full ") && line.contains("  pinned  "), "{line}");
    assert!(line.ends_with(drill_down.to_str().unwrap()), "{line}");
    let list = listed(&pin);
    assert!(list.contains("  pinned  no drill-down: switched off"), "{list}");
    let judged = rdiag().args(["analyze", "--format", "json", "--out", "-"]).arg(&drill_down).output().unwrap();
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
    let report: serde_json::Value = serde_json::from_slice(&judged.stdout).unwrap();
    let pressure = crate::support::finding(&report, "disk.saturation.pressure", None);
    // On a busy machine the tree is written late.
    assert!(pressure["value"].as_f64().unwrap() > 0.2, "{pressure:#}");

    // A recorder that begins anew knows the incident: half an hour is not over.
    let again = start(&run, "run");
    let before = blocks(&run);
    wait_until("blocks of another recorder", || blocks(&run) > before + 3);
    let (_, said) = again.end();
    assert!(!said.contains("incident: "), "{said}");
}

/// Sets how many tasks the kernel of the tree allows.
fn allow_tasks(root: &Path, most: u32) {
    let folder = root.join("proc/sys/kernel");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("new"), format!("{most}\n")).unwrap();
    std::fs::rename(folder.join("new"), folder.join("threads-max")).unwrap();
}

#[test]
fn a_rule_that_becomes_critical_is_an_incident_and_one_that_is_so_from_the_beginning_when_it_comes_again() {
    let place = tempfile::tempdir().unwrap();
    let host = Stalling::begin(place.path().join("root"));
    let root = host.root.to_str().unwrap();
    let [first, second, off] = ["first", "second", "off"].map(|what| place.path().join(what));
    let start = |history: &Path, what: &str| {
        let short = ["--interval", "100ms", "--block", "1s", "--look", "1s"];
        Recorder::start(history, &[&short[..], &["--trigger", what, "--root", root]].concat())
    };
    // Capacities are read once in such a block, and it is judged at its end, once the cost of recording is known.
    let judged = |history: &Path| {
        let before = blocks(history);
        wait_until("that it was judged", || blocks(history) >= before + 4);
    };
    // The tree has 131 tasks.
    allow_tasks(&host.root, 1000);
    let recorder = start(&first, "pin");
    judged(&first);
    allow_tasks(&host.root, 135);
    let incident = "incident: tasks.utilization critical over ";
    wait_until("an incident", || recorder.said().contains(incident));
    let (late, quiet) = (start(&second, "pin"), start(&off, "off"));
    judged(&second);
    judged(&off);
    assert!(!late.said().contains("incident"), "it was critical from the beginning on: {}", late.said());
    allow_tasks(&host.root, 1000);
    judged(&second);
    allow_tasks(&host.root, 135);
    wait_until("another incident", || late.said().contains(incident));
    let [(code, said), (_, of_late), (_, of_off)] = [recorder, late, quiet].map(Recorder::end);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("incident: ").count(), 1, "half an hour is not over: {said}");
    assert_eq!(of_late.matches("incident: ").count(), 1, "{of_late}");
    assert_eq!(of_off.lines().count(), 1, "{of_off}");
    // Which rule, and its sentence.
    let list = listed(&first);
    let line = list.lines().find(|line| line.contains("incident: ")).unwrap_or_else(|| panic!("{list}"));
    let sentence = " s: Processes and threads are at 97.0% of kernel.threads-max; at 100% of it fork and clone fail";
    assert!(line.contains(incident) && line.contains(sentence), "{line}");
    assert!(line.ends_with("  pinned  no drill-down: switched off"), "{line}");
    let (incidents, _) = read_incidents(&std::fs::read(first.join("incidents")).unwrap()).unwrap();
    assert_eq!((incidents[0].resource, incidents[0].pinned), (Resource::Tasks, true));
}

const MINUTE: i64 = 60_000_000;

fn incident(wall_micros: i64) -> Incident {
    Incident {
        wall_micros,
        resource: Resource::Memory,
        rule: None,
        share: 0.3,
        at_least: false,
        seconds: 5.0,
        pinned: true,
        drilled: true,
        note: None,
    }
}

#[test]
fn the_ten_minutes_before_an_incident_outlive_newer_blocks_until_incidents_take_half_of_the_space() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let recorder = Recorder::start(&history, &[]);
    wait_until("a second block", || blocks(&history) >= 2);
    recorder.end();
    // The block as if it were of two hours ago, and eleven more, ten minutes apart.
    let (_, block) = pieces_of(&history).remove(0);
    files(&history)
        .iter()
        .filter(|name| name.ends_with(".rdh"))
        .for_each(|name| std::fs::remove_file(history.join(name)).unwrap());
    let begun = block.header.wall_micros - 120 * MINUTE;
    let names: Vec<String> = (0..12)
        .map(|number| {
            let mut block = block.clone();
            block.header.wall_micros = begun + number * 10 * MINUTE;
            block.header.monotonic += number as f64 * 600.0;
            block.header.boottime += number as f64 * 600.0;
            let name = format!("{:010}-{}.rdh", number + 1, block.header.wall_micros.div_euclid(1_000_000));
            std::fs::write(history.join(&name), rdiag_history::write_block(&block)).unwrap();
            name
        })
        .collect();
    let size = history.join(&names[0]).metadata().unwrap().len();
    // Its span begins in the third block and ends in the fourth.
    let at = begun + 30 * MINUTE + 2 * MINUTE;
    std::fs::write(history.join("incidents"), write_incidents(&[incident(at)])).unwrap();
    let keep = format!("{}", size * 12);
    let recorder = Recorder::start(&history, &["--keep", &keep]);
    wait_until("that the oldest go", || !history.join(&names[4]).exists());
    let (_, said) = recorder.end();
    let is_kept = |number: usize| history.join(&names[number - 1]).exists();
    assert_eq!([1, 2, 3, 4, 5].map(is_kept), [false, false, true, true, false], "{:?}", files(&history));
    assert!(!said.contains("pinned"), "{said}");
    // Which is what can be judged of it.
    let time = rdiag_kernel::host::Zone::utc().instant(at);
    let judged = rdiag()
        .args(["run", "use-method", "--last", "13m", "--format", "json", "--out", "-", "--at", &time, "--history"])
        .arg(&history)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&judged.stderr).into_owned();
    assert!(judged.status.success() && told.contains("Judged: "), "{told}");

    // Half of what is allowed now is less than its two blocks.
    let recorder = Recorder::start(&history, &["--keep", &format!("{}", size * 3)]);
    wait_until("that they go as well", || !is_kept(3) && !is_kept(4));
    let (_, said) = recorder.end();
    assert!(said.contains("is pinned no longer: the folder may take "), "{said}");
    let (list, _) = read_incidents(&std::fs::read(history.join("incidents")).unwrap()).unwrap();
    assert_eq!(list, [Incident { pinned: false, ..incident(at) }]);
    assert!(listed(&history).contains("  not pinned  no drill-down: "), "{}", listed(&history));
}

#[test]
fn a_list_of_incidents_that_somebody_made_is_named_and_nothing_is_read_or_written_through_it() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let recorder = Recorder::start(&history, &[]);
    wait_until("a block", || blocks(&history) >= 1);
    recorder.end();
    let list = history.join("incidents");
    let secret = place.path().join("secret");
    std::fs::write(&secret, "{\"format_version\":1}\nsecret\n").unwrap();
    let make = |what: &str| match what {
        "no list" => std::fs::write(&list, [0xff; 5000]).unwrap(),
        "another version" => std::fs::write(&list, "{\"format_version\":9}").unwrap(),
        "too long" => std::fs::write(&list, vec![b' '; 1 << 20]).unwrap(),
        _ => std::os::unix::fs::symlink(&secret, &list).unwrap(),
    };
    for (what, why) in [
        ("no list", "it is no list of incidents"),
        ("another version", "its format version is 9, and this rdiag reads 1"),
        ("too long", "it is larger than"),
        ("a link", ""),
    ] {
        let _ = std::fs::remove_file(&list);
        make(what);
        let told = listed(&history);
        assert!(told.contains("incidents: ") && told.contains(why) && !told.contains("secret"), "{why}: {told}");
        let recorder = Recorder::start(&history, &[]);
        let before = blocks(&history);
        wait_until("a block all the same", || blocks(&history) > before);
        let (code, said) = recorder.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("the list of incidents: ") && said.contains(why), "{why}: {said}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "{\"format_version\":1}\nsecret\n");
}

#[test]
fn wait_runs_rdiag_when_a_condition_held_and_ends_with_its_exit_code() {
    let place = tempfile::tempdir().unwrap();
    let host = Stalling::begin(place.path().join("root"));
    let root = host.root.to_str().unwrap();
    let out = place.path().join("made.json.gz");
    let wait = |when: &str, more: &[&str], command: &[&str]| {
        let output =
            rdiag().args(["wait", "--root", root, "--when", when]).args(more).arg("--").args(command).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let record =
        ["record", "use-method", "--quiet", "--root", root, "--duration", "1s", "--out", out.to_str().unwrap()];
    let (code, said) = wait("psi.io.full.ratio > 0.5", &["--timeout", "3s"], &record);
    assert!(code == Some(6) && said.contains("within 3s it did not hold for 3s") && !out.exists(), "{said}");
    host.stalls.store(true, Ordering::Relaxed);
    let (code, said) = wait("psi.io.full.ratio > 0.5 and host.cpus > 0", &["--for", "2s", "--timeout", "60s"], &record);
    assert!(code == Some(0) && out.exists(), "{said}");
    let (code, said) = wait("psi.io.full.ratio > 0.5", &["--for", "1s"], &["run", "no-such-playbook"]);
    assert!(code == Some(2) && said.contains("no-such-playbook"), "{said}");
    for (when, command, why) in [
        ("psi.io.ful.ratio > 0.5", "doctor", "did you mean `psi.io.full.ratio`?"),
        ("psi.io.full.ratio > 0.5", "reboot", "the command behind --: unrecognized subcommand 'reboot'"),
        ("1 > 0", "doctor", "it names no metric"),
    ] {
        let (code, said) = wait(when, &[], &[command]);
        assert!(code == Some(2) && said.contains(why), "{when}: {said}");
    }
    let (code, said) = wait("psi.irq.full.ratio > 0.5", &[], &["doctor"]);
    assert!(code == Some(3) && said.contains("/proc/pressure/irq"), "{said}");
}
