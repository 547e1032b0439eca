//! Probes of system calls and processes: a workload with a known answer gives exactly that answer.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

pub(super) use super::probing::{Script, assert_nothing_lost, probed, ready, rows};
use crate::support::{Load, Need, alone, has, rdiag};

const CALLS: &str = "
for i in range(12345): os.getppid()
for i in range(321):
    try: os.stat('/nonexistent/x')
    except OSError: pass
import threading
for i in range(40):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
before = time.perf_counter()
for i in range(10): time.sleep(0.02)
says = time.perf_counter() - before
";

fn calls_are_counted_exactly() {
    let mut script = Script::start(CALLS);
    let mut other = Script::start(CALLS);
    let (pid, mut slept) = (script.pid().to_string(), String::new());
    let readings = probed(&["syscount", "--pid", &pid, "--top", "100", "--param", "latency=true"], || {
        slept = script.work();
        other.work();
    });
    assert_nothing_lost(&readings);
    let calls = rows(&readings, "table", "calls");
    let call =
        |name: &str| calls.iter().find(|row| row["call"] == name).unwrap_or_else(|| panic!("{name}: {calls:#?}"));
    assert_eq!(call("getppid")["count"], 12345.0);
    assert_eq!(call("getppid")["errors"], 0.0);
    let made = calls.iter().filter(|row| row["call"] == "clone" || row["call"] == "clone3");
    let made: f64 = made.map(|row| row["count"].as_f64().unwrap()).sum();
    assert_eq!(made, 40.0, "a thread's first return is no call of its own: {calls:#?}");
    let stats = calls.iter().find(|row| row["errors"] == 321.0).unwrap();
    assert!(stats["which"].as_str().unwrap().starts_with("321 ENOENT"), "{stats:#?}");
    let sleeps = calls.iter().find(|row| row["call"].as_str().unwrap().contains("nanosleep")).unwrap();
    assert_eq!(sleeps["count"], 10.0);
    // A sleep lasts longer than it was asked to, the more so on a busy machine, so its caller's own clock is the judge.
    let (time, truth) = (sleeps["time"].as_f64().unwrap(), slept.parse::<f64>().unwrap());
    assert!(time >= 0.2 && time <= truth && time > 0.95 * truth, "{time} s, and the caller saw {truth} s");
    let processes = rows(&readings, "table", "processes");
    assert_eq!(processes.len(), 1, "only the one that was asked for: {processes:#?}");
    assert_eq!((&processes[0]["pid"], &processes[0]["name"]), (&pid.as_str().into(), &"python3".into()));
    let sum: f64 = calls.iter().map(|row| row["count"].as_f64().unwrap()).sum();
    assert_eq!(processes[0]["count"], sum);
}

holds!(
    as_many_calls_as_a_process_made_are_counted_by_name_with_their_errors,
    vm_as_many_calls_as_a_process_made_are_counted_by_name_with_their_errors,
    calls_are_counted_exactly
);

fn readings_add_up() {
    let mut script = Script::start("for i in range(50): os.getppid(), time.sleep(0.02)");
    let pid = script.pid().to_string();
    let readings = probed(&["syscount", "--pid", &pid, "--interval", "200ms"], || drop(script.work()));
    assert!(readings.len() >= 4);
    let calls = rows(&readings, "table", "calls");
    let asked = calls.iter().filter(|row| row["call"] == "getppid");
    let counts: Vec<f64> = asked.map(|row| row["count"].as_f64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<f64>(), 50.0);
    assert!(counts.len() > 2, "they are spread over the readings: {counts:?}");
}

holds!(
    the_readings_of_an_interval_add_up_to_the_calls_that_were_made,
    vm_the_readings_of_an_interval_add_up_to_the_calls_that_were_made,
    readings_add_up
);

const OPENS: &str = "
path = f'/tmp/rdiag-opens-{os.getpid()}'
for i in range(200): os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
for i in range(70):
    try: os.open(path + '/x', os.O_RDONLY)
    except OSError: pass
for i in range(5):
    try: os.open('/nonexistent/' + 'n' * 300, os.O_RDONLY)
    except OSError: pass
os.unlink(path)
";

