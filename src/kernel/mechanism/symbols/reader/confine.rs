//! What the process that reads symbols may do: look at what it was handed, and at `/usr/lib/debug`.
//!
//! Each layer is there for the case that another one is missing: kernels before 5.13 have no Landlock, a container may forbid seccomp, and an
//! ordinary user has no privileges to drop. A layer that cannot be put on is named, and is no error.

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
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::child::DEBUG_FILES;
use crate::mechanism::descriptors;

/// The user and group `nobody`, which own nothing.
const NOBODY: u32 = 65534;
/// Bytes of address space: the largest copies of a file, what is unpacked from them, and what is made of that.
const ADDRESS_SPACE: u64 = 2 << 30;
/// Seconds of CPU time: nobody waits for an answer for so long.
const CPU_SECONDS: u64 = 120;

/// Gives up everything that is not needed from here on, for good. Returns the layers that could not be put on.
pub(super) fn confine() -> Vec<String> {
    // Should rdiag be killed, nobody would end this process.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    for (resource, most) in [(Resource::As, ADDRESS_SPACE), (Resource::Cpu, CPU_SECONDS), (Resource::Core, 0)] {
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    // Each file takes three descriptors at most.
    descriptors::make_room(u64::MAX);
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
    if !forbid_files() {
        missing.push("Landlock".to_owned());
    }
    if forbid_calls().is_none() {
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

/// No file can be opened by its path but debug information.
fn forbid_files() -> bool {
    let newest = ABI::V5;
    let rules = path_beneath_rules([DEBUG_FILES], AccessFs::from_read(newest));
    let outcome = Ruleset::default()
        .handle_access(AccessFs::from_all(newest))
        .and_then(|ruleset| ruleset.create())
        .and_then(|ruleset| ruleset.add_rules(rules))
        .and_then(|ruleset| ruleset.restrict_self());
    outcome.is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

/// No other call of the kernel than those that reading needs; others fail with EPERM.
fn forbid_calls() -> Option<()> {
    let allowed: BTreeMap<i64, Vec<_>> = CALLS.iter().chain(OLD_CALLS).map(|call| (*call, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().ok()?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(allowed, refuse, SeccompAction::Allow, arch).ok()?;
    let program: BpfProgram = filter.try_into().ok()?;
    seccompiler::apply_filter(&program).ok()
}

const CALLS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_close,
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_lseek,
    libc::SYS_fcntl,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What newer architectures have only in the form above.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[i64] = &[libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_access];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[i64] = &[];
