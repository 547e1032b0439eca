use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report, skip, wait_until,
};

#[test]
#[ignore = "needs: a quiet machine, bash"]
fn a_process_that_used_up_its_open_files_is_named() {
    let _alone = alone();
    if !has(&[Need::Tool("bash")]) {
        return;
    }
    let script = "ulimit -n 64; for n in {3..62}; do eval \"exec $n</dev/null\"; done; exec sleep 30";
    let load = Load::start(1, "bash", &["-c", script]);
    let pid = load.pids()[0];
    let full = || std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|files| files.count() >= 63);
    assert!(wait_until(10, full), "the files could not be opened");
    let report = live_report(3);
    let all = findings(&report, "fd.utilization.process");
    let named = all.iter().find(|finding| finding["culprit"]["pids"][0] == pid).unwrap();
    assert_eq!((&named["status"], &named["culprit"]["name"]), (&"critical".into(), &"sleep".into()));
    assert_eq!(finding(&report, "fd.utilization", None)["status"], "ok");
    assert_nothing_else_fired(&report, &["fd.utilization.process"]);
}

#[test]
#[ignore = "needs: a quiet machine"]
fn zombies_are_worth_knowing_and_their_parent_is_named() {
    let _alone = alone();
    // The shell turns into a program that knows nothing of its children.
    let script = "i=0; while [ $i -lt 150 ]; do sleep 1 & i=$((i+1)); done; exec sleep 30";
    let load = Load::start(1, "sh", &["-c", script]);
    std::thread::sleep(std::time::Duration::from_secs(3));
    let report = live_report(3);
    let zombies = finding(&report, "tasks.errors.zombies", None);
    assert_eq!(zombies["status"], "info", "{zombies:#}");
    assert_eq!(zombies["culprit"]["pids"][0], load.pids()[0]);
    assert!(zombies["value"].as_f64().unwrap() >= 150.0);
    assert_nothing_else_fired(&report, &[]);
}

#[test]
#[ignore = "needs: a quiet machine with two CPUs or more"]
fn a_thread_that_fills_one_cpu_is_found_in_the_second_window() {
    let _alone = alone();
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skip("a single CPU");
    }
    let load = Load::start(1, "sh", &["-c", "while :; do :; done"]);
    let report = live_report(6);
    let all = findings(&report, "cpu.utilization.single_thread");
    let fired: Vec<_> = all.iter().filter(|finding| finding["status"] == "warning").collect();
    assert_eq!(fired.len(), 1, "{all:#?}");
    assert_eq!(fired[0]["culprit"]["name"], "sh");
    assert!(fired[0]["value"].as_f64().unwrap() > 0.95);
    drop(load);
    assert_nothing_else_fired(&report, &["cpu.utilization.single_thread", "cpu.utilization.core"]);
}

#[test]
#[ignore = "needs: a quiet machine"]
fn a_storm_of_forks_is_only_worth_knowing() {
    let _alone = alone();
    let _load = Load::start(1, "sh", &["-c", "while :; do (:); done"]);
    let report = live_report(4);
    let forks = finding(&report, "tasks.saturation.forks", None);
    let rate = forks["value"].as_f64().unwrap();
    assert_eq!(forks["status"] == "info", rate > 1000.0, "{forks:#}");
    assert!(rate > 200.0, "the load did not run: {rate}");
    assert_nothing_else_fired(&report, &["cpu.", "tasks."]);
}

#[test]
#[ignore = "needs: root, bash, setpriv, python3"]
fn a_user_near_the_limit_of_processes_is_named() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("bash"), Need::Tool("setpriv"), Need::Tool("python3")]) {
        return;
    }
    let program = "import threading, time\n\
        for _ in range(96): threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n\
        time.sleep(30)";
    let user = ["--reuid", "4242", "--regid", "4242", "--clear-groups"];
    let limited = ["bash", "-c", "ulimit -u 100; exec python3 -c \"$0\"", program];
    let load = Load::start(1, "setpriv", &[user.as_slice(), limited.as_slice()].concat());
    let pid = load.pids()[0];
    let full = || std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() >= 97);
    assert!(wait_until(10, full), "the threads could not be started");
    let report = live_report(2);
    let user = finding(&report, "tasks.utilization.user", Some("4242"));
    assert_eq!(user["status"], "critical", "{user:#}");
    assert_nothing_else_fired(&report, &["tasks.utilization.user"]);
}
