use crate::support::{assert_nothing_else_fired, finding, findings, recorded_report};

#[test]
fn a_spinning_disk_that_cannot_follow_is_critical_and_names_the_reader() {
    let report = recorded_report("disk-overloaded-4.15");
    assert_nothing_else_fired(&report, &["disk."]);
    for id in ["disk.saturation", "disk.saturation.read_latency"] {
        let found = finding(&report, id, Some("sda"));
        assert_eq!(found["status"], "critical", "{id}");
        assert_eq!(found["culprit"]["name"], "backup", "{id}");
    }
    let queue = finding(&report, "disk.saturation", Some("sda"))["value"].as_f64().unwrap();
    assert!((queue - 14.4).abs() < 0.01, "160 reads a second of 90 ms each, not {queue}");
    assert_eq!(finding(&report, "disk.saturation.pressure", None)["status"], "critical");
    assert_eq!(finding(&report, "disk.utilization", Some("sda"))["status"], "warning");
    assert_eq!(findings(&report, "disk.utilization").len(), 1, "a partition is no disk of its own");
}

#[test]
fn a_fast_disk_that_is_always_busy_raises_nothing() {
    let report = recorded_report("disk-busy-nvme");
    assert_nothing_else_fired(&report, &[]);
    let busy = finding(&report, "disk.utilization", Some("nvme0n1"));
    assert_eq!((&busy["status"], &busy["value"]), (&"ok".into(), &1.0.into()));
    assert_eq!(finding(&report, "disk.saturation", Some("nvme0n1"))["status"], "ok", "50 requests of 0.2 ms each");
    assert_eq!(finding(&report, "disk.saturation.read_latency", Some("nvme0n1"))["status"], "ok");
}

#[test]
fn a_slow_layer_is_told_from_the_disk_below_it_and_from_an_overloaded_one() {
    let report = recorded_report("disk-slow-layer-short");
    assert_nothing_else_fired(&report, &["disk.saturation.read_latency", "disk.saturation.pressure"]);
    let slow = finding(&report, "disk.saturation.read_latency", Some("dm-0"));
    assert_eq!(slow["status"], "warning");
    assert!(slow["summary"].as_str().unwrap().contains("slow, not overloaded"), "{slow:#}");
    assert_eq!(finding(&report, "disk.saturation.read_latency", Some("vda"))["status"], "ok");
    assert_eq!(finding(&report, "disk.saturation", Some("dm-0"))["status"], "skipped");
    assert_eq!(
        finding(&report, "disk.utilization", Some("vda"))["status"],
        "ok",
        "what it says about spinning is not believed"
    );
}

#[test]
fn writes_in_the_background_are_no_saturation_however_long_their_queue() {
    let report = recorded_report("disk-background-writes");
    assert_nothing_else_fired(&report, &["disk.utilization"]);
    for id in ["disk.saturation", "disk.saturation.write_latency"] {
        let found = finding(&report, id, Some("sda"));
        assert_eq!(found["status"], "ok", "{id}");
        assert!(found["refuted_by"].as_str().unwrap().contains("background"), "{found:#}");
    }
}

#[test]
fn counters_that_wrap_and_devices_that_come_and_go_make_no_spike() {
    let report = recorded_report("disk-oddities");
    assert_nothing_else_fired(&report, &[]);
    let wrapped = finding(&report, "disk.saturation.read_latency", Some("sda"));
    assert_eq!((&wrapped["status"], &wrapped["value"]), (&"ok".into(), &0.006.into()));
    assert_eq!(finding(&report, "disk.saturation.read_latency", Some("sdb"))["value"], 0.005, "while it was there");
    let exchanged = finding(&report, "disk.utilization", Some("sdd"));
    assert_eq!(exchanged["value"], 0.001, "the counters of two disks were compared");
    assert_ne!(exchanged["confidence"], "high");
    let slashed = finding(&report, "disk.saturation.read_latency", Some("cciss/c0d0"))["value"].as_f64().unwrap();
    assert!((slashed - 0.003).abs() < 1e-9, "{slashed}");
    for id in ["disk.utilization", "disk.saturation"] {
        let frozen = finding(&report, id, Some("sdc"));
        assert_eq!((&frozen["status"], &frozen["unavailable"]["reason"]), (&"unknown".into(), &"disabled".into()));
        assert!(frozen["unavailable"]["remedy"].as_str().unwrap().contains("/sys/block/sdc/queue/iostats"));
        assert_eq!(finding(&report, id, Some("zram1"))["status"], "skipped");
        assert!(findings(&report, id).iter().all(|found| found["instance"] != "loop0" && found["instance"] != "zram0"));
    }
}

#[test]
fn a_disk_that_stopped_answering_is_not_taken_for_an_idle_one() {
    let report = recorded_report("disk-stuck");
    assert_nothing_else_fired(&report, &["disk.saturation.stuck", "disk.saturation.pressure", "disk.errors"]);
    assert_eq!(finding(&report, "disk.saturation.stuck", Some("sda"))["status"], "critical");
    assert_eq!(finding(&report, "disk.saturation.pressure", None)["status"], "warning");
    let errors = finding(&report, "disk.errors", None);
    assert_eq!(errors["status"], "critical");
    assert_eq!(errors["log"].as_array().unwrap().len(), 2, "{errors:#}");
}
