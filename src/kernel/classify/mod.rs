//! What a thread off the CPU waits for: from what the kernel reports about it to one [`Component`]. Pure, so that the probe
//! inside the kernel, the sampler of /proc and a recording are judged by the same tables.
//!
//! The tables are data: [`calls`] by name of the system call, [`frames`] by functions of the kernel, which are renamed
//! every few releases. What no rule knows is [`Component::OtherOff`], and its stacks are reported, so that the
//! tables can grow.

pub mod calls;
pub mod files;
pub mod frames;
pub mod futex;
#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod tests;
pub mod user;

pub use calls::{Abi, Call};
pub use files::FileClass;

use calls::Kind;
use frames::Meaning;
use rdiag_model::Component;

/// Version of the tables: raised when a wait could be put elsewhere than before.
pub const VERSION: u32 = 4;

/// A thread off the CPU, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait<'w> {
    /// The letter of /proc/PID/stat field 3: `S`, `D`, `T`, `t`, `I`, `R` …
    pub state: char,
    /// A thread of the kernel (PF_KTHREAD): it makes no system calls, whatever its file says.
    pub kernel: bool,
    /// Where it was when it stopped running.
    pub within: Within<'w>,
    /// What its first argument is open on, for calls on a file.
    pub file: FileClass,
    /// Functions of the kernel, innermost first, as /proc/PID/stack names them; just one where only wchan may be read.
    pub frames: &'w [&'w str],
    /// The kernel counts this wait as one for a disk (`task_struct.in_iowait`); `false` where that cannot be seen.
    pub in_iowait: bool,
    /// The kernel itself said that it waits for one of its locks (`lock:contention_begin`); `false` where no program listened.
    pub kernel_lock: bool,
    /// The futex is known to be part of a lock that another thread has, by the program's memory or its stack.
    pub user_lock: bool,
    /// Nothing can be swapped in, so that a page fault that waits is one on a file.
    pub without_swap: bool,
}

impl Default for Wait<'_> {
    fn default() -> Self {
        Self {
            state: 'S',
            kernel: false,
            within: Within::Unknown,
            file: FileClass::Unknown,
            frames: &[],
            in_iowait: false,
            kernel_lock: false,
            user_lock: false,
            without_swap: false,
        }
    }
}

/// Where a thread was when it stopped running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Within<'w> {
    /// It may not be seen.
    #[default]
    Unknown,
    /// In user mode: a page fault, or something that was done to the thread.
    User,
    /// In a system call.
    Call(Call<'w>),
}

/// Where a wait belongs, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// The component.
    pub component: Component,
    /// The rule that hit: `frames.block`, `call.futex`, `fault` …; `none` where no rule did.
    pub evidence: &'static str,
}

/// The rule of a wait that no rule knows: its stack is worth reporting.
pub const NO_RULE: &str = "none";

const fn class(component: Component, evidence: &'static str) -> Class {
    Class { component, evidence }
}

/// Puts a wait into its component. None for a task that has ended: it has no time any more.
///
/// First hit wins: state, stacks that are unambiguous, a lock of the kernel, a wait that the kernel counts as one for a disk,
/// a page fault, the system call, the stack, being a thread of the kernel.
#[must_use]
pub fn classify(wait: &Wait<'_>) -> Option<Class> {
    match wait.state {
        'T' | 't' => return Some(class(Component::Stopped, "state.stopped")),
        'Z' | 'X' | 'x' => return None,
        'R' => return Some(runnable(wait)),
        _ => {}
    }
    if frames::is_frozen_by_v2(wait.frames) {
        return Some(class(Component::Stopped, "frames.freezer"));
    }
    // What a thread of the kernel does is not in a call, and the file says it were in call number 0.
    let within = if wait.kernel { Within::Unknown } else { wait.within };
    let clear = match frames::find(frames::CLEAR, wait.frames) {
        Some(frames::Rule { id, meaning: Meaning::Component(component), .. }) => Some(class(*component, id)),
        _ => None,
    };
    // A lock that is waited for on the way to a file server is still a lock; making room for memory or for dirty pages says more
    // than the lock that is part of it. Up to 6.17 or so, who takes a lock of all CPUs (percpu_down_write) told of contention
    // before waiting for RCU.
    let outweighs_a_lock = |clear: &Class| {
        matches!(
            clear.component,
            Component::IoPace | Component::MemReclaim | Component::LockUser | Component::KernelSync
        )
    };
    if wait.kernel_lock && !clear.as_ref().is_some_and(outweighs_a_lock) {
        return Some(class(Component::LockKernel, "contention"));
    }
    if clear.is_some() {
        return clear;
    }
    if !wait.in_iowait && frames::is_lock_caller(wait.frames) {
        return Some(class(Component::LockKernel, "frames.lock_caller"));
    }
    let block = frames::find(frames::BLOCK, wait.frames);
    if wait.in_iowait || block.is_some() {
        return Some(disk(wait, within));
    }
    if within == Within::User && wait.state == 'D' {
        return Some(fault(wait));
    }
    let by_call = match within {
        Within::Call(call) => by_call(call, wait),
        Within::Unknown | Within::User => None,
    };
    if let Some(class) = by_call {
        return Some(class);
    }
    if let Some(frames::Rule { id, meaning: Meaning::Component(component), .. }) =
        frames::find(frames::HINTS, wait.frames)
    {
        return Some(class(*component, id));
    }
    if wait.kernel || wait.state == 'I' {
        return Some(class(Component::KernelThread, "kernel_thread"));
    }
    Some(class(Component::OtherOff, NO_RULE))
}

