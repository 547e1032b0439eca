//! What a process gives up before it reads untrusted input.
//!
//! Each layer is there for the case that another one is missing: kernels before 5.13 have no Landlock, a container may forbid seccomp, and
//! an ordinary user has no privileges to drop. A layer that cannot be put on is named, and is no error.

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

/// The user and group `nobody`, which own nothing. Daemons and people have that number too.
const NOBODY: u32 = 65534;
/// From here on, one of so many numbers is taken that nothing gives to users, containers and their users included.
#[cfg(not(test))]
const OWN: (u32, u32) = (0x7000_0000, 1 << 24);

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
    if !become_other() {
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
fn become_other() -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    let become_user = |number| {
        let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
        set_thread_res_gid(group, group, group).is_ok() && set_thread_res_uid(user, user, user).is_ok()
    };
    set_thread_groups(&[]).is_ok()
        // A namespace of users may not have the first.
        && (become_user(own_user()) || become_user(NOBODY))
        // The kernel clears it when the user changes.
        && set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
}

/// A number that no one else has, so that no one else can end or stop this process.
#[cfg(not(test))]
fn own_user() -> u32 {
    use std::hash::BuildHasher as _;
    let random = std::hash::RandomState::new().hash_one(std::process::id());
    let (first, count) = OWN;
    first + u32::try_from(random % u64::from(count)).unwrap_or_default()
}

/// In unit tests the one of another process, which the layers but this one are to keep from being reached.
#[cfg(test)]
fn own_user() -> u32 {
    NOBODY
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
    let only = |argument: u8, value: u64| {
        let is = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).ok()?;
        SeccompRule::new(vec![is]).ok()
    };
    // What kind of terminal it writes to, and how wide that is; nothing that acts on it.
    let asks = [libc::TCGETS, libc::TIOCGWINSZ].into_iter().map(|ask| only(1, ask));
    allowed.insert(libc::SYS_ioctl, asks.collect::<Option<_>>()?);
    let may = |command: &i32| only(1, u64::try_from(*command).ok()?);
    allowed.insert(libc::SYS_fcntl, calls::FCNTL.iter().map(may).collect::<Option<_>>()?);
    // Its own end: other processes of its user are none of its business.
    let itself = u64::from(std::process::id());
    allowed.insert(libc::SYS_tgkill, vec![only(0, itself)?]);
    let arch = std::env::consts::ARCH.try_into().ok()?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(allowed, refuse, SeccompAction::Allow, arch).ok()?;
    let program: BpfProgram = filter.try_into().ok()?;
    seccompiler::apply_filter(&program).ok()
}

#[cfg(test)]
#[expect(unsafe_code, reason = "what is tried are calls of the kernel that nothing here makes")]
#[expect(clippy::disallowed_methods, reason = "the test starts itself, confined")]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// Names a process of the same user.
    const OTHER: &str = "RDIAG_TEST_OTHER";
    const READING: Confinement = Confinement { address_space: 1 << 40, cpu_seconds: 60, readable: &[] };

    #[test]
    fn a_confined_process_reaches_no_other_by_signals() {
        let mut sleep = Command::new("sleep");
        sleep.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if rustix::process::geteuid().is_root() {
            sleep.uid(NOBODY).gid(NOBODY);
        }
        let mut other = sleep.spawn().unwrap();
        let own = std::env::current_exe().unwrap();
        let words = ["--exact", "host::confine::tests::confined", "--ignored", "--nocapture"];
        let told = Command::new(own).args(words).env(OTHER, other.id().to_string()).output();
        other.kill().unwrap();
        other.wait().unwrap();
        let told = String::from_utf8_lossy(&told.unwrap().stdout).into_owned();
        assert!(told.contains("other: -1 1, itself: 0, owner: -1 1, flags: 0 0"), "{told}");
    }

    #[test]
    #[ignore = "it confines the process it runs in: the test above starts it"]
    fn confined() {
        let pid: i32 = std::env::var(OTHER).unwrap().parse().unwrap();
        let missing = confine(READING);
        let error = || std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        // SAFETY: signal 0 asks whether a signal could be sent; F_SETOWN and F_GETFD take numbers alone.
        let told = unsafe {
            let own = libc::getpid();
            let reached = |pid: i32, thread: i64| libc::syscall(libc::SYS_tgkill, pid, thread, 0);
            let other = reached(pid, pid.into());
            let other = (other, error());
            let itself = reached(own, libc::syscall(libc::SYS_gettid));
            let owner = libc::fcntl(0, libc::F_SETOWN, pid);
            let owner = (owner, error());
            let flags = libc::fcntl(0, libc::F_GETFL) < 0;
            (other, itself, owner, flags)
        };
        let ((other_code, why), itself, (owner, owner_why), flags) = told;
        println!(
            "other: {other_code} {why}, itself: {itself}, owner: {owner} {owner_why}, flags: {} 0",
            i32::from(flags)
        );
        println!("missing: {missing:?}");
    }
}
