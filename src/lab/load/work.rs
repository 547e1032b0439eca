//! What a program of a load does, as a scenario says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kinds::{
    CopyKind, CrewKind, End, Fault, FetchFrom, Flaw, KernelContext, Layout, MemoryFrom, Others, Room, Sought, TableOf,
};

/// A number that the seed takes from between these two, both included.
pub(super) type Between = [u32; 2];

/// What a program of a load does, as a scenario says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// Again and again, starts many processes at once that compute for a moment and end.
    Bursts {
        /// Processes for each CPU, 1 to 16.
        processes_per_cpu: Between,
        /// How long each computes, in milliseconds, 1 to 50.
        busy_ms: Between,
        /// From one burst to the next, in milliseconds, 100 to 10000.
        every_ms: Between,
    },
    /// On each CPU a thread with real-time priority that computes, sleeps and so on.
    Pulse {
        /// How long it computes, in milliseconds, 1 to 100, and no more than 35 % of `every_ms`.
        busy_ms: Between,
        /// From one pulse to the next, in milliseconds, 100 to 10000.
        every_ms: Between,
    },
    /// A kernel module that polls a device that is not there, on every CPU; it has the name of the job.
    Poll {
        /// In which context it runs.
        context: KernelContext,
        /// How long it holds a CPU, in milliseconds, 1 to 100, and no more than 35 % of `every_ms`.
        busy_ms: Between,
        /// From one time to the next, in milliseconds, 100 to 10000.
        every_ms: Between,
    },
    /// A kernel module with threads that each wait for one thing after the other; it has the name of the job.
    Fetch {
        /// What they wait for.
        from: FetchFrom,
        /// How many threads, 1 to 64.
        threads: Between,
        /// How long each thing takes, in milliseconds, 1 to 100.
        wait_ms: Between,
        /// How many things are under way at a time, 1 to 64; of a lock it is one.
        at_once: Between,
    },
    /// Again and again, makes workers that do little and end.
    Crew {
        /// What they are.
        how: CrewKind,
        /// How many at a time, 1 to 200.
        workers: u32,
        /// From one round to the next, in milliseconds, 50 to 10000.
        every_ms: u32,
    },
    /// Threads that read blocks from random places of a file of their own, past the page cache.
    Reads {
        /// Size of the file, 1 to 1024.
        file_mib: u32,
        /// Size of a block, 4096 to 1048576, a power of two.
        block_bytes: u32,
        /// How many threads, 1 to 64.
        threads: Between,
    },
    /// Writes one file over and over, and waits each time until it is on the disk.
    Rewrite {
        /// Size of the file, 1 to 64.
        file_mib: Between,
        /// From one time to the next, in milliseconds, 200 to 10000; the rate is at most 60 MiB per second.
        every_ms: Between,
    },
    /// Processes that each wait inside the kernel for a child that sleeps.
    HoldUp {
        /// How many, 1 to 64.
        parents: Between,
    },
    /// Copies a file that is in the page cache to another one, again and again.
    Copy {
        /// By which calls.
        how: CopyKind,
        /// Size of the file, 1 to 64.
        file_mib: u32,
        /// How many bytes at a time, 64 to 1048576, a power of two.
        block_bytes: u32,
        /// From one copy to the next, in milliseconds, 200 to 10000.
        every_ms: u32,
    },
    /// Tries to start a program that the kernel refuses, again and again.
    Restart {
        /// What is wrong with the program.
        flaw: Flaw,
        /// From one try to the next, in milliseconds, 100 to 10000.
        every_ms: u32,
    },
    /// Threads that compute and rest.
    Compute {
        /// How many, 1 to 32, or for each CPU (of eight at most), 1 to 4.
        threads: Between,
        /// Whether there are so many for each CPU.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        for_each_cpu: bool,
        /// How long each computes at a time, in milliseconds, 1 to 1000.
        busy_ms: Between,
        /// How long each rests in between, in milliseconds, 0 to 10000; with 0 it computes all the time.
        rest_ms: Between,
        /// Whether all of them, and others of which this is said, share the first CPU that they may use.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        on_one_cpu: bool,
    },
    /// Threads that all need the same lock for all that they do.
    TakeTurns {
        /// How many, 2 to 32.
        threads: Between,
        /// How long each holds the lock at a time, in milliseconds, 1 to 100.
        hold_ms: Between,
        /// Part of that time that it computes, in percent, 1 to 100; the rest it waits.
        computed_percent: u32,
    },
    /// Opens files and closes none, up to a limit of its own.
    OpenFiles {
        /// How many it may have open, 64 to 4096.
        limit: u32,
        /// From one to the next, in milliseconds, 1 to 1000.
        every_ms: u32,
    },
    /// Starts processes that end at once, and never collects them.
    LeaveChildren {
        /// From one to the next, in milliseconds, 5 to 1000.
        every_ms: u32,
    },
    /// A server on the loopback interface that takes one connection at a time.
    Accept {
        /// How many connections may wait, 1 to 128.
        backlog: u32,
        /// How long each holds it up, in milliseconds, 1 to 1000.
        hold_ms: Between,
    },
    /// Clients of the server beside it in the same variant.
    Connect {
        /// How many, 1 to 64.
        clients: Between,
    },
    /// A supervisor whose worker takes more and more memory, and is started anew when it is gone.
    Grow {
        /// What ends the worker.
        end: End,
        /// How much it takes, 16 to 256.
        mib: u32,
        /// How long that takes, in milliseconds, 200 to 10000.
        every_ms: u32,
    },
    /// Reads a file byte by byte, all the time.
    ReadBytes,
    /// Takes memory for each request, writes to part of it, and gives it back.
    TakeMemory {
        /// In which way.
        from: MemoryFrom,
        /// How much, 1 to 64.
        mib: u32,
        /// How much of it is written to, in percent, 1 to 100.
        written_percent: u32,
        /// From one request to the next, in milliseconds, 10 to 10000.
        every_ms: Between,
    },
    /// Takes many small pieces of memory for each request, all the time.
    TakePieces {
        /// How many for each request, 100 to 10000.
        pieces: Between,
    },
    /// Looks for files, of which one is there.
    LookUp {
        /// What it looks for most often without finding it.
        sought: Sought,
        /// From one search to the next, in milliseconds, 1 to 1000.
        every_ms: Between,
    },
    /// Sends messages over the loopback interface, ten at a time, most of one size.
    Send {
        /// That size in bytes, 64 to 8192.
        usual_bytes: Between,
        /// What the others are like.
        others: Others,
        /// From one ten to the next, in milliseconds, 5 to 10000.
        every_ms: Between,
    },
    /// Adds a few bytes to a file, and waits until they are on the disk.
    Commit {
        /// How many bytes, 16 to 4096.
        bytes: u32,
        /// From one to the next at the earliest, in milliseconds, 2 to 1000.
        every_ms: Between,
    },
    /// Takes datagrams on the loopback interface, one at a time.
    TakeDatagrams {
        /// What may wait to be taken, 4 to 256.
        buffer_kib: u32,
        /// How long each holds it up, in milliseconds, 1 to 100.
        hold_ms: Between,
    },
    /// Sends datagrams to the one beside it that takes them.
    SendDatagrams {
        /// How many, 20 to 20000.
        per_second: Between,
    },
    /// Fills a small file system of its own, in memory, and goes on trying to write to it.
    Fill {
        /// What takes up the room.
        room: Room,
        /// Size of the file system, 1 to 64.
        mib: u32,
        /// How many files it can have, 50 to 10000.
        files: u32,
        /// From one try that fails to the next, in milliseconds, 10 to 1000.
        every_ms: u32,
    },
    /// A server on the loopback interface that answers many clients at once, over connections that stay.
    Answer {
        /// What goes wrong now and then.
        fault: Fault,
        /// How often, in a thousand requests, 1 to 200.
        in_thousand: Between,
    },
    /// Clients of the server beside it in the same variant, over connections that stay.
    Ask {
        /// How many, 1 to 16.
        clients: Between,
        /// From an answer to the next request, in milliseconds, 1 to 1000.
        every_ms: u32,
    },
    /// Two threads on two CPUs that each add to counters of their own, round by round.
    AddUp {
        /// Where these counters are.
        layout: Layout,
        /// How often each of them adds in a round, in thousands, 10 to 5000.
        thousands: Between,
        /// From one round to the next, in milliseconds, 100 to 10000.
        every_ms: u32,
    },
    /// Goes through a table in its memory over and over.
    LookThrough {
        /// What the table is.
        table: TableOf,
        /// How large it is, 16 to 128.
        mib: u32,
        /// From one time to the next at the earliest, in milliseconds, 500 to 10000.
        every_ms: u32,
    },
    /// Sends datagrams in a network of its own, as fast as it can from the last CPU, which the first one takes in.
    Flood {
        /// For how much of the time, in percent, 10 to 80.
        duty_percent: Between,
    },
    /// Reads one file over and over.
    Reread {
        /// Size of the file, 16 to 256.
        file_mib: u32,
        /// From one time to the next, in milliseconds, 500 to 10000.
        every_ms: u32,
    },
}
