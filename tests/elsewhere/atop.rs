//! Times that atop recorded.

use serde_json::Value;

use super::{assert_names_the_job, of_device, told_elsewhere};

/// Eleven seconds of atop 2.8 on a host with 2 CPUs, on which four processes compute; of its processes, those that matter.
fn log_of_atop() -> String {
    std::fs::read_to_string(crate::support::path("tests/fixtures/atop/atop-2.8.jsonl")).unwrap()
}

/// The end of its last interval.
const ATOP_ENDS: &str = "2026-11-25T21:11:43Z";

#[test]
fn atop_alone_gives_a_verdict_with_the_culprit_and_no_lower_confidence_where_its_samples_are_short() {
    let (code, report, said) = told_elsewhere("--from", "11s", log_of_atop().as_bytes(), ATOP_ENDS);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Source: atop, a sample every 2 s"), "{said}");
    assert!(said.contains("atop records no latencies of disks"), "{said}");
    assert_eq!((&report["host"]["hostname"], &report["host"]["cpus"]), (&"web-03".into(), &2.into()));
    // The time since boot, with which the file begins, is no part of it.
    assert_eq!((&report["window"]["seconds"], &report["window"]["interval_seconds"]), (&11.0.into(), &2.0.into()));
    let of = |rule: &str| crate::support::finding(&report, rule, None).clone();
    for rule in ["cpu.utilization", "cpu.saturation"] {
        assert_names_the_job(&of(rule));
    }
    assert_eq!(of("kernel.errors.bug")["status"], "unknown");
    for rule in ["disk.utilization", "disk.saturation"] {
        assert_eq!(of_device(&report, rule, "vda").0, "ok", "{rule}");
    }
    let kills = of("memory.errors.oom");
    assert_eq!(kills["status"], "info", "14 since boot, none since then: {kills:#}");
    assert!(kills.to_string().contains("since boot, none within the window"), "{kills:#}");
}

/// The same lines at another distance, and with other figures.
fn stretched_log(every: i64, change: impl Fn(&mut Value)) -> String {
    let log = log_of_atop();
    let lines = log.lines().enumerate().map(|(at, line)| {
        let mut sample: Value = serde_json::from_str(line).unwrap();
        // A day before, so that none of it is still to come. The first line is that of the time since boot.
        sample["timestamp"] = (1_795_641_092 - 86_400 + every * i64::try_from(at).unwrap()).into();
        if at > 0 {
            sample["elapsed"] = every.into();
        }
        change(&mut sample);
        sample.to_string() + "\n"
    });
    lines.collect()
}

#[test]
fn means_of_atop_over_minutes_are_of_low_confidence_and_name_the_culprit() {
    let text = stretched_log(600, |sample| {
        for (label, keys) in
            [("CPU", &["utime", "stime", "ntime"][..]), ("PRC", &["utime", "stime"]), ("PSI", &["cstot"])]
        {
            let rows = match &mut sample[label] {
                Value::Array(rows) => rows.iter_mut().collect(),
                row => vec![row],
            };
            for row in rows {
                keys.iter().for_each(|key| row[*key] = (row[*key].as_u64().unwrap() * 300).into());
            }
        }
    });
    let (code, report, said) = told_elsewhere("--from", "10m", text.as_bytes(), "2026-11-24T21:41:32Z");
    assert!(
        code == Some(0) && said.contains("Source: atop, means over 10 min: a burst of a minute may hide"),
        "{said}"
    );
    let finding = crate::support::finding(&report, "cpu.utilization", None);
    assert_eq!((&finding["status"], &finding["confidence"]), (&"warning".into(), &"low".into()), "{finding:#}");
    assert_eq!(finding["culprit"]["name"], "report-job", "{finding:#}");
    assert!(finding.to_string().contains("means of atop over 10 min"), "{finding:#}");
    assert_eq!((&report["window"]["seconds"], &report["window"]["interval_seconds"]), (&600.0.into(), &150.0.into()));
}

#[test]
fn a_quiet_log_of_atop_is_quiet_and_one_that_is_cut_off_says_so() {
    let quiet = stretched_log(2, |sample| {
        sample["CPU"]["itime"] = 380.into();
        sample["PSI"]["cstot"] = 0.into();
        for label in ["CPU", "PRC"] {
            let rows = match &mut sample[label] {
                Value::Array(rows) => rows.iter_mut().collect(),
                row => vec![row],
            };
            for row in rows {
                ["utime", "stime", "ntime", "rundelay"].iter().for_each(|key| row[*key] = 1.into());
            }
        }
        sample["PRG"].as_array_mut().unwrap().iter_mut().for_each(|row| row["nthrrun"] = 0.into());
    });
    let cut = &quiet[..quiet.trim_end().rfind('\n').unwrap() + 500];
    let (code, report, said) = told_elsewhere("--from", "8s", cut.as_bytes(), "2026-11-24T21:11:40Z");
    assert!(code == Some(0) && said.contains("1 of its lines cannot be read and are left out (line 6: "), "{said}");
    for rule in ["cpu.utilization", "cpu.saturation.pressure", "cpu.saturation.runnable"] {
        let finding = crate::support::finding(&report, rule, None);
        assert_eq!(finding["status"], "ok", "{finding:#}");
    }
    let (code, _, said) = told_elsewhere("--from", "8s", cut.as_bytes(), "2026-11-23T21:11:40Z");
    assert!(code == Some(2) && said.contains("atop has nothing between"), "{said}");
}
