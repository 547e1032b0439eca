//! /sys/class/thermal and the CPU's own sensors in /sys/class/hwmon: how far temperatures are from where the hardware or the kernel acts.
//!
//! Of hwmon only the drivers that read a register of the CPU are asked. Others send a command to a disk (drivetemp, nvme), wake a sleeping
//! graphics card, or take milliseconds on a slow bus.

use crate::def::{Cadence, Collect, CollectorDef, Sink, unless_virtual};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "temperatures",
    help: "Temperatures and their critical limits, from /sys/class/thermal and CPU sensors of /sys/class/hwmon.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window one short file per sensor that has a limit (a CPU's own are read on that CPU)",
    start: |_| Box::new(Temperatures::default()),
};

const NOW: &str = "temperatures.now";
const LIMIT: &str = "temperatures.limit";

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge(NOW, RawUnit::Count, "/sys/class/thermal/thermal_zoneN/temp; /sys/class/hwmon/hwmonN/tempN_input"),
    SeriesDef::gauge(
        LIMIT,
        RawUnit::Count,
        "/sys/class/thermal/thermal_zoneN/trip_point_N_temp, the lowest that is hot or critical; /sys/class/hwmon/hwmonN/tempN_crit",
    ),
];

const MANUAL: &str = "sensors; grep . /sys/class/thermal/thermal_zone*/{type,temp}";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "power.temperature.count",
        unit: Unit::Count,
        dimension: Some("sensor"),
        help: "Temperature of a thermal zone or of a chip's hottest sensor, in degrees Celsius.",
        sources: &[Formula::level(&[term(NOW)])],
        caveat: "Only sensors with a critical limit. Of a chip with several it is the one nearest to its limit.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "power.temperature_limit.count",
        unit: Unit::Count,
        dimension: Some("sensor"),
        help: "Temperature at which a thermal zone or sensor is critical (or hot), in degrees Celsius.",
        sources: &[Formula::level(&[term(LIMIT)])],
        caveat: "As the firmware or the driver gives it; limits that no hardware has (below 50 or above 130 °C) are \
                 left out.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

const ZONES: &str = "sys/class/thermal";
const CHIPS: &str = "sys/class/hwmon";
const QUICK: [&str; 3] = ["coretemp", "k10temp", "zenpower"];
/// More zones, chips, or sensors of a chip than this are not read.
const MAX: usize = 256;

#[derive(Default)]
struct Temperatures {
    sensors: Option<Vec<Sensor>>,
}

/// Readings of one zone or chip: the file of each, and its limit in thousandths of a degree.
struct Sensor {
    name: String,
    files: Vec<(String, f64)>,
}

impl Collect for Temperatures {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let sensors = self.sensors.get_or_insert_with(|| find(host));
        if sensors.is_empty() {
            let gap =
                Unavailable::new(Reason::Absent, "no thermal zone and no sensor of a CPU tells a critical temperature")
                    .with_remedy("load the driver of the CPU's sensors (coretemp, k10temp)");
            return Err(unless_virtual(host.facts(), "the hypervisor, not its guest, sees temperatures", gap));
        }
        for sensor in sensors {
            let read = |(file, limit): &(String, f64)| {
                Some((
                    host.read_line(file).ok()?.parse::<f64>().ok().filter(|now| (-50e3..250e3).contains(now))?,
                    *limit,
                ))
            };
            let readings = sensor.files.iter().filter_map(read);
            match readings.min_by(|(now, limit), (other, at)| (limit - now).total_cmp(&(at - other))) {
                Some((now, limit)) => {
                    out.level(NOW, &sensor.name, now / 1e3);
                    out.level(LIMIT, &sensor.name, limit / 1e3);
                }
                None => {
                    let gap = Unavailable::new(Reason::Malformed, format!("{} gives no temperature", sensor.name));
                    out.gap("temperatures.", &sensor.name, gap);
                }
            }
        }
        Ok(())
    }
}

fn find(host: &Host) -> Vec<Sensor> {
    let mut sensors = Vec::new();
    for zone in host.list(ZONES).unwrap_or_default().iter().filter(|name| name.starts_with("thermal_zone")).take(MAX) {
        let folder = format!("{ZONES}/{zone}");
        let trips =
            (0..12).map_while(|trip| Some((trip, host.read_line(&format!("{folder}/trip_point_{trip}_type")).ok()?)));
        let acting = trips.filter(|(_, kind)| kind == "critical" || kind == "hot");
        let limits = acting.filter_map(|(trip, _)| limit(host, &format!("{folder}/trip_point_{trip}_temp")));
        if let Some(limit) = limits.min_by(f64::total_cmp) {
            sensors.push(Sensor {
                name: named(host, &folder, "type", zone),
                files: vec![(format!("{folder}/temp"), limit)],
            });
        }
    }
    for chip in host.list(CHIPS).unwrap_or_default().iter().take(MAX) {
        let folder = format!("{CHIPS}/{chip}");
        if !host.read_line(&format!("{folder}/name")).is_ok_and(|name| QUICK.contains(&name.as_str())) {
            continue;
        }
        let files = host.list(&folder).unwrap_or_default();
        let inputs =
            files.iter().filter_map(|file| file.strip_suffix("_input").filter(|name| name.starts_with("temp")));
        let limited = inputs.take(MAX).filter_map(|input| {
            Some((format!("{folder}/{input}_input"), limit(host, &format!("{folder}/{input}_crit"))?))
        });
        let files: Vec<_> = limited.collect();
        if !files.is_empty() {
            sensors.push(Sensor { name: named(host, &folder, "name", chip), files });
        }
    }
    sensors
}

