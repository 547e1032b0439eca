//! The process that undoes what a killed rdiag has left, from within and how it is started.
#![expect(unsafe_code, reason = "signal(2) has no safe wrapper")]

use std::io::{self, BufRead};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

use rustix::time::Timespec;

use super::super::{global, probe_events};
use super::{HELPER_ARGUMENT, Notice, Owed};
use crate::host::rights::{Phase, narrow};
use crate::host::{Control, Host};

/// What is still being read cannot be removed: it is tried so often, a pause after each time, five seconds in all.
const TRIES: u32 = 250;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Signals that are meant for rdiag, and reach all processes of its session or control group.
const IGNORED: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Starts it.
pub(super) fn start() -> io::Result<(Child, ChildStdin)> {
    #[expect(clippy::disallowed_methods, reason = "rdiag starts itself")]
    let mut command = Command::new("/proc/self/exe");
    command.arg0("rdiag").arg(HELPER_ARGUMENT).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((child, pipe))
}

/// The process: its standard input tells what there is to undo, and ends with rdiag.
#[must_use]
pub fn main() -> ExitCode {
    for signal in IGNORED {
        // SAFETY: to ignore a signal runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let _ = rustix::thread::set_name(c"rdiag:undo");
    narrow(Phase::Undoing);
    let Some(control) = Host::live(Path::new("/")).control() else { return ExitCode::FAILURE };
    let mut left = listen(io::stdin().lock());
    for _ in 0..TRIES {
        left.retain(|what| !undo(&control, what));
        if left.is_empty() {
            return ExitCode::SUCCESS;
        }
        let _ = rustix::thread::nanosleep(&PAUSE);
    }
    ExitCode::FAILURE
}

/// What there is to undo when rdiag is gone: events last, which instances use.
fn listen(input: impl BufRead) -> Vec<Owed> {
    let mut owed = Vec::new();
    for line in input.lines() {
        // rdiag may have been killed within a line, whose thing it has not made yet.
        match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
            Some(Notice::Made(what)) => owed.push(what),
            Some(Notice::Gone(what)) => owed.retain(|other| *other != what),
            None => break,
        }
    }
    owed.sort_by_key(|what| matches!(what, Owed::Events { .. }));
    owed
}

/// Whether it is undone, or was never made.
fn undo(control: &Control, what: &Owed) -> bool {
    match what {
        Owed::Instance { directory } => {
            let _ = control.write(&format!("{directory}/tracing_on"), "0");
            is_gone(control.remove_directory(directory))
        }
        Owed::Global { place, record } => {
            // Two that give it back at once would take it from a third one.
            let _alone = control.lock(&format!("{place}/instances"));
            global::repair(control, place, record);
            is_gone(control.read(&format!("{record}/trace")).map(drop))
        }
        Owed::Events { place, group } => probe_events::remove_group(control, place, group),
    }
}

fn is_gone(outcome: io::Result<()>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own tree")]
mod tests {
    use super::*;

    fn instance(name: &str) -> Owed {
        Owed::Instance { directory: format!("t/instances/{name}") }
    }

    fn line(told: &Notice) -> String {
        serde_json::to_string(told).unwrap() + "\n"
    }

    #[test]
    fn what_was_made_and_not_undone_is_known_up_to_where_rdiag_was_killed() {
        let events = || Owed::Events { place: "t".into(), group: "rdiag_1_2_0".into() };
        let made = |what| line(&Notice::Made(what));
        let told =
            [made(events()), made(instance("a")), made(instance("b")), line(&Notice::Gone(instance("a")))].concat();
        assert_eq!(listen(told.as_bytes()), [instance("b"), events()]);
        let cut = told + made(instance("c")).split_at(20).0;
        assert_eq!(listen(cut.as_bytes()), [instance("b"), events()]);
    }

    #[test]
    fn what_was_told_of_goes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join("t/instances").join(name);
        for name in ["mine", "others", "busy"] {
            std::fs::create_dir_all(place(name)).unwrap();
        }
        std::fs::write(place("busy").join("reader"), "").unwrap();
        let control = Host::live(folder.path()).control().unwrap();
        assert!(undo(&control, &instance("mine")) && undo(&control, &instance("never-made")));
        assert!(!undo(&control, &instance("busy")), "it is tried again");
        assert_eq!(["mine", "others", "busy"].map(|name| place(name).exists()), [false, true, true]);
        let file = folder.path().join("t/kprobe_events");
        std::fs::write(&file, "p:rdiag_1_2_0/rdiag_1_2_0_0 vfs_read\np:kprobes/mine vfs_read\n").unwrap();
        let group = |group: &str| Owed::Events { place: "t".into(), group: group.into() };
        assert!(undo(&control, &group("rdiag_9_9_9")), "none is left of it");
        assert!(!undo(&control, &group("rdiag_1_2_0")), "an ordinary file keeps its lines");
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("-:rdiag_1_2_0/rdiag_1_2_0_0"));
    }
}
