//! Processes of rdiag's own: this program, started once more under another name, distinguished from later users of its PID,
//! limited, and ended. Lessons use it to make a load; no other process is ever touched.

mod c_lock;
mod descriptors;
mod filter;
mod fork;
pub mod kernel_module;
mod limits;
mod mapping;
mod mount;
mod network;
mod pages;
mod real_time;
mod swap;

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rdiag_kernel::host::boot_id;
use rdiag_proc::{Field, TaskStat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

pub use c_lock::CLock;
pub use filter::lose;
pub use fork::{fork_to, hold_up_by_child};
pub use limits::{Limits, apply, limit_open_files};
pub use mapping::Mapping;
pub use mount::{may_mount, mount_small, unmount};
pub use network::{enter_own_network, split_datagrams};
pub use pages::Pages;
pub use real_time::{FormerCpus, busy_priority, keep_to_one_cpu, let_back, usable_cpus, use_only};
pub use swap::{add_swap, may_swap, remove_swap};

/// No order to a process of rdiag's own is longer.
const MAX_ORDER_BYTES: u64 = 64 * 1024;

/// A process, distinguished from a later one with the same PID, and from one of another boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// When it started, in ticks since boot (/proc/PID/stat, field 22).
    pub started: u64,
    /// /proc/sys/kernel/random/boot_id.
    pub boot: String,
}

impl Identity {
    /// The process with this number, if there is one that has not ended.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = text(&format!("/proc/{pid}/stat"));
        let stat = TaskStat::parse(stat.as_bytes()).filter(|stat| !stat.has_ended())?;
        let started = stat.field(Field::Start)?;
        Some(Self { pid, started, boot: boot_id() })
    }

    /// This process.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get().cast_unsigned())
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Ends it at once (SIGKILL), and no other process: its PID is checked again once it can no longer be reused.
    pub fn kill(&self) -> io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()) else { return Ok(()) };
        let held = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(held) => held,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !self.is_alive() {
            return Ok(());
        }
        match pidfd_send_signal(held, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Where this program lies.
pub fn program() -> io::Result<std::path::PathBuf> {
    std::env::current_exe()
}

/// Starts this program as another process: `place` is a path by which it can be started (a link gives it its name), `role` the
/// hidden argument that says what it is to be. It waits until it is handed its order, and has a process group of its own.
pub fn start(place: &Path, role: &str) -> io::Result<Child> {
    use std::os::unix::process::CommandExt as _;
    #[expect(clippy::disallowed_methods, reason = "itself, as a load for a lesson")]
    let mut command = Command::new(place);
    command.arg0(place.file_name().unwrap_or(place.as_os_str())).arg(role);
    command.env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()
}

/// The same, in the process group of its parent, by which its children are found.
pub fn start_in_group(place: &Path, role: &str) -> io::Result<Child> {
    in_group(place, role).spawn()
}

/// The same by fork(2) instead of vfork(2): a tracer (`strace -f`) can detach from it at any moment, even if the child is stopped.
pub fn fork_in_group(place: &Path, role: &str) -> io::Result<Child> {
    use std::os::unix::process::CommandExt as _;
    // A user to become is what the standard library forks for; it is the one that it is.
    in_group(place, role).uid(rustix::process::getuid().as_raw()).spawn()
}

fn in_group(place: &Path, role: &str) -> Command {
    use std::os::unix::process::CommandExt as _;
    #[expect(clippy::disallowed_methods, reason = "itself, as part of a load for a lesson")]
    let mut command = Command::new(place);
    command.arg0(place.file_name().unwrap_or(place.as_os_str())).arg(role).env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Hands a started process its order; from then on it goes by itself.
pub fn hand(child: &mut Child, order: &[u8]) -> io::Result<()> {
    let Some(mut input) = child.stdin.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    input.write_all(order)
}

/// The order, read by the process that was started. It closes all other inherited descriptors: the files of rdiag's caller are none
/// of its business, and it may outlive them by far.
pub fn order() -> io::Result<Vec<u8>> {
    descriptors::close_inherited();
    let mut bytes = Vec::new();
    io::stdin().lock().take(MAX_ORDER_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes this process die with the one that started it. An error if that one has died already.
pub fn die_with(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if now == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// Gives the calling thread a name (15 bytes of it), as `ps` and `top` show it.
pub fn set_name(name: &str) {
    if let Ok(name) = std::ffi::CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// Leaves the terminal and the session of this process's parent, so that a Ctrl-C there does not end it.
pub fn leave_session() {
    let _ = rustix::process::setsid();
}

fn text(path: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "rdiag's own processes, not what is looked at")]
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_another_with_the_same_number() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive());
        let earlier = Identity { started: own.started + 1, ..own.clone() };
        assert!(!earlier.is_alive());
        assert!(!Identity { boot: "another".into(), ..own }.is_alive());
        // It is not this process, so nothing happens to it.
        earlier.kill().unwrap();
        assert_eq!(Identity::of(u32::MAX), None);
    }
}
