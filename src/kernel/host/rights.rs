//! What the kernel lets this process do beyond what any user may, given up phase by phase: what is gone cannot be used by an attacker.
//!
//! Capabilities belong to threads, so each thread gives up its own; those that are started later inherit what is left. They are taken from
//! the bounding set too, since a program that root starts gets back all that is in it.

use rustix::process::DumpableBehavior;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

/// Output may lie where only its owner may write, and be the successor of another user's file; the command after `--` may be another
/// user's.
const WRITING: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER).union(CapabilitySet::KILL).union(CapabilitySet::SETPCAP);
/// What other users' processes have mapped and opened, and the kernel's own names; and that the process that reads symbols can become
/// `nobody`.
const READING: CapabilitySet = CapabilitySet::DAC_READ_SEARCH
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);
/// Maps of programs inside the kernel, which old kernels refuse to read without it, and new iterators over tasks.
const PROGRAMS: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);
/// To load and attach: limits on memory and descriptors, and a root directory without types for the thread that loads.
const ATTACHING: CapabilitySet =
    CapabilitySet::SYS_RESOURCE.union(CapabilitySet::IPC_LOCK).union(CapabilitySet::SYS_CHROOT);

/// What a measurement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Probes inside the kernel. The kernel tells what they cost to CAP_SYS_ADMIN only.
    pub probes: bool,
    /// Stacks of other users' tasks (CAP_SYS_ADMIN), and the delays of tasks (CAP_NET_ADMIN).
    pub task_states: bool,
}

/// What is done from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Attaching, measuring and writing.
    Attaching(Work),
    /// Measuring with what is attached, and writing.
    Measuring(Work),
    /// Giving names to addresses.
    Naming,
    /// Judging, rendering, writing.
    Writing,
    /// Waiting for the end of a command.
    Waiting,
    /// Undoing in tracefs what another process made.
    Undoing,
}

impl Phase {
    fn needs(self) -> CapabilitySet {
        match self {
            Self::Attaching(work) => Self::Measuring(work).needs().union(ATTACHING),
            Self::Measuring(Work { probes, task_states }) => {
                let mut all = WRITING.union(READING).union(PROGRAMS);
                all.set(CapabilitySet::SYS_ADMIN, probes || task_states);
                all.set(CapabilitySet::NET_ADMIN, task_states);
                all
            }
            Self::Naming => READING.union(CapabilitySet::KILL).union(CapabilitySet::SETPCAP),
            Self::Writing => WRITING,
            // With hidepid, only a process that may ptrace another one sees it.
            Self::Waiting => CapabilitySet::SYS_PTRACE,
            // Root owns tracefs, unless it was mounted for another user.
            Self::Undoing => CapabilitySet::DAC_OVERRIDE,
        }
    }
}

/// Has the calling thread keep what this phase needs, and nothing else, for good. It grants nothing, and a capability that is not held is
/// no error.
pub fn narrow(to: Phase) {
    let Ok(held) = capabilities(None) else { return };
    if held.permitted.is_empty() {
        return;
    }
    let needs = to.needs();
    // The kernel says where its capabilities end. Without CAP_SETPCAP, programs that root starts are the only ones with more.
    let bits = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    for one in bits.filter(|one| !needs.contains(*one)) {
        if remove_capability_from_bounding_set(one) == Err(rustix::io::Errno::INVAL) {
            break;
        }
    }
    let kept = |set: CapabilitySet| set.intersection(needs);
    let sets = CapabilitySets {
        effective: kept(held.effective),
        permitted: kept(held.permitted),
        inheritable: kept(held.inheritable),
    };
    let _ = set_capabilities(None, sets);
}

/// The memory of root's process is private: no core file, and none of its files in /proc for those who share its user or group. Not
/// within a user namespace, whose root could then not look at itself.
pub fn forbid_dumps() {
    #[expect(clippy::disallowed_methods, reason = "rdiag's own process, not what is looked at")]
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if rustix::process::geteuid().is_root() && users.split_whitespace().eq(["0", "0", "4294967295"]) {
        let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_needs_less_than_the_one_before() {
        let works = [false, true].map(|probes| [false, true].map(|task_states| Work { probes, task_states }));
        for work in works.into_iter().flatten() {
            let phases = [Phase::Attaching(work), Phase::Measuring(work), Phase::Writing].map(Phase::needs);
            assert!(phases.windows(2).all(|pair| pair[0].contains(pair[1]) && pair[0] != pair[1]), "{work:?}");
            assert!(Phase::Measuring(work).needs().contains(Phase::Naming.needs()));
            let admin = CapabilitySet::SYS_ADMIN.union(CapabilitySet::NET_ADMIN);
            assert_eq!(phases[0].intersection(admin).is_empty(), work == Work::default(), "{work:?}");
        }
    }

    #[test]
    fn a_thread_keeps_what_its_phase_needs_and_others_what_they_had() {
        let before = capabilities(None).unwrap();
        let after = std::thread::spawn(|| {
            narrow(Phase::Writing);
            capabilities(None).unwrap()
        });
        let after = after.join().unwrap();
        assert_eq!(after.permitted, before.permitted.intersection(WRITING));
        assert_eq!(after.effective, before.effective.intersection(WRITING));
        assert_eq!(capabilities(None).unwrap(), before);
    }
}
