//! A kernel module of rdiag's own: built against the headers of the running kernel, loaded, read and unloaded. Only exercises in a
//! virtual machine that was set aside for them do that.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rdiag_kernel::host::{Clock, files};
use rustix::process::{Signal, kill_process};
use rustix::system::{delete_module, finit_module, uname};

/// Building takes seconds; on an emulated CPU a minute.
const BUILD_SECONDS: f64 = 240.0;
/// How much of the compiler's output is shown.
const SAID_BYTES: usize = 2000;
const MAX_LOG_BYTES: u64 = 4 << 20;

/// Where the headers of the running kernel are, if they are installed: `/lib/modules/RELEASE/build`.
#[must_use]
pub fn headers() -> PathBuf {
    Path::new("/lib/modules").join(uname().release().to_string_lossy().as_ref()).join("build")
}

/// Builds a module of one source file in a folder that is made for it, and returns the file to load. `define` is a `NAME=value` for
/// the source. The error holds the end of what the compiler said.
pub fn build(folder: &Path, name: &str, source: &str, define: &str) -> io::Result<PathBuf> {
    files::create_private_directory(folder)?;
    files::write_atomically(&folder.join(format!("{name}.c")), |out| out.write_all(source.as_bytes()))?;
    let makefile = format!("obj-m := {name}.o\nccflags-y := -D{define}\n");
    files::write_atomically(&folder.join("Makefile"), |out| out.write_all(makefile.as_bytes()))?;
    let said = folder.join("said");
    files::write_atomically(&said, |_| Ok(()))?;
    let log = std::fs::OpenOptions::new().append(true).open(&said)?;
    #[expect(clippy::disallowed_methods, reason = "a kernel module is built by the kernel's own Makefile")]
    let mut command = Command::new("make");
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C").current_dir("/");
    command.arg("-C").arg(headers()).arg(format!("M={}", folder.display())).arg("modules");
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = command.spawn()?;
    let clock = Clock::live();
    let (end, never) = (clock.now(0) + BUILD_SECONDS, std::sync::atomic::AtomicBool::new(false));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if clock.now(0) > end {
            // It ends its own children.
            if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                kill_process(pid, Signal::TERM)?;
            }
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("make took longer than {BUILD_SECONDS} s")));
        }
        clock.wait_until(clock.now(0) + 0.05, &never);
    };
    if status.success() {
        return Ok(folder.join(format!("{name}.ko")));
    }
    let said = String::from_utf8_lossy(&files::read_named(&said, MAX_LOG_BYTES)?).into_owned();
    let end: String = said.chars().skip(said.chars().count().saturating_sub(SAID_BYTES)).collect();
    Err(io::Error::other(format!("make ended with {status}; its last words:\n{end}")))
}

/// Loads a module from its file, with parameters as on the command line of insmod.
pub fn load(file: &Path, parameters: &str) -> io::Result<()> {
    Ok(finit_module(files::open_named(file)?, &CString::new(parameters)?, 0)?)
}

/// Unloads a module; that it is not loaded is as good.
pub fn unload(name: &str) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    match delete_module(&CString::new(name)?, flags) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The device of the disk in memory.
pub const SLOW_DISK: &str = "/dev/nullb0";
/// The kernel's module that is one.
const SLOW_DISK_MODULE: &str = "null_blk";

/// Whether this kernel has the module for a disk in memory, built but not loaded; the error says what `modprobe` does.
pub fn has_slow_disk() -> io::Result<()> {
    modprobe(&["--dry-run", SLOW_DISK_MODULE])
}

/// Makes a disk in memory that holds nothing. Each request takes so long, and so many are served at a time; others wait for a tag.
pub fn make_slow_disk(wait_ns: u64, at_once: u32) -> io::Result<()> {
    let numbers = [
        "nr_devices=1".to_owned(),
        "submit_queues=1".to_owned(),
        // No scheduler, which would have tags of its own.
        "no_sched=1".to_owned(),
        // By a timer.
        "irqmode=2".to_owned(),
        format!("completion_nsec={wait_ns}"),
        format!("hw_queue_depth={at_once}"),
    ];
    modprobe(&[&[SLOW_DISK_MODULE], &numbers.each_ref().map(String::as_str)[..]].concat())
}

/// How long a request takes on the disk in memory, in nanoseconds, if there is one.
#[must_use]
pub fn slow_disk_wait() -> Option<u64> {
    parameter(SLOW_DISK_MODULE, "completion_nsec")
}

/// Takes the disk in memory away; that there is none is as good.
pub fn remove_slow_disk() -> io::Result<()> {
    unload(SLOW_DISK_MODULE)
}

fn modprobe(words: &[&str]) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "where a module of the kernel and those that it needs lie, modprobe knows"
    )]
    let mut command = Command::new("modprobe");
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C").current_dir("/");
    let output = command.arg("--quiet").args(words).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().chars().take(SAID_BYTES).collect::<String>();
    Err(io::Error::other(format!("modprobe {} ended with {} {said}", words.join(" "), output.status)))
}

/// A readable parameter of a loaded module (/sys/module/NAME/parameters/PARAMETER).
#[must_use]
pub fn parameter(name: &str, parameter: &str) -> Option<u64> {
    let bytes = files::read_named(Path::new(&format!("/sys/module/{name}/parameters/{parameter}")), 4096).ok()?;
    String::from_utf8_lossy(&bytes).trim().parse().ok()
}
