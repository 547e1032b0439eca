//! Counting on a scripted machine: what the machine of a test cannot show.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::counters::{Counted, Counters, Scope};
use super::pmc::{Attr, GroupCounts, Pmu, Subject};
use super::select::{self, Group};
use crate::host::{Host, HostSpec};
use rdiag_model::{Facts, Reason, Unavailable};

/// What the scripted machine does, and what was asked of it.
#[derive(Default)]
struct Script {
    /// Errors of opening, by type and config of the event; `alone` only if it is opened without a group.
    refused: BTreeMap<(u32, u64), i32>,
    refused_in_group: BTreeMap<(u32, u64), i32>,
    /// Refused unless the kernel is left out.
    user_only: bool,
    /// CPUs that are gone.
    gone_cpus: Vec<u32>,
    /// As many can be open at once.
    limit: Option<usize>,
    /// Readings of each leader, by the CPU (or 0) and the config of the leader, in order.
    readings: BTreeMap<(u32, u64), VecDeque<GroupCounts>>,
    opened: Vec<(Attr, Option<u32>, Option<usize>)>,
    enabled: usize,
    open_now: usize,
}

#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

impl Pmu for Scripted {
    fn open(&mut self, attr: &Attr, _: Subject, cpu: Option<u32>, leader: Option<usize>) -> Result<usize, i32> {
        let mut script = self.0.lock().unwrap();
        let key = (attr.encoding.kind, attr.encoding.config);
        if let Some(errno) = script.refused.get(&key) {
            return Err(*errno);
        }
        if let Some(errno) = script.refused_in_group.get(&key).filter(|_| leader.is_some()) {
            return Err(*errno);
        }
        if script.user_only && !attr.modifiers.excludes_kernel() {
            return Err(libc::EACCES);
        }
        if cpu.is_some_and(|cpu| script.gone_cpus.contains(&cpu)) {
            return Err(libc::ENODEV);
        }
        if script.limit.is_some_and(|limit| script.open_now >= limit) {
            return Err(libc::EMFILE);
        }
        script.open_now += 1;
        script.opened.push((*attr, cpu, leader));
        Ok(script.opened.len() - 1)
    }

    fn read(&mut self, leader: usize) -> Result<GroupCounts, i32> {
        let mut script = self.0.lock().unwrap();
        let (attr, cpu, _) = script.opened[leader];
        let key = (cpu.unwrap_or(0), attr.encoding.config);
        script.readings.get_mut(&key).and_then(VecDeque::pop_front).ok_or(libc::EIO)
    }

    fn enable(&mut self, _: usize) -> Result<(), i32> {
        self.0.lock().unwrap().enabled += 1;
        Ok(())
    }

    fn close(&mut self, _: usize) {
        self.0.lock().unwrap().open_now -= 1;
    }
}

const CYCLES: (u32, u64) = (0, 0);
const INSTRUCTIONS: (u32, u64) = (0, 1);

fn reading(enabled: u64, running: u64, values: &[u64]) -> GroupCounts {
    GroupCounts { enabled, running, values: values.to_vec() }
}

/// A recorded tree of files, so that nothing of this machine is seen.
fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let place = folder.path().join("t0").join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own tree")]
        std::fs::write(place, text).unwrap();
    }
    let spec = HostSpec {
        times: vec![0.0],
        facts: Some(Facts { uid: 1000, capabilities: 0, ..Facts::default() }),
        ..HostSpec::default()
    };
    let host = Host::recorded(folder.path(), spec);
    (folder, host)
}

fn list(host: &Host, text: &str) -> Vec<Group> {
    select::parse(host, text).unwrap()
}

fn open(script: &Scripted, events: &str, scope: &Scope) -> Result<Counters, Unavailable> {
    let (_folder, host) = host(&[
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("proc/7/task/7/stat", ""),
        ("proc/7/task/9/stat", ""),
    ]);
    Counters::open_on(&host, Box::new(script.clone()), list(&host, events), scope)
}

fn values(counted: &[Counted]) -> Vec<Option<f64>> {
    counted.iter().map(|counted| counted.outcome.as_ref().ok().and_then(|(_, count)| count.value)).collect()
}

fn script(readings: &[(u32, u64, &[GroupCounts])]) -> Scripted {
    let script = Scripted::default();
    for (cpu, config, all) in readings {
        script.0.lock().unwrap().readings.insert((*cpu, *config), all.iter().cloned().collect());
    }
    script
}

