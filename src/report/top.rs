//! The largest consumers of what processes consume.

use rdiag_model::report::{TopRow, TopTable};
use rdiag_model::{Metrics, Reading};

/// Rows per table; the rest is summed up.
const ROWS: usize = 10;
/// The instance in which the metrics sum up what they did not keep.
const OTHERS: &str = "(others)";
/// What is shown, with its title.
const TABLES: [(&str, &str); 5] = [
    ("process.cpu.seconds", "CPU time"),
    ("process.run_delay.seconds", "Waiting for a CPU"),
    ("process.resident.bytes", "Resident memory"),
    ("process.read.bytes", "Read from storage"),
    ("process.write.bytes", "Written to storage"),
];

/// The tables of the first window that has them.
pub(super) fn tables(metrics: &[Metrics]) -> Vec<TopTable> {
    TABLES.iter().filter_map(|(id, title)| metrics.iter().find_map(|window| table(window, id, title))).collect()
}

fn table(metrics: &Metrics, id: &str, title: &str) -> Option<TopTable> {
    let Some(Reading::Measured { unit, dimension: Some(dimension), instances, .. }) = metrics.readings.get(id) else {
        return None;
    };
    let labels = metrics.labels.get(dimension);
    let mut values: Vec<(&String, f64)> =
        instances.iter().filter_map(|(instance, stats)| Some((instance, stats.as_ref().ok()?.total))).collect();
    values.retain(|(_, value)| *value > 0.0);
    values.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
    let whole: f64 = values.iter().map(|(_, value)| value).sum();
    if whole <= 0.0 {
        return None;
    }
    let mut table = TopTable {
        metric: id.into(),
        title: title.into(),
        unit: *unit,
        rows: Vec::new(),
        others: 0.0,
        others_count: 0,
    };
    for (instance, value) in values {
        if instance == OTHERS || table.rows.len() == ROWS {
            table.others += value;
            table.others_count += 1;
            continue;
        }
        let mut names = labels.and_then(|all| all.get(instance)).cloned().unwrap_or_default();
        let name = names.remove("name").unwrap_or_else(|| instance.clone());
        let share = value / whole;
        table.rows.push(TopRow { instance: instance.clone(), name, value, share, labels: names });
    }
    Some(table)
}
