use super::*;
use crate::testing::{Story, gap};

#[test]
fn the_columns_of_a_line_are_found_by_their_place() {
    let line = "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
    let (name, fields) = parse_line(line).unwrap();
    assert_eq!(name, "eth0");
    assert_eq!(fields.receive, Direction { bytes: 1, packets: 2, errors: 3, drops: 4, fifo: 5 });
    assert_eq!(fields.transmit, Direction { bytes: 9, packets: 10, errors: 11, drops: 12, fifo: 13 });
}

#[test]
fn head_lines_short_lines_and_garbage_are_left_out_and_more_columns_are_not_minded() {
    for line in [
        " face |bytes    packets errs drop",
        "Inter-|   Receive",
        "",
        ":",
        "eth0:",
        "eth0: 1 2 3",
        "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 x",
        "eth0: 99999999999999999999999 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        "../../etc: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        "..: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
    ] {
        assert_eq!(parse_line(line), None, "{line:?}");
    }
    assert!(parse_line("a: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19").is_some());
    assert!(
        parse_line("a:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 18446744073709551615").is_some(),
        "no space after the colon"
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*") {
        let _ = text.lines().filter_map(parse_line).count();
    }

    #[test]
    fn any_numbers_come_back_as_they_were(numbers in proptest::collection::vec(proptest::num::u64::ANY, 16..20)) {
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let line = format!("{:>6}: {}", "if0", words.join("   "));
        let (_, fields) = parse_line(&line).unwrap();
        proptest::prop_assert_eq!(fields.receive.bytes, numbers[0]);
        proptest::prop_assert_eq!(fields.transmit.fifo, numbers[12]);
    }
}

/// A line of /proc/net/dev: bytes and packets received, then errors and drops, and bytes and packets sent.
fn line(name: &str, receive: [u64; 5], transmit: [u64; 5]) -> String {
    let [bytes, packets, errors, drops, fifo] = receive;
    let [tx_bytes, tx_packets, tx_errors, tx_drops, tx_fifo] = transmit;
    format!(
        "{name:>6}: {bytes} {packets} {errors} {drops} {fifo} 0 0 0 {tx_bytes} {tx_packets} {tx_errors} {tx_drops} {tx_fifo} 0 0 0\n"
    )
}

/// A device in /sys/class/net.
fn device(tree: &Story, name: &str, index: u64, speed: &str, missed: u64) {
    let base = format!("sys/class/net/{name}");
    for (file, text) in [
        ("ifindex", index.to_string()),
        ("carrier_changes", "2".into()),
        ("operstate", "up".into()),
        ("speed", speed.into()),
        ("duplex", "full".into()),
        ("statistics/rx_missed_errors", missed.to_string()),
        ("statistics/rx_over_errors", "0".into()),
    ] {
        tree.put(&format!("{base}/{file}"), format!("{text}\n"));
    }
}

fn with_driver(tree: &Story, name: &str, driver: &str) {
    tree.link(&format!("sys/class/net/{name}/device/driver"), &format!("../../bus/drivers/{driver}"));
}

fn dev(tree: &Story, lines: &[String]) {
    tree.put("proc/net/dev", format!("Inter-| Receive\n face |bytes\n{}", lines.concat()));
}

const RECEIVE: &str = "network.interface.receive_utilization.ratio";

#[test]
fn the_share_of_the_link_counts_the_overhead_of_each_frame_and_only_devices_have_one() {
    let mut tree = Story::of_seconds(1);
    device(&tree, "eth0", 2, "1000", 0);
    with_driver(&tree, "eth0", "igb");
    dev(&tree, &[line("lo", [0; 5], [0; 5]), line("eth0", [0; 5], [0; 5])]);
    tree.next();
    // 1000 frames with 101 000 bytes more on the line than 24 each: exactly a thousandth of 125 MB/s.
    dev(&tree, &[line("lo", [9_000_000_000, 9, 0, 0, 0], [0; 5]), line("eth0", [101_000, 1000, 0, 0, 0], [0; 5])]);
    let metrics = tree.metrics(&COLLECTOR);
    assert!((metrics.stats(RECEIVE, "eth0").unwrap().mean - 0.001).abs() < 1e-12);
    assert_eq!(gap(&metrics, RECEIVE, "lo").reason, Reason::Absent, "lo is no instance of it");
    assert_eq!(metrics.stats("network.interface.receive.bytes_per_second", "lo").unwrap().mean, 9e9);
    let labels = &metrics.labels["interface"];
    assert_eq!((labels["eth0"]["kind"].as_str(), labels["eth0"]["driver"].as_str()), ("device", "igb"));
    assert_eq!(labels["lo"]["kind"], "virtual");
}

