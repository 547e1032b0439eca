//! Times that PCP recorded.

use serde_json::Value;

use super::{assert_names_the_job, told_elsewhere};

/// Forty seconds of an archive, as pcp2json 6.0.3 prints it (a record in a line): on a host with 2 CPUs four processes compute.
fn archive_of_pcp() -> String {
    std::fs::read_to_string(crate::support::path("tests/fixtures/pcp/pcp2json-6.0.3.json")).unwrap()
}

#[test]
fn an_archive_of_pcp_gives_a_verdict_with_the_culprit() {
    let (code, report, said) = told_elsewhere("--from", "40s", archive_of_pcp().as_bytes(), "2026-03-10T03:00:40Z");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Source: PCP, a sample every 10 s"), "{said}");
    assert!(said.contains("Of PCP, file systems, control groups and logs are not read"), "{said}");
    let host = &report["host"];
    assert_eq!(
        (&host["hostname"], &host["cpus"], &host["kernel"]),
        (&"web-03".into(), &2.into(), &"6.1.0-18-amd64".into())
    );
    assert_eq!(report["window"]["interval_seconds"], 10.0, "a logger that is some ms late is on time");
    assert!((report["window"]["seconds"].as_f64().unwrap() - 40.0).abs() < 0.1, "{:#}", report["window"]);
    let of = |rule: &str| crate::support::finding(&report, rule, None).clone();
    assert_names_the_job(&of("cpu.utilization"));
    let kills = of("memory.errors.oom");
    assert!(kills.to_string().contains("since boot, none within the window"), "14 of them: {kills:#}");
    assert_eq!(of("kernel.errors.bug")["status"], "unknown");
    assert!(!report.to_string().contains("hunter2"), "a password of a command line");
}

#[test]
fn a_slow_archive_of_pcp_is_of_low_confidence_and_what_it_cannot_tell_is_refused() {
    // The same records, 5 minutes apart.
    let mut archive: Value = serde_json::from_str(&archive_of_pcp()).unwrap();
    for record in archive["@pcp"]["@hosts"][0]["@metrics"].as_array_mut().unwrap() {
        let at: f64 = record["@timestamp"].as_str().unwrap().parse().unwrap();
        record["@timestamp"] = format!("{:.6}", 1_773_111_600.0 + (at - 1_773_111_600.0) * 30.0).into();
    }
    let (code, report, said) = told_elsewhere("--from", "20m", archive.to_string().as_bytes(), "2026-03-10T03:20:00Z");
    assert!(code == Some(0) && said.contains("Source: PCP, means over 5 min: a burst of a minute may hide"), "{said}");
    let busy = crate::support::finding(&report, "cpu.utilization", None);
    assert_eq!(busy["confidence"], "low", "{busy:#}");
    assert!(busy.to_string().contains("means of PCP over 5 min"), "{busy:#}");
    let (code, _, said) = told_elsewhere("--from", "10m", archive.to_string().as_bytes(), "2026-03-11T03:20:00Z");
    assert!(code == Some(2) && said.contains("PCP has nothing between"), "{said}");
    archive["@pcp"]["@hosts"][0]["@metrics"][0]["@timestamp"] = "2026-03-10 03:00:00".into();
    let (code, _, said) = told_elsewhere("--from", "20m", archive.to_string().as_bytes(), "2026-03-10T03:20:00Z");
    assert!(
        code == Some(2) && said.contains("does not tell the time zone") && said.contains("-Z UTC -f %s.%f"),
        "{said}"
    );
}
