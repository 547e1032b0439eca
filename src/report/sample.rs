//! Composed reports for tests.

use std::collections::BTreeMap;

use rdiag_model::finding::{Asked, Levels, Sign, Threshold};
use rdiag_model::recording::{FORMAT_VERSION, Overhead, Tool, Window};
use rdiag_model::report::{
    Around, ChangeKind, ChangeMark, Course, PlaybookInfo, Pressure, Span, StepOutcome, TopConsumer, Unrecorded,
};
use rdiag_model::*;

/// A finding of a rule, as `Judge` would give it.
pub(super) fn finding(id: &str, status: Status) -> Finding {
    let (resource, kind) = status::parse_rule_id(id).unwrap();
    Finding {
        id: id.into(),
        title: format!("Title of {id}"),
        resource,
        kind,
        instance: None,
        status,
        confidence: Confidence::High,
        confidence_reasons: Vec::new(),
        summary: format!("The summary of {id}."),
        value: Some(if status == Status::Ok { 0.1 } else { 0.5 }),
        unit: Unit::Ratio,
        threshold: Threshold {
            conditions: BTreeMap::from([("warning".into(), "value > 0.2".into())]),
            hold: Some(3),
            origin: "default".into(),
        },
        window_seconds: 10.0,
        held_intervals: None,
        evidence: Vec::new(),
        culprit: None,
        log: Vec::new(),
        unavailable: None,
        seconds_before: None,
        refuted_by: None,
        why: "Because of this.".into(),
        verify: "vmstat 1 10".into(),
        next: Vec::new(),
        lab: (id == "cpu.saturation").then(|| "10-more".into()),
    }
}

/// What `value > 0.2` asks for, with another level.
pub(super) fn above(level: f64) -> Vec<Asked> {
    vec![Asked::Value(Sign::Above, level)]
}

/// The levels of the conditions of [`saturated`].
pub(super) fn levels() -> BTreeMap<String, Levels> {
    let by_status = BTreeMap::from([(Status::Info, 0.1), (Status::Warning, 0.2), (Status::Critical, 0.5)]);
    BTreeMap::from([(
        "cpu.saturation".to_owned(),
        Levels { by_status, low_is_bad: false, alternatives: vec![above(0.2)] },
    )])
}

/// The same finding, not measured.
pub(super) fn unknown(id: &str, why: &str) -> Finding {
    let gap = Unavailable::new(Reason::Disabled, why).with_remedy("boot with psi=1");
    Finding { summary: why.into(), unavailable: Some(gap), value: None, ..finding(id, Status::Unknown) }
}

/// The saturation of the four core resources, in order.
pub(super) fn core_ok() -> Vec<Finding> {
    ["cpu.saturation", "memory.saturation", "disk.saturation", "network.saturation"]
        .map(|id| finding(id, Status::Ok))
        .to_vec()
}

pub(super) fn metric(id: &str) -> Option<&'static MetricDef> {
    let collected = rdiag_collectors::metrics().map(|(_, metric)| metric);
    collected.chain(rdiag_probes::metrics().map(|(_, metric)| metric)).find(|metric| metric.id == id)
}

pub(super) fn deed_of(id: &str) -> DeedOfMetric {
    metric(id).map(|def| DeedOfMetric::of(&def.deed)).unwrap_or_default()
}

pub(super) fn stress() -> Culprit {
    Culprit {
        kind: "process".into(),
        name: "stress-ng".into(),
        pids: vec![4711, 4712],
        count: 8,
        share: Some(0.98),
        value: Some(19.6),
        unit: Some(Unit::Seconds),
        metric: Some("process.cpu.seconds".into()),
        deed: deed_of("process.cpu.seconds"),
        labels: BTreeMap::from([("command".into(), "stress-ng --cpu 8".into())]),
    }
}

