//! Tasks that sleep uninterruptibly at the end of the window and have not come back: they are in no sum, and matter most.

use crate::table::TableSpec;
use rdiag_kernel::host::{Host, ProcessDir};
use rdiag_kernel::mechanism::ebpf::{Filter, Object};
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;
use rdiag_proc::TaskStat;

/// Tasks in the table.
const TOP: usize = 50;
/// Functions of a stack that are shown, innermost first.
const FUNCTIONS: usize = 12;

/// `struct sleeper` of the program; its first word is when it fell asleep, 0 if it is awake.
type Sleeper = [u64; 136];

/// A task in state D.
struct Task {
    pid: u32,
    tid: u32,
    name: String,
    /// Nanoseconds; none if it fell asleep before the window began.
    slept: Option<u64>,
}

/// The tasks in state D that have slept for at least `threshold` nanoseconds; none if /proc cannot be read. Filters hold,
/// but what fell asleep before the window is left out if there is one for a control group.
pub(super) fn table(host: &Host, object: &Object, filter: &Filter, threshold: u64) -> Option<ProbeTable> {
    let processes = host.processes().ok()?;
    let now = (host.now() * 1e9) as u64;
    let mut tasks = Vec::new();
    let (mut pids, mut tids, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    processes.list("", &mut pids).ok()?;
    pids.retain(|pid| filter.pids.is_empty() || filter.pids.contains(pid));
    for pid in pids {
        if processes.list(&format!("{pid}/task"), &mut tids).is_err() {
            continue;
        }
        for tid in &tids {
            let Some(name) = uninterruptible(&processes, pid, *tid, &mut buffer) else { continue };
            if filter.comm.as_ref().is_some_and(|comm| *comm != name) {
                continue;
            }
            let slept = match object.hash_value::<u32, Sleeper>("offcpu_sleepers", tid) {
                Some([0, ..]) => continue,
                Some([since, ..]) => Some(now.saturating_sub(since)),
                None if filter.cgroup.is_some() => continue,
                None => None,
            };
            if slept.is_none_or(|slept| slept >= threshold) {
                tasks.push(Task { pid, tid: *tid, name, slept });
            }
        }
    }
    Some(longest_first(host, tasks))
}

/// Longest first; who slept before the window began has slept longest.
fn longest_first(host: &Host, mut tasks: Vec<Task>) -> ProbeTable {
    tasks.sort_by_key(|task| (std::cmp::Reverse(task.slept.unwrap_or(u64::MAX)), task.tid));
    let title = "Tasks that still wait uninterruptibly; without a time: since before the probe began";
    TableSpec::<Task>::new("stuck", title)
        .rows("task", |task| task.tid.to_string())
        .text("name", "task", |task| task.name.clone())
        .text("pid", "pid", |task| task.pid.to_string())
        .text("tid", "tid", |task| task.tid.to_string())
        .number("blocked", "blocked so far", Unit::Seconds, |task| task.slept.map(|slept| slept as f64 * 1e-9))
        .text("stack", "kernel functions, innermost first", |task| kernel_stack(host, task))
        .top(tasks, TOP)
}

/// The name of a task in state D.
fn uninterruptible(processes: &ProcessDir, pid: u32, tid: u32, buffer: &mut Vec<u8>) -> Option<String> {
    name_if_uninterruptible(processes.read(&format!("{pid}/task/{tid}/stat"), buffer).ok()?)
}

fn name_if_uninterruptible(stat: &[u8]) -> Option<String> {
    let stat = TaskStat::parse(stat)?;
    (stat.state == 'D').then(|| String::from_utf8_lossy(stat.name).into_owned())
}

/// /proc/PID/task/TID/stack, which root alone may read.
fn kernel_stack(host: &Host, task: &Task) -> Option<String> {
    functions(&host.read(&format!("proc/{}/task/{}/stack", task.pid, task.tid)).ok()?)
}

/// Lines of `[<0>] function+0x12/0x34 [module]` as the names of the functions.
fn functions(stack: &str) -> Option<String> {
    let name = |line: &str| Some(line.split_once("] ")?.1.split(['+', ' ']).next()?.to_owned());
    let names: Vec<String> = stack.lines().filter_map(name).take(FUNCTIONS).collect();
    (!names.is_empty()).then(|| names.join(" < "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_kernel::host::HostSpec;
    use rdiag_model::probe::Cell;

    #[test]
    fn a_task_in_state_d_has_its_name_whatever_that_is_and_others_have_none() {
        assert_eq!(name_if_uninterruptible(b"7 (a) R (b) D 1 2").as_deref(), Some("a) R (b"));
        assert_eq!(name_if_uninterruptible(b"7 (D) S 1 2"), None);
        assert_eq!(name_if_uninterruptible(b"7 (kworker) I 1"), None);
        assert_eq!(name_if_uninterruptible(b""), None);
    }

    #[test]
    fn functions_are_named_without_offsets_and_modules() {
        let stack = "[<0>] io_schedule+0x46/0x70\n[<0>] ext4_sync+0x1/0x2 [ext4]\n";
        assert_eq!(functions(stack).as_deref(), Some("io_schedule < ext4_sync"));
        assert_eq!(functions(""), None);
        assert_eq!(functions("garbage"), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a made-up tree, not the host")]
    fn who_has_slept_longest_comes_first_with_its_stack_and_the_rest_is_counted() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("t0/proc/7/task/9");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("stack"), "[<0>] io_schedule+0x46/0x70\n").unwrap();
        let host = Host::recorded(tree.path(), HostSpec::default());
        let task = |tid, slept| Task { pid: 7, tid, name: "dd".into(), slept };
        let mut tasks: Vec<Task> = (100..150).map(|tid| task(tid, Some(1_000_000_000))).collect();
        tasks.extend([task(8, Some(2_000_000_000)), task(9, None)]);
        let table = longest_first(&host, tasks);
        let [first, second, ..] = &table.rows[..] else { panic!("{table:?}") };
        let cells = ["dd".into(), "7".into(), "9".into(), Cell::Unknown(()), "io_schedule".into()];
        assert_eq!((first.instance.as_str(), &first.cells[..]), ("9", &cells[..]));
        assert_eq!(second.cells[3..], [2.0.into(), Cell::Unknown(())]);
        assert_eq!((table.rows.len(), table.others, table.others_sum.len()), (TOP, 2, 0));
    }
}