#[test]
fn a_count_is_scaled_to_the_time_that_it_was_shared_and_the_share_is_told() {
    let script = script(&[(0, 0, &[reading(1000, 250, &[500, 1000])])]);
    let mut counters = open(&script, "cycles,instructions", &Scope::Command(7)).unwrap();
    let (counted, notes) = counters.read();
    assert_eq!(values(&counted), [Some(2000.0), Some(4000.0)]);
    assert!(counted.iter().all(|counted| counted.outcome.as_ref().unwrap().1.share == 0.25));
    assert!(notes.is_empty());
    let together: Vec<usize> = counted.iter().map(|counted| counted.outcome.as_ref().unwrap().1.together).collect();
    assert_eq!(together, [0, 0], "they can be divided");
}

#[test]
fn an_event_that_never_ran_was_not_counted_which_is_not_zero() {
    let script = script(&[(0, 0, &[reading(1000, 0, &[0])]), (0, 1, &[reading(1000, 1000, &[0])])]);
    let mut counters = open(&script, "{cycles},{instructions:u}", &Scope::Command(7)).unwrap();
    assert_eq!(values(&counters.read().0), [None, Some(0.0)]);
}

#[test]
fn readings_are_differences_a_counter_may_pass_its_end_and_a_step_back_is_left_out() {
    let near_the_end = u64::MAX - 9;
    let readings = [
        reading(100, 100, &[near_the_end]),
        reading(200, 200, &[20]),
        reading(300, 300, &[10]),
        reading(400, 400, &[15]),
    ];
    let script = script(&[(0, 0, &readings)]);
    let mut counters = open(&script, "cycles", &Scope::Command(7)).unwrap();
    // The first reading seems to go back from 0.
    assert_eq!(values(&counters.read().0), [None]);
    assert_eq!(values(&counters.read().0), [Some(30.0)]);
    let (counted, notes) = counters.read();
    assert_eq!(values(&counted), [None]);
    assert!(notes[0].contains("went backwards"), "{notes:?}");
    assert_eq!(values(&counters.read().0), [Some(5.0)]);
}

#[test]
fn cpus_are_summed_each_with_its_own_share_and_one_that_never_counted_is_taken_to_be_like_the_others() {
    let two = [(0, 0, [reading(1000, 500, &[100])]), (1, 0, [reading(1000, 1000, &[50])])];
    let readings: Vec<(u32, u64, &[GroupCounts])> =
        two.iter().map(|(cpu, config, all)| (*cpu, *config, all.as_slice())).collect();
    let mut counters = open(&script(&readings), "cycles", &Scope::Host).unwrap();
    let (counted, _) = counters.read();
    assert_eq!(values(&counted), [Some(250.0)]);
    assert_eq!(counted[0].outcome.as_ref().unwrap().1.cpus, [(0, Some(200.0)), (1, Some(50.0))]);

    let script = script(&[(0, 0, &[reading(1000, 1000, &[100])]), (1, 0, &[reading(1000, 0, &[0])])]);
    let (counted, _) = open(&script, "cycles", &Scope::Host).unwrap().read();
    assert_eq!(values(&counted), [Some(200.0)]);
    assert_eq!(counted[0].outcome.as_ref().unwrap().1.share, 0.5);
    assert_eq!(counted[0].outcome.as_ref().unwrap().1.cpus, [(0, Some(100.0)), (1, None)]);
}

#[test]
fn a_machine_without_counters_is_told_for_each_event_and_the_others_are_counted() {
    let script = script(&[(0, 3, &[reading(10, 10, &[4])])]);
    for event in [CYCLES, INSTRUCTIONS] {
        script.0.lock().unwrap().refused.insert(event, libc::ENOENT);
    }
    let mut counters = open(&script, "cycles,instructions,context-switches", &Scope::Command(7)).unwrap();
    let (counted, _) = counters.read();
    assert_eq!(values(&counted), [None, None, Some(4.0)]);
    let gap = counted[0].outcome.as_ref().unwrap_err();
    assert_eq!(gap.reason, Reason::Absent);
    assert!(gap.why.contains("cycles: this CPU does not count it"), "{gap}");
    let gap = open(&script, "cycles,instructions", &Scope::Host).map(|_| ()).unwrap_err();
    assert!(gap.why.contains("does not count it"), "nothing is left: {gap}");
}

