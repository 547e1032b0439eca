//! Asks Java processes to write down which function they compiled where, into /tmp/perf-PID.map, as `jcmd PID Compiler.perfmap` does:
//! JDK 17 and later. The runtime stops its threads meanwhile, so it is asked only if the user wants it.
//!
//! It goes by the protocol of HotSpot's attach mechanism: a file `.attach_pidPID` and SIGQUIT have it open a socket, which takes commands.
//! All of it is done as the user of the process, who chooses what /tmp is there.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rdiag_proc::field;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2, statat, unlinkat};
use rustix::process::{Gid, Pid, PidfdFlags, Signal, Uid, pidfd_open, pidfd_send_signal};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::SharedHost;
use crate::host::within::within;

/// Processes that are asked at most.
const MOST: usize = 64;
/// The runtime opens its socket at the next safepoint.
const OPENS: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(20);
/// Writing a hundred thousand functions takes less than a second.
const WRITES: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const ANSWER: u64 = 4096;
/// The version of the protocol, the command, its three arguments.
const COMMAND: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";
/// Bit of SIGQUIT in the masks of /proc/PID/status.
const SIGQUIT: u64 = 1 << 2;

/// What became of a process that was to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedRuntime {
    /// The process, by its id.
    pub pid: u32,
    /// Why it wrote no map.
    pub refused: Option<String>,
}

/// Has the Java processes among these, or all there are, write their maps. Others are left alone.
#[must_use]
pub fn ask_for_maps(host: &SharedHost, pids: &[u32]) -> Vec<AskedRuntime> {
    let all = || host.list("proc").unwrap_or_default().iter().filter_map(|name| name.parse().ok()).collect();
    let pids: Vec<u32> = if pids.is_empty() { all() } else { pids.to_vec() };
    let java = pids.into_iter().filter(|pid| {
        let host = host.clone();
        let maps = format!("proc/{pid}/maps");
        // The lock of a memory map is its process's.
        within(OPENS, move || is_hotspot(&host.read(&maps).unwrap_or_default())).unwrap_or(false)
    });
    java.take(MOST).map(|pid| AskedRuntime { pid, refused: ask(host, pid).err() }).collect()
}

fn is_hotspot(maps: &str) -> bool {
    maps.lines().any(|line| line.ends_with("/libjvm.so"))
}

fn ask(host: &SharedHost, pid: u32) -> Result<(), String> {
    let gone = || "it ended".to_owned();
    let process =
        pidfd_open(Pid::from_raw(pid.cast_signed()).ok_or_else(gone)?, PidfdFlags::empty()).map_err(|_| gone())?;
    let status = host.read(&format!("proc/{pid}/status")).map_err(|_| gone())?;
    let runtime = Runtime::of(pid, &status).ok_or("it does not answer SIGQUIT, which ends a runtime with -Xrs")?;
    let asked = within(OPENS + WRITES, move || {
        runtime.become_its_user()?;
        let tmp = runtime.tmp().map_err(|error| format!("opening its /tmp: {error}"))?;
        let signal = || pidfd_send_signal(&process, Signal::QUIT).map_err(|error| format!("signalling it: {error}"));
        runtime.open(&tmp, signal)?;
        runtime.command(&tmp)
    });
    asked.unwrap_or_else(|| Err("it did not answer in time".into()))
}

/// A Java runtime that answers SIGQUIT.
#[derive(Debug, PartialEq, Eq)]
struct Runtime {
    pid: u32,
    /// Its id in its own process namespace.
    inner: String,
    user: u32,
    group: u32,
}

impl Runtime {
    /// From /proc/PID/status. None if SIGQUIT would end it.
    fn of(pid: u32, status: &str) -> Option<Self> {
        let effective = |name| field(status, name)?.split_whitespace().nth(1)?.parse().ok();
        let caught = u64::from_str_radix(field(status, "SigCgt:")?, 16).ok()?;
        let inner = field(status, "NStgid:").and_then(|ids| ids.split_whitespace().next_back());
        let inner = inner.map_or_else(|| pid.to_string(), str::to_owned);
        let [user, group] = [effective("Uid:")?, effective("Gid:")?];
        (caught & SIGQUIT != 0).then_some(Self { pid, inner, user, group })
    }

