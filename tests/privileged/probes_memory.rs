//! Probes of memory: stalls at the limit of a control group against the kernel's own account of that group, and compaction
//! against the clock of whoever asked for it.

use std::path::Path;

use super::kernels::NullDisk;
use super::memory::{MemoryCgroup, SparseFile};
use super::probing::{Script, assert_nothing_lost, probed, rows, watched};
use crate::support::{Need, alone, has, rdiag};

const MIB: f64 = (1 << 20) as f64;

/// The first number behind a word in one of the group's files; none if there is no such file or word.
fn account(group: &Path, file: &str, word: &str) -> Option<f64> {
    let text = std::fs::read_to_string(group.join(file)).ok()?;
    let line = text.lines().find(|line| line.starts_with(word))?;
    line.rsplit([' ', '=']).next()?.parse().ok()
}

/// A reader of 160 MiB in a group of 48, which then has the whole memory compacted.
fn stalls_are_told_by_kind(path: &Path) {
    let group = MemoryCgroup::with_limit("rdiag-test-stalls", 48 << 20).expect("a memory cgroup");
    // Of several CPUs the kernel weighs the stalls by how busy each was.
    let work = format!(
        "os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])\n\
         f = os.open({path:?}, os.O_RDONLY)\nfor _ in range(160): os.read(f, 1 << 20)\n\
         began = time.monotonic()\nopen('/proc/sys/vm/compact_memory', 'w').write('1')\nsays = time.monotonic() - began"
    );
    let mut script = Script::start(&work);
    std::fs::write(group.0.join("cgroup.procs"), script.pid().to_string()).unwrap();
    let (pid, mut compacted) = (script.pid().to_string(), 0.0);
    let readings = probed(&["memstall", "--pid", &pid], || compacted = script.work().parse().unwrap());
    assert_nothing_lost(&readings);
    let rows = rows(&readings, "table", "tasks");
    assert!(rows.iter().all(|row| row["name"] == "python3" && row["pid"] == pid.as_str()), "{rows:#?}");
    let sum = |kind: &str, column: &str| -> f64 {
        let of_kind = rows.iter().filter(|row| row["kind"] == kind);
        of_kind.map(|row| row[column].as_f64().unwrap()).sum()
    };
    let (freed, time) = (sum("reclaim in a group", "freed") / MIB, sum("reclaim in a group", "time"));
    assert!((100.0..=170.0).contains(&freed), "freed {freed} MiB: {rows:#?}");
    // The tree of version 2 keeps an account of its own.
    if let Some(pages) = account(&group.0, "memory.stat", "pgsteal ") {
        let told = pages * 4096.0 / MIB;
        assert!((freed / told - 1.0).abs() < 0.05, "{freed} MiB here, {told} MiB in memory.stat");
    }
    // Sums of pressure are brought up to date every two seconds.
    std::thread::sleep(std::time::Duration::from_secs(4));
    if let Some(told) = account(&group.0, "memory.pressure", "some ") {
        let told = told * 1e-6;
        // The kernel's own span is a little wider, which an emulated CPU makes 0.1 ms for each of some hundred stalls.
        assert!((0.7..1.1).contains(&(time / told)), "{time} s here, {told} s in memory.pressure");
    }
    let moved = sum("compaction", "time");
    assert!(moved > 0.0 && moved <= compacted, "{moved} s of compaction within {compacted} s: {rows:#?}");
}

#[test]
#[ignore = "needs: root, eBPF, a memory cgroup"]
fn stalls_at_the_limit_of_a_group_and_compaction_are_told_apart() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("python3")]) {
        let file = SparseFile::of(160 << 20);
        stalls_are_told_by_kind(&file.0);
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules"]
fn vm_stalls_at_the_limit_of_a_group_are_what_the_kernel_says_of_the_group() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("python3"), Need::Tool("modprobe")]) {
        // Files of the guest are in memory already, so a disk without a medium stands in.
        let disk = NullDisk::with(&[]);
        stalls_are_told_by_kind(Path::new("/dev/nullb0"));
        drop(disk);
    }
}

/// A script in a group of 48 MiB that asks for 256.
fn a_kill_is_told_with_victim_group_and_cause() {
    let group = MemoryCgroup::with_limit("rdiag-test-kill", 48 << 20).expect("a memory cgroup");
    let mut script = Script::start("os.fork() or exit(bytearray(256 << 20)[0])\nos.wait()");
    std::fs::write(group.0.join("cgroup.procs"), script.pid().to_string()).unwrap();
    // Of both, the kernel takes the one that asked for more.
    let parent = script.pid();
    let readings = probed(&["oomkill"], || drop(script.work()));
    assert_nothing_lost(&readings);
    let kills = rows(&readings, "events", "kills");
    let in_group = |row: &&serde_json::Map<String, serde_json::Value>| row["group"] == "/rdiag-test-kill";
    let [kill] = kills.iter().filter(in_group).collect::<Vec<_>>()[..] else { panic!("{kills:#?}") };
    assert_eq!((&kill["victim"], &kill["name"]), (&"python3".into(), &"python3".into()));
    assert_eq!(kill["victim_pid"], kill["pid"], "it asked itself");
    assert_ne!(kill["pid"], parent.to_string());
    assert_eq!(kill["cause"], "limit of a control group");
    let anon = kill["anon"].as_f64().unwrap() / MIB;
    // Before the script came into the group it had some already.
    assert!((35.0..=64.0).contains(&anon), "{anon} MiB with a limit of 48");
}

