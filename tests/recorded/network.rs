use serde_json::Value;

use crate::support::{assert_nothing_else_fired, finding, findings, recorded_report};

fn status<'r>(report: &'r Value, id: &str, instance: Option<&str>) -> &'r str {
    finding(report, id, instance)["status"].as_str().unwrap()
}

#[test]
fn a_busy_network_that_loses_nothing_raises_nothing() {
    let report = recorded_report("network-busy-and-well");
    assert_nothing_else_fired(&report, &[]);
    let load = finding(&report, "network.utilization", Some("eth0"));
    assert_eq!(load["status"], "ok");
    // 400 MB/s of payload and 24 bytes for each of 300 000 frames, on 10 Gbit/s.
    assert!((load["value"].as_f64().unwrap() - 0.325_76).abs() < 1e-9, "{load:#}");
    assert_eq!(status(&report, "network.utilization", Some("eth1")), "skipped", "there is no cable in it");
    assert_eq!(findings(&report, "network.utilization").len(), 2, "loopback and veth have no link");
    assert_eq!(status(&report, "network.saturation.listen_overflow", None), "ok", "a queue that fills for a moment");
    for id in ["network.errors.receive_drops", "network.errors", "network.saturation.ring"] {
        assert_eq!(status(&report, id, Some("eth0")), "ok", "{id}");
    }
    for id in ["network.errors.retransmits", "network.errors.timeouts", "network.saturation.softnet"] {
        assert_eq!(status(&report, id, None), "ok", "{id}: columns that are new to us must not shift the others");
    }
    assert_eq!(finding(&report, "network.errors.retransmits", None)["value"].as_f64(), Some(10.0 / 150_000.0));
}

#[test]
fn a_full_link_is_critical_only_because_it_drops_frames_too() {
    let report = recorded_report("network-link-full");
    assert_nothing_else_fired(&report, &["network.utilization", "network.saturation.ring"]);
    let load = finding(&report, "network.utilization", Some("eth0"));
    assert_eq!((load["status"].as_str(), load["culprit"]["name"].as_str()), (Some("critical"), Some("eth0")));
    assert_eq!(status(&report, "network.saturation.ring", Some("eth0")), "critical");
}

#[test]
fn a_full_accept_queue_names_the_socket_and_the_process_and_nothing_else() {
    let report = recorded_report("network-listen-overflow");
    assert_nothing_else_fired(&report, &["network.saturation.listen_overflow"]);
    let overflow = finding(&report, "network.saturation.listen_overflow", None);
    assert_eq!((overflow["status"].as_str(), overflow["value"].as_f64()), (Some("critical"), Some(150.0)));
    assert_eq!(overflow["culprit"]["name"], "web (v2) worker 127.0.0.1:8080");
    assert_eq!(overflow["culprit"]["pids"][0], 700);
    let requests = finding(&report, "network.errors.syn_retransmits", None);
    assert_eq!(requests["status"], "ok", "the clients that try again are explained");
    assert!(requests["refuted_by"].as_str().unwrap().contains("accept queue"));
    assert_eq!(status(&report, "network.errors.retransmits", None), "ok", "no data was lost");
    assert_eq!(status(&report, "network.saturation.syn_queue", None), "ok", "it is no flood");
}

#[test]
fn an_unknown_speed_is_one_unknown_cell() {
    let report = recorded_report("network-listen-overflow");
    let load = findings(&report, "network.utilization");
    assert_eq!(load.len(), 1);
    assert_eq!((load[0]["status"].as_str(), load[0]["instance"].as_str()), (Some("unknown"), None));
    assert!(load[0]["summary"].as_str().unwrap().contains("eth0 (virtio_net) reports no link speed"));
}

