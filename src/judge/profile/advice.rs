//! What can be done about a component, and where to look next: into the USE view of the resource behind it, and into probes.

use std::net::SocketAddr;

use rdiag_model::profile::{ComponentRow, Saving, Skew};
use rdiag_model::quantity::percent;
use rdiag_model::{Component, NextStep};

use super::whom::Whom;

/// Components below this share of T get no next steps: nothing can be gained there.
pub(super) const LEAST_SHARE: f64 = 0.05;

/// What is known about saving time of a kind.
pub(super) struct Advice {
    pub(super) saving: Saving,
    /// What one can do about it, or why nothing.
    pub(super) words: &'static str,
    /// What to look at next; `{target}` becomes the option that selects the task, `{again}` the command that is to run
    /// meanwhile.
    next: &'static [&'static str],
}

const CPU: &str = "See which code it is: rdiag probe profile {target}";
const USE_CPU: &str =
    "See who else wants the CPUs (rules cpu.saturation and cpu.utilization.process): rdiag run use-method{again}";
const USE_DISK: &str = "See whether the disk is saturated, slow or failing (rules disk.*): rdiag run use-method{again}";
const DISKS: &str =
    "See the latency of each disk, and single requests: rdiag probe biolatency; rdiag probe biosnoop {target}";
const USE_MEMORY: &str = "See whether memory is short (rules memory.*): rdiag run use-method{again}";
const USE_NET: &str = "See losses, retransmissions and full buffers (rules network.*): rdiag run use-method{again}";
const OFF: &str = "See in which code it waits: rdiag probe offcputime {target}";
/// How the port of a name server stands behind its address.
const DNS: &str = " (DNS)";
const PEER: &str =
    "Profile the task that ends the waits, if it still runs (-v lists the wakers): rdiag run method-r --pid ITS_PID";

/// The advice on a component.
pub(super) fn of(component: Component) -> Advice {
    use Component as C;
    use Saving::{Elsewhere, Partial, Possible};
    let (saving, words, next): (Saving, &'static str, &'static [&'static str]) = match component {
        C::CpuUser => (Partial, "The work itself: doing less, or doing it better, shortens it.", &[CPU]),
        C::CpuSys => (
            Partial,
            "The kernel's work for it: fewer or larger system calls shorten it.",
            &["See which calls it makes: rdiag probe syscount {target}", CPU],
        ),
        C::CpuIrq => (
            Possible,
            "Interrupts can be served by other CPUs.",
            &["See which interrupts: rdiag probe hardirqs; rdiag probe softirqs"],
        ),
        C::CpuSteal => (
            Possible,
            "The hypervisor ran other virtual machines: look at the machine's host.",
            &["See how much is stolen (rule cpu.saturation.steal): rdiag run use-method{again}"],
        ),
        C::Runq | C::RunqPreempt | C::RunqWakeup => (
            Possible,
            "More CPUs, fewer runnable tasks, or a higher priority remove it.",
            &[USE_CPU, "See the waits themselves: rdiag probe runqlat {target}; rdiag probe runqslower {target}"],
        ),
        C::Throttled => (
            Possible,
            "A higher quota or fewer threads at once remove it: this is a limit, not a lack of CPUs.",
            &["See the group and its quota (rule cgroup.saturation.throttling): rdiag run use-method{again}"],
        ),
        C::IoBlock | C::IoBlockRead | C::IoBlockAsync => (
            Possible,
            "Reads that hit the page cache need no disk; a faster or less busy disk shortens the rest.",
            &[USE_DISK, DISKS],
        ),
        C::IoBlockWrite => (Possible, "Larger or fewer writes, or a faster disk, shorten it.", &[USE_DISK, DISKS]),
        C::IoBlockSync => (
            Possible,
            "Fewer syncs (group commit) or a disk that syncs faster shorten it.",
            &["See who syncs what: rdiag probe syncsnoop {target}", USE_DISK, DISKS],
        ),
        C::IoBlockMeta => (
            Possible,
            "Fewer opens and lookups shorten it.",
            &["See which files it opens: rdiag probe opensnoop {target}", USE_DISK],
        ),
        C::IoPace => (
            Possible,
            "It writes faster than the disk: write less, or use a faster disk.",
            &["See the writeback (rule disk.saturation.writeback): rdiag run use-method{again}", DISKS],
        ),
        C::IoNetfs => (
            Elsewhere,
            "Time of the file server and the network: look there.",
            &["See the file server's response (rules filesystem.saturation.nfs_*): rdiag run use-method{again}"],
        ),
        C::IoFuse => (Elsewhere, "Time of the FUSE daemon: profile that.", &[PEER]),
        C::Fault | C::FaultFile => {
            (Possible, "Pages that stay in memory need no page-in: more memory, or readahead.", &[USE_MEMORY, DISKS])
        }
        C::FaultSwap => (Possible, "More memory or a smaller working set removes it.", &[USE_MEMORY]),
        C::MemReclaim => (
            Possible,
            "More memory or a higher memory limit of the cgroup removes it.",
            &[USE_MEMORY, "See the limit of its group (rules cgroup.*): rdiag run use-method{again}"],
        ),
        C::LockUser => {
            (Possible, "Shorter critical sections or finer locks shorten it: look at the holder.", &[OFF, PEER])
        }
        C::WaitFutex => (
            Elsewhere,
            "Another thread ends it: the holder of the lock, or the one that hands out work. The waiting code shows whether it is a \
             lock or an idle pool.",
            &[OFF, PEER],
        ),
        C::LockKernel => (Possible, "Fewer threads in the same kernel code, or on the same file, shorten it.", &[OFF]),
        C::KernelSync => (
            Possible,
            "Fewer changes of this kind (moves between control groups, namespaces, mounts) or several at once shorten it.",
            &[OFF],
        ),
        C::LockFile => (
            Elsewhere,
            "Another process holds the lock: look at that.",
            &["See who holds it while others wait: lslocks", PEER],
        ),
        C::NetRecv => (
            Elsewhere,
            "Time of the peer and the network: look there. Fewer round trips shorten it.",
            &[
                "See who answers at the other end (ss -tnp), and profile that if it runs here; else how many packets are lost: \
                 rdiag run use-method{again}",
                OFF,
            ],
        ),
        C::NetSend => (Elsewhere, "The peer does not read the data fast enough.", &[USE_NET]),
        C::NetConnect => {
            (Elsewhere, "Time of the peer or the path to it; keeping connections open saves it.", &[USE_NET])
        }
        C::NetAccept | C::WaitPoll => (
            Elsewhere,
            "It waits for something to do; within one request it is the time of the peer that answers.",
            &[PEER],
        ),
        C::WaitSleep => (Possible, "The program asked for this sleep: only its code can remove it.", &[OFF]),
        C::IpcPipe | C::IpcUnix | C::IpcSysv | C::IpcEvent => {
            (Elsewhere, "Time of the process at the other end: profile that.", &[PEER])
        }
        C::WaitChild => (Elsewhere, "Time of its children: profile them.", &[PEER]),
        C::WaitSignal => (Elsewhere, "It waits for a signal.", &[PEER]),
        C::WaitTty => (Elsewhere, "It waits for input.", &[]),
        C::Stopped => (
            Possible,
            "Stopped by a signal, a debugger or the freezer.",
            &["See who sends signals: rdiag probe killsnoop"],
        ),
        C::WaitDevice => (Elsewhere, "Time of the device.", &[OFF]),
        C::KernelThread => (Elsewhere, "An idle kernel thread.", &[]),
        C::OtherOff => (Elsewhere, "What it waits for is not known; see its stacks.", &[OFF]),
    };
    Advice { saving, words, next }
}

/// What to look at next.
pub(super) fn next(component: Component, whom: &Whom) -> Vec<NextStep> {
    of(component).next.iter().map(|text| step(text, whom)).collect()
}

fn step(text: &str, whom: &Whom) -> NextStep {
    NextStep { action: whom.named(text), changes_host: false }
}

/// Where to look for the peer that most of a wait was for, if it has an address.
pub(super) fn on_peer(row: &ComponentRow) -> Option<NextStep> {
    let waits = [Component::WaitPoll, Component::NetRecv].contains(&row.id);
    let key = row.keys.first().filter(|key| waits && key.share > 0.5)?;
    let (peer, is_dns) = match key.name.split_once(DNS) {
        Some((peer, _)) => (peer, true),
        None => (key.name.split(" or ").next()?, false),
    };
    let peer: SocketAddr = peer.parse().ok()?;
    let action = if is_dns {
        let server = peer.ip();
        format!("See whether the name server answers: dig @{server} NAME; /etc/resolv.conf lists those that are asked")
    } else if row.id == Component::WaitPoll {
        format!("See who answers there: ss -tunp dst {peer}; profile that process if it runs here")
    } else {
        return None;
    };
    Some(NextStep { action, changes_host: false })
}

/// How busy the CPUs were in the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpus {
    /// Mean share of time, 0–1, over all of them.
    pub busy: f64,
    /// That of the busiest.
    pub busiest: f64,
}

