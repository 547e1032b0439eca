//! The components of response time: every second of an observed thread belongs to exactly one of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Thread state analysis: the six states that all components roll up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// On a CPU.
    Executing,
    /// Could run, and has no CPU or may not have one.
    Runnable,
    /// Waits for memory: swap, reclaim.
    Paging,
    /// Waits for a device, the network, another program.
    Sleeping,
    /// Waits for a lock.
    Lock,
    /// Waits for work, or chose to wait.
    Idle,
}

impl ThreadState {
    /// All of them, in the order in which they are looked at.
    pub const ALL: [Self; 6] = [Self::Executing, Self::Runnable, Self::Paging, Self::Sleeping, Self::Lock, Self::Idle];

    /// The lower-case word in JSON and on screen.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Executing => "executing",
            Self::Runnable => "runnable",
            Self::Paging => "paging",
            Self::Sleeping => "sleeping",
            Self::Lock => "lock",
            Self::Idle => "idle",
        }
    }
}

/// What is known of a component before anything is measured.
#[derive(Debug, Clone, Copy)]
pub struct ComponentDef {
    /// Dotted id (`io.block.sync`).
    pub id: &'static str,
    /// The state it belongs to.
    pub state: ThreadState,
    /// A name of a few words, for tables.
    pub title: &'static str,
    /// What counts as this component, and what does not; full sentences.
    pub help: &'static str,
    /// Completes "… of the time is ": `waiting for disk reads`.
    pub phrase: &'static str,
    /// Whether it is often no part of a response time: waiting for work. Never dropped silently.
    pub idle: bool,
    /// Rules of the USE method that explain why its mean may be long.
    pub rules: &'static [&'static str],
}

macro_rules! components {
    ($($variant:ident $id:literal $state:ident $idle:literal $title:literal, $phrase:literal, $help:literal, [$($rule:literal),*];)*) => {
        /// A component of response time; the ids are those of the reports and of `rdiag explain`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Component {
            $(#[doc = $help] #[serde(rename = $id)] $variant,)*
        }

        impl Component {
            /// All of them, in the order of the method.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// What is known of it beforehand.
            #[must_use]
            pub fn def(self) -> &'static ComponentDef {
                match self {
                    $(Self::$variant => &ComponentDef {
                        id: $id,
                        state: ThreadState::$state,
                        title: $title,
                        help: $help,
                        phrase: $phrase,
                        idle: $idle,
                        rules: &[$($rule),*],
                    },)*
                }
            }
        }
    };
}