#[test]
fn a_device_without_a_speed_has_a_gap_and_no_utilization_of_zero() {
    let mut tree = Story::of_seconds(1);
    device(&tree, "eth0", 2, "-1", 0);
    with_driver(&tree, "eth0", "virtio_net");
    dev(&tree, &[line("eth0", [0; 5], [0; 5])]);
    tree.next();
    let metrics = tree.metrics(&COLLECTOR);
    let gap = gap(&metrics, RECEIVE, "eth0");
    assert_eq!(gap.reason, Reason::Absent);
    assert!(gap.why.contains("eth0 (virtio_net) reports no link speed"), "{}", gap.why);
    assert!(matches!(metrics.readings[RECEIVE], rdiag_model::Reading::Unavailable(_)), "one gap, not one for each");
}

#[test]
fn a_link_that_is_down_has_no_utilization_and_that_is_no_gap() {
    let mut tree = Story::of_seconds(1);
    for (name, index) in [("eth0", 2), ("eth1", 3)] {
        device(&tree, name, index, "1000", 0);
        with_driver(&tree, name, "igb");
    }
    tree.put("sys/class/net/eth1/operstate", "down\n").put("sys/class/net/eth1/speed", "-1\n");
    dev(&tree, &[line("eth0", [0; 5], [0; 5]), line("eth1", [0; 5], [0; 5])]);
    tree.next();
    let metrics = tree.metrics(&COLLECTOR);
    assert!(metrics.stats(RECEIVE, "eth0").is_ok());
    assert_eq!(gap(&metrics, RECEIVE, "eth1").reason, Reason::NotApplicable);
}

#[test]
fn drops_of_the_ring_are_told_from_packets_that_nobody_wanted() {
    let mut tree = Story::of_seconds(1);
    device(&tree, "eth0", 2, "1000", 10);
    with_driver(&tree, "eth0", "igb");
    dev(&tree, &[line("eth0", [0, 0, 0, 10, 0], [0; 5])]);
    tree.next();
    tree.put("sys/class/net/eth0/statistics/rx_missed_errors", "15\n");
    dev(&tree, &[line("eth0", [0, 0, 3, 25, 0], [0, 0, 4, 2, 0])]);
    let metrics = tree.metrics(&COLLECTOR);
    let total = |id: &str| metrics.stats(id, "eth0").unwrap().total;
    assert_eq!(total("network.interface.ring_drops.count"), 5.0);
    assert_eq!(total("network.interface.receive_drops.count"), 10.0);
    assert_eq!(total("network.interface.transmit_drops.count"), 2.0);
    assert_eq!(total("network.interface.errors.count"), 7.0);
    assert_eq!(total("network.interface.carrier_changes.count"), 0.0);
}

#[test]
fn an_interface_that_is_removed_leaves_what_was_seen_and_makes_no_spike() {
    let mut tree = Story::of_seconds(1);
    device(&tree, "eth0", 2, "1000", 0);
    with_driver(&tree, "eth0", "igb");
    let both = |bytes| [line("lo", [bytes; 5], [0; 5]), line("eth0", [bytes; 5], [0; 5])];
    dev(&tree, &both(1000));
    tree.next();
    dev(&tree, &both(3000));
    tree.next();
    dev(&tree, &[line("lo", [5000; 5], [0; 5])]);
    tree.next();
    let metrics = tree.metrics(&COLLECTOR);
    let bytes = metrics.stats("network.interface.receive.bytes_per_second", "eth0").unwrap();
    assert_eq!((bytes.mean, bytes.max), (2000.0, 2000.0));
}

