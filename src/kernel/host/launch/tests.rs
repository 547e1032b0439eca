use super::*;

/// A shell in the place of the helper: it stops itself and then runs the words.
fn launch(script: &str) -> (Launched, Arc<AtomicBool>) {
    #[expect(clippy::disallowed_methods, reason = "a test's own process")]
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("kill -STOP $$; {script}")]);
    let ended = Arc::new(AtomicBool::new(false));
    (Launched::with_helper(shell, Arc::clone(&ended)).unwrap(), ended)
}

fn state_of(pid: u32) -> Option<char> {
    #[expect(clippy::disallowed_methods, reason = "a test's own process")]
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(rdiag_proc::TaskStat::parse(stat.as_bytes())?.state)
}

#[test]
fn it_stands_still_until_it_is_let_go_and_its_end_is_told() {
    let (mut launched, flag) = launch("exit 7");
    assert_eq!(state_of(launched.pid()), Some('T'));
    assert_eq!(launched.wait(0.05), None);
    launched.let_go();
    let ended = launched.wait(10.0).unwrap();
    assert_eq!(ended.how, How::Exited(7));
    assert!(ended.elapsed > 0.0 && ended.elapsed < 10.0, "{ended:?}");
    assert_eq!(state_of(launched.pid()), None, "it has been collected");
    while !flag.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
}

#[test]
fn what_it_used_is_told_with_the_children_that_it_waited_for() {
    let (mut launched, _) = launch("(i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done); exit 0");
    launched.let_go();
    let ended = launched.wait(60.0).unwrap();
    assert!(ended.user > 0.005, "{ended:?}");
}

#[test]
fn one_that_was_never_let_go_is_killed_without_having_run() {
    let (launched, _) = launch("exit 0");
    let (pid, shared) = (launched.pid(), Arc::clone(&launched.shared));
    drop(launched);
    assert_eq!(state_of(pid), None);
    assert_eq!(shared.lock().ended.clone().unwrap().how, How::Killed(9));
}

#[test]
fn one_that_was_let_go_outlives_the_handle_and_can_be_asked_to_end() {
    let (mut launched, _) = launch("exec sleep 30");
    launched.let_go();
    launched.terminate();
    assert_eq!(launched.wait(10.0).unwrap().how, How::Killed(15));
}

#[test]
fn a_program_that_is_missing_or_no_program_is_told_before_anything_is_started() {
    let start =
        |name: &str| Launched::start(&[name.into()], 1, None, Arc::default()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(start("no-such-program-anywhere"), "there is no program \"no-such-program-anywhere\"");
    assert_eq!(start("/no/such/program"), "there is no program \"/no/such/program\"");
    assert_eq!(start(""), "there is no program \"\"");
    assert!(start("/proc/self/status").contains("cannot be executed"));
    assert!(start("/etc").contains("directory"));
}