components! {
    CpuUser "cpu.user" Executing false "user CPU", "user CPU time (its own code)",
        "On a CPU in user mode.",
        ["cpu.utilization", "cpu.utilization.core", "power.errors.thermal"];
    CpuSys "cpu.sys" Executing false "system CPU", "system CPU time (kernel code on its behalf)",
        "On a CPU in the kernel on behalf of this thread: system calls and faults.",
        ["cpu.utilization.system", "cpu.utilization"];
    CpuIrq "cpu.irq" Executing false "interrupts", "CPU time taken by interrupts",
        "On a CPU that ran interrupt handlers meanwhile. Measured at level L3 where the kernel accounts for interrupts \
            (CONFIG_IRQ_TIME_ACCOUNTING); elsewhere it is part of cpu.user and cpu.sys, or, on such kernels, of what the thread did then.",
        ["interrupts.utilization", "interrupts.saturation"];
    CpuSteal "cpu.steal" Executing false "CPU steal (estimate)", "CPU time that the hypervisor took (steal)",
        "On a virtual CPU while the hypervisor did not run it: by how much the kernel stopped the clock of its run queue; where it does \
            not, each task's share of the steal of all CPUs.",
        ["cpu.saturation.steal"];
    Runq "runq" Runnable false "run-queue wait", "run-queue wait",
        "Runnable, without a CPU; used where wakeup and preemption cannot be distinguished.",
        ["cpu.saturation", "cpu.saturation.core"];
    RunqPreempt "runq.preempt" Runnable false "run-queue wait (preempted)", "run-queue wait after preemption",
        "Runnable after an involuntary context switch (or sched_yield), until it has a CPU again.",
        ["cpu.saturation", "cpu.saturation.core"];
    RunqWakeup "runq.wakeup" Runnable false "run-queue wait (wakeup)", "run-queue wait after wakeup",
        "Runnable from a wakeup until it has a CPU.",
        ["cpu.saturation", "cpu.saturation.core"];
    Throttled "throttled" Runnable false "CPU throttling (quota)", "throttling by the CPU quota of its cgroup",
        "Runnable, while the CPU quota of its control group is used up.",
        ["cgroup.saturation.throttling"];
    IoBlock "io.block" Sleeping false "disk I/O", "waiting for disk I/O",
        "Blocked on a block device; used where reads, writes and syncs cannot be distinguished.",
        ["disk.saturation", "disk.errors", "cgroup.utilization.io"];
    IoBlockRead "io.block.read" Sleeping false "disk reads", "waiting for disk reads",
        "Blocked on a block device in a system call that reads.",
        ["disk.saturation", "disk.errors", "cgroup.utilization.io"];
    IoBlockWrite "io.block.write" Sleeping false "disk writes", "waiting for disk writes",
        "Blocked on a block device in a system call that writes.",
        ["disk.saturation", "disk.errors", "cgroup.utilization.io"];
    IoBlockSync "io.block.sync" Sleeping false "disk syncs (fsync)", "waiting for disk syncs (fsync, fdatasync and the like)",
        "Blocked in fsync, fdatasync, sync, msync and the like, the commit of the file system's journal included.",
        ["disk.saturation", "disk.errors", "disk.saturation.write_latency", "cgroup.utilization.io"];
    IoBlockMeta "io.block.meta" Sleeping false "disk I/O for metadata", "waiting for disk I/O in open, stat, unlink and the like",
        "Blocked on a block device in open, stat, getdents, unlink, rename, mkdir and the like.",
        ["disk.saturation", "disk.errors", "cgroup.utilization.io"];
    IoBlockAsync "io.block.async" Sleeping false "asynchronous disk I/O", "waiting for asynchronous disk I/O (io_uring, AIO)",
        "Blocked in io_uring_enter or io_getevents while requests to a block device were under way.",
        ["disk.saturation", "disk.errors", "cgroup.utilization.io"];
    IoPace "io.pace" Sleeping false "dirty-page throttling", "dirty-page throttling (writes outpace the disk)",
        "A writer that the kernel pauses until dirty pages are written back (balance_dirty_pages).",
        ["disk.saturation.writeback", "disk.saturation", "cgroup.utilization.io"];
    IoNetfs "io.netfs" Sleeping false "network file system", "waiting for a file server (NFS, CIFS, Ceph)",
        "Blocked on a network file system's answer.",
        ["filesystem.errors.server", "filesystem.saturation.nfs_read"];
    IoFuse "io.fuse" Sleeping false "FUSE daemon", "waiting for the daemon of a FUSE file system",
        "Blocked until the daemon of a FUSE file system answers.",
        [];
    Fault "fault" Sleeping false "page-in (file or swap)", "waiting for page-in (mapped file or swap)",
        "Blocked in a page fault; used where page-in of a file and swap-in cannot be distinguished.",
        ["memory.saturation", "disk.saturation", "cgroup.utilization.io"];
    FaultFile "fault.file" Sleeping false "page-in of mapped files", "waiting for page-in of mapped files",
        "Blocked in a page fault until a page of a mapped file is read.",
        ["memory.saturation", "disk.saturation", "cgroup.utilization.io"];
    FaultSwap "fault.swap" Paging false "swap-in", "waiting for swap-in",
        "Blocked in a page fault until memory comes back from swap.",
        ["memory.saturation.swap_in", "disk.saturation"];
    MemReclaim "mem.reclaim" Paging false "direct reclaim", "direct reclaim (freeing memory before an allocation)",
        "Direct reclaim, compaction, or the pause of a control group above memory.high.",
        ["memory.saturation.direct_reclaim", "cgroup.saturation.memory"];
    LockUser "lock.user" Lock false "lock (futex)", "waiting for a lock that another thread holds (futex)",
        "Waiting for a futex in a way that is contention for a lock.",
        [];
    WaitFutex "wait.futex" Sleeping true "futex (lock or idle)", "waiting on a futex (a lock or idle: not known which)",
        "Waiting for a futex, where a lock (rwlock, monitor, GIL, semaphore), a join, a condition variable and an idle pool cannot be \
            distinguished; among thread states it counts as sleeping, not as idle.",
        [];
    LockKernel "lock.kernel" Lock false "kernel lock", "waiting for a lock in the kernel",
        "Waiting for a mutex, semaphore or the like in the kernel.",
        ["kernel.errors.hung_task"];
    KernelSync "kernel.sync" Sleeping false "kernel work (RCU)", "waiting for RCU or a kernel worker",
        "Blocked in an RCU grace period (synchronize_rcu), or until a worker of the kernel is done: moving tasks between control groups, \
            network namespaces, unmounting.",
        [];
    LockFile "lock.file" Lock false "file lock", "waiting for a file lock (flock, fcntl)",
        "Waiting in flock or fcntl for a file lock of another process.",
        [];
    NetRecv "net.recv" Sleeping false "network receive", "waiting to receive from the network",
        "Blocked reading from an inet socket.",
        ["network.saturation.receive_buffer", "network.errors.retransmits"];
    NetSend "net.send" Sleeping false "network send", "waiting to send to the network (buffer or window full)",
        "Blocked writing to an inet socket: full buffer, closed window.",
        ["network.saturation.slow_peer", "network.errors.retransmits"];
    NetConnect "net.connect" Sleeping false "connect", "waiting for connections to be established",
        "Blocked in connect.",
        ["network.errors.syn_retransmits", "network.saturation.listen_overflow"];
    NetAccept "net.accept" Idle true "accept", "waiting for clients (accept)",
        "Blocked in accept: no client connects.",
        [];
    WaitPoll "wait.poll" Idle true "poll, epoll, select", "waiting for events (poll, epoll, select)",
        "Blocked in poll, select, epoll_wait, io_uring_enter or io_getevents with nothing ready.",
        [];
    WaitSleep "wait.sleep" Idle true "voluntary sleep (timer)", "voluntary sleep (nanosleep, timer)",
        "nanosleep, timerfd and the like: the program asked for the pause.",
        [];
    IpcPipe "ipc.pipe" Sleeping false "pipe", "waiting for the other end of a pipe",
        "Blocked reading from or writing to a pipe or FIFO.",
        [];
    IpcUnix "ipc.unix" Sleeping false "unix socket", "waiting for the other end of a unix socket",
        "Blocked on a unix socket.",
        [];
    IpcSysv "ipc.sysv" Sleeping false "System V, POSIX IPC", "waiting on a System V or POSIX queue or semaphore",
        "Blocked on System V messages or semaphores, or a POSIX message queue.",
        [];
    IpcEvent "ipc.event" Sleeping false "eventfd, inotify, netlink", "waiting for notifications (eventfd, inotify, netlink)",
        "Blocked reading from eventfd, signalfd, inotify, fanotify, netlink and the like.",
        [];
    WaitChild "wait.child" Idle true "child process", "waiting for a child process",
        "wait4, waitid, or the parent of a vfork: profile the child.",
        [];
    WaitSignal "wait.signal" Idle true "signal", "waiting for a signal",
        "pause, sigsuspend, sigtimedwait.",
        [];
    WaitTty "wait.tty" Idle true "terminal input", "waiting for terminal input",
        "Blocked reading from a terminal.",
        [];
    WaitParked "wait.parked" Sleeping false "parked between threads", "parked: no thread works on it",
        "A request that one thread laid down and another took up later: a goroutine that waits for another one, or for its turn.",
        [];
    Stopped "stopped" Sleeping false "stopped", "stopped from outside (signal, debugger, freezer)",
        "Stopped by a signal, a tracer or the freezer of its control group.",
        [];
    WaitDevice "wait.device" Sleeping false "device", "waiting for a device (GPU, character device, virtual CPU)",
        "Blocked on a GPU, a character device's ioctl or a virtual CPU that halts.",
        [];
    KernelThread "kthread.idle" Idle true "idle kernel thread", "idle as a kernel thread",
        "A kernel thread that waits for work; only kernel threads.",
        [];
    OtherOff "other.off" Sleeping false "off-CPU, unclassified", "off the CPU for a reason that no rule knows",
        "Off the CPU, and no rule of classification fits. Its stacks are in the report.",
        [];
}

impl Component {
    /// Dotted id.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.def().id
    }

    /// The component with this id.
    #[must_use]
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|component| component.id() == id)
    }

    /// Whether it is time on a CPU.
    #[must_use]
    pub fn on_cpu(self) -> bool {
        self.def().state == ThreadState::Executing
    }

    /// Whether it is waiting for a CPU or for the right to have one.
    #[must_use]
    pub fn runnable(self) -> bool {
        self.def().state == ThreadState::Runnable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_are_the_names_in_json() {
        let mut seen = std::collections::BTreeSet::new();
        for component in Component::ALL {
            let def = component.def();
            assert!(seen.insert(def.id), "{} twice", def.id);
            assert_eq!(serde_json::to_value(component).unwrap(), def.id);
            assert_eq!(Component::find(def.id), Some(*component));
            assert!(def.help.ends_with('.') && !def.title.is_empty() && !def.phrase.is_empty(), "{}", def.id);
            assert!(def.title.len() <= 28, "{}: the title is too long for a table", def.id);
        }
    }
}