/// A limit in thousandths of a degree, if it is one: some firmware gives 0, 20 or 255 °C.
fn limit(host: &Host, path: &str) -> Option<f64> {
    host.read_line(path).ok()?.parse().ok().filter(|limit| (50e3..=130e3).contains(limit))
}

fn named(host: &Host, folder: &str, file: &str, entry: &str) -> String {
    let kind: String = host.read_line(&format!("{folder}/{file}")).unwrap_or_default().chars().take(40).collect();
    format!("{entry} {kind}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::COLLECTOR;
    use crate::testing::{Story, gap, instances, stats};
    use rdiag_model::Reason;

    const ZONE: &str = "sys/class/thermal/thermal_zone0";
    const CHIP: &str = "sys/class/hwmon/hwmon2";

    #[test]
    fn a_zone_has_its_lowest_limit_and_a_chip_its_sensor_nearest_to_one() {
        let mut story = Story::of_seconds(2);
        for (file, text) in [
            ("type", "acpitz"),
            ("temp", "61000"),
            ("trip_point_0_type", "critical"),
            ("trip_point_0_temp", "105000"),
            ("trip_point_1_type", "hot"),
            ("trip_point_1_temp", "95000"),
            ("trip_point_2_type", "passive"),
            ("trip_point_2_temp", "60000"),
        ] {
            story = story.file(0, &format!("{ZONE}/{file}"), format!("{text}\n"));
        }
        for (file, text) in [
            ("name", "coretemp"),
            ("temp1_input", "80000"),
            ("temp1_crit", "100000"),
            ("temp2_input", "97000"),
            ("temp2_crit", "100000"),
            ("temp3_input", "99000"),
            ("in0_input", "12000"),
        ] {
            story = story.file(0, &format!("{CHIP}/{file}"), format!("{text}\n"));
        }
        let story = story.file(0, "sys/class/hwmon/hwmon3/name", "drivetemp\n");
        let story = story.file(0, "sys/class/hwmon/hwmon3/temp1_input", "64000\n");
        let metrics = story.file(0, "sys/class/hwmon/hwmon3/temp1_crit", "65000\n").metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "power.temperature.count"), ["hwmon2 coretemp", "thermal_zone0 acpitz"]);
        let last = |id: &str, name: &str| stats(&metrics, &format!("power.{id}.count"), name).last;
        assert_eq!(
            (last("temperature", "hwmon2 coretemp"), last("temperature_limit", "hwmon2 coretemp")),
            (97.0, 100.0)
        );
        let zone = "thermal_zone0 acpitz";
        assert_eq!((last("temperature", zone), last("temperature_limit", zone)), (61.0, 95.0));
    }

    #[test]
    fn limits_that_no_hardware_has_do_not_count_and_garbage_is_a_gap() {
        let zone = |temp: &str, limit: &str| {
            Story::of_seconds(2)
                .file(0, &format!("{ZONE}/type"), "x\n")
                .file(0, &format!("{ZONE}/temp"), temp)
                .file(0, &format!("{ZONE}/trip_point_0_type"), "critical\n")
                .file(0, &format!("{ZONE}/trip_point_0_temp"), limit)
        };
        for limit in ["20800\n", "0\n", "-274000\n", "255000\n", "", "hot\n"] {
            let gap = zone("61000\n", limit).record(&COLLECTOR).unavailable.unwrap();
            assert!(gap.reason == Reason::Absent && gap.remedy.is_some(), "{limit:?}: {gap:?}");
        }
        for temp in ["", "warm\n", "2147483647\n"] {
            assert_eq!(
                gap(&zone(temp, "95000\n").metrics(&COLLECTOR), "power.temperature.count", "thermal_zone0 x").reason,
                Reason::Malformed
            );
        }
        let guest = Story::of_seconds(2).file(0, "proc/cpuinfo", "flags : hypervisor\n").record(&COLLECTOR);
        assert_eq!(guest.unavailable.unwrap().reason, Reason::NotApplicable);
    }
}
