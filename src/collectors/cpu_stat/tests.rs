use super::super::testing::{Story, stats};
use super::*;

#[test]
fn each_kind_of_time_is_its_own() {
    let later = "cpu  1280 1020 1110 1530 1020 1010 1030 1000\ncpu0 1460 1040 1200 1200 1030 1010 1060 1000\n";
    let story = Story::of_seconds(2).file(
        0,
        "proc/stat",
        "cpu  1000 1000 1000 1000 1000 1000 1000 1000\ncpu0 1000 1000 1000 1000 1000 1000 1000 1000\n",
    );
    let metrics = story.file(1, "proc/stat", later).metrics(&COLLECTOR);
    for (metric, instance, share) in [
        ("cpu.user.ratio", "", 0.30),
        ("cpu.nice.ratio", "", 0.02),
        ("cpu.system.ratio", "", 0.11),
        ("cpu.interrupt.ratio", "", 0.04),
        ("cpu.busy.ratio", "", 0.45),
        ("cpu.core.busy.ratio", "0", 0.77),
        ("cpu.core.nice.ratio", "0", 0.04),
    ] {
        assert!((stats(&metrics, metric, instance).mean - share).abs() < 1e-9, "{metric}");
    }
}

#[test]
fn steal_that_never_moved_is_unknown_on_a_virtual_machine_and_no_question_elsewhere() {
    let gap = |virtual_machine, steal| {
        let out = Sink::new(SERIES);
        record_cpu("", CpuTimes { user: 1, steal, ..CpuTimes::default() }, virtual_machine, &out);
        out.end_sample(0.0, false);
        out.into_record().gaps.get("cpu_stat.stolen").map(|gap| gap.reason)
    };
    assert_eq!(gap(true, 0), Some(Reason::NotVisible));
    assert_eq!(gap(false, 0), Some(Reason::NotApplicable));
    assert_eq!(gap(false, 1), None);
}