#[test]
#[ignore = "needs: root, eBPF, a memory cgroup"]
fn a_process_that_is_killed_at_the_limit_of_its_group_is_told_with_group_and_cause() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("python3")]) {
        a_kill_is_told_with_victim_group_and_cause();
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix"]
fn vm_a_process_that_is_killed_at_the_limit_of_its_group_is_told_with_group_and_cause() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("python3")]) {
        a_kill_is_told_with_victim_group_and_cause();
    }
}

/// A program whose functions keep, give back, and move what they allocate. It stays a while, so that its code can be named.
const ALLOCATES: &str = r"
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept;
__attribute__((noinline)) static void leaks(void) { for (int i = 0; i < 1000; i++) kept = malloc(1000); }
__attribute__((noinline)) static void tidies(void) { for (int i = 0; i < 1000; i++) { kept = malloc(3000); free(kept); } }
__attribute__((noinline)) static void moves(void)
{
	void *block = 0;
	for (int i = 1; i <= 100; i++)
		block = realloc(block, i * 5000);
	kept = block;
}
__attribute__((noinline)) static void aligns(void)
{
	void *block;
	if (!posix_memalign(&block, 64, 7000))
		kept = block;
	kept = calloc(10, 20);
}
int main(void) { leaks(); tidies(); moves(); aligns(); sleep(3); return 0; }
";

fn what_a_program_did_not_free_is_told_by_function() {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("allocates.c"), folder.path().join("allocates"));
    std::fs::write(&source, ALLOCATES).unwrap();
    let flags = ["-O0", "-fno-omit-frame-pointer", "-o"];
    assert!(std::process::Command::new("cc").args(flags).arg(&binary).arg(&source).status().unwrap().success());
    let mut command = rdiag();
    command.args(["probe", "memleak", "--format", "json", "--budget", "100%", "--"]).arg(&binary);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let readings = [serde_json::from_slice(&output.stdout).unwrap()];
    assert_nothing_lost(&readings);
    let rows = rows(&readings, "table", "code");
    let of = |function: &str| {
        let row =
            rows.iter().find(|row| row["function"] == function).unwrap_or_else(|| panic!("{function}: {rows:#?}"));
        ["outstanding", "blocks", "allocated"].map(|column| row[column].as_f64().unwrap())
    };
    assert_eq!(of("leaks"), [1e6, 1000.0, 1e6]);
    assert_eq!(of("tidies"), [0.0, 0.0, 3e6]);
    assert_eq!(of("moves"), [500_000.0, 1.0, 5000.0 * 5050.0]);
    assert_eq!(of("aligns"), [7200.0, 2.0, 7200.0]);
    // What rdiag's own copy had before it became the command is gone.
    assert!(rows.iter().all(|row| row["name"] == "allocates"), "{rows:#?}");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn what_a_program_allocated_and_did_not_free_is_told_by_the_function_that_did() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("cc")]) {
        what_a_program_did_not_free_is_told_by_function();
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix"]
fn vm_what_a_program_allocated_and_did_not_free_is_told_by_the_function_that_did() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("cc")]) {
        what_a_program_did_not_free_is_told_by_function();
    }
}

/// Three hundred pipes, of which a hundred are closed: two blocks of the kernel for each.
const PIPES: &str = "
pipes = [os.pipe() for _ in range(300)]
for pipe in pipes[:100]:
    for end in pipe: os.close(end)
";

fn what_the_kernel_did_not_free_is_told_by_function() {
    let mut script = Script::start(PIPES);
    let (readings, _) = watched(&mut script, &["memleak", "--param", "kernel=true"]);
    let rows = rows(&readings, "table", "code");
    let of = |function: &str| rows.iter().find(|row| row["function"] == function);
    let pipes = of("alloc_pipe_info").unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!((&pipes["name"], &pipes["blocks"]), (&"python3".into(), &400.0.into()), "{pipes:#?}");
    let [left, all] = ["outstanding", "allocated"].map(|column| pipes[column].as_f64().unwrap());
    assert!((left * 3.0 - all * 2.0).abs() < 1.0, "{pipes:#?}");
    let stacks = serde_json::to_string(&readings).unwrap();
    assert!(stacks.contains("do_pipe2") || stacks.contains("create_pipe_files"), "no stack leads to the call");
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn what_the_kernel_allocated_for_a_process_and_did_not_free_is_told_by_its_function() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("python3")]) {
        what_the_kernel_did_not_free_is_told_by_function();
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix"]
fn vm_what_the_kernel_allocated_for_a_process_and_did_not_free_is_told_by_its_function() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("python3")]) {
        what_the_kernel_did_not_free_is_told_by_function();
    }
}
