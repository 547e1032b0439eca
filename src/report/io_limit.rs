//! Waits for a disk while a control group is at its I/O limit (io.max): what the task waits for then is the limit, and not the disk.
//!
//! The kernel delays requests of such a group before they reach the device, and the stack of who waits for them is that of a wait for a
//! slow disk. So the account cannot distinguish the two; the rule that compares the group's I/O with its limit can.

use rdiag_model::{Component, Finding, NextStep, Profile, Status};

/// The rule on I/O limits of control groups.
const RULE: &str = "cgroup.utilization.io";
/// What is said of the gain where the limit is the task's own.
const WORDS: &str =
    "Its control group is at its I/O limit (io.max): a higher limit or less I/O shortens it, a faster disk does not.";

/// The finding about a limit that the task's own control group has reached.
pub(super) fn own<'f>(profile: &Profile, findings: &'f [Finding]) -> Option<&'f Finding> {
    fired(findings).find(|finding| is_of_task(profile, finding))
}

/// Whether a finding is about a limit that is not known to be the task's.
pub(super) fn is_of_others(profile: &Profile, finding: &Finding) -> bool {
    finding.id == RULE && !is_of_task(profile, finding)
}

/// Has the advice on waits for disks begin with a limit that was reached meanwhile.
pub(super) fn tell(profile: &mut Profile, findings: &[Finding]) {
    let own = own(profile, findings);
    let Some(finding) = own.or_else(|| fired(findings).next()) else { return };
    let is_own = own.is_some();
    let what = if is_own {
        "Raise the I/O limit of its control group, or do less I/O"
    } else {
        "See whether the task is in the control group that is at its I/O limit (cat /proc/PID/cgroup)"
    };
    let action = format!("{what}: {}", finding.summary.trim());
    let waits = |id: Component| id.def().rules.contains(&RULE);
    for row in profile.components.iter_mut().filter(|row| waits(row.id) && !row.next.is_empty()) {
        row.next.insert(0, NextStep { action: action.clone(), changes_host: false });
    }
    for row in profile.forecast.rows.iter_mut().filter(|row| is_own && waits(row.id)) {
        WORDS.clone_into(&mut row.words);
    }
}

fn fired(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.id == RULE && finding.status >= Status::Warning)
}

/// Whether the task is known to be in the group: it was named by that group or one below it, or is who does the I/O there.
fn is_of_task(profile: &Profile, finding: &Finding) -> bool {
    // The instance is the group, the device and the kind of limit.
    let group = finding.instance.as_deref().and_then(|instance| instance.rsplitn(3, ' ').nth(2)).unwrap_or_default();
    let group = group.trim_matches('/');
    let is_within = |own: &str| {
        let below = own.trim_matches('/').strip_prefix(group);
        !group.is_empty() && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    };
    let has_pid = |pid: &u32| profile.threads.iter().any(|thread| thread.pid == *pid);
    profile.target.cgroup.as_deref().is_some_and(is_within)
        || finding.culprit.as_ref().is_some_and(|culprit| culprit.pids.iter().any(has_pid))
}