pub(super) fn recording() -> Recording {
    Recording {
        format_version: FORMAT_VERSION,
        tool: Tool { name: "rdiag".into(), version: "0.1.0".into() },
        playbook: "use-method".into(),
        params: BTreeMap::new(),
        target: Target::default(),
        host: Facts {
            hostname: "web-03".into(),
            kernel: "6.18.0".into(),
            os: "Debian GNU/Linux 13".into(),
            arch: "x86_64".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
            ..Facts::default()
        },
        setup: Setup::default(),
        started: "2025-11-21T03:12:45Z".into(),
        exercise: None,
        windows: vec![Window {
            steps: vec!["cpu".into()],
            begins: 0.0,
            seconds: 10.0,
            interval_seconds: 1.0,
            suspended_seconds: 0.0,
            collectors: BTreeMap::new(),
            probes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
        }],
        interrupted: false,
        overhead: Overhead {
            cpu_seconds: 0.031,
            cpu_ratio: 0.0031,
            max_resident_bytes: 9 << 20,
            ..Overhead::default()
        },
    }
}

fn measured(unit: Unit, dimension: Option<&str>, instances: &[(&str, &[f64])]) -> Reading {
    let stats = |values: &[f64]| Stats {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        max: values.iter().copied().fold(0.0, f64::max),
        total: values.iter().sum(),
        intervals: values.iter().copied().map(Some).collect(),
        ..Stats::default()
    };
    Reading::Measured {
        unit,
        dimension: dimension.map(str::to_owned),
        source: "/proc/stat, cpu line".into(),
        rank: 0,
        instances: instances.iter().map(|(name, values)| ((*name).to_owned(), Ok(stats(values)))).collect(),
    }
}

/// Readings of one window, with three processes.
pub(super) fn metrics() -> Metrics {
    let curve = [0.55, 0.68, 0.71, 0.74, 0.70, 0.73, 0.72, 0.71, 0.69, 0.77];
    let mut metrics = Metrics { intervals: 10, seconds: 10.0, ..Metrics::default() };
    let mut put = |id: &str, reading| metrics.readings.insert(id.to_owned(), reading);
    put("cpu.runqueue.wait.ratio", measured(Unit::Ratio, None, &[("", &curve)]));
    put(
        "process.cpu.seconds",
        measured(Unit::Seconds, Some("process"), &[("4711:1", &[9.9]), ("4712:2", &[9.7]), ("1:0", &[0.4])]),
    );
    put(
        "cpu.pressure.ratio",
        Reading::Unavailable(Unavailable::new(Reason::Disabled, "PSI is switched off").with_remedy("boot with psi=1")),
    );
    let names = [("4711:1", "stress-ng"), ("4712:2", "stress-ng"), ("1:0", "systemd")];
    let labels = names.map(|(instance, name)| {
        let pid = instance.split(':').next().unwrap_or_default().to_owned();
        (instance.to_owned(), BTreeMap::from([("name".to_owned(), name.to_owned()), ("pid".to_owned(), pid)]))
    });
    metrics.labels.insert("process".into(), labels.into_iter().collect());
    metrics
}

/// A saturated CPU, the judged reading, one gap, and the rest in order.
pub(super) fn saturated() -> Vec<Finding> {
    let mut cpu = finding("cpu.saturation", Status::Critical);
    cpu.title = "Run-queue waiting".into();
    cpu.summary = "Threads waited 70.0% of the time they were runnable. Both CPUs were busy.".into();
    cpu.value = Some(0.7);
    cpu.held_intervals = Some((10, 10));
    cpu.threshold.conditions.insert("critical".into(), "value > 0.5".into());
    cpu.culprit = Some(stress());
    cpu.evidence = vec![Evidence {
        metric: "cpu.runqueue.wait.ratio".into(),
        instance: None,
        window: 0,
        mean: Some(0.7),
        max: Some(0.77),
        total: Some(7.0),
        unit: Unit::Ratio,
        source: "/proc/schedstat, fields 8 and 9".into(),
    }];
    cpu.next = vec![
        NextStep { action: "Look at what the largest consumer executes: perf top.".into(), changes_host: false },
        NextStep { action: "Lower its priority: renice +10 -p PID.".into(), changes_host: true },
    ];
    let mut busy = finding("cpu.utilization", Status::Warning);
    busy.summary = "The CPUs were 99.1% busy.".into();
    busy.value = Some(0.991);
    let mut memory = finding("memory.utilization", Status::Ok);
    memory.summary = "Programs could still have 61.0% of memory.".into();
    memory.value = Some(0.39);
    memory.threshold.conditions = [("warning".to_owned(), "value > 0.9".to_owned())].into();
    let mut skipped = finding("disk.errors", Status::Skipped);
    skipped.unavailable = Some(Unavailable::new(Reason::NotApplicable, "this host shows no device"));
    skipped.summary = "this host shows no device".into();
    let psi = unknown("memory.saturation", "PSI is switched off");
    vec![finding("network.saturation", Status::Ok), memory, busy, psi, skipped, cpu]
}

