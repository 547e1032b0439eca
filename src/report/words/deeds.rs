//! What reports say of each metric by which rules name culprits: what the culprit did, and with what. All that the report knows of one
//! metric's meaning is in its row.

/// The words of one metric.
pub(super) struct Deed {
    metric: &'static str,
    /// `used 98.0% of the busy CPU time`: its verb.
    pub(super) verb: &'static str,
    /// And what it is a share of.
    pub(super) of: &'static str,
    /// Verb and object where the share is not known: `read 3.0 GiB from storage`. Without them it is `had 3 (the threads)`.
    pub(super) alone: Option<(&'static str, &'static str)>,
    /// Instead of all that, the state by which a process is named and of which a share says nothing: `is stopped`.
    pub(super) state: Option<&'static str>,
    /// What processes share is counted for each of them: several have at most the sum.
    pub(super) is_shared: bool,
    /// The file of a single culprit is the one that most of it was for.
    pub(super) is_by_file: bool,
    /// What is left of the whole host's: what was used and is charged to no process that was seen, and what no process used.
    pub(super) rest: (&'static str, &'static str),
}

/// The same of any other metric.
pub(super) const REST: (&str, &str) = ("kernel, processes that ended", "Available");

impl Deed {
    /// That of a metric; none where its id has to do.
    pub(super) fn of(metric: &str) -> Option<&'static Self> {
        DEEDS.iter().find(|deed| deed.metric == metric)
    }

    const fn alone(self, verb: &'static str, what: &'static str) -> Self {
        Self { alone: Some((verb, what)), ..self }
    }

    const fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }

    const fn by_file(self) -> Self {
        Self { is_by_file: true, ..self }
    }

    const fn rest(self, unattributed: &'static str, unused: &'static str) -> Self {
        Self { rest: (unattributed, unused), ..self }
    }
}

const fn deed(metric: &'static str, verb: &'static str, of: &'static str) -> Deed {
    Deed { metric, verb, of, alone: None, state: None, is_shared: false, is_by_file: false, rest: REST }
}

const fn state(metric: &'static str, state: &'static str) -> Deed {
    Deed { state: Some(state), ..deed(metric, "", "") }
}

const DEEDS: &[Deed] = &[
    deed("process.cpu.seconds", "used", "the busy CPU time")
        .alone("used", "of CPU time")
        .rest("interrupts, short-lived or hidden processes", "Not used (idle, iowait, steal)"),
    deed("process.cpu.ratio", "used", "the busy CPU time").alone("used", "of CPU time"),
    deed("process.run_delay.seconds", "did", "the waiting for a CPU").alone("waited", "for a CPU"),
    deed("process.read.bytes", "did", "the reading from storage").alone("read", "from storage"),
    deed("process.write.bytes", "did", "the writing to storage").alone("wrote", "to storage"),
    deed("process.resident.bytes", "held", "the resident memory")
        .alone("held", "of memory")
        .shared()
        .rest("kernel, cache that cannot be freed", "Available"),
    deed("process.resident_growth.bytes", "made", "the growth of resident memory"),
    deed("process.swap.bytes", "had", "the swapped-out memory"),
    deed("process.major_faults.count", "took", "the major page faults"),
    deed("process.minor_faults.count", "took", "the minor page faults"),
    deed("process.threads.count", "had", "the threads"),
    deed("process.switches.voluntary.count", "made", "the voluntary context switches"),
    deed("process.switches.involuntary.count", "made", "the involuntary context switches"),
    deed("profile.function.ratio", "took", "the sampled CPU time"),
    deed("profile.process_cpu.seconds", "used", "the sampled CPU time"),
    deed("tcptop.task.bytes_per_second", "carried", "the traffic of TCP"),
    deed("tcpretrans.segments_by_peer.count", "had", "the retransmitted segments"),
    deed("biotop.io_time.seconds", "had", "the time of requests in the device").by_file(),
    deed("execsnoop.short_lived_by_parent.per_second", "started", "the short-lived processes"),
    deed("syscount.process.per_second", "made", "the system calls"),
    deed("filesystem.deleted_held.bytes", "held", "the space of deleted files"),
    deed("cgroup.frozen.count", "held", "the frozen tasks"),
    deed("lock.waiting.count", "had", "the threads that waited for locks")
        .alone("had", "threads that waited for one lock"),
    deed("futexctn.contended.seconds", "did", "the waiting for locks").alone("waited", "for one lock"),
    deed("cpu.core.interrupt.ratio", "took", "the interrupt time of all CPUs"),
    deed("fd.aio_process.bytes", "had", "the rings for asynchronous I/O"),
    deed("fd.process.count", "held", "the open files"),
    deed("fileslower.process.seconds", "did", "the waiting in slow file operations"),
    deed("filesystem.mounts_by.count", "had", "the mounts"),
    deed("interrupts.ksoftirqd.ratio", "used", "the CPU time of ksoftirqd"),
    deed("interrupts.line.per_second", "raised", "the interrupts"),
    deed("network.interface.virtual_transmit_drops.count", "made", "the drops of virtual interfaces"),
    deed("network.listener.waiting.seconds", "had", "the waiting in accept queues"),
    deed("network.ports.towards.count", "had", "the outgoing connections"),
    deed("network.softnet.core_drops.count", "had", "the drops at full backlogs"),
    deed("network.softnet.core_squeezed.per_second", "had", "the receive rounds that were cut off"),
    deed("network.tcp.unanswered_by.count", "made", "the unanswered connection attempts"),
    deed("network.udp.socket_drops.count", "lost", "the dropped UDP datagrams"),
    deed("process.zombie_children.count", "had", "the zombies as children"),
    deed("swapin.process.seconds", "did", "the waiting for swap-in"),
    deed("tasks.ptys_process.count", "held", "the pseudo-terminals"),
    state("tasks.stopped_listener.count", "is stopped"),
    state("tasks.stopped_process.count", "is stopped"),
];
