//! A command, ended by every signal at many moments, and what is to be there after it.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::left::{broken, of_rdiag};
use crate::support::{rdiag, wait_until};

pub(super) const SIGNALS: [&str; 5] = ["INT", "TERM", "HUP", "KILL", "PIPE"];
/// A command that goes on after a signal that it does not heed, or has much to write, ends within so many seconds.
const PATIENCE: u64 = 60;

/// Numbers that look random, the same for the same seed.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new() -> Self {
        let seed = std::env::var("RDIAG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(18);
        println!("seed {seed}");
        Self(seed)
    }

    /// From 0 to 1.
    pub(super) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb_u64)] {
            mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
        }
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A command that measures heeds every signal but KILL after so many seconds, even on a busy host.
const HEEDS: f64 = 0.5;

/// What is to be there when a command ends by itself, signal or not.
pub(super) enum Due {
    /// These files, in the folder that stands for `OUT` in the arguments. What was measured is not lost: no signal but KILL ends it.
    Measured(&'static [&'static str]),
    /// These files, made of others that are still there.
    Files(&'static [&'static str]),
    /// Nothing but what it prints.
    Nothing,
}

pub(super) const REPORT: Due =
    Due::Measured(&["report/report.html", "report/report.md", "report/report.json", "report/recording.json.gz"]);

/// A command and its state folder; `OUT` in its arguments is a new folder each time.
pub(super) struct Case<'c> {
    pub(super) args: &'c [&'c str],
    pub(super) due: Due,
    /// Done before it, and after it.
    pub(super) around: [&'c [&'c str]; 2],
}

impl<'c> Case<'c> {
    pub(super) fn new(args: &'c [&'c str], due: Due) -> Self {
        Self { args, due, around: [&[], &[]] }
    }

    pub(super) fn command(&self, args: &[&str], out: &Path) -> Command {
        let mut command = Command::new(rdiag().get_program());
        command.args(args.iter().map(|word| word.replace("OUT", &out.display().to_string())));
        command.env("XDG_STATE_HOME", out.join("state")).env("XDG_CONFIG_HOME", "/nonexistent");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    /// Runs it, ended by a signal after so many seconds if there is one. How it ended, after how many seconds, and what is wrong.
    fn run(&self, signal: Option<(&str, f64)>) -> (ExitStatus, f64, Vec<String>) {
        let out = tempfile::tempdir_in("/var/tmp").unwrap();
        let before = of_rdiag(0);
        let prepare = |args: &[&str]| args.is_empty() || self.command(args, out.path()).status().unwrap().success();
        assert!(prepare(self.around[0]), "{:?} failed", self.around[0]);
        let began = Instant::now();
        let mut child = self.command(self.args, out.path()).spawn().unwrap();
        if let Some((name, seconds)) = signal {
            std::thread::sleep(Duration::from_secs_f64(seconds));
            send(name, &child);
        }
        let Some(status) = ended(&mut child) else { fail(&mut child, signal) };
        let took = began.elapsed().as_secs_f64();
        assert!(prepare(self.around[1]), "{:?} failed", self.around[1]);
        let mut wrong = Vec::new();
        let left = || of_rdiag(child.id());
        if !wait_until(20, || left().is_subset(&before)) {
            wrong.extend(left().difference(&before).map(|left| format!("left: {left}")));
        }
        wrong.extend(broken(&out.path().join("report")).into_iter().map(|file| format!("not whole: {file}")));
        if let (Due::Measured(files) | Due::Files(files), Some(_)) = (&self.due, status.code()) {
            let missing = files.iter().filter(|file| !out.path().join(file).exists());
            wrong.extend(missing.map(|file| format!("not there: {file}")));
        }
        if let (Due::Measured(_), None, Some((name, at))) = (&self.due, status.code(), signal)
            && name != "KILL"
            && at > HEEDS
        {
            wrong.push(format!("it died of SIG{name}, and what it had measured with it"));
        }
        (status, took, wrong)
    }

    /// At so many moments of it, one signal after the other.
    pub(super) fn sweep(&self, moments: usize, most: f64) {
        let mut chance = Chance::new();
        let (status, took, mut wrong) = self.run(None);
        assert!(status.code().is_some() && wrong.is_empty(), "undisturbed: {status}, {wrong:#?}");
        let span = (took * 1.05).min(most);
        for moment in 0..moments {
            let (signal, at) = (SIGNALS[moment % SIGNALS.len()], chance.next() * span);
            let (status, took, found) = self.run(Some((signal, at)));
            println!("SIG{signal} after {at:.3} s of {span:.3} s: {status} after {took:.3} s");
            wrong.extend(found.into_iter().map(|what| format!("SIG{signal} after {at:.3} s, {status}: {what}")));
        }
        assert!(wrong.is_empty(), "{:?}: {wrong:#?}", self.args);
    }
}

/// A Ctrl-C reaches the whole group, any other signal the process.
pub(super) fn send(name: &str, child: &Child) {
    let whom = format!("{}{}", if name == "INT" { "-" } else { "" }, child.id());
    // It may have ended before.
    let _ = Command::new("kill").args(["-s", name, "--", &whom]).stderr(Stdio::null()).status().unwrap();
}

pub(super) fn ended(child: &mut Child) -> Option<ExitStatus> {
    let mut status = None;
    wait_until(PATIENCE, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status
}

fn fail(child: &mut Child, signal: Option<(&str, f64)>) -> ! {
    child.kill().unwrap();
    panic!("it did not end within {PATIENCE} s: {signal:?}");
}
