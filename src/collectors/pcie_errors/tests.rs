use super::{COLLECTOR, total};
use crate::testing::{Story, instances, stats};
use rdiag_model::Reason;

const SERVED: &str = "sys/bus/pci_express/drivers/aer/0000:00:1c.0:pcie002/uevent";

fn text(kind: &str, of_one: u64, all: u64) -> String {
    format!("Undefined 0\nRxErr {of_one}\nTOTAL_ERR_{kind} {all}\n")
}

fn device(story: Story, instant: usize, name: &str, [corrected, nonfatal, fatal]: [u64; 3]) -> Story {
    let file = |file: &str| format!("sys/bus/pci/devices/{name}/aer_dev_{file}");
    story
        .file(instant, &file("correctable"), text("COR", 1, corrected))
        .file(instant, &file("nonfatal"), text("NONFATAL", 2, nonfatal))
        .file(instant, &file("fatal"), text("FATAL", 3, fatal))
}

#[test]
fn errors_of_all_devices_are_added_up_and_those_that_counted_are_named() {
    let mut story = Story::of_seconds(3).file(0, SERVED, "").file(0, "sys/bus/pci/devices/0000:00:00.0/class", "0\n");
    story = device(story, 0, "0000:00:1c.0", [5, 0, 0]);
    story = device(story, 0, "0000:01:00.0", [0, 1, 0]);
    story = device(story, 2, "0000:00:1c.0", [5, 0, 0]);
    story = device(story, 2, "0000:01:00.0", [7, 3, 1]);
    let metrics = story.metrics(&COLLECTOR);
    let total = |id: &str| stats(&metrics, &format!("hardware.pcie_{id}.count"), "").total;
    assert_eq!((total("corrected"), total("nonfatal"), total("fatal")), (7.0, 2.0, 1.0));
    assert_eq!(instances(&metrics, "hardware.pcie_device_errors.count"), ["0000:01:00.0"]);
    assert_eq!(stats(&metrics, "hardware.pcie_device_errors.count", "0000:01:00.0").last, 10.0);
}

#[test]
fn a_device_that_is_plugged_in_anew_begins_at_zero_and_one_that_is_gone_stays_as_it_was() {
    let mut story = Story::of_seconds(3).file(0, SERVED, "");
    story = device(story, 0, "0000:01:00.0", [9, 0, 0]);
    story = device(story, 0, "0000:02:00.0", [4, 0, 0]);
    story = device(story, 2, "0000:01:00.0", [2, 0, 0]);
    let folder = "sys/bus/pci/devices/0000:02:00.0/aer_dev_correctable";
    story.spec.faults.push(rdiag_kernel::host::Fault { path: folder.into(), fails: Reason::Absent, from: 2 });
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "hardware.pcie_corrected.count", "").total, 2.0);
}

#[test]
fn counters_that_stand_still_are_not_taken_for_no_errors() {
    let gap = |story: Story| story.record(&COLLECTOR).unavailable.unwrap();
    let unserved = gap(device(Story::of_seconds(2), 0, "0000:01:00.0", [0, 0, 0]));
    assert!(unserved.reason == Reason::Disabled && unserved.remedy.is_some(), "{unserved:?}");
    let guest = device(Story::of_seconds(2), 0, "0000:01:00.0", [0, 0, 0]);
    assert_eq!(gap(guest.file(0, "proc/cpuinfo", "flags : hypervisor\n")).reason, Reason::NotApplicable);
    let without = Story::of_seconds(2).file(0, "sys/bus/pci/devices/0000:00:00.0/class", "0x060000\n");
    assert_eq!(gap(without).reason, Reason::NotApplicable);
    assert_eq!(gap(Story::of_seconds(2).file(0, "proc/stat", "")).reason, Reason::NotApplicable);
    let broken = device(Story::of_seconds(2), 0, "0000:01:00.0", [0, 0, 0]).file(0, SERVED, "");
    let broken = broken.file(0, "sys/bus/pci/devices/0000:01:00.0/aer_dev_fatal", "TOTAL_ERR_FATAL many\n");
    assert_eq!(gap(broken).reason, Reason::Malformed);
}

#[test]
fn the_sum_is_read_and_no_other_line() {
    assert_eq!(total(&text("COR", 3, 8)), Some(8));
    for broken in ["", "RxErr 3\n", "TOTAL_ERR_COR\n", "TOTAL_ERR_COR -1\n", "TOTAL_ERR_COR 99999999999999999999999\n"]
    {
        assert_eq!(total(broken), None, "{broken:?}");
    }
}