#[test]
fn events_that_do_not_fit_together_are_counted_apart_and_that_is_told() {
    let script = script(&[(0, 0, &[reading(10, 5, &[7])]), (0, 1, &[reading(10, 5, &[9])])]);
    script.0.lock().unwrap().refused_in_group.insert(INSTRUCTIONS, libc::EINVAL);
    let mut counters = open(&script, "{cycles,instructions}", &Scope::Command(7)).unwrap();
    let (counted, _) = counters.read();
    assert_eq!(values(&counted), [Some(14.0), Some(18.0)]);
    assert!(counters.notes()[0].contains("instructions is counted at other moments"), "{:?}", counters.notes());
    let together: Vec<usize> = counted.iter().map(|counted| counted.outcome.as_ref().unwrap().1.together).collect();
    assert_ne!(together[0], together[1]);
    assert_eq!(script.0.lock().unwrap().open_now, 2);
}

#[test]
fn where_the_kernel_may_not_be_counted_user_mode_is_and_what_then_would_be_zero_is_not() {
    let script = script(&[(0, 0, &[reading(10, 10, &[7])])]);
    script.0.lock().unwrap().user_only = true;
    let mut counters = open(&script, "cycles,context-switches,cycles:k", &Scope::Command(7)).unwrap();
    let (counted, _) = counters.read();
    assert_eq!(values(&counted), [Some(7.0), None, None]);
    assert_eq!(counted[0].name, "cycles:u");
    let gap = counted[1].outcome.as_ref().unwrap_err();
    assert_eq!(gap.reason, Reason::Denied);
    assert!(gap.remedy.as_deref().unwrap().contains("perf_event_paranoid to 1"), "{gap:?}");
    assert!(gap.remedy.as_deref().unwrap().contains("CAP_PERFMON"));
    assert!(counters.notes()[0].contains("cycles:u leave out"), "{:?}", counters.notes());
    // On whole CPUs there is no such way out.
    let gap = open(&script, "cycles", &Scope::Host).map(|_| ()).unwrap_err();
    assert!(gap.remedy.unwrap().contains("perf_event_paranoid to 0"));
}

#[test]
fn too_many_open_files_are_told_and_nothing_stays_open() {
    let script = Scripted::default();
    script.0.lock().unwrap().limit = Some(1);
    let gap = open(&script, "cycles,page-faults", &Scope::Host).map(|_| ()).unwrap_err();
    assert!(gap.why.contains("too many files are open"), "{gap}");
    assert!(gap.remedy.unwrap().contains("ulimit -n"));
    assert_eq!(script.0.lock().unwrap().open_now, 0);
}

#[test]
fn a_cpu_that_is_switched_off_meanwhile_is_told_and_the_others_are_counted() {
    let script = script(&[(0, 0, &[reading(10, 10, &[7])])]);
    script.0.lock().unwrap().gone_cpus = vec![1];
    let mut counters = open(&script, "cycles", &Scope::Host).unwrap();
    assert_eq!(values(&counters.read().0), [Some(7.0)]);
    assert!(counters.notes()[0].contains("1 of 2 CPUs were gone"), "{:?}", counters.notes());
}

#[test]
fn a_command_is_counted_from_its_first_instruction_and_processes_with_all_their_threads() {
    let commanded = Scripted::default();
    open(&commanded, "cycles,instructions", &Scope::Command(7)).unwrap();
    let script = commanded.0.lock().unwrap();
    let kept = &script.opened[script.opened.len() - 2..];
    assert!(kept[0].0.on_exec && kept[0].0.disabled && kept[0].0.inherit, "{kept:?}");
    assert!(!kept[1].0.on_exec && !kept[1].0.disabled && kept[1].0.inherit && kept[1].2.is_some(), "{kept:?}");
    assert_eq!(script.enabled, 0, "execve(2) does it");

    let attached = Scripted::default();
    open(&attached, "cycles", &Scope::Processes(vec![7])).unwrap();
    let script = attached.0.lock().unwrap();
    assert_eq!((script.open_now, script.enabled), (2, 2), "one for each thread");

    let gap = open(&Scripted::default(), "cycles", &Scope::Processes(vec![8])).map(|_| ()).unwrap_err();
    assert_eq!(gap.why, "the process has ended");
}

const IMC: &[(&str, &str)] = &[
    ("sys/devices/system/cpu/online", "0-3\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/type", "12\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/cpumask", "0,2\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/format/event", "config:0-7\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/format/umask", "config:8-15\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/events/cas_count_read", "event=0x04,umask=0x03\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/events/cas_count_read.scale", "6.103515625e-5\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/events/cas_count_read.unit", "MiB\n"),
    ("sys/bus/event_source/devices/uncore_imc_1/type", "13\n"),
    ("sys/bus/event_source/devices/uncore_imc_1/cpumask", "0,2\n"),
    ("sys/bus/event_source/devices/uncore_imc_1/format/event", "config:0-7\n"),
    ("sys/bus/event_source/devices/uncore_imc_1/format/umask", "config:8-15\n"),
    ("sys/bus/event_source/devices/uncore_imc_1/events/cas_count_read", "event=0x04,umask=0x03\n"),
];

