//! Composed results of probes for tests: figures of a real run of `runqlat`, and one output of every other kind.

use std::collections::BTreeMap;

use super::sample::{levels, metrics, recording, saturated};
use crate::parts::{Parts, ProbeTexts};
use rdiag_model::call_trace::{Call, CallTrace};
use rdiag_model::metric::Pick;
use rdiag_model::probe::*;
use rdiag_model::report::{PlaybookInfo, StepOutcome};
use rdiag_model::schedule::{CpuSchedule, RunSlice, Schedule, ScheduledTask};
use rdiag_model::*;

static METRICS: &[MetricDef] = &[MetricDef {
    id: "runqlat.p99.seconds",
    unit: Unit::Seconds,
    help: "99th percentile of the time from being able to run to running.",
    sources: &[Formula::probe(Pick::Percentile("wait", 0.99))],
    caveat: "Over all tasks of the host.",
    manual: "perf sched latency",
    ..MetricDef::EMPTY
}];

fn attachment() -> Attachment {
    Attachment {
        event: "sched_switch".into(),
        back_end: "raw tracepoint".into(),
        refused: vec!["BTF tracepoint: not supported by this kernel".into()],
    }
}

fn cost() -> ProbeCost {
    ProbeCost { of: CostOf::Programs, sampled_seconds: 0.25, runs: 21_043, cpu_seconds: 0.0071, attach_seconds: 0.046 }
}

pub(super) fn table(name: &str, rows: usize) -> ProbeTable {
    let row = |at: usize| Row {
        instance: format!("{}:9", 4711 + at),
        cells: vec![
            name.into(),
            "4711".into(),
            (4711 + at).to_string().into(),
            (4.72 / (at + 1) as f64).into(),
            127.0.into(),
            Cell::Unknown(()),
        ],
    };
    ProbeTable {
        id: "tasks".into(),
        title: "Tasks by time spent waiting for a CPU".into(),
        dimension: Some("task".into()),
        columns: vec![
            Column::text("name", "task"),
            Column::text("pid", "pid"),
            Column::text("tid", "tid"),
            Column::number("wait", "waited", Unit::Seconds),
            Column::number("count", "times", Unit::Count),
            Column::number("max", "longest", Unit::Seconds),
        ],
        rows: (0..rows).map(row).collect(),
        others: 12,
        others_sum: BTreeMap::from([("wait".into(), 1.5)]),
    }
}

pub(super) fn histogram(instances: &[&str]) -> Histogram {
    let buckets =
        [(5, 26), (9, 120), (14, 402), (16, 220), (18, 70), (20, 900), (23, 2_000), (24, 1_200), (26, 404), (28, 1)];
    let buckets: Vec<(f64, u64)> =
        buckets.into_iter().map(|(power, count)| (f64::from(1_u32 << power) * 1e-9, count)).collect();
    let row = |instance: &&str| HistogramRow {
        instance: (*instance).to_owned(),
        count: 5343,
        sum: 64.1,
        max: 0.176,
        buckets: buckets.clone(),
        coarse: false,
    };
    Histogram {
        id: "wait".into(),
        title: "Time from being able to run to running".into(),
        unit: Unit::Seconds,
        dimension: (instances.len() > 1).then(|| "device".to_owned()),
        rows: instances.iter().map(row).collect(),
    }
}

pub(super) fn events(name: &str, rows: usize) -> ProbeTable {
    let row = |at: usize| Row {
        instance: String::new(),
        cells: vec![(at as f64 * 0.25).into(), name.into(), "812".into(), name.into(), 0.031.into()],
    };
    ProbeTable {
        id: "slow".into(),
        title: "Requests that took longer than 10 ms".into(),
        dimension: None,
        columns: vec![
            Column::number("time", "after", Unit::Seconds),
            Column::text("name", "process"),
            Column::text("pid", "pid"),
            Column::text("file", "file"),
            Column::number("took", "took", Unit::Seconds),
        ],
        rows: (0..rows).map(row).collect(),
        ..ProbeTable::default()
    }
}

pub(super) fn stacks(name: &str) -> Stacks {
    let frame = |name: &str, kernel| Frame { name: name.into(), kernel, ..Frame::default() };
    let stack =
        |frames: &[u32], value| Stack { owner: name.into(), pid: Some(812), frames: frames.to_vec(), value, count: 30 };
    Stacks {
        id: "off_cpu".into(),
        title: "Time off CPU by stack".into(),
        activity: Activity::Waiting,
        unit: Unit::Seconds,
        frames: vec![frame("main", false), frame(name, false), frame("do_sys_poll", true), frame("schedule", true)],
        stacks: vec![stack(&[0, 1, 2, 3], 2.1), stack(&[0, 1, 99], 0.9), stack(&[], 0.1)],
        others: 0.4,
        unresolved: 1.4,
        truncated: 0.0,
        missing: 0.2,
    }
}

/// Two calls of a function, the first with what it called.
pub(super) fn calls(name: &str) -> CallTrace {
    let call = |depth, function: &str, seconds| Call {
        depth,
        function: function.into(),
        seconds,
        at: 0.002,
        cpu: 1,
        task: (depth == 0).then(|| format!("{name} (4711)")),
    };
    CallTrace {
        id: "calls".into(),
        title: "Calls of bprm_execve".into(),
        calls: vec![
            call(0, "bprm_execve", Some(0.0012)),
            call(1, "do_open_execat", Some(0.0003)),
            call(2, name, Some(0.0001)),
            call(1, "exec_binprm", Some(0.0008)),
            call(0, "bprm_execve", None),
        ],
        others: 7,
        deeper: 30,
    }
}

