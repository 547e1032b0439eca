//! A network card that fails, and sockets that run out of memory. The hosts are made up; beside
//! each fault stands what looks like it and is none.

use serde_json::Value;

use crate::support::{assert_nothing_else_fired, finding, recorded_report};

#[track_caller]
fn check<'r>(report: &'r Value, id: &str, instance: Option<&str>, status: &str, value: f64) -> &'r Value {
    let found = finding(report, id, instance);
    assert_eq!(found["status"], status, "{found:#}");
    assert!((found["value"].as_f64().unwrap() - value).abs() < 1e-6, "{id} is not {value}: {found:#}");
    found
}

#[test]
fn what_a_provider_delays_or_drops_is_found_though_the_link_has_room() {
    let report = recorded_report("network-beyond-allowance");
    let ids = ["network.saturation.allowance", "network.errors.allowance", "network.saturation.no_buffer"];
    assert_nothing_else_fired(&report, &ids);
    // 600 of 50 000 packets.
    let shaped = check(&report, ids[0], Some("eth0"), "warning", 600.0);
    assert!(shaped["summary"].as_str().unwrap().contains("beyond its allowance of outgoing bandwidth."), "{shaped:#}");
    let dropped = check(&report, ids[1], Some("eth0"), "warning", 12.0);
    assert!(dropped["summary"].as_str().unwrap().contains("beyond its allowance of connections."), "{dropped:#}");
    // Two of one queue and two of the other.
    let full = check(&report, ids[2], Some("eth1"), "warning", 4.0);
    assert_eq!(full["culprit"]["name"], "eth1");
    check(&report, ids[2], Some("eth2"), "ok", 0.0);
    check(&report, "network.utilization", Some("eth0"), "ok", 25_000.0 * 824.0 / 5.0 / 1.25e8);
}

#[test]
fn a_failing_card_is_told_from_the_one_that_failed_long_ago() {
    let report = recorded_report("network-card-failing");
    assert_nothing_else_fired(
        &report,
        &[
            "network.errors.half_duplex",
            "network.errors.transmit_timeout",
            "network.errors.device_log",
            "network.errors.carrier",
        ],
    );
    let duplex = check(&report, "network.errors.half_duplex", Some("eth0"), "warning", 1.0);
    assert_eq!(duplex["culprit"]["name"], "eth0");
    check(&report, "network.errors.half_duplex", Some("eth1"), "ok", 0.0);
    // Three before the window, five at its end.
    let stuck = check(&report, "network.errors.transmit_timeout", Some("eth0"), "critical", 2.0);
    assert_eq!(stuck["culprit"]["name"], "eth0");
    assert!(stuck["log"][0].as_str().unwrap().contains("transmit queue 0 timed out 5212 ms"), "{stuck:#}");
    check(&report, "network.errors.transmit_timeout", Some("eth1"), "ok", 0.0);
    let lines = check(&report, "network.errors.device_log", None, "warning", 3.0);
    assert_eq!(lines["culprit"]["name"], "eth0");
    assert!(lines["summary"].as_str().unwrap().contains("3 within the window, 4 since boot"), "{lines:#}");
    // The reset took the link down and up again.
    check(&report, "network.errors.carrier", Some("eth0"), "warning", 2.0);
    check(&report, "network.errors.carrier", Some("eth1"), "ok", 0.0);
}

#[test]
fn orphans_that_exhaust_the_memory_of_tcp_are_told_with_what_they_cost() {
    let report = recorded_report("network-sockets-short");
    assert_nothing_else_fired(
        &report,
        &[
            "network.utilization.orphans",
            "network.utilization.tcp_memory",
            "network.saturation.tcp_memory",
            "network.saturation.receive_buffer",
        ],
    );
    check(&report, "network.utilization.orphans", None, "warning", 29_491.0 / 32_768.0);
    let memory = check(&report, "network.saturation.tcp_memory", None, "critical", 42.0);
    let says = memory["summary"].as_str().unwrap();
    assert!(says.contains("pressure 2 times") && says.contains("and aborted 40 connections"), "{says}");
    check(&report, "network.saturation.receive_buffer", None, "warning", 600.0);
    let squeezed = check(&report, "network.saturation.softnet_squeeze", None, "info", 20.0);
    assert_eq!(squeezed["culprit"]["name"], "1", "the second CPU");
    let dropped = check(&report, "network.saturation.virtual_drops", None, "info", 200.0);
    assert_eq!(dropped["culprit"]["name"], "tap0", "the drops of veth1a are from before");
    // 30 valid ones and seven whose way was too long.
    check(&report, "network.errors.discards", None, "info", 37.0);
}

#[test]
fn the_same_proxy_on_an_ordinary_day_raises_nothing() {
    let report = recorded_report("network-sockets-near-limits");
    assert_nothing_else_fired(&report, &[]);
    check(&report, "network.utilization.orphans", None, "ok", 14_745.0 / 32_768.0);
    check(&report, "network.saturation.tcp_memory", None, "ok", 0.0);
    check(&report, "network.saturation.receive_buffer", None, "info", 4.0);
    check(&report, "network.saturation.softnet_squeeze", None, "ok", 9.0);
    check(&report, "network.saturation.virtual_drops", None, "ok", 0.0);
    check(&report, "network.errors.discards", None, "ok", 0.0);
}