#[test]
fn the_boxes_of_a_device_are_summed_on_the_cpus_that_speak_for_them() {
    let (_folder, host) = host(IMC);
    let groups = list(&host, "uncore_imc/cas_count_read/");
    let event = groups[0][0].event.clone().unwrap();
    assert_eq!((event.encodings[0].kind, event.encodings[1].kind, event.encodings[0].config), (12, 13, 0x304));
    assert_eq!(
        (event.scale, event.unit.as_str(), event.name.as_str()),
        (6.103515625e-5, "MiB", "uncore_imc/cas_count_read/")
    );
    let counting = script(&[
        (0, 0x304, &[reading(10, 10, &[100]), reading(10, 10, &[10])]),
        (2, 0x304, &[reading(10, 10, &[1]), reading(10, 10, &[1])]),
    ]);
    let mut counters = Counters::open_on(&host, Box::new(counting), groups.clone(), &Scope::Host).unwrap();
    assert_eq!(values(&counters.read().0), [Some(112.0)]);
    let gap = Counters::open_on(&host, Box::new(Scripted::default()), groups, &Scope::Command(7)).map(|_| ());
    assert_eq!(gap.unwrap_err().reason, Reason::NotApplicable, "no task can be told");
}

#[test]
fn lists_are_read_with_groups_modifiers_numbers_and_fields_of_devices() {
    let (_folder, host) = host(&[IMC, &[("sys/kernel/tracing/events/sched/sched_switch/id", "314\n")]].concat());
    let text = "cpu-cycles:ukpp, {LLC-loads,LLC-load-misses}:k,r1a8,sched:sched_switch:u,uncore_imc_0/event=4,umask=0x3,name=reads/,cs";
    let groups = list(&host, text);
    let shown: Vec<Vec<String>> = groups
        .iter()
        .map(|group| group.iter().map(|wanted| wanted.event.as_ref().unwrap().shown()).collect())
        .collect();
    assert_eq!(
        shown,
        [
            vec!["cycles:ukpp"],
            vec!["LLC-loads:k", "LLC-load-misses:k"],
            vec!["r1a8"],
            vec!["sched:sched_switch:u"],
            vec!["reads"],
            vec!["context-switches"]
        ]
    );
    let configs: Vec<u64> =
        groups.iter().flatten().map(|wanted| wanted.event.as_ref().unwrap().encodings[0].config).collect();
    assert_eq!(configs, [0, 2, 2 | 1 << 16, 0x1a8, 314, 0x304, 3]);
}

#[test]
fn what_makes_no_sense_is_told_and_what_this_machine_lacks_is_told_apart() {
    let (_folder, host) = host(&[IMC, &[("sys/kernel/tracing/events/sched/sched_switch/id", "314\n")]].concat());
    let error = |text: &str| select::parse(&host, text).unwrap_err();
    let near = error("cylces").near.unwrap();
    assert!(near.0 == "cylces" && near.1.contains(&"cycles".to_owned()));
    for (text, says) in [
        ("", "empty"),
        (",,", "empty"),
        ("cycles:x", "no modifier"),
        ("cycles:pppp", "no modifier"),
        ("{cycles", "no closing brace"),
        ("{a,{b}}", "hold no groups"),
        ("uncore_imc/event=1", "slash is missing"),
        ("a:b:c:d", "no event"),
        ("r", "no event"),
        ("uncore_imc/event=0x1ff/", "does not fit"),
        ("uncore_imc/event=many/", "no number"),
    ] {
        let message = error(text).message;
        assert!(message.contains(says), "{text}: {message}");
    }
    let many = vec!["cycles"; 101].join(",");
    assert!(error(&many).message.contains("at most 100"));
    for elsewhere in ["sched:sched_swich", "uncore_cha/x/", "uncore_imc/cas_count_writes/", "nfs:.."] {
        let groups = list(&host, elsewhere);
        let error = groups[0][0].event.as_ref().unwrap_err();
        assert!(error.near.is_some(), "{elsewhere}: {error:?}");
    }
}

#[test]
fn any_text_is_read_or_refused() {
    let host = Host::live(Path::new("/nonexistent"));
    let pieces = ["{", "}", ",", "/", ":", "=", "r", "cycles", "u", "config", "é", " ", "-", "?"];
    for a in pieces {
        for b in pieces {
            for c in pieces {
                let _ = select::parse(&host, &format!("{a}{b}{c}{a}"));
            }
        }
    }
}
