//! Writers that wait since their file system is frozen: the kernel calls that a lock, and shows in no file which file system it is.

use std::collections::BTreeMap;

use super::super::sentence::listed;
use rdiag_model::probe::{Output, Stack, Stacks};
use rdiag_model::{Finding, NextStep, Recording};

const BLOCKED: &str = "tasks.saturation.blocked";
/// Functions that wait until a reader may enter: from the innermost one on the way to the function that asked.
const WAITS: [&str; 6] = [
    "schedule",
    "__schedule",
    "percpu_rwsem_wait",
    "__percpu_down_read",
    "percpu_down_read",
    "percpu_down_read.constprop.0",
];
/// Who asks to write to a file system: a freeze lets none of them in. `vfs_write` and the like stand here with what is inlined into them.
const WRITERS: [&str; 16] = [
    "__sb_start_write",
    "sb_start_write",
    "mnt_want_write",
    "mnt_want_write_file",
    "file_start_write",
    "vfs_write",
    "vfs_iter_write",
    "do_iter_write",
    "do_iter_readv_writev",
    "vfs_writev",
    "vfs_fallocate",
    "aio_write",
    "io_write",
    "ext4_page_mkwrite",
    "btrfs_page_mkwrite",
    "iomap_page_mkwrite",
];
const WHO_FROZE: &str = "Find what froze the file system that these tasks write to: fsfreeze, a snapshot (dmsetup info: SUSPENDED), \
                         a backup, the guest agent of the hypervisor";
const THAW: &str = "Thaw it when the snapshot is taken: fsfreeze -u MOUNT";

/// Programs whose tasks in D state wait for a file system to be thawed, those that waited the longest first.
pub(super) fn writers(recording: &Recording) -> Vec<String> {
    let taken = recording.windows.iter().filter_map(|window| window.probes.get("blocked_tasks")?.as_ref().ok());
    let mut waited: BTreeMap<&str, f64> = BTreeMap::new();
    for output in taken.flat_map(|result| &result.outputs) {
        let Output::Stacks(stacks) = output else { continue };
        for stack in stacks.stacks.iter().filter(|stack| waits_for_thaw(stack, stacks)) {
            *waited.entry(&stack.owner).or_default() += stack.value;
        }
    }
    let mut waited: Vec<(&str, f64)> = waited.into_iter().collect();
    waited.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    waited.into_iter().map(|(name, _)| name.to_owned()).collect()
}

fn waits_for_thaw(stack: &Stack, stacks: &Stacks) -> bool {
    let name = |at: &u32| stacks.frames.get(*at as usize).map_or("", |frame| frame.name.as_str());
    let mut inner = stack.frames.iter().rev().map(name).peekable();
    let mut waits = false;
    while let Some(wait) = inner.next_if(|name| WAITS.contains(name)) {
        waits |= wait.contains("percpu");
    }
    waits && inner.next().is_some_and(|asker| WRITERS.contains(&asker))
}

/// Says that a file system is frozen, who waits for it, and how to go on from there.
pub(super) fn complete(finding: &mut Finding, writers: &[String]) {
    if finding.id != BLOCKED || !finding.status.fired() || writers.is_empty() {
        return;
    }
    let who = listed(writers, 3);
    let rest = finding.summary.trim_end();
    finding.summary =
        format!("Writers wait for a frozen file system to be thawed, as their kernel stacks show: {who}. {rest}");
    let step = |action: &str, changes_host| NextStep { action: action.to_owned(), changes_host };
    finding.next = vec![step(WHO_FROZE, false), step(THAW, true)];
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::{finding, recording};
    use super::super::tests::advice;
    use super::*;
    use rdiag_model::Status;
    use rdiag_model::probe::{Frame, ProbeResult};

    /// What is told of tasks with this stack, innermost first.
    fn told(stack: &str) -> Finding {
        let mut recording = recording();
        let frames: Vec<Frame> =
            stack.split(" < ").map(|name| Frame { name: name.into(), ..Frame::default() }).collect();
        // Outermost first, as stacks are recorded.
        let order = (0..frames.len() as u32).rev().collect();
        let stacks = vec![Stack { owner: "touch".into(), frames: order, value: 5.0, ..Stack::default() }];
        let result = ProbeResult {
            outputs: vec![Output::Stacks(Stacks { frames, stacks, ..Stacks::default() })],
            ..ProbeResult::default()
        };
        recording.windows[0].probes.insert("blocked_tasks".into(), Ok(result));
        let mut blocked = finding(BLOCKED, Status::Warning);
        blocked.summary = "3 tasks were in D state.".into();
        complete(&mut blocked, &writers(&recording));
        blocked
    }

    #[test]
    fn who_waits_to_write_to_a_frozen_file_system_is_told_from_who_waits_for_another_lock() {
        for frozen in [
            "percpu_rwsem_wait < mnt_want_write < path_openat",
            "percpu_rwsem_wait < __percpu_down_read < __sb_start_write < mnt_want_write < do_unlinkat",
            "__schedule < schedule < percpu_rwsem_wait < __percpu_down_read < vfs_write < ksys_write",
        ] {
            let found = told(frozen);
            assert_eq!(
                found.summary,
                "Writers wait for a frozen file system to be thawed, as their kernel stacks show: touch. 3 tasks were in D state.",
                "{frozen}"
            );
            assert_eq!(advice(&found), [WHO_FROZE, THAW]);
        }
        for other in [
            "percpu_rwsem_wait < __percpu_down_read < cgroup_attach_lock < cgroup_procs_write < kernfs_fop_write_iter < vfs_write",
            "percpu_rwsem_wait < copy_process < kernel_clone",
            "rwsem_down_write_slowpath < vfs_write < ksys_write",
            "bit_wait_io < mnt_want_write",
            "mnt_want_write < path_openat",
            "",
        ] {
            assert_eq!(told(other).summary, "3 tasks were in D state.", "{other}");
        }
    }
}
