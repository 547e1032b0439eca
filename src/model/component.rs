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
    /// Completes "… of the time is ": `waiting for a disk in fsync`.
    pub phrase: &'static str,
    /// Whether it is often no part of anybody's response time: waiting for work. Never dropped silently.
    pub idle: bool,
    /// Rules of the USE method that tell why its mean may be long.
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
    CpuUser "cpu.user" Executing false "running its own code", "running its own code on a CPU",
        "On a CPU in user mode.",
        ["cpu.utilization", "cpu.utilization.core", "power.errors.thermal"];
    CpuSys "cpu.sys" Executing false "running in the kernel", "running in the kernel on its behalf",
        "On a CPU in the kernel on behalf of this thread: system calls and faults.",
        ["cpu.utilization.system", "cpu.utilization"];
    CpuIrq "cpu.irq" Executing false "interrupted", "on a CPU that served interrupts meanwhile",
        "On a CPU that executed interrupts on the thread's back. Told apart at level L3 where the kernel accounts for interrupts (CONFIG_IRQ_TIME_ACCOUNTING); elsewhere it is part of cpu.user and cpu.sys, or, on such kernels, of what the thread seems to have done then.",
        ["interrupts.utilization", "interrupts.saturation"];
    CpuSteal "cpu.steal" Executing false "CPU stolen (estimate)", "on a CPU that the hypervisor had taken away",
        "On a CPU for the scheduler, while the virtual CPU did not run: by how long the kernel held back the clock of its run queue, and where it does not, each task's share of what all CPUs lost.",
        ["cpu.saturation.steal"];
    Runq "runq" Runnable false "waiting for a CPU", "waiting for a CPU",
        "Could run and had no CPU; used where waiting after a wake-up and after losing the CPU cannot be told apart.",
        ["cpu.saturation", "cpu.saturation.core"];
    RunqPreempt "runq.preempt" Runnable false "lost the CPU to others", "waiting for a CPU that others took",
        "Could run, had lost the CPU without wanting to (or by sched_yield).",
        ["cpu.saturation", "cpu.saturation.core"];
    RunqWakeup "runq.wakeup" Runnable false "woken, no CPU yet", "waiting for a CPU after a wake-up",
        "Was woken and had no CPU yet.",
        ["cpu.saturation", "cpu.saturation.core"];
    Throttled "throttled" Runnable false "stopped by its CPU quota", "stopped by the CPU quota of its control group",
        "Could run, and the quota of its control group was used up.",
        ["cgroup.saturation.throttling"];
    IoBlock "io.block" Sleeping false "waiting for a disk", "waiting for a disk",
        "Blocked on a block device; used where reading, writing and syncing cannot be told apart.",
        ["disk.saturation", "disk.errors"];
    IoBlockRead "io.block.read" Sleeping false "reading from a disk", "waiting for a disk while reading",
        "Blocked on a block device in a system call that reads.",
        ["disk.saturation", "disk.errors"];
    IoBlockWrite "io.block.write" Sleeping false "writing to a disk", "waiting for a disk while writing",
        "Blocked on a block device in a system call that writes.",
        ["disk.saturation", "disk.errors"];
    IoBlockSync "io.block.sync" Sleeping false "syncing to a disk", "waiting for a disk in fsync or the like",
        "Blocked in fsync, fdatasync, sync, msync and the like, the commit of the file system's journal included.",
        ["disk.saturation", "disk.errors", "disk.saturation.write_latency"];
    IoBlockMeta "io.block.meta" Sleeping false "opening, looking up files", "waiting for a disk while opening or looking up files",
        "Blocked on a block device in open, stat, getdents, unlink, rename, mkdir and the like.",
        ["disk.saturation", "disk.errors"];
    IoBlockAsync "io.block.async" Sleeping false "waiting for queued disk I/O", "waiting for disk requests that it had queued",
        "Blocked in io_uring_enter or io_getevents while requests to a block device were under way.",
        ["disk.saturation", "disk.errors"];
    IoPace "io.pace" Sleeping false "slowed down as a writer", "slowed down because too many pages are dirty",
        "A writer that the kernel makes wait until dirty pages are written back.",
        ["disk.saturation.writeback", "disk.saturation"];
    IoNetfs "io.netfs" Sleeping false "waiting for a file server", "waiting for a file server (NFS, CIFS, Ceph)",
        "Blocked on a network file system's answer.",
        ["filesystem.errors.server", "filesystem.saturation.nfs_read"];
    IoFuse "io.fuse" Sleeping false "waiting for a FUSE daemon", "waiting for a FUSE file system's daemon",
        "Blocked until the daemon of a FUSE file system answers.",
        [];
    Fault "fault" Sleeping false "page fault, file or swap", "waiting for a page to be read",
        "Blocked in a page fault; used where page-in of a file and swap-in cannot be told apart.",
        ["memory.saturation", "disk.saturation"];
    FaultFile "fault.file" Sleeping false "paging in a mapped file", "waiting for a page of a mapped file",
        "Blocked in a page fault until a page of a mapped file is read.",
        ["memory.saturation", "disk.saturation"];
    FaultSwap "fault.swap" Paging false "swapping in", "waiting for memory to come back from swap",
        "Blocked in a page fault until memory comes back from swap.",
        ["memory.saturation.swap_in", "disk.saturation"];
    MemReclaim "mem.reclaim" Paging false "freeing memory itself", "freeing memory before it gets any",
        "Direct reclaim, compaction, or the pause of a control group above memory.high.",
        ["memory.saturation.direct_reclaim", "cgroup.saturation.memory"];
    LockUser "lock.user" Lock false "waiting for a lock", "waiting for a lock that another thread holds",
        "Waiting for a futex in a way that is contention for a lock.",
        [];
    WaitFutex "wait.futex" Sleeping true "waiting on a futex", "waiting on a futex (a lock or idle: not known which)",
        "Waiting for a futex, where a lock (rwlock, monitor, GIL, semaphore), a join, a condition variable and an idle pool cannot be told apart; among thread states it counts as sleeping, not as idle.",
        [];
    LockKernel "lock.kernel" Lock false "waiting for a kernel lock", "waiting for a lock in the kernel",
        "Waiting for a mutex, semaphore or the like in the kernel.",
        ["kernel.errors.hung_task"];
    LockFile "lock.file" Lock false "waiting for a file lock", "waiting for a file lock",
        "Waiting in flock or fcntl for a file lock of another process.",
        [];
    NetRecv "net.recv" Sleeping false "waiting to receive", "waiting for data from the network",
        "Blocked reading from an inet socket.",
        ["network.saturation.receive_buffer", "network.errors.retransmits"];
    NetSend "net.send" Sleeping false "waiting to send", "waiting until the network takes its data",
        "Blocked writing to an inet socket: full buffer, closed window.",
        ["network.saturation.slow_peer", "network.errors.retransmits"];
    NetConnect "net.connect" Sleeping false "connecting", "waiting for a connection to be made",
        "Blocked in connect.",
        ["network.errors.syn_retransmits", "network.saturation.listen_overflow"];
    NetAccept "net.accept" Idle true "waiting for clients", "waiting for a client to connect",
        "Blocked in accept: nobody wants anything.",
        [];
    WaitPoll "wait.poll" Idle true "waiting for events", "waiting for events (poll, epoll, select)",
        "Blocked in poll, select, epoll_wait, io_uring_enter or io_getevents with nothing ready.",
        [];
    WaitSleep "wait.sleep" Idle true "sleeping by choice", "sleeping because it chose to (timer)",
        "nanosleep, timerfd and the like: the program asked for the pause.",
        [];
    IpcPipe "ipc.pipe" Sleeping false "waiting on a pipe", "waiting for the other end of a pipe",
        "Blocked reading from or writing to a pipe or FIFO.",
        [];
    IpcUnix "ipc.unix" Sleeping false "waiting on a unix socket", "waiting for the other end of a unix socket",
        "Blocked on a unix socket.",
        [];
    IpcSysv "ipc.sysv" Sleeping false "waiting on a message queue", "waiting on a System V or POSIX queue or semaphore",
        "Blocked on System V messages or semaphores, or a POSIX message queue.",
        [];
    IpcEvent "ipc.event" Sleeping false "waiting for a notification", "waiting for a notification (eventfd, inotify, netlink)",
        "Blocked reading from eventfd, signalfd, inotify, fanotify, netlink and the like.",
        [];
    WaitChild "wait.child" Idle true "waiting for a child", "waiting for a child process",
        "wait4, waitid, or the parent of a vfork: profile the child.",
        [];
    WaitSignal "wait.signal" Idle true "waiting for a signal", "waiting for a signal",
        "pause, sigsuspend, sigtimedwait.",
        [];
    WaitTty "wait.tty" Idle true "waiting for the keyboard", "waiting for somebody to type",
        "Blocked reading from a terminal.",
        [];
    Stopped "stopped" Sleeping false "stopped", "stopped from outside (signal, debugger, freezer)",
        "Stopped by a signal, a tracer or the freezer of its control group.",
        [];
    WaitDevice "wait.device" Sleeping false "waiting for a device", "waiting for a device (GPU, character device, virtual CPU)",
        "Blocked on a GPU, a character device's ioctl or a virtual CPU that halts.",
        [];
    KernelThread "kthread.idle" Idle true "kernel thread without work", "waiting for work as a kernel thread",
        "A kernel thread that waits for work; only kernel threads.",
        [];
    OtherOff "other.off" Sleeping false "off the CPU, not classified", "off the CPU for a reason that no rule knows",
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
