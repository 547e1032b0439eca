//! The readings that a rule test gives, laid out as a measurement would have left them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Lookup;
use crate::rules::schema::{Given, GivenInstance};
use rdiag_model::{Facts, LogLine, Metrics, Reading, Reason, Stats, Unavailable, Unit};

/// The instance that is judged.
pub(super) const JUDGED: &str = "test";

/// What is known of metrics, and which of them a rule uses.
pub(super) struct Catalogue<'c> {
    pub(super) metric_ids: &'c [&'c str],
    pub(super) lookup: Lookup<'c>,
    /// Cited by expressions: what a test does not give of these is not there.
    pub(super) cited: &'c BTreeSet<String>,
    /// Only mentioned by sentences: what a test does not give of these has a stand-in.
    pub(super) mentioned: &'c BTreeSet<String>,
}

/// What a rule test lets a rule see.
pub(super) struct Scene {
    pub(super) facts: Facts,
    pub(super) metrics: Arc<Metrics>,
    pub(super) log: Vec<LogLine>,
}

/// What a test gives, by reference.
type Readings = BTreeMap<String, Option<Given>>;
/// By metric and instance.
type Figures = BTreeMap<String, Option<BTreeMap<String, Stats>>>;

impl Scene {
    pub(super) fn new(given: &Readings, catalogue: &Catalogue<'_>) -> Result<Self, String> {
        let mut facts = Facts { cpus: 4, memory_bytes: 16 << 30, virtual_machine: false, ..Facts::default() };
        let mut metrics = Metrics { intervals: intervals(given)?, seconds: 10.0, ..Metrics::default() };
        let mut log = Vec::new();
        let mut figures = Figures::new();
        let mut labels = BTreeMap::new();
        // Series come first: a statistic that is given by itself then has the last word.
        let series = |given: &Option<Given>| matches!(given, Some(Given::Intervals(_)));
        let (first, then): (Vec<_>, Vec<_>) = given.iter().partition(|(_, given)| series(given));
        for (path, given) in first.into_iter().chain(then) {
            if let Some(fact) = path.strip_prefix("host.") {
                set_fact(&mut facts, fact, given.as_ref())?;
            } else if path == "window.seconds" {
                let Some(Given::Number(seconds)) = given else { return Err(format!("{path} must be a number")) };
                metrics.seconds = *seconds;
            } else if let Some(label) = path.strip_prefix("label.") {
                let Some(Given::Text(text)) = given else { return Err(format!("{path} must be text")) };
                labels.insert(label.to_owned(), text.clone());
            } else if let Some(class) = path.strip_prefix("log.") {
                let Some(Given::Text(text)) = given else { return Err(format!("{path} must be text")) };
                log.push(line(class, text));
            } else {
                set_stat(&mut figures, &mut metrics, path, given.as_ref(), catalogue)?;
            }
        }
        for id in catalogue.mentioned {
            let judged = || BTreeMap::from([(own_instance(id, catalogue).to_owned(), stand_in(id, catalogue))]);
            figures.entry(id.clone()).or_insert_with(|| Some(judged()));
        }
        for (id, instances) in figures {
            let reading = reading(&id, instances, &labels, &mut metrics, catalogue)?;
            metrics.readings.insert(id, reading);
        }
        // A metric that the test does not mention is not there: the rule must say `unknown`, not guess.
        for id in catalogue.cited {
            let gap = || Reading::Unavailable(Unavailable::new(Reason::Absent, "the rule test does not give it"));
            metrics.readings.entry(id.clone()).or_insert_with(gap);
        }
        Ok(Self { facts, metrics: Arc::new(metrics), log })
    }
}

/// As many as the series of the test have, which must agree.
fn intervals(given: &Readings) -> Result<usize, String> {
    let lengths: BTreeSet<usize> = given.values().flatten().filter_map(Given::intervals).collect();
    match (lengths.first(), lengths.len()) {
        (None, _) => Ok(1),
        (Some(0), _) => Err("a series is empty".into()),
        (Some(length), 1) => Ok(*length),
        _ => Err("the series of a test must have as many intervals as each other".into()),
    }
}

impl Given {
    fn intervals(&self) -> Option<usize> {
        match self {
            Self::Intervals(values) => Some(values.len()),
            _ => None,
        }
    }
}

fn reading(
    id: &str,
    instances: Option<BTreeMap<String, Stats>>,
    labels: &BTreeMap<String, String>,
    metrics: &mut Metrics,
    catalogue: &Catalogue<'_>,
) -> Result<Reading, String> {
    let (unit, dimension) = (catalogue.lookup)(id).ok_or_else(|| format!("{id} is no metric"))?;
    let Some(mut instances) = instances else {
        return Ok(Reading::Unavailable(Unavailable::new(Reason::Absent, "the rule test takes it away")));
    };
    for stats in instances.values_mut() {
        if stats.intervals.len() < metrics.intervals {
            stats.intervals = vec![Some(stats.mean); metrics.intervals];
        }
    }
    if let Some(dimension) = dimension.filter(|_| instances.contains_key(JUDGED)) {
        let own = metrics.labels.entry(dimension.to_owned()).or_default().entry(JUDGED.to_owned()).or_default();
        own.extend(labels.clone());
    }
    let instances = instances.into_iter().map(|(name, stats)| (name, Ok(stats))).collect();
    Ok(Reading::Measured {
        unit,
        dimension: dimension.map(str::to_owned),
        source: "a rule test".into(),
        rank: 0,
        instances,
    })
}