/// Two CPUs over two seconds: a task that waits and then runs, one that migrates, and a time that is unknown.
pub(super) fn schedule(name: &str) -> Schedule {
    let slice = |from, until, task, waited| RunSlice { from, until, task, waited, left: None };
    let task = |name: &str, tid| ScheduledTask { name: name.into(), pid: 4711, tid };
    Schedule {
        id: "schedule".into(),
        title: "Who ran when, on which CPU".into(),
        from: 0.0,
        until: 2.0,
        tasks: vec![task(name, 4711), task("worker", 4712)],
        cpus: vec![
            CpuSchedule { cpu: 0, slices: vec![slice(0.0, 0.6, Some(1), None), slice(0.6, 1.5, Some(0), Some(0.4))] },
            CpuSchedule { cpu: 1, slices: vec![slice(0.7, 1.0, Some(1), Some(0.1)), slice(1.6, 2.0, None, None)] },
        ],
    }
}

pub(super) fn result(probe: &str, outputs: Vec<Output>) -> ProbeResult {
    ProbeResult {
        probe: probe.into(),
        params: BTreeMap::from([("top".into(), "25".into())]),
        seconds: 5.04,
        outputs,
        attached: vec![attachment()],
        cost: cost(),
        ..ProbeResult::default()
    }
}

/// A recording whose second window ran probes; every text that is not rdiag's own is `name`.
pub(super) fn probed(name: &str) -> Recording {
    let mut recording = recording();
    let mut window = recording.windows[0].clone();
    window.steps = vec!["cpu-waits".into()];
    (window.begins, window.seconds) = (3.0, 7.0);
    let denied = |why: &str| Err(Unavailable::new(Reason::Denied, why).with_remedy("run rdiag as root"));
    let mut slow = result("biosnoop", vec![Output::Events(events(name, 40))]);
    slow.lost = BTreeMap::from([("the ring buffer was full".into(), 17), ("never".into(), 0)]);
    slow.notes = vec![name.into()];
    window.probes = BTreeMap::from([
        (
            "runqlat".into(),
            Ok(result("runqlat", vec![Output::Histogram(histogram(&[""])), Output::Table(table(name, 8))])),
        ),
        ("biolatency".into(), Ok(result("biolatency", vec![Output::Histogram(histogram(&[name, "sdb"]))]))),
        ("biosnoop".into(), Ok(slow)),
        ("offcputime".into(), Ok(result("offcputime", vec![Output::Stacks(stacks(name))]))),
        ("graph".into(), Ok(result("graph", vec![Output::Calls(calls(name))]))),
        ("timeline".into(), Ok(result("timeline", vec![Output::Schedule(schedule(name))]))),
        ("oomkill".into(), Ok(result("oomkill", vec![Output::Events(events(name, 0))]))),
        ("tcpretrans".into(), denied("this user may not load programs into the kernel")),
        ("execsnoop".into(), denied("this user may not load programs into the kernel")),
        ("vfsstat".into(), denied("vfs_read cannot be traced here: kprobe: not permitted by this kernel")),
    ]);
    recording.windows.push(window);
    recording
}

/// Its report. The first finding cites what `runqlat` measured.
pub(super) fn report(name: &str) -> Report {
    report_of(&probed(name))
}

pub(super) fn report_of(recording: &Recording) -> Report {
    let mut findings = saturated();
    for finding in findings.iter_mut().filter(|finding| finding.id == "cpu.saturation") {
        finding.evidence.push(Evidence {
            metric: "runqlat.p99.seconds".into(),
            instance: None,
            window: 1,
            mean: Some(0.067),
            max: Some(0.067),
            total: Some(0.067),
            unit: Unit::Seconds,
            source: "runqlat.wait".into(),
        });
    }
    let mut drilled = Metrics { intervals: 10, seconds: 10.0, ..Metrics::default() };
    let reading = Reading::Measured {
        unit: Unit::Seconds,
        dimension: None,
        source: "runqlat.wait".into(),
        rank: 0,
        instances: [(String::new(), Ok(Stats::constant(0.067)))].into(),
    };
    drilled.readings.insert("runqlat.p99.seconds".into(), reading);
    let probes = [
        "runqlat",
        "biolatency",
        "biosnoop",
        "offcputime",
        "graph",
        "timeline",
        "oomkill",
        "tcpretrans",
        "execsnoop",
        "vfsstat",
    ];
    let step = StepOutcome {
        id: "cpu-waits".into(),
        question: "Which tasks wait for a CPU, and for how long?".into(),
        teach: String::new(),
        status: Status::Critical,
        window: Some(1),
        when: Some("status(\"cpu.saturation\") >= warning".into()),
        rules: Vec::new(),
        probes: probes.map(str::to_owned).to_vec(),
        answer: String::new(),
    };
    let texts = |id: &str| {
        let metrics = if id == "runqlat" { METRICS } else { &[] };
        Some(ProbeTexts { question: "How long is it, and whose?", caveats: "It is not everything.", metrics })
    };
    super::build(Parts {
        recording,
        metrics: &[metrics(), drilled],
        findings,
        profile: None,
        answer: None,
        steps: vec![step],
        playbook: PlaybookInfo { name: "use-method".into(), title: "USE".into(), params: BTreeMap::new() },
        titles: &|id| METRICS.iter().find(|metric| metric.id == id).or_else(|| super::sample::metric(id)),
        probes: &texts,
        levels: &levels(),
        may_be_behind: &|_| false,
    })
}