/// A report of `findings` with the sample's recording and readings.
pub(super) fn report(findings: Vec<Finding>) -> Report {
    let step = StepOutcome {
        id: "cpu".into(),
        question: "Are the CPUs busy, does work queue for them, do they report errors?".into(),
        teach: "A CPU is *saturated* when threads that could run have to wait.\n\n- Busy CPUs alone are no problem.\n"
            .into(),
        status: Status::Critical,
        window: Some(0),
        when: None,
        rules: vec!["cpu.saturation".into(), "cpu.utilization".into()],
        probes: Vec::new(),
        answer: "Threads waited 70.0% of the time they were runnable.".into(),
    };
    super::build(super::Parts {
        recording: &recording(),
        metrics: &[metrics()],
        findings,
        profile: None,
        answer: None,
        steps: vec![step],
        playbook: PlaybookInfo {
            name: "use-method".into(),
            title: "The USE method for a Linux host".into(),
            params: BTreeMap::from([("duration".into(), "10s".into())]),
        },
        titles: &|_| None,
        probes: &|_| None,
        levels: &levels(),
        may_be_behind: &|_| false,
    })
}

/// The course of 25 minutes around a window of ten, of which five were not recorded; an OOM kill, two processes and a reboot in it.
pub(super) fn around() -> Around {
    let course = |seconds: f64| {
        let at = 3 * 3600 + 180 + seconds as i64;
        let shown = format!("{:02}:{:02}:{:02}", at / 3600, at / 60 % 60, at % 60);
        if (-300.0..0.0).contains(&seconds) {
            return Course { shown, seconds, ..Course::default() };
        }
        let busy = if (0.0..600.0).contains(&seconds) { 0.95 } else { 0.1 };
        let top = |name: &str, share| Some(TopConsumer { name: name.to_owned(), share });
        let pressure = Pressure {
            cpu_some: Some(busy * 0.8),
            memory_some: Some(0.0),
            memory_full: Some(0.0),
            io_some: Some(0.004),
            io_full: None,
        };
        let name = if busy > 0.5 { "report-job" } else { "postgres" };
        let top_io = if busy > 0.5 { top("postgres", 0.6) } else { None };
        Course { shown, seconds, cpu: Some(busy), pressure, top_cpu: top(name, busy - 0.04), top_io }
    };
    let mark = |(seconds, kind)| ChangeMark { seconds, kind, change: 0 };
    let marks = [
        (12.0, ChangeKind::OomKill),
        (30.0, ChangeKind::Process),
        (40.0, ChangeKind::Process),
        (700.0, ChangeKind::Reboot),
    ];
    Around {
        span: "2026-03-10 02:53:00 UTC to 03:18:00".into(),
        ends: "03:18:00".into(),
        source: "recorder, a sample every 5 s".into(),
        judged: Span { from: 0.0, until: 600.0 },
        slice_seconds: 30.0,
        slices: (-20..30).map(|at| course(f64::from(at) * 30.0)).collect(),
        row_seconds: 300.0,
        rows: (-2..3).map(|at| course(f64::from(at) * 300.0)).collect(),
        unrecorded: vec![Unrecorded { span: Span { from: -300.0, until: 0.0 }, shown: "02:58:00 to 03:03:00".into() }],
        marks: marks.map(mark).to_vec(),
    }
}
