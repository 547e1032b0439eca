//! What a process gives up before it reads untrusted input.
//!
//! Each layer is there for the case that another one is missing: kernels before 5.13 have no Landlock, a container may forbid seccomp, and an
//! ordinary user has no privileges to drop. A layer that cannot be put on is named, and is no error.

mod calls;
mod fork;

use std::collections::BTreeMap;

use landlock::{
    ABI, Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, path_beneath_rules,
};
use rustix::fs::{Gid, Uid};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

pub use fork::{Child, Ended, Side, fork};

/// The user and group `nobody`, which own nothing.
const NOBODY: u32 = 65534;

/// What a confined process may still do.
#[derive(Debug, Clone, Copy)]
pub struct Confinement {
    /// Bytes of address space.
    pub address_space: u64,
    /// Seconds of CPU time.
    pub cpu_seconds: u64,
    /// The folders in which it may open files for reading; if there are none, it opens nothing at all.
    pub readable: &'static [&'static str],
}

/// Gives up everything that is not needed from here on, for good. Returns the layers that could not be put on.
#[must_use]
pub fn confine(to: Confinement) -> Vec<String> {
    // Should rdiag be killed, nothing else would end this process.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let cpu = (to.cpu_seconds, to.cpu_seconds.saturating_add(1));
    let (memory, none) = ((to.address_space, to.address_space), (0, 0));
    // At the soft limit comes SIGXCPU, before the SIGKILL of the hard limit.
    for (resource, (current, most)) in [(Resource::As, memory), (Resource::Cpu, cpu), (Resource::Core, none)] {
        let _ = setrlimit(resource, Rlimit { current: Some(current), maximum: Some(most) });
    }
    // A host that runs out of memory takes it from here first.
    let _ = oom_first();
    let mut missing = Vec::new();
    if !become_nobody() {
        missing.push("another user".to_owned());
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    if set_capabilities(None, none).is_err() {
        missing.push("no capabilities".to_owned());
    }
    if set_no_new_privs(true).is_err() {
        missing.push("no-new-privileges".to_owned());
    }
    if !forbid_files(to.readable) {
        missing.push("Landlock".to_owned());
    }
    if forbid_calls(!to.readable.is_empty()).is_none() {
        missing.push("seccomp".to_owned());
    }
    missing
}

#[expect(clippy::disallowed_methods, reason = "this process has no host; the file is its own")]
fn oom_first() -> std::io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", "1000")
}

/// An ordinary user stays who it is.
fn become_nobody() -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[]).is_ok()
        && set_thread_res_gid(group, group, group).is_ok()
        && set_thread_res_uid(user, user, user).is_ok()
        // The kernel clears it when the user changes.
        && set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
}

/// No file can be opened by its path but in these folders.
fn forbid_files(readable: &[&str]) -> bool {
    let newest = ABI::V5;
    let rules = path_beneath_rules(readable, AccessFs::from_read(newest));
    let outcome = Ruleset::default()
        .handle_access(AccessFs::from_all(newest))
        .and_then(|ruleset| ruleset.create())
        .and_then(|ruleset| ruleset.add_rules(rules))
        .and_then(|ruleset| ruleset.restrict_self());
    outcome.is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

/// No other call of the kernel than those that reading needs; others fail with EPERM.
fn forbid_calls(opens_files: bool) -> Option<()> {
    let opening = if opens_files { calls::OPENING.iter().chain(calls::OLD_OPENING) } else { [].iter().chain(&[]) };
    let always = calls::READING.iter().chain(calls::OLD_READING);
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> = always.chain(opening).map(|call| (*call, Vec::new())).collect();
    let ask = |request: u64| {
        let is = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request).ok()?;
        SeccompRule::new(vec![is]).ok()
    };
    // What kind of terminal it writes to, and how wide that is; nothing that acts on it.
    allowed.insert(libc::SYS_ioctl, [libc::TCGETS, libc::TIOCGWINSZ].into_iter().filter_map(ask).collect());
    let arch = std::env::consts::ARCH.try_into().ok()?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(allowed, refuse, SeccompAction::Allow, arch).ok()?;
    let program: BpfProgram = filter.try_into().ok()?;
    seccompiler::apply_filter(&program).ok()
}
