//! Why the kernel refused a program, in words, and the least that would change its mind.

use std::error::Error;
use std::io;

use aya::EbpfError;
use aya::programs::ProgramError;

use crate::host::Host;
use crate::mechanism::obstacles;
use rdiag_model::{Reason, Unavailable};

const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

const RIGHTS: &str = "run rdiag as root, or give it CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8)";

/// Where the kernel refuses what [`obstacle`] has found rights for.
const FORBIDDEN: &str = "rdiag has the rights for this: look for what forbids it all the same, a security module, a container's \
    seccomp filter, or lockdown (dmesg; cat /sys/kernel/security/lsm)";

/// What is known to stand in the way before anything is tried.
pub(super) fn obstacle(host: &Host) -> Result<(), Unavailable> {
    if host.is_recorded() {
        return Err(Unavailable::new(Reason::NotVisible, "a recorded tree has no running kernel to attach to"));
    }
    let held = host.facts().capabilities;
    if held & CAP_SYS_ADMIN == 0 && held & (CAP_BPF | CAP_PERFMON) != (CAP_BPF | CAP_PERFMON) {
        return Err(
            Unavailable::new(Reason::Denied, "this user may not load programs into the kernel").with_remedy(RIGHTS)
        );
    }
    obstacles::lockdown(host, "programs to read the kernel")?;
    if !host.exists("sys/kernel/btf/vmlinux") {
        let why = "the kernel does not describe its types (/sys/kernel/btf/vmlinux does not exist)";
        return Err(Unavailable::new(Reason::Absent, why).with_remedy("use a kernel built with CONFIG_DEBUG_INFO_BTF"));
    }
    obstacles::pid_namespace(host, "the kernel's programs do")
}

/// An object that could not be loaded.
pub(super) fn of_object(error: &EbpfError) -> Unavailable {
    classify(error, "loading maps")
}

/// A map that could not be read.
pub(super) fn of_map(name: &str, error: &dyn Error) -> Unavailable {
    Unavailable::new(Reason::Malformed, format!("the probe's map {name} cannot be read: {}", chain(error)))
}

/// Why one way of attaching was refused, in one line.
pub(super) fn refusal(error: &ProgramError) -> String {
    if let ProgramError::LoadError { io_error, verifier_log } = error {
        let log = verifier_log.to_string();
        if log.contains("195896080") {
            return "the kernel lacks a field that the program reads".to_owned();
        }
        // The last line that is not a statistic is the reason; the first is often noise.
        let said = log.lines().rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("processed "));
        return said.map_or_else(|| plain(io_error), |line| format!("{} ({})", plain(io_error), short(line)));
    }
    short(&chain(error))
}

/// A whole set of attempts that failed.
pub(super) fn of_attempts(event: &str, refused: &[String], denied: bool) -> Unavailable {
    let why = format!("{event} cannot be traced here: {}", refused.join("; "));
    if denied {
        Unavailable::new(Reason::Denied, why).with_remedy(FORBIDDEN)
    } else {
        Unavailable::new(Reason::Absent, why)
    }
}

/// Whether an error is one of missing rights.
pub(super) fn is_denied(error: &(dyn Error + 'static)) -> bool {
    io_error(error).is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
}

/// The error's number, where it came from the kernel.
pub(super) fn errno(error: &(dyn Error + 'static)) -> Option<i32> {
    io_error(error).and_then(io::Error::raw_os_error)
}

fn classify(error: &(dyn Error + 'static), what: &str) -> Unavailable {
    if is_denied(error) {
        let why = format!("{what} was refused: {}", short(&chain(error)));
        // Before 5.11 maps count against the limit of locked memory.
        return Unavailable::new(Reason::Denied, why)
            .with_remedy(format!("before Linux 5.11 raise the limit of locked memory (ulimit -l); else {FORBIDDEN}"));
    }
    Unavailable::new(Reason::Absent, format!("{what} failed: {}", short(&chain(error))))
}

fn io_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            return Some(found);
        }
        current = error.source();
    }
    None
}

/// The error and its causes, each once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut current = error.source();
    while let Some(error) = current {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        current = error.source();
    }
    text
}

fn plain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::PERM.raw_os_error() => "not permitted by this kernel".to_owned(),
        Some(code) if code == 524 || code == rustix::io::Errno::OPNOTSUPP.raw_os_error() => {
            "not supported by this kernel".to_owned()
        }
        _ => error.to_string(),
    }
}

fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}
