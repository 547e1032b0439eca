use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report};

#[test]
#[ignore = "needs: a quiet machine, stress-ng"]
fn busy_cpus_are_reported_as_utilization() {
    let _alone = alone();
    if !has(&[Need::Tool("stress-ng")]) {
        return;
    }
    let _load = Load::start(1, "stress-ng", &["--cpu", "0", "--timeout", "20"]);
    let report = live_report(5);
    assert_eq!(finding(&report, "cpu.utilization", None)["status"], "warning");
    assert_nothing_else_fired(&report, &["cpu."]);
}