/// It could run: it lost the CPU, or gave it away.
fn runnable(wait: &Wait<'_>) -> Class {
    match wait.within {
        Within::Call(call) if call.name == "sched_yield" => class(Component::RunqPreempt, "state.yielded"),
        _ => class(Component::RunqPreempt, "state.runnable"),
    }
}

/// A wait for a disk: in a page fault, or by what the call does.
fn disk(wait: &Wait<'_>, within: Within<'_>) -> Class {
    if within == Within::User || frames::find(frames::FAULT, wait.frames).is_some() {
        return fault(wait);
    }
    let Within::Call(call) = within else { return class(Component::IoBlock, "iowait") };
    match calls::kind(call.name) {
        Some(Kind::Sync) => class(Component::IoBlockSync, "iowait.sync"),
        Some(Kind::Read | Kind::Receive) => class(Component::IoBlockRead, "iowait.read"),
        Some(Kind::Write | Kind::Send) => class(Component::IoBlockWrite, "iowait.write"),
        Some(Kind::Path | Kind::Close) => class(Component::IoBlockMeta, "iowait.meta"),
        Some(Kind::Move) => moved_by_disk(call, wait),
        Some(Kind::Ring) => class(Component::IoBlockAsync, "iowait.async"),
        _ => class(Component::IoBlock, "iowait"),
    }
}

/// A wait for a disk in a call from one file to another. The stack tells which one is read and which one is written; without it, what
/// the first argument is open on, where the other end can be no disk then.
fn moved_by_disk(call: Call<'_>, wait: &Wait<'_>) -> Class {
    use FileClass as File;
    let (read, write) =
        (class(Component::IoBlockRead, "iowait.move.read"), class(Component::IoBlockWrite, "iowait.move.write"));
    if let Some(reads) = frames::reads_or_writes(wait.frames) {
        return if reads { read } else { write };
    }
    match (call.name, wait.file) {
        // From a file into a pipe, or out of a pipe into a file.
        ("splice", File::File | File::Block) => read,
        ("splice", File::Pipe) => write,
        // Its first argument is where the bytes go.
        ("sendfile" | "sendfile64", File::Inet | File::Unix | File::Socket | File::Pipe | File::Netlink) => read,
        _ => class(Component::IoBlock, "iowait.move"),
    }
}

/// A page fault that waits.
fn fault(wait: &Wait<'_>) -> Class {
    match frames::find(frames::FAULT, wait.frames).map(|rule| &rule.meaning) {
        Some(Meaning::Component(component)) => class(*component, "fault.frames"),
        _ if wait.without_swap => class(Component::FaultFile, "fault.no_swap"),
        _ => class(Component::Fault, "fault"),
    }
}