#[test]
fn a_new_device_of_the_same_name_starts_anew() {
    let mut tree = Story::of_seconds(1);
    device(&tree, "eth0", 2, "1000", 0);
    with_driver(&tree, "eth0", "igb");
    dev(&tree, &[line("eth0", [10; 5], [10; 5])]);
    tree.next();
    tree.put("sys/class/net/eth0/ifindex", "7\n");
    dev(&tree, &[line("eth0", [999_999; 5], [999_999; 5])]);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "network.interface.receive.bytes_per_second", "eth0").reason, Reason::Reset);
}

#[test]
fn counters_of_drivers_that_restart_at_zero_are_a_reset() {
    let mut tree = Story::of_seconds(1);
    dev(&tree, &[line("tun0", [4_294_967_290; 5], [0; 5])]);
    tree.next();
    dev(&tree, &[line("tun0", [5; 5], [0; 5])]);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "network.interface.receive.bytes_per_second", "tun0").reason, Reason::Reset);
}

#[test]
fn where_only_virtual_interfaces_are_seen_devices_do_not_apply_and_a_container_says_that_it_cannot_see_them() {
    let mut tree = Story::of_seconds(1);
    dev(&tree, &[line("lo", [0; 5], [0; 5])]);
    tree.next();
    let errors = "network.interface.errors.count";
    assert_eq!(gap(&tree.metrics(&COLLECTOR), errors, "").reason, Reason::NotApplicable);
    assert_eq!(gap(&tree.metrics(&COLLECTOR), RECEIVE, "").reason, Reason::NotApplicable);
    tree.put("proc/sys/net/core/somaxconn", "4096\n");
    assert_eq!(
        gap(&tree.metrics(&COLLECTOR), RECEIVE, "").reason,
        Reason::NotVisible,
        "a network namespace of its own"
    );
    tree.put("proc/sys/net/core/netdev_max_backlog", "1000\n");
    assert_eq!(gap(&tree.metrics(&COLLECTOR), RECEIVE, "").reason, Reason::NotApplicable);
    tree.spec.facts = Some(rdiag_model::Facts { container: Some("a test".into()), ..rdiag_model::Facts::default() });
    assert_eq!(gap(&tree.metrics(&COLLECTOR), errors, "").reason, Reason::NotApplicable);
    assert_eq!(gap(&tree.metrics(&COLLECTOR), RECEIVE, "").reason, Reason::NotVisible);
}

#[test]
fn hundreds_of_devices_are_not_read_one_by_one() {
    let mut tree = Story::of_seconds(1);
    let names: Vec<String> = (0..MAX_DEVICES + 10).map(|n| format!("vf{n}")).collect();
    for (index, name) in names.iter().enumerate() {
        device(&tree, name, index as u64, "1000", 0);
        with_driver(&tree, name, "vf");
    }
    dev(&tree, &names.iter().map(|name| line(name, [0; 5], [0; 5])).collect::<Vec<_>>());
    tree.next();
    let metrics = tree.metrics(&COLLECTOR);
    let rdiag_model::Reading::Measured { instances, .. } = &metrics.readings["network.interface.errors.count"] else {
        panic!("not measured")
    };
    assert_eq!(instances.values().filter(|stats| stats.is_ok()).count(), MAX_DEVICES);
    assert!(instances["(others)"].as_ref().unwrap_err().why.contains("10 more"));
    assert!(metrics.stats("network.interface.receive.per_second", "vf70").is_ok(), "their traffic is still seen");
}

#[test]
fn a_file_without_an_interface_is_malformed() {
    let tree = Story::of_seconds(1);
    tree.put("proc/net/dev", "Inter-|   Receive\n");
    assert_eq!(tree.record(&COLLECTOR).unavailable.unwrap().reason, Reason::Malformed);
}

#[test]
fn a_device_of_another_network_namespace_is_not_taken_for_the_interface_of_its_name() {
    let mut tree = Story::of_seconds(1);
    device(&tree, "eth0", 2, "1000", 0);
    with_driver(&tree, "eth0", "igb");
    tree.put("sys/class/net/eth0/statistics/rx_bytes", "123456\n");
    dev(&tree, &[line("eth0", [1000; 5], [0; 5])]);
    tree.next();
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(metrics.labels["interface"]["eth0"]["kind"], "virtual");
    assert!(metrics.stats(RECEIVE, "eth0").is_err());
}
