//! The kinds of things that works do, by the words of scenarios.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How memory is taken from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryFrom {
    /// Through the C library, which moves the end of the heap (brk(2)).
    Heap,
    /// Mapped (mmap(2)), without huge pages.
    Pages,
    /// Mapped, with huge pages where there are some.
    HugePages,
}

/// What a program looks for without finding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sought {
    /// licence.key
    Licence,
    /// locale.mo
    Locale,
}

/// The messages that do not have the usual size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Others {
    /// They are far longer, 16 to 48 KiB.
    Longer,
    /// They are far shorter, up to 32 bytes.
    Shorter,
}

/// What takes up the room of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Room {
    /// Empty files, as many as there can be.
    Files,
    /// A large file that was deleted and is still open.
    Deleted,
}

/// What goes wrong between a client and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Segments that arrive at the server are thrown away.
    Lost,
    /// The server makes a pause of 200 ms before it answers.
    Late,
}

/// Where the counters of two threads are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// One each, in the same line of the CPUs' caches.
    Close,
    /// One each, in lines of their own.
    Apart,
    /// Many each, more than a cache near a CPU holds, and added to without order.
    Strewn,
}

/// What a table in memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableOf {
    /// Memory that the program wrote to; there is swap space for it.
    Memory,
    /// A mapped file.
    File,
}

/// What ends a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The memory limit of its control group.
    Limit,
    /// It ends itself, with a signal.
    Abort,
}

/// How a file is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CopyKind {
    /// With read(2) and write(2), a block at a time.
    Calls,
    /// Both files mapped, and copied in memory a block at a time.
    Mapped,
}

/// What makes the kernel refuse a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Flaw {
    /// A segment whose place in the file and in memory do not fit to each other.
    Misaligned,
    /// It names an interpreter that is not there.
    Interpreter,
}

/// In which context code of the kernel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KernelContext {
    /// A timer's soft interrupt.
    Timer,
    /// A thread of the kernel, from which the CPU cannot be taken.
    Thread,
}

/// What threads of a kernel module wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FetchFrom {
    /// A disk that is in memory and answers late (the kernel's own module null_blk).
    SlowDisk,
    /// A lock of the module, which one thread at a time holds and sleeps with.
    Lock,
}

/// What workers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrewKind {
    /// Threads of one process.
    Threads,
    /// Processes.
    Processes,
}