    /// Makes the calling thread, which does nothing else, one of its user.
    fn become_its_user(&self) -> Result<(), String> {
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        if rustix::process::geteuid() == user {
            return Ok(());
        }
        let become_it = || {
            set_thread_groups(&[])?;
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)
        };
        become_it().map_err(|error: rustix::io::Errno| format!("it is another user's: {error}"))
    }

    /// Its own /tmp, within its own tree of files.
    fn tmp(&self) -> rustix::io::Result<OwnedFd> {
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, format!("/proc/{}/root", self.pid), folder, Mode::empty())?;
        openat2(root, "tmp", folder, Mode::empty(), ResolveFlags::IN_ROOT)
    }

    fn socket(&self) -> String {
        format!(".java_pid{}", self.inner)
    }

    /// Has it open its socket, unless it has one.
    #[expect(clippy::disallowed_methods, reason = "a program is waited for, and a recorded host has none")]
    fn open(&self, tmp: &OwnedFd, signal: impl Fn() -> Result<(), String>) -> Result<(), String> {
        let is_open = || statat(tmp, self.socket(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if is_open() {
            return Ok(());
        }
        let mark = format!(".attach_pid{}", self.inner);
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(tmp, &mark, new, Mode::RUSR | Mode::WUSR);
        made.map_err(|error| format!("making {mark} in its /tmp: {error}"))?;
        let opened = signal().and_then(|()| {
            let polls = OPENS.as_millis() / POLL.as_millis();
            let opens = (0..polls).any(|_| {
                std::thread::sleep(POLL);
                is_open()
            });
            opens.then_some(()).ok_or_else(|| "it opens no socket (-XX:+DisableAttachMechanism)".into())
        });
        unlinkat(tmp, &mark, AtFlags::empty()).ok();
        opened
    }

    fn command(&self, tmp: &OwnedFd) -> Result<(), String> {
        let talk = || {
            let mut socket =
                UnixStream::connect(format!("/proc/thread-self/fd/{}/{}", tmp.as_raw_fd(), self.socket()))?;
            socket.set_read_timeout(Some(WRITES))?;
            socket.set_write_timeout(Some(WRITES))?;
            socket.write_all(COMMAND)?;
            let mut answer = Vec::new();
            socket.take(ANSWER).read_to_end(&mut answer)?;
            std::io::Result::Ok(answer)
        };
        answered(&talk().map_err(|error| format!("asking it: {error}"))?)
    }
}

/// A line with a code, 0 if it worked, and words.
fn answered(answer: &[u8]) -> Result<(), String> {
    let answer = String::from_utf8_lossy(answer);
    let (code, words) = answer.split_once('\n').unwrap_or((&answer, ""));
    match code.trim() {
        "0" => Ok(()),
        _ if words.contains("Unknown diagnostic command") => Err("its version has no such command (JDK 17 has)".into()),
        code => Err(format!("it answered {code} {}", words.lines().next().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str =
        "Name:\tjava\nUid:\t1000\t1001\t1000\t1000\nGid:\t5\t6\t5\t5\nNStgid:\t812\t7\nSigCgt:\t0000000181005ccf\n";

    #[test]
    fn a_runtime_that_sigquit_would_end_is_not_asked() {
        let runtime = Runtime { pid: 812, inner: "7".into(), user: 1001, group: 6 };
        assert_eq!(Runtime::of(812, STATUS), Some(runtime));
        assert_eq!(Runtime::of(812, &STATUS.replace("5ccf", "5ccb")), None);
        assert_eq!(Runtime::of(812, ""), None);
    }

    #[test]
    fn only_processes_that_have_the_library_of_hotspot_are_java() {
        let line = "7f00-7f10 r-xp 00000000 fe:00 12  /usr/lib/jvm/lib/server/libjvm.so";
        assert!(is_hotspot(line));
        assert!(!is_hotspot(&line.replace("libjvm", "libc")));
    }

    #[test]
    fn an_answer_other_than_zero_is_a_reason() {
        assert_eq!(answered(b"0\n"), Ok(()));
        assert_eq!(answered(b"0"), Ok(()));
        let old = "1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n";
        assert!(answered(old.as_bytes()).unwrap_err().contains("JDK 17"));
        assert_eq!(answered(b"101\nno\nmore").unwrap_err(), "it answered 101 no");
        assert!(answered(b"").is_err());
    }
}