/// What the system call says.
fn by_call(call: Call<'_>, wait: &Wait<'_>) -> Option<Class> {
    use FileClass as File;
    let class = match calls::kind(call.name)? {
        Kind::Futex if wait.user_lock => class(Component::LockUser, "call.futex.known"),
        Kind::Futex => by_futex(call),
        Kind::Poll => class(Component::WaitPoll, "call.poll"),
        Kind::Ring => class(Component::WaitPoll, "call.ring"),
        Kind::Sleep => class(Component::WaitSleep, "call.sleep"),
        Kind::Sync => class(Component::IoBlockSync, "call.sync"),
        Kind::Path => class(Component::IoBlockMeta, "call.path"),
        // Who waits for a disk cannot be interrupted; a socket that lingers can, and its stack says so.
        Kind::Close if wait.state == 'D' => class(Component::IoBlockMeta, "call.close"),
        Kind::Close => return None,
        Kind::Child => class(Component::WaitChild, "call.child"),
        // clone waits for no task, unless the child borrows its memory: then in uninterruptible sleep.
        Kind::Clone if wait.state == 'D' => class(Component::WaitChild, "call.vfork"),
        Kind::Clone | Kind::Memory | Kind::Restart => return None,
        Kind::FileLock => class(Component::LockFile, "call.file_lock"),
        Kind::Signal => class(Component::WaitSignal, "call.signal"),
        Kind::Sysv => class(Component::IpcSysv, "call.sysv"),
        Kind::Connect if wait.file == File::Unix => class(Component::IpcUnix, "call.connect.unix"),
        Kind::Connect => class(Component::NetConnect, "call.connect"),
        Kind::Accept => class(Component::NetAccept, "call.accept"),
        Kind::Ioctl => match frames::find(frames::HINTS, wait.frames) {
            Some(_) => return None,
            None => class(Component::WaitDevice, "call.ioctl"),
        },
        Kind::Read => return read(wait),
        Kind::Write => return write(wait),
        Kind::Move => return moves(call, wait),
        Kind::Receive => match wait.file {
            File::Unix => class(Component::IpcUnix, "call.receive.unix"),
            File::Netlink => class(Component::IpcEvent, "call.receive.netlink"),
            File::Inet => class(Component::NetRecv, "call.receive"),
            _ => match frames::find(frames::HINTS, wait.frames) {
                Some(_) => return None,
                None => class(Component::NetRecv, "call.receive"),
            },
        },
        Kind::Send => match wait.file {
            File::Unix => class(Component::IpcUnix, "call.send.unix"),
            File::Netlink => class(Component::IpcEvent, "call.send.netlink"),
            File::Inet => class(Component::NetSend, "call.send"),
            _ => match frames::find(frames::HINTS, wait.frames) {
                Some(_) => return None,
                None => class(Component::NetSend, "call.send"),
            },
        },
    };
    Some(class)
}

/// A futex is a lock, a condition variable, a thread that waits for work, or anything else: [`futex`] says what the call tells.
fn by_futex(call: Call<'_>) -> Class {
    let arguments = call.arguments.filter(|_| matches!(call.name, "futex" | "futex_time64"));
    let known = arguments.and_then(|[_, operation, value]| futex::lock(operation, value, call.in_own_stack));
    known.map_or(class(Component::WaitFutex, "call.futex"), |rule| class(Component::LockUser, rule))
}

fn read(wait: &Wait<'_>) -> Option<Class> {
    Some(match wait.file {
        FileClass::File | FileClass::Block => class(Component::IoBlockRead, "call.read"),
        FileClass::Inet => class(Component::NetRecv, "call.read.inet"),
        other => return moved(other, wait, class(Component::NetRecv, "call.read.socket")),
    })
}

fn write(wait: &Wait<'_>) -> Option<Class> {
    Some(match wait.file {
        FileClass::File | FileClass::Block => class(Component::IoBlockWrite, "call.write"),
        FileClass::Inet => class(Component::NetSend, "call.write.inet"),
        other => return moved(other, wait, class(Component::NetSend, "call.write.socket")),
    })
}

/// From one file to another, and not on a disk: into a socket or a pipe that is full, or out of a pipe that is empty. The stack tells
/// which; without it only `sendfile`, which reads nothing but files.
fn moves(call: Call<'_>, wait: &Wait<'_>) -> Option<Class> {
    if frames::find(frames::HINTS, wait.frames).is_some() {
        return None;
    }
    match (call.name, wait.file) {
        ("sendfile" | "sendfile64", _) => write(wait),
        (_, FileClass::File | FileClass::Block) if wait.state == 'D' => Some(class(Component::IoBlock, "call.move")),
        _ => None,
    }
}

/// Reading and writing of what is the same component in both directions.
fn moved(file: FileClass, wait: &Wait<'_>, socket: Class) -> Option<Class> {
    let class = match file {
        FileClass::Unix => class(Component::IpcUnix, "call.file.unix"),
        FileClass::Netlink => class(Component::IpcEvent, "call.file.netlink"),
        FileClass::Pipe => class(Component::IpcPipe, "call.file.pipe"),
        FileClass::Event => class(Component::IpcEvent, "call.file.event"),
        FileClass::Timer => class(Component::WaitSleep, "call.file.timer"),
        FileClass::Terminal => class(Component::WaitTty, "call.file.terminal"),
        FileClass::Fuse => class(Component::WaitPoll, "call.file.fuse"),
        FileClass::Character | FileClass::Device => class(Component::WaitDevice, "call.file.device"),
        // A socket of a family that is not known: the stack knows better, if there is one.
        FileClass::Socket if frames::find(frames::HINTS, wait.frames).is_none() => socket,
        FileClass::File
        | FileClass::Block
        | FileClass::Kernel
        | FileClass::Inet
        | FileClass::Socket
        | FileClass::Epoll
        | FileClass::Ring
        | FileClass::Unknown => return None,
    };
    Some(class)
}