fn own_instance(id: &str, catalogue: &Catalogue<'_>) -> &'static str {
    if (catalogue.lookup)(id).is_some_and(|(_, dimension)| dimension.is_some()) { JUDGED } else { "" }
}

/// A plausible value for a metric that only a sentence mentions.
fn stand_in(id: &str, catalogue: &Catalogue<'_>) -> Stats {
    Stats::constant(match (catalogue.lookup)(id).map(|(unit, _)| unit) {
        Some(Unit::Ratio) => 0.5,
        Some(Unit::Seconds) => 0.02,
        Some(Unit::Bytes) => 3e9,
        Some(Unit::BytesPerSecond) => 3e6,
        _ => 3.0,
    })
}

fn set_stat(
    figures: &mut Figures,
    metrics: &mut Metrics,
    path: &str,
    given: Option<&Given>,
    catalogue: &Catalogue<'_>,
) -> Result<(), String> {
    let whole = catalogue.metric_ids.contains(&path);
    let (id, field) = match path.rsplit_once('.') {
        _ if whole => (path, None),
        Some((id, field)) => (id, Some(field)),
        None => return Err(format!("{path} is no reference to a metric")),
    };
    if let Some(field) = field.filter(|field| !Stats::FIELDS.contains(field)) {
        return Err(format!("{field} is no statistic; there are {}", Stats::FIELDS.join(", ")));
    }
    let Some(given) = given else {
        figures.insert(id.to_owned(), None);
        return Ok(());
    };
    let Some(instances) = figures.entry(id.to_owned()).or_insert_with(|| Some(BTreeMap::new())) else { return Ok(()) };
    let judged = own_instance(id, catalogue).to_owned();
    match (given, field) {
        (Given::Number(value), Some(field)) => {
            let stats = instances.entry(judged).or_insert_with(|| Stats::constant(*value));
            set_field(stats, field, *value);
        }
        (Given::Intervals(values), _) => {
            let unit = (catalogue.lookup)(id).map(|(unit, _)| unit);
            instances.insert(judged, series(values, field == Some("total"), unit, metrics.seconds));
        }
        (Given::Instances(named), None) => {
            let Some((_, Some(dimension))) = (catalogue.lookup)(id) else {
                return Err(format!("{id} is measured for the whole host: it has no named instances"));
            };
            for (name, given) in named {
                let (value, labels) = match given {
                    GivenInstance::Number(value) => (*value, BTreeMap::new()),
                    GivenInstance::Labelled { value, labels } => (*value, labels.clone()),
                };
                instances.insert(name.clone(), Stats::constant(value));
                let own = metrics.labels.entry(dimension.to_owned()).or_default().entry(name.clone()).or_default();
                own.extend(labels);
            }
        }
        (Given::Instances(_), Some(_)) => return Err(format!("{path}: named instances are those of {id}")),
        (Given::Number(_), None) => return Err(format!("{path} needs a statistic: {path}.mean, for example")),
        (Given::Flag(_) | Given::Text(_), _) => return Err(format!("{path} must be a number")),
    }
    Ok(())
}

fn set_field(stats: &mut Stats, field: &str, value: f64) {
    match field {
        "mean" => stats.mean = value,
        "median" => stats.intervals = vec![Some(value)],
        "min" => stats.min = value,
        "max" => stats.max = value,
        "p95" => stats.p95 = value,
        "last" => stats.last = value,
        _ => stats.total = value,
    }
}

/// The statistics of a series, as they follow from its intervals.
fn series(values: &[f64], counted: bool, unit: Option<Unit>, seconds: f64) -> Stats {
    let sum: f64 = values.iter().sum();
    let mean = sum / values.len().max(1) as f64;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = ((sorted.len() as f64 * 0.95).ceil() as usize).max(1) - 1;
    let pick = |at: usize| sorted.get(at).copied().unwrap_or(mean);
    let last = values.last().copied().unwrap_or(mean);
    let total = match unit {
        _ if counted => sum,
        Some(Unit::PerSecond | Unit::BytesPerSecond) => mean * seconds,
        _ => last,
    };
    Stats {
        mean,
        min: pick(0),
        max: pick(sorted.len().saturating_sub(1)),
        p95: pick(rank),
        last,
        total,
        intervals: values.iter().copied().map(Some).collect(),
        discarded: 0,
    }
}

fn line(class: &str, subject: &str) -> LogLine {
    LogLine {
        gone: false,
        class: class.to_owned(),
        seconds_since_boot: 100.0,
        in_window: true,
        subject: Some(subject.to_owned()),
        text: format!("{class}: {subject}"),
    }
}

fn set_fact(facts: &mut Facts, name: &str, given: Option<&Given>) -> Result<(), String> {
    match (name, given) {
        ("cpus", Some(Given::Number(n))) => facts.cpus = *n as u32,
        ("memory_bytes", Some(Given::Number(n))) => facts.memory_bytes = *n as u64,
        ("uptime_seconds", Some(Given::Number(n))) => facts.uptime_seconds = *n,
        ("virtual_machine", Some(Given::Flag(yes))) => facts.virtual_machine = *yes,
        _ => return Err(format!("host.{name} cannot be given this value in a test")),
    }
    Ok(())
}