fn opens_are_seen() {
    let mut script = Script::start(OPENS);
    let mut other = Script::start(OPENS);
    let (pid, file) = (script.pid().to_string(), format!("/tmp/rdiag-opens-{}", script.pid()));
    let readings = probed(&["opensnoop", "--pid", &pid], || {
        script.work();
        other.work();
    });
    assert_nothing_lost(&readings);
    let opens = rows(&readings, "events", "opens");
    assert!(opens.iter().all(|row| row["pid"] == pid.as_str() && row["name"] == "python3"), "{opens:#?}");
    let good: Vec<_> = opens.iter().filter(|row| row["file"] == file.as_str()).collect();
    assert_eq!(good.len(), 200);
    for row in &good {
        assert_eq!(row["flags"], "RDWR|CREAT|CLOEXEC");
        assert!(row["result"].as_str().unwrap().parse::<u32>().unwrap() > 2, "{row:?}");
    }
    let below = format!("{file}/x");
    let bad: Vec<_> = opens.iter().filter(|row| row["file"] == below.as_str()).collect();
    assert!(bad.len() == 70 && bad.iter().all(|row| row["result"] == "ENOTDIR"), "{bad:#?}");
    let long: Vec<_> =
        opens.iter().filter(|row| row["result"] == "ENAMETOOLONG" || row["result"] == "ENOENT").collect();
    assert!(long.iter().filter(|row| row["file"].as_str().unwrap().len() == 255).count() == 5, "{long:#?}");
    let times: Vec<f64> = opens.iter().map(|row| row["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "in order of time");

    let mut script = Script::start(OPENS);
    let pid = script.pid().to_string();
    let readings = probed(&["opensnoop", "--pid", &pid, "--param", "failed=true"], || drop(script.work()));
    let failed = rows(&readings, "events", "opens");
    assert_eq!(failed.len(), 75, "{failed:#?}");
}

holds!(
    every_open_of_a_process_is_a_line_with_its_name_flags_and_result,
    vm_every_open_of_a_process_is_a_line_with_its_name_flags_and_result,
    opens_are_seen
);

const PROCESSES: &str = "
def run(program, *args, env=None):
    pid = os.fork()
    if pid == 0:
        try: os.execve(program, [program, *args], os.environ)
        except OSError: os._exit(127)
    return os.waitpid(pid, 0)[1]
for i in range(40): run('/bin/true', f'number {i}', 'x')
for i in range(3): run('/bin/sh', '-c', 'exit 7')
run('/bin/sleep', '0.3')
run('/bin/sh', '-c', 'kill -9 $$')
for i in range(2): run('/nonexistent/program')
before = time.perf_counter()
run('/bin/true', 'a' * 2000)
";

fn processes_are_seen() {
    let mut script = Script::start(PROCESSES);
    let parent = script.pid().to_string();
    let readings = probed(&["execsnoop", "--param", "failed=true"], || drop(script.work()));
    assert_nothing_lost(&readings);
    let all = rows(&readings, "events", "processes");
    let ours: Vec<_> = all.iter().filter(|row| row["ppid"] == parent.as_str()).collect();
    let of = |event: &str| -> Vec<_> { ours.iter().filter(|row| row["event"] == event).collect() };
    let (execs, exits, failed) = (of("exec"), of("exit"), of("failed"));
    let with = |args: &str| execs.iter().filter(|row| row["args"] == args).count();
    for number in 0..40 {
        assert_eq!(with(&format!("/bin/true number {number} x")), 1, "{execs:#?}");
    }
    assert_eq!((with("/bin/sh -c exit 7"), with("/bin/sleep 0.3"), execs.len()), (3, 1, 46));
    let cut = execs.iter().find(|row| row["args"].as_str().unwrap().ends_with('…')).unwrap();
    assert!(cut["args"].as_str().unwrap().starts_with("/bin/true aaa"));
    assert!(execs.iter().all(|row| row["parent"] == "python3" && row["uid"] == "0"));
    let ended = |result: &str| exits.iter().filter(|row| row["result"] == result).count();
    assert_eq!((ended("exit 0"), ended("exit 7"), ended("SIGKILL"), ended("exit 127")), (42, 3, 1, 2), "{exits:#?}");
    let sleep = exits.iter().find(|row| row["name"] == "sleep").unwrap();
    let lived = sleep["lifetime"].as_f64().unwrap();
    assert!((0.3..1.0).contains(&lived), "{sleep:?}");
    assert_eq!(failed.len(), 2, "{failed:#?}");
    assert!(failed.iter().all(|row| row["args"] == "/nonexistent/program" && row["result"] == "ENOENT"));

    let short = rows(&readings, "table", "short_lived");
    let ours: Vec<_> = short.iter().filter(|row| row["pid"] == parent.as_str()).collect();
    let sum = |column: &str| ours.iter().map(|row| row[column].as_f64().unwrap()).sum::<f64>();
    assert_eq!(sum("count"), 48.0, "{ours:#?}");
    assert!(sum("cpu") > 0.0 && sum("cpu") < sum("lifetime"), "{ours:#?}");
}

holds!(
    every_program_that_is_started_and_every_process_that_ends_is_seen_however_short_it_lived,
    vm_every_program_that_is_started_and_every_process_that_ends_is_seen_however_short_it_lived,
    processes_are_seen
);

fn threads_end_once() {
    // Sixteen threads that end at the same moment as their process: one end, with its code.
    let work = "
import threading
for i in range(20):
    pid = os.fork()
    if pid == 0:
        for t in range(16): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
        os._exit(5)
    os.waitpid(pid, 0)
";
    let mut script = Script::start(work);
    let parent = script.pid().to_string();
    let readings = probed(&["execsnoop"], || drop(script.work()));
    let all = rows(&readings, "events", "processes");
    let ends: Vec<_> = all.iter().filter(|row| row["ppid"] == parent.as_str() && row["event"] == "exit").collect();
    assert_eq!(ends.len(), 20, "{ends:#?}");
    assert!(ends.iter().all(|row| row["result"] == "exit 5"), "{ends:#?}");
}

holds!(a_process_of_many_threads_ends_once, vm_a_process_of_many_threads_ends_once, threads_end_once);

fn cpu_time_is_final() {
    // A process that burns 200 ms of CPU time, by its own account, and ends.
    let work = "
pid = os.fork()
if pid == 0:
    while time.process_time() < 0.2: pass
    os._exit(0)
says = os.wait4(pid, 0)[2].ru_utime
";
    let mut script = Script::start(work);
    let parent = script.pid().to_string();
    let readings = probed(&["execsnoop", "--threshold", "1m"], || drop(script.work()));
    let short = rows(&readings, "table", "short_lived");
    // The time may come in a later reading than the end.
    let ours = short.iter().filter(|row| row["pid"] == parent.as_str());
    let cpu: f64 = ours.map(|row| row["cpu"].as_f64().unwrap()).sum();
    assert!((0.2..0.25).contains(&cpu), "{short:?}");
}

holds!(
    the_cpu_time_of_short_lived_processes_is_what_they_used_to_the_end,
    vm_the_cpu_time_of_short_lived_processes_is_what_they_used_to_the_end,
    cpu_time_is_final
);

const SYNCS: &str = "
path = f'/tmp/rdiag-syncs-{os.getpid()}'
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
for i in range(30): os.fsync(fd)
for i in range(20): os.fdatasync(fd)
for i in range(3):
    try: os.fsync(999)
    except OSError: pass
os.unlink(path)
";

fn syncs_are_seen() {
    let mut script = Script::start(SYNCS);
    let mut other = Script::start(SYNCS);
    let (pid, file) = (script.pid().to_string(), format!("rdiag-syncs-{}", script.pid()));
    let readings = probed(&["syncsnoop", "--pid", &pid], || {
        script.work();
        other.work();
    });
    assert_nothing_lost(&readings);
    let syncs = rows(&readings, "events", "syncs");
    let of = |call: &str, result: &str| {
        let found = syncs.iter().filter(|row| row["call"] == call && row["result"] == result);
        found.map(|row| (row["file"].clone(), row["latency"].as_f64().unwrap())).collect::<Vec<_>>()
    };
    let (whole, data, bad) = (of("fsync", "0"), of("fdatasync", "0"), of("fsync", "EBADF"));
    assert_eq!((whole.len(), data.len(), bad.len(), syncs.len()), (30, 20, 3, 53), "{syncs:#?}");
    assert!(whole.iter().chain(&data).all(|(name, took)| *name == file.as_str() && *took < 1.0), "{syncs:#?}");
    assert!(bad.iter().all(|(name, _)| name.is_null()), "{bad:?}");
}

holds!(
    every_fsync_of_a_process_is_a_line_with_its_file,
    vm_every_fsync_of_a_process_is_a_line_with_its_file,
    syncs_are_seen
);

const SIGNALS: &str = "
got = 0
def count(*_):
    global got
    got += 1
signal.signal(signal.SIGUSR1, count)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
for i in range(25): os.kill(os.getpid(), signal.SIGUSR1)
for i in range(15): os.kill(os.getpid(), signal.SIGUSR2)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
for i in range(4): os.kill(os.getpid(), signal.SIGTERM)
signal.setitimer(signal.ITIMER_REAL, 0.01)
signal.signal(signal.SIGALRM, count)
time.sleep(0.1)
says = got
";

fn signals_are_seen() {
    let mut script = Script::start(SIGNALS);
    let pid = script.pid().to_string();
    let mut handled = String::new();
    let readings = probed(&["killsnoop", "--pid", &pid], || handled = script.work());
    assert_nothing_lost(&readings);
    assert_eq!(handled, "26");
    let signals = rows(&readings, "events", "signals");
    let of = |signal: &str, result: &str| {
        let is_it = |row: &&serde_json::Map<String, Value>| row["signal"] == signal && row["result"] == result;
        signals.iter().filter(is_it).count()
    };
    let counts = (of("SIGUSR1", "delivered"), of("SIGUSR2", "ignored"));
    assert_eq!(counts, (25, 15), "{signals:#?}");
    assert_eq!((of("SIGTERM", "delivered"), of("SIGTERM", "already pending")), (1, 3), "{signals:#?}");
    let by_kill = signals.iter().filter(|row| row["signal"] != "SIGALRM");
    assert!(by_kill.clone().all(|row| row["pid"] == pid.as_str() && row["target_pid"] == pid.as_str()), "{signals:#?}");
    let timer = signals.iter().find(|row| row["signal"] == "SIGALRM").unwrap();
    assert_eq!((&timer["name"], timer["pid"].is_null()), (&"(kernel)".into(), true));
}

fn senders_have_stacks() {
    let mut script = Script::start("for i in range(30): os.kill(os.getpid(), 0), os.kill(os.getpid(), signal.SIGCONT)");
    let pid = script.pid().to_string();
    let args = ["killsnoop", "--pid", &pid, "--param", "stack=true", "--param", "signal=18"];
    let readings = probed(&args, || drop(script.work()));
    assert_eq!(rows(&readings, "events", "signals").len(), 30);
    let outputs = readings.iter().flat_map(|reading| reading["outputs"].as_array().unwrap());
    let mut count = 0;
    for stacks in outputs.filter_map(|output| output.get("stacks")) {
        assert_eq!((&stacks["unresolved"], &stacks["missing"]), (&0.0.into(), &0.0.into()), "{stacks:#}");
        for stack in stacks["stacks"].as_array().unwrap() {
            assert_eq!(stack["owner"], "python3 SIGCONT");
            count += stack["count"].as_u64().unwrap();
            let frames = stack["frames"].as_array().unwrap().iter();
            let names: Vec<&str> =
                frames.map(|at| stacks["frames"][at.as_u64().unwrap() as usize]["name"].as_str().unwrap()).collect();
            assert!(names.iter().any(|name| name.contains("sys_kill")), "{names:?}");
        }
    }
    assert_eq!(count, 30);
}

holds!(
    the_stack_of_a_sender_leads_to_the_system_call_that_it_made,
    vm_the_stack_of_a_sender_leads_to_the_system_call_that_it_made,
    senders_have_stacks
);

holds!(
    every_signal_is_a_line_with_sender_and_what_became_of_it,
    vm_every_signal_is_a_line_with_sender_and_what_became_of_it,
    signals_are_seen
);

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn more_opens_than_the_buffer_holds_are_lost_and_counted() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let mut script = Script::start("for i in range(300000): os.close(os.open('/dev/null', os.O_RDONLY))");
    let pid = script.pid().to_string();
    let readings = probed(&["opensnoop", "--pid", &pid], || drop(script.work()));
    let seen = rows(&readings, "events", "opens").len() as u64;
    let losses = readings.iter().filter_map(|reading| reading["lost"].as_object());
    let lost: u64 = losses.flat_map(|lost| lost.values()).map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(seen + lost, 300_000, "{seen} seen and {lost} lost");
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn a_flood_of_calls_stops_the_count_at_its_budget_and_it_says_so() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let _load = Load::start(1, "python3", &["-c", "import os\nwhile True: os.getppid()"]);
    // On a busy machine the interpreter needs a while to begin.
    std::thread::sleep(Duration::from_secs(2));
    let args = ["probe", "syscount", "--duration", "20s", "--budget", "0.1%", "--format", "json"];
    let output = rdiag().args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["notes"].to_string().contains("stopped itself"), "{result:#}");
    assert!(result["seconds"].as_f64().unwrap() < 10.0);
    assert!(rows(&[result], "table", "calls").iter().any(|row| row["call"] == "getppid"));
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_process_that_has_ended_and_a_parameter_that_does_not_exist_are_refused() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    for (args, says) in [
        (vec!["syscount".to_owned(), "--pid".to_owned(), gone.id().to_string()], "there is no process"),
        (vec!["syscount".into(), "--param".into(), "latancy=true".into()], "it has for, latency, top"),
        (vec!["syscount".into(), "--param".into(), "latency=1".into()], "neither true nor false"),
    ] {
        let output = rdiag().arg("probe").args(&args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(says), "{args:?}: {told}");
    }
}
