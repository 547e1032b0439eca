//! What is measured where the kernel lets no program in.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]
#![expect(unsafe_code, reason = "system calls are forbidden between fork and exec")]

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::probing::{Script, assert_nothing_lost, probed_by, program, ready, rows};
use super::tracefs::kill_with_its_helper;
use crate::support::{Load, Need, alone, has, skip, wait_until};

/// The shipped program, to which bpf(2) is forbidden as filters of containers forbid it.
pub(super) fn without_programs() -> Command {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let filter = [
        // The number of the call comes first.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_bpf as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let forbid = move || {
        let mut filter = filter;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the filter lives until the call returns, and nothing is allocated between fork and exec.
        match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let mut command = program();
    // SAFETY: see above.
    unsafe { command.pre_exec(forbid) };
    command
}

const WORK: &str = "
import fcntl
for i in range(77): os.close(os.open('/etc/passwd', os.O_RDONLY))
r, w = os.pipe()
for i in range(50):
    fcntl.fcntl(w, 1031, 64 << 12)
    fcntl.fcntl(w, 1031, 16 << 12)
os.write(w, b'x' * 33000)
for i in range(33): os.read(r, 1000)
";

/// What a probe sees of that work, without programs.
fn seen(probe: &[&str], more: &[&str]) -> Vec<Value> {
    let mut script = Script::start(WORK);
    let pid = script.pid().to_string();
    let args = [&probe[..1], &["--pid", &pid], &probe[1..], more].concat();
    let readings = probed_by(&mut without_programs(), &args, || drop(script.work()));
    assert_nothing_lost(&readings);
    let attached = &readings[0]["attached"][0];
    assert!(attached["refused"][0].as_str().unwrap().contains("refused"), "{attached}");
    readings
}

/// What a command that must fail for what this kernel is says.
fn refused(mut command: Command, args: &[&str]) -> String {
    let output = command.args(["probe"]).args(args).args(["--duration", "1s"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{args:?}: {told}");
    told
}

/// Whether this kernel sums up events by itself; otherwise rdiag must say that it does not.
fn kernel_has_tables(point: &str) -> bool {
    let has = Path::new("/sys/kernel/tracing/events/kmem/kmalloc/hist").exists();
    if !has {
        let before = rdiags();
        let told = refused(without_programs(), &["count", "--param", point]);
        assert!(told.contains("without programs in the kernel: this kernel"), "{told}");
        assert_eq!(rdiags(), before, "nothing is left");
        skip("this kernel does not sum up events by itself");
    }
    has
}

fn rdiags() -> usize {
    let entries = std::fs::read_dir("/sys/kernel/tracing/instances").unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("rdiag-")).count()
}

#[test]
#[ignore = "needs: root, tracefs with histogram triggers, python3, a kernel of the matrix"]
fn vm_tracepoints_are_counted_in_tables_of_the_kernel_where_no_program_may_be_in_it() {
    let _alone = alone();
    if !ready() || !kernel_has_tables("tracepoint=kmem:kmalloc") {
        return;
    }
    let before = rdiags();
    let counted = |args: &[&str]| {
        let readings = seen(&["count", "--param"], args);
        assert_eq!(readings[0]["attached"][0]["back_end"], "tracefs histogram trigger");
        rows(&readings, "table", "counts")
    };
    let found = counted(&["tracepoint=syscalls:sys_enter_openat", "--param", "key=comm,dfd"]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (&found[0]["name"], &found[0]["dfd"], &found[0]["count"]),
        (&"python3".into(), &"-100".into(), &77.0.into())
    );
    let filter = ["--param", "filter=bytes_req > 1000", "--param", "key=bytes_req", "--param", "value=bytes_alloc"];
    let found = counted(&[&["tracepoint=kmem:kmalloc"], &filter[..]].concat());
    let large = found.iter().find(|row| row["bytes_req"] == "2560").unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!((&large["count"], &large["mean"]), (&50.0.into(), &4096.0.into()), "{found:#?}");
    assert!(found.iter().all(|row| row["bytes_req"].as_str().unwrap().parse::<u64>().unwrap() > 1000), "{found:#?}");
    // 2,560 bytes lie above 2,048 and not above 4,096, which is all that the kernel's tables tell.
    let of_size = ["--param", "filter=bytes_req == 2560"];
    let args = ["hist", "--param", "tracepoint=kmem:kmalloc", "--param", "value=bytes_req", "--param", "key=comm"];
    let histogram = &seen(&args, &of_size)[0]["outputs"][0]["histogram"];
    let row = &histogram["rows"][0];
    assert_eq!((&row["instance"], &row["count"], &row["sum"]), (&"python3".into(), &50.into(), &128_000.0.into()));
    assert_eq!((&row["buckets"], &row["coarse"]), (&serde_json::json!([[4097.0, 50]]), &true.into()), "{histogram:#}");
    // Threads are put down to their process, and stacks have their functions.
    let args = ["count", "--param", "tracepoint=kmem:kmalloc", "--param", "key=kernel_stack,pid"];
    let stacks = &seen(&args, &of_size)[0]["outputs"][0]["stacks"];
    let each = stacks["stacks"].as_array().unwrap();
    assert_eq!(each.iter().map(|stack| stack["count"].as_u64().unwrap()).sum::<u64>(), 50, "{stacks:#}");
    let name = |at: &Value| stacks["frames"][at.as_u64().unwrap() as usize]["name"].as_str().unwrap().to_owned();
    for stack in each {
        let frames: Vec<String> = stack["frames"].as_array().unwrap().iter().map(name).collect();
        assert!(frames.iter().any(|name| name.contains("fcntl")), "{frames:?}");
    }
    // What tables cannot tell is refused as before.
    let of_programs = ["count", "--param", "tracepoint=kmem:kmalloc", "--param", "key=user_stack"];
    let told = refused(without_programs(), &of_programs);
    assert!(told.contains("without programs in the kernel: stacks of programs are not kept"), "{told}");
    assert_eq!(rdiags(), before, "nothing is left behind");
}

#[test]
#[ignore = "needs: root, tracefs with histogram triggers"]
fn a_table_that_the_kernel_rejects_is_told_in_its_words_and_a_flood_stops_the_count_at_its_budget() {
    let _alone = alone();
    if !ready() || !kernel_has_tables("tracepoint=kmem:kmalloc") {
        return;
    }
    let before = rdiags();
    // No name is as long, and the kernel takes no text that is.
    let name = "x".repeat(300);
    let told = refused(without_programs(), &["count", "--param", "tracepoint=sched:sched_switch", "--comm", &name]);
    let (_, said) = told.split_once("the kernel does not sum up sched:sched_switch like this: ").unwrap();
    let lines: Vec<&str> = said.lines().take(3).collect();
    assert!(lines[1].contains(&name) && lines[2].trim() == "^", "{told}");
    assert_eq!(rdiags(), before, "nothing is left");
    // What is filtered by has other names than what is told apart by.
    let args = ["probe", "count", "--format", "json", "--param", "key=cpu", "--param"];
    let counted = |more: &[&str]| -> Value {
        let output = without_programs().args(args).args(more).output().unwrap();
        let ended = if more.contains(&"--budget") { 5 } else { 0 };
        assert_eq!(output.status.code(), Some(ended), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let reading = counted(&["tracepoint=sched:sched_switch", "--param", "filter=cpu == 0", "--duration", "1s"]);
    let of_cpus = rows(&[reading], "table", "counts");
    assert!(of_cpus.len() == 1 && of_cpus[0]["cpu"] == "0", "{of_cpus:#?}");
    let _flood = Load::start(1, "dd", &["if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]);
    let reading = counted(&["tracepoint=raw_syscalls:sys_enter", "--budget", "1%", "--duration", "20s"]);
    let notes = reading["notes"].to_string();
    assert!(notes.contains("stopped itself after ") && notes.contains("events per second at"), "{notes}");
    assert!(reading["seconds"].as_f64().unwrap() < 10.0 && reading["cost"]["of"] == "events", "{reading:#}");
    let counts = rows(std::slice::from_ref(&reading), "table", "counts");
    let seen: f64 = counts.iter().map(|row| row["count"].as_f64().unwrap()).sum();
    assert!(seen >= reading["cost"]["runs"].as_f64().unwrap() && seen > 10_000.0, "{reading:#}");
    assert_eq!(rdiags(), before, "nothing is left");
}

const EVENTS: &str = "/sys/kernel/tracing/kprobe_events";

/// What is defined there already stays: only a file that is cut off forgets it.
fn define(order: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).open(EVENTS).unwrap();
    file.write_all(order.as_bytes()).unwrap();
}

fn defined() -> String {
    std::fs::read_to_string(EVENTS).unwrap()
}

#[test]
#[ignore = "needs: root, tracefs with kprobe events and histogram triggers, python3, a kernel of the matrix"]
fn vm_functions_are_counted_in_tables_of_the_kernel_where_no_program_may_be_in_it() {
    let _alone = alone();
    if !ready() || !has(&[Need::Path(EVENTS)]) || !kernel_has_tables("function=vfs_read") {
        return;
    }
    let before = rdiags();
    define("p:mine/of_somebody_else vfs_fsync_range");
    // What a killed one leaves is removed, by the next one where nobody else is left to do it.
    let args = ["probe", "count", "--param", "function=vfs_read"];
    let start = || {
        let child = without_programs().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert!(wait_until(60, || defined().contains("rdiag") && rdiags() > before), "the probe did not start");
        child
    };
    let mut killed = start();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(wait_until(60, || !defined().contains("rdiag") && rdiags() == before), "nobody removes it");
    kill_with_its_helper(&mut start());
    assert!(defined().contains("rdiag") && rdiags() > before, "the probe did not start");
    // What goes in, and what comes out.
    let of_size = ["--param", "value=arg3", "--param", "filter=arg3 == 1000", "--param", "key=comm,pid"];
    let calls = rows(&seen(&["count", "--param", "function=vfs_read"], &of_size), "table", "counts");
    assert_eq!(calls.len(), 1, "{calls:#?}");
    let of = |column: &str| calls[0][column].clone();
    assert_eq!((of("name"), of("count"), of("sum")), ("python3".into(), 33.0.into(), 33_000.0.into()));
    let is_clean = || !defined().contains("rdiag") && defined().contains("of_somebody_else") && rdiags() == before;
    assert!(is_clean(), "{}", defined());
    let of_size = ["--param", "value=return", "--param", "filter=return == 1000"];
    let readings = seen(&["hist", "--param", "function=vfs_read"], &of_size);
    let row = &readings[0]["outputs"][0]["histogram"]["rows"][0];
    assert_eq!((&row["buckets"], &row["sum"]), (&serde_json::json!([[1025.0, 33]]), &33_000.0.into()));
    assert_eq!(readings[0]["attached"][0]["back_end"], "kprobe event with histogram trigger");
    assert!(is_clean(), "{}", defined());
    define("-:mine/of_somebody_else");
}

#[test]
#[ignore = "needs: root, eBPF, tracefs with kprobe events, a kernel of the matrix"]
fn vm_a_function_that_the_kernel_lets_nobody_probe_is_refused_in_its_words_and_nothing_is_left() {
    let _alone = alone();
    if !ready() || !has(&[Need::Path(EVENTS)]) {
        return;
    }
    let before = (rdiags(), defined());
    // Probing it would fault within the fault. What `log` sees no table can tell, so nothing else is tried for it.
    let told = refused(program(), &["log", "--param", "function=exc_page_fault"]);
    assert!(told.contains("exc_page_fault cannot be traced here: ") && told.contains("kprobe: "), "{told}");
    assert!(told.contains("hint: choose a function that calls it"), "{told}");
    let told = refused(program(), &["count", "--param", "function=exc_page_fault"]);
    assert!(told.contains("exc_page_fault cannot be traced here: "), "{told}");
    let (_, said) =
        told.split_once("the kernel makes no event of exc_page_fault: ").unwrap_or_else(|| panic!("{told}"));
    // Its sentence, and the word of what it was told that it is about.
    assert!(said.lines().next().is_some_and(|line| line.contains(", at \"exc_page_fault")), "{told}");
    assert_eq!((rdiags(), defined()), before, "nothing is left");
}
