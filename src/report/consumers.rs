//! Who used the CPUs, the memory and the disks: processes by name, what is charged to no process, and what was left, so that the rows are
//! the whole.

use std::collections::BTreeMap;

use super::causes::Problem;
use super::timeline::thinned;
use rdiag_model::quantity::{bytes, seconds};
use rdiag_model::report::{Consumer, Consumers};
use rdiag_model::{DeedOfMetric, Facts, Finding, Metrics, Reading, Resource, Stats, Unit};

/// Names that have a row, and the least share of the whole for one, unless it is the first.
const ROWS: usize = 5;
const LEAST_SHARE: f64 = 0.001;
/// What the metrics sum up because they did not keep it.
const OTHERS: &str = "(others)";
/// What the metrics found in the totals of the host and in no process.
const UNATTRIBUTED: [&str; 2] = ["(not seen)", "(interrupts)"];

const CPU: &str = "process.cpu.seconds";
const MEMORY: &str = "process.resident.bytes";
const READ: &str = "process.read.bytes";
const WRITTEN: &str = "process.write.bytes";
const ALL: [&str; 4] = [CPU, MEMORY, READ, WRITTEN];

/// The consumers of each resource that could be told, that of the first problem first.
pub(super) fn consumers(facts: &Facts, metrics: &[Metrics], problems: &[Problem<'_>]) -> Vec<Consumers> {
    let known = ALL.into_iter().filter_map(|id| metrics.iter().find_map(|window| of(window, facts, id)));
    let mut all: Vec<Consumers> = known.collect();
    if let Some(problem) = problems.first() {
        let lead = problem.lead.lead;
        // Of what is read and what is written, the larger is what keeps a disk busy.
        all.sort_by(|one, other| {
            let [a, b] = [one, other].map(|consumers| distance(lead, &consumers.metric));
            a.cmp(&b).then_with(|| if a == 1 { other.whole.total_cmp(&one.whole) } else { std::cmp::Ordering::Equal })
        });
    }
    all
}

/// How far a consumption is from what a finding is about: the one by which its culprit was found, those of its resource, the others.
fn distance(finding: &Finding, metric: &str) -> u8 {
    let by_culprit = finding.culprit.as_ref().and_then(|culprit| culprit.metric.as_deref());
    let is_of_resource = match finding.resource {
        Resource::Memory => metric == MEMORY,
        Resource::Disk => [READ, WRITTEN].contains(&metric),
        _ => metric == CPU,
    };
    if by_culprit == Some(metric) { 0 } else { 2 - u8::from(is_of_resource) }
}

fn of(window: &Metrics, facts: &Facts, id: &str) -> Option<Consumers> {
    let Some(Reading::Measured { unit, dimension: Some(dimension), instances, .. }) = window.readings.get(id) else {
        return None;
    };
    let labels = window.labels.get(dimension);
    let (mut rows, mut unattributed, mut unkept) = (BTreeMap::new(), 0.0, 0.0);
    for (instance, stats) in instances {
        let Ok(stats) = stats else { continue };
        if UNATTRIBUTED.contains(&instance.as_str()) {
            unattributed += stats.total;
        } else if instance == OTHERS {
            unkept += stats.total;
        } else if stats.total > 0.0 {
            add(&mut rows, labels.and_then(|all| all.get(instance)), instance, stats);
        }
    }
    let mut rows: Vec<ConsumerRow> = rows.into_values().collect();
    rows.sort_by(|a, b| b.row.value.total_cmp(&a.row.value).then_with(|| a.row.name.cmp(&b.row.name)));
    let charged: f64 = unkept + rows.iter().map(|named| named.row.value).sum::<f64>();
    let whole = whole(window, facts, id, charged, unattributed)?;
    // The crowd of those that did next to nothing tells nothing.
    let large = rows.iter().take_while(|named| named.row.value >= whole.value * LEAST_SHARE).count();
    let rest = rows.split_off(large.clamp(1, ROWS).min(rows.len()));
    let share = |named: ConsumerRow| Consumer {
        share: named.row.value / whole.value,
        values: thinned(&named.row.values),
        ..named.row
    };
    Some(Consumers {
        metric: id.to_owned(),
        deed: DeedOfMetric::default(),
        title: whole.title.to_owned(),
        unit: *unit,
        whole: whole.value,
        whole_is: whole.is,
        others: unkept + rest.iter().map(|named| named.row.value).sum::<f64>(),
        others_count: rest.len() + usize::from(unkept > 0.0),
        rows: rows.into_iter().map(share).collect(),
        unattributed: whole.unattributed,
        unused: whole.unused,
    })
}

/// A row, and how much of it the process has that it names.
struct ConsumerRow {
    row: Consumer,
    largest: f64,
}

fn add(
    rows: &mut BTreeMap<String, ConsumerRow>,
    labels: Option<&BTreeMap<String, String>>,
    instance: &str,
    stats: &Stats,
) {
    let label = |name: &str| labels.and_then(|labels| labels.get(name)).cloned();
    let name = label("name").unwrap_or_else(|| instance.to_owned());
    let named = rows.entry(name.clone()).or_insert_with(|| ConsumerRow {
        row: Consumer { name, count: 0, pid: None, command: None, value: 0.0, share: 0.0, values: Vec::new() },
        largest: 0.0,
    });
    named.row.count += 1;
    named.row.value += stats.total;
    if stats.total > named.largest {
        named.largest = stats.total;
        named.row.pid = label("pid").and_then(|pid| pid.parse().ok());
        named.row.command = label("command").filter(|command| *command != named.row.name);
    }
    let values = &mut named.row.values;
    values.resize(values.len().max(stats.intervals.len()), None);
    for (sum, value) in values.iter_mut().zip(&stats.intervals) {
        if let Some(value) = value {
            *sum.get_or_insert(0.0) += value;
        }
    }
}

/// What shares are shares of.
struct Whole {
    title: &'static str,
    value: f64,
    is: String,
    unattributed: Option<f64>,
    unused: Option<f64>,
}

/// The whole of a resource; none where it is not known.
fn whole(window: &Metrics, facts: &Facts, id: &str, charged: f64, unattributed: f64) -> Option<Whole> {
    let known = |value: f64| (value > 0.0).then_some(value);
    match id {
        CPU => {
            let value = f64::from(facts.cpus.max(1)) * window.seconds;
            let cpus = if facts.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", facts.cpus) };
            known(value).map(|value| Whole {
                title: "CPU time",
                value,
                is: format!("{cpus} for {}", seconds(window.seconds)),
                unattributed: Some(unattributed),
                unused: Some((value - charged - unattributed).max(0.0)),
            })
        }
        MEMORY => {
            let value = known(facts.memory_bytes as f64)?;
            let available = window.measured("memory.available.bytes", "").map(|stats| stats.last);
            // Pages that several processes share are counted for each.
            let rest = available.map(|available| value - available - charged);
            Some(Whole {
                title: "Resident memory",
                value,
                is: format!("{} of memory", bytes(value)),
                unattributed: rest.filter(|rest| *rest >= 0.0),
                unused: available,
            })
        }
        _ => {
            let (title, rate) = if id == READ {
                ("Read from disks", "disk.read.bytes_per_second")
            } else {
                ("Written to disks", "disk.write.bytes_per_second")
            };
            // Where devices stand upon one another, a sum would count the same bytes twice.
            let device = largest(window, rate);
            let by_device = device.as_ref().map_or(0.0, |(_, total)| *total);
            let value = known(charged.max(by_device))?;
            let is = match device {
                Some((name, total)) if total >= charged => format!("{} of {name}", bytes(total)),
                _ => format!("{} that processes are charged with", bytes(charged)),
            };
            Some(Whole { title, value, is, unattributed: Some(value - charged), unused: None })
        }
    }
}

/// The device with most bytes in the window.
fn largest(window: &Metrics, metric: &str) -> Option<(String, f64)> {
    let Some(Reading::Measured { instances, unit: Unit::BytesPerSecond, .. }) = window.readings.get(metric) else {
        return None;
    };
    let known = instances.iter().filter_map(|(name, stats)| Some((name, stats.as_ref().ok()?.mean * window.seconds)));
    let best = known.max_by(|(_, one), (_, other)| one.total_cmp(other));
    best.map(|(name, total)| (name.clone(), total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes;
    use crate::sample::{finding, metrics, recording, saturated, stress};
    use rdiag_model::Status;

    /// The sample's readings with more of them.
    fn readings(id: &str, unit: Unit, dimension: &str, instances: &[(&str, f64)]) -> Metrics {
        let mut metrics = metrics();
        let stats = |value: f64| Ok(Stats { intervals: vec![Some(value / 2.0); 2], ..Stats::constant(value) });
        let reading = Reading::Measured {
            unit,
            dimension: Some(dimension.to_owned()),
            source: String::new(),
            rank: 0,
            instances: instances.iter().map(|(name, value)| ((*name).to_owned(), stats(*value))).collect(),
        };
        metrics.readings.insert(id.to_owned(), reading);
        metrics
    }

    #[test]
    fn processes_of_one_name_are_one_row_and_the_rows_are_the_whole() {
        let processes = [
            ("4711:1", 6.0),
            ("4712:2", 4.0),
            ("1:0", 0.5),
            ("a:1", 0.4),
            ("b:1", 0.3),
            ("c:1", 0.2),
            ("d:1", 0.1),
            ("(others)", 0.5),
            ("(not seen)", 2.0),
        ];
        let readings = readings(CPU, Unit::Seconds, "process", &processes);
        let all = consumers(&recording().host, &[readings], &[]);
        let cpu = &all[0];
        assert_eq!(
            (cpu.rows[0].name.as_str(), cpu.rows[0].count, cpu.rows[0].pid, cpu.rows[0].value),
            ("stress-ng", 2, Some(4711), 10.0)
        );
        assert_eq!((cpu.rows[0].share, cpu.whole, cpu.whole_is.as_str()), (0.5, 20.0, "2 CPUs for 10.0 s"));
        assert_eq!(cpu.rows[0].values, [Some(5.0), Some(5.0)]);
        assert_eq!((cpu.rows.len(), cpu.others_count, cpu.unattributed), (5, 2, Some(2.0)));
        let rows: f64 = cpu.rows.iter().map(|row| row.value).sum();
        assert!((rows + cpu.others + 2.0 + cpu.unused.unwrap() - cpu.whole).abs() < 1e-9, "{cpu:?}");
    }

    #[test]
    fn what_a_disk_moved_and_no_process_is_charged_with_is_told() {
        let mut readings = readings(READ, Unit::Bytes, "process", &[("4711:1", 600.0), ("1:0", 100.0)]);
        let rate = |total: f64| Ok(Stats::constant(total / 10.0));
        let devices = [("vda".to_owned(), rate(1000.0)), ("dm-0".to_owned(), rate(900.0))].into();
        let reading = Reading::Measured {
            unit: Unit::BytesPerSecond,
            dimension: Some("device".into()),
            source: String::new(),
            rank: 0,
            instances: devices,
        };
        readings.readings.insert("disk.read.bytes_per_second".into(), reading);
        let mut slow = finding("disk.saturation", Status::Critical);
        slow.culprit = Some(rdiag_model::Culprit { metric: Some("biotop.io_time.seconds".into()), ..stress() });
        let findings = [slow];
        let all = consumers(&recording().host, &[readings], &causes::of(&findings).problems);
        assert_eq!(all.iter().map(|of| of.metric.as_str()).collect::<Vec<_>>(), [READ, CPU]);
        assert_eq!((all[0].whole, all[0].unattributed, all[0].rows[0].share), (1000.0, Some(300.0), 0.6));
        assert_eq!(all[0].whole_is, "1000 B of vda");
    }

    #[test]
    fn memory_that_processes_share_makes_no_negative_rest() {
        let memory = 8.0 * f64::from(1_u32 << 30);
        let mut readings = readings(MEMORY, Unit::Bytes, "process", &[("4711:1", memory * 0.7)]);
        let available = |share: f64| Reading::Measured {
            unit: Unit::Bytes,
            dimension: None,
            source: String::new(),
            rank: 0,
            instances: [(String::new(), Ok(Stats::constant(memory * share)))].into(),
        };
        readings.readings.insert("memory.available.bytes".into(), available(0.2));
        let of_memory = |readings: &Metrics| {
            let findings = [finding("memory.saturation", Status::Critical)];
            consumers(&recording().host, std::slice::from_ref(readings), &causes::of(&findings).problems).remove(0)
        };
        let known = of_memory(&readings);
        assert!(known.metric == MEMORY && (known.unattributed.unwrap() / memory - 0.1).abs() < 1e-9, "{known:?}");
        readings.readings.insert("memory.available.bytes".into(), available(0.5));
        assert_eq!(of_memory(&readings).unattributed, None);
    }

    #[test]
    fn the_largest_consumption_of_the_culprit_comes_first() {
        let mut findings = saturated();
        findings.retain(|finding| finding.status == Status::Critical);
        findings[0].culprit.as_mut().unwrap().metric = Some(WRITTEN.into());
        let readings = readings(WRITTEN, Unit::Bytes, "process", &[("4711:1", 600.0)]);
        let all = consumers(&recording().host, &[readings], &causes::of(&findings).problems);
        assert_eq!(all.iter().map(|of| of.metric.as_str()).collect::<Vec<_>>(), [WRITTEN, CPU]);
        assert_eq!(all[0].whole_is, "600 B that processes are charged with");
    }
}