/// Below this share of time the CPUs are mostly idle, and none of them is full.
const IDLE: Cpus = Cpus { busy: 0.5, busiest: 0.8 };
/// No idle state and no hypervisor takes as long as this to wake up a CPU.
const LONGEST_WAKE_UP: f64 = 1e-3;

/// Whether these waits after wake-ups are those for an idle CPU to take up its work, and not for one that others use.
pub(super) fn is_slow_wake_up(row: &ComponentRow, pre_empted: f64, cpus: Cpus) -> bool {
    row.id == Component::RunqWakeup
        && cpus.busy < IDLE.busy
        && cpus.busiest < IDLE.busiest
        // A preempted task competes for its CPU, and a few long waits are no idle states.
        && pre_empted < 0.25 * row.seconds
        && row.skew != Skew::FewSlow
        && row.mean.is_some_and(|mean| mean < LONGEST_WAKE_UP)
}

/// What is to be said and done about slow wake-ups of idle CPUs.
pub(super) fn on_slow_wake_ups(cpus: Cpus, whom: &Whom) -> (String, Vec<NextStep>) {
    let words = format!(
        "The CPUs were only {} busy, so there was little competition: what takes long is to wake up an idle CPU, \
         which must leave its idle state, and in a virtual machine be reached through the hypervisor. Fewer wake-ups, or \
         tasks that wake each other on one CPU, shorten it.",
        percent(cpus.busy)
    );
    let change = |action: &str| NextStep { action: action.to_owned(), changes_host: true };
    let next = vec![
        step("See how long these waits are: rdiag probe runqlat {target}", whom),
        change("Try tasks that wake each other on one CPU: taskset -c 0 COMMAND, or taskset -acp 0 PID"),
        change(
            "Try it without deep idle states for as long as you measure: cpupower idle-set -D 10 (back: cpupower idle-set -E)",
        ),
    ];
    (words, next)
}

/// What can be done about a component, in words for `rdiag explain`.
#[must_use]
pub fn advice(component: Component) -> (Saving, &'static str, Vec<NextStep>) {
    let advice = of(component);
    (advice.saving, advice.words, next(component, &Whom::default()))
}
