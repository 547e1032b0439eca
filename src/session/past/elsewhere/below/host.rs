//! What the host did in an interval, its disks and interfaces.

use std::collections::BTreeMap;

use super::super::building::Building;
use super::columns::{Kind, Table};
use super::tables::{Row, Tables};
use super::{HERTZ, Step};
use rdiag_model::RawUnit;

/// What below has of pressure is `avg10`: shares of time that fade by a factor of e in so many seconds.
const FADES: f64 = 10.0;
/// Of a longer interval it tells the end alone. Ten seconds between samples may be eleven in whole ones.
const LONGEST: f64 = 11.5;
/// Which pressure becomes which series.
const PRESSURE: [(&str, &str); 5] = [
    ("CPU Some Pressure", "psi.cpu_some"),
    ("Mem Some Pressure", "psi.memory_some"),
    ("Mem Pressure", "psi.memory_full"),
    ("I/O Some Pressure", "psi.io_some"),
    ("I/O Pressure", "psi.io_full"),
];

/// Tells all of it but processes.
pub(super) fn tell(tables: &Tables, step: &Step, cpus: f64, building: &mut Building) {
    for table in [Table::System, Table::Transport] {
        if let Some(now) = tables.rows(table, step.to).first() {
            figures(table, "", now, tables.rows(table, step.from).first(), step, cpus, building);
        }
    }
    if let Some(running) = tables.rows(Table::System, step.to).first().and_then(|row| row.number("Running Procs")) {
        // below runs while it reads.
        building.level("loadavg.runnable", "", RawUnit::Count, Some((running - 1.0).max(0.0)));
    }
    pressure(tables, step, building);
    let disks = named(tables, Table::Disk, "Name", step.to);
    for (table, title, now) in [
        (Table::Disk, "Name", &disks),
        (Table::Interface, "Interface", &named(tables, Table::Interface, "Interface", step.to)),
    ] {
        let before = named(tables, table, title, step.from);
        for (name, row) in now {
            let is_meant = match table {
                Table::Disk => !is_partition(name, |disk| disks.contains_key(disk)),
                _ => *name != "lo",
            };
            if is_meant {
                figures(table, name, row, before.get(name).copied(), step, cpus, building);
                drops(name, row, before.get(name).copied(), building);
            }
        }
    }
}

/// Rows by what they are called.
fn named<'t>(tables: &'t Tables, table: Table, title: &str, at: i64) -> BTreeMap<&'t str, &'t Row> {
    tables.rows(table, at).iter().filter_map(|row| Some((row.text(title, &tables.texts)?, row))).collect()
}

/// below lists partitions beside their disk: `sda1`, `nvme0n1p1`. Each disk is asked for by its name, however many there are.
fn is_partition(name: &str, is_disk: impl Fn(&str) -> bool) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let ends_in_digit = |disk: &&str| disk.ends_with(|c: char| c.is_ascii_digit());
    let is_numbered = || stem.strip_suffix('p').filter(ends_in_digit).is_some_and(&is_disk);
    stem.len() < name.len() && (is_disk(stem) || is_numbered())
}

/// Tells what stands in a row.
fn figures(
    table: Table,
    instance: &str,
    now: &Row,
    before: Option<&Row>,
    step: &Step,
    cpus: f64,
    building: &mut Building,
) {
    for (title, kind, cpu, figure) in now.figures(table) {
        match kind {
            Kind::Share(all, core) => {
                // A share of more than all of the time is that of a counter that stepped back.
                let share = Some(figure / 100.0).filter(|share| *share <= 1.0);
                let ticks = share.map(|share| share * step.seconds() * HERTZ as f64);
                match cpu {
                    Some(cpu) => building.grow(core, &cpu.to_string(), RawUnit::Ticks, ticks),
                    None => building.grow(all, "", RawUnit::Ticks, ticks.map(|ticks| ticks * cpus)),
                }
            }
            Kind::Rate(series, unit) => building.grow(series, instance, unit, Some(figure * step.seconds())),
            Kind::Total(series, unit) => {
                let first = before.and_then(|row| row.number(title));
                if let Some(first) = first.filter(|_| series == "vmstat.oom_kill") {
                    building.begins_at(series, unit, first);
                }
                building.grow(series, instance, unit, first.map(|first| figure - first));
            }
            Kind::Level(series, unit, one) => building.level(series, instance, unit, Some(figure / one)),
            Kind::Text | Kind::Number => {}
        }
    }
}

/// The kernel's list of interfaces has both in one column; below reads each from a file of its own.
fn drops(name: &str, now: &Row, before: Option<&Row>, building: &mut Building) {
    let all = |row: &Row| Some(row.number("RX Dropped")? + row.number("RX Missed Errors").unwrap_or(0.0));
    let more = all(now).zip(before.and_then(all)).map(|(now, before)| now - before);
    building.grow("interfaces.device_receive_drops", name, RawUnit::Count, more);
}

fn pressure(tables: &Tables, step: &Step, building: &mut Building) {
    let (now, before) = (tables.rows(Table::Group, step.to).first(), tables.rows(Table::Group, step.from).first());
    for (title, series) in PRESSURE {
        let share = |row: Option<&Row>| row.and_then(|row| row.number(title)).map(|percent| percent / 100.0);
        let stalled = share(before).zip(share(now)).and_then(|(before, now)| stalled(before, now, step.seconds()));
        building.grow(series, "", RawUnit::Microseconds, stalled.map(|share| share * step.seconds() * 1e6));
    }
}

/// The share of an interval in which tasks stalled, by the averages at its ends: of the earlier one a part is left in the later one, the
/// rest came within. Beside the kernel's totals, on CPU pressure while compilers ran, at a sample every 5 s, this was off by 2 % of the
/// time on average and by 9 % at most. Where a stall begins or ends it may be off by more: the kernel renews the average every 2 s.
fn stalled(before: f64, now: f64, seconds: f64) -> Option<f64> {
    let left = (-seconds / FADES).exp();
    (seconds <= LONGEST).then(|| ((now - before * left) / (1.0 - left)).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::{is_partition, stalled};

    #[test]
    fn the_share_of_an_interval_follows_from_the_averages_at_its_ends() {
        let near = |share: Option<f64>, expected: f64| share.is_some_and(|share| (share - expected).abs() < 0.01);
        assert!(near(stalled(0.4, 0.4, 5.0), 0.4), "as before");
        assert!(near(stalled(0.5, 0.303, 5.0), 0.0), "nothing any more: what is left fades");
        assert!(near(stalled(0.0, 0.393, 5.0), 1.0), "all of it");
        assert!(near(stalled(0.9, 0.1, 5.0), 0.0) && near(stalled(0.0, 1.0, 5.0), 1.0), "never beyond");
        assert!(near(stalled(0.4, 0.4, 11.0), 0.4) && stalled(0.4, 0.4, 12.0).is_none());
    }

    #[test]
    fn a_partition_is_named_after_its_disk() {
        let all =
            ["nvme0n1", "nvme0n1p1", "sda", "sda1", "sdaa", "sdp", "sdp1", "dm-1", "dm-10", "md127", "vda", "7", ""];
        let found: Vec<&str> = all.into_iter().filter(|name| is_partition(name, |disk| all.contains(&disk))).collect();
        assert_eq!(found, ["nvme0n1p1", "sda1", "sdp1", "7"]);
    }
}