#[test]
fn each_loss_is_told_from_the_others() {
    let report = recorded_report("network-losses");
    assert_nothing_else_fired(&report, &["network."]);
    for (id, instance, expected) in [
        ("network.errors", Some("eth0"), "critical"),
        ("network.errors.carrier", Some("eth0"), "warning"),
        ("network.errors.retransmits", None, "critical"),
        ("network.errors.timeouts", None, "warning"),
        ("network.errors.conntrack_drop", None, "critical"),
        ("network.errors.neighbour", None, "critical"),
        ("network.errors.fragmentation", None, "info"),
        ("network.saturation.softnet", None, "warning"),
        ("network.saturation.softnet_backlog", None, "warning"),
        ("network.saturation.transmit_queue_drops", Some("eth0"), "warning"),
        ("network.saturation.ring", Some("eth0"), "ok"),
        ("network.utilization.conntrack", None, "critical"),
        ("network.utilization.neighbours", Some("IPv4"), "warning"),
        ("network.utilization.neighbours", Some("IPv6"), "ok"),
    ] {
        assert_eq!(status(&report, id, instance), expected, "{id}");
    }
    let datagrams = finding(&report, "network.saturation.udp_receive_buffer", None);
    assert_eq!((datagrams["status"].as_str(), datagrams["value"].as_f64()), (Some("critical"), Some(250.0)));
    assert_eq!(datagrams["culprit"]["name"], "resolver 0.0.0.0:53", "drops from before the window are not counted");
}

#[test]
fn an_interface_that_is_removed_within_the_window_makes_no_spike() {
    let report = recorded_report("network-losses");
    let load = finding(&report, "network.utilization", Some("usb0"));
    assert_eq!(load["status"], "ok", "its counter passed 2^32 and it was judged while it was there");
    assert!(load["value"].as_f64().unwrap() < 0.02, "{load:#}");
    assert_eq!(status(&report, "network.errors", Some("usb0")), "ok");
}

#[test]
fn a_container_says_what_belongs_to_the_host_and_judges_the_rest() {
    let report = recorded_report("network-container");
    assert_nothing_else_fired(&report, &[]);
    for id in ["network.utilization", "network.utilization.tcp_memory", "network.errors.neighbour"] {
        let found = finding(&report, id, None);
        assert_eq!(
            (&found["status"], &found["unavailable"]["reason"]),
            (&"unknown".into(), &"not_visible".into()),
            "{id}"
        );
        assert!(found["unavailable"]["remedy"].as_str().unwrap().contains("network namespace"));
    }
    assert_eq!(status(&report, "network.errors", None), "skipped");
    assert_eq!(status(&report, "network.utilization.conntrack", None), "skipped");
    assert_eq!(status(&report, "network.errors.retransmits", None), "ok");
}

#[test]
fn garbage_is_unknown_and_never_ok() {
    let report = recorded_report("network-garbage");
    let network = report["findings"].as_array().unwrap().iter().filter(|finding| finding["resource"] == "network");
    for finding in network {
        let status = finding["status"].as_str().unwrap();
        assert!(["unknown", "skipped"].contains(&status), "{}: {}", finding["id"], finding["summary"]);
    }
}

#[test]
fn ports_that_are_out_and_a_peer_that_answers_nobody_are_told_with_who_suffers() {
    let report = recorded_report("network-ports-out");
    assert_nothing_else_fired(&report, &["network.utilization.ports", "network.errors.unanswered"]);
    // 13 ports less one that is reserved; nine live connections, one closed, one through IPv6, one port that is listened on.
    let ports = finding(&report, "network.utilization.ports", None);
    assert_eq!((ports["status"].as_str(), ports["value"].as_f64()), (Some("critical"), Some(1.0)), "{ports:#}");
    assert!(ports["summary"].as_str().unwrap().starts_with("12 of 12 ephemeral ports"), "{ports:#}");
    assert_eq!(ports["culprit"]["name"], "proxy to 10.0.0.2:5432");
    assert_eq!(ports["culprit"]["pids"][0], 700);
    let unanswered = finding(&report, "network.errors.unanswered", None);
    assert_eq!(
        (unanswered["status"].as_str(), unanswered["value"].as_f64()),
        (Some("warning"), Some(6.0)),
        "{unanswered:#}"
    );
    assert_eq!(unanswered["culprit"]["name"], "client to 10.0.0.9:443");
    assert_eq!(unanswered["culprit"]["pids"][0], 800);
}

#[test]
fn few_sockets_that_were_all_answered_leave_the_tables_of_tcp_unread() {
    let report = recorded_report("whole-host-quiet");
    assert_eq!(status(&report, "network.utilization.ports", None), "ok");
    assert_eq!(status(&report, "network.errors.unanswered", None), "ok");
}
