//! Programs whose time is known: each measures its own waits and CPU time, and tells them at its end. What rdiag says of
//! such a program is compared with what the program says of itself.
//!
//! A program is this test binary, started anew with [`ARGUMENT`] ([`entry`] turns it aside before the test harness
//! begins), so that it is there wherever the tests are: in guests of the kernel matrix too.

mod entry;
mod memory;
mod meter;
mod programs;
mod together;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

/// The first argument that makes the test binary a program with a known ledger.
pub const ARGUMENT: &str = "--ledger-program";

/// A parameter of every program: its threads stay on one CPU. When a CPU is woken for a thread by another one, the kernel's
/// account of the thread's CPU time begins before it has the CPU: some 10 µs per wake-up were seen in a virtual machine.
/// A program can't know better, so where its CPU time must be true its threads must not wake each other across CPUs.
pub const ON_ONE_CPU: &str = "on-one-cpu";

/// A running program; it is killed when this is dropped.
pub struct Ledger {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// What a program says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// Its process id.
    pub pid: u32,
    /// CLOCK_MONOTONIC in seconds when it began and ended.
    pub began: f64,
    pub ended: f64,
    /// All threads that it had.
    pub threads: Vec<Account>,
}

/// What a thread says of itself. The parts sum up to its life: CPU time by the thread's clock, waiting for a CPU by
/// schedstat, and the rest divided among the waits by how long they took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub tid: u32,
    pub name: String,
    /// CLOCK_MONOTONIC in seconds.
    pub began: f64,
    pub ended: f64,
    /// Seconds on a CPU.
    pub cpu: f64,
    /// Seconds in which it could run and had no CPU, a quota of its control group included.
    pub runnable: f64,
    /// Seconds at most for which a hypervisor had taken its CPU away. That is in neither of the two above where the kernel
    /// counts so, and the rest of the time has it then.
    pub stolen: f64,
    /// By component.
    pub waits: std::collections::BTreeMap<String, Waited>,
}

/// Waits of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    pub seconds: f64,
    pub count: u64,
}

impl Truth {
    /// The share of a component (`cpu`, `runnable`, or an id such as `wait.sleep`) in the time of these threads.
    fn share_of<'a>(threads: impl Iterator<Item = &'a Account>, component: &str) -> f64 {
        let (mut part, mut all) = (0.0, 0.0);
        for thread in threads {
            all += thread.ended - thread.began;
            part += match component {
                "cpu" => thread.cpu,
                "runnable" => thread.runnable,
                "stolen" => thread.stolen,
                other => thread.waits.get(other).map_or(0.0, |waited| waited.seconds),
            };
        }
        part / all
    }

    /// Share of a component in the time of all threads.
    pub fn share(&self, component: &str) -> f64 {
        Self::share_of(self.threads.iter(), component)
    }

    /// Share of a component in the time of the threads whose name begins so.
    pub fn share_in(&self, name: &str, component: &str) -> f64 {
        Self::share_of(self.threads.iter().filter(|thread| thread.name.starts_with(name)), component)
    }

    /// The share by which it may be wrong about its waits and CPU time: what a hypervisor had is in one of them.
    pub fn unsure(&self) -> f64 {
        self.share("stolen")
    }

    /// How often a component was waited for.
    pub fn count(&self, component: &str) -> u64 {
        self.threads.iter().filter_map(|thread| thread.waits.get(component)).map(|waited| waited.count).sum()
    }

    /// The components that the program has, `cpu` and `runnable` first.
    pub fn components(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.threads.iter().flat_map(|thread| thread.waits.keys().cloned()).collect();
        ids.sort_unstable();
        ids.dedup();
        ["cpu", "runnable"].into_iter().map(str::to_owned).chain(ids).collect()
    }
}

impl Ledger {
    /// Starts a program (see `programs::PROGRAMS`) and returns when it is under way. It goes on until it is asked for its
    /// truth, at most for a minute.
    pub fn start(name: &str, params: &[(&str, &str)]) -> Self {
        Self::spawn(&mut Self::command(name, params))
    }

    /// The command line of a program that ends by itself after so many seconds, for `rdiag … -- COMMAND`.
    pub fn command_line(name: &str, seconds: f64, params: &[(&str, &str)]) -> Vec<String> {
        let mut words = vec![Self::binary(), ARGUMENT.to_owned(), name.to_owned(), format!("seconds={seconds}")];
        words.extend(params.iter().map(|(key, value)| format!("{key}={value}")));
        words
    }

    /// The same as [`Self::start`], within a control group: `procs` is its file `cgroup.procs`.
    pub fn start_in(procs: &std::path::Path, name: &str, params: &[(&str, &str)]) -> Self {
        let script = format!("echo $$ > {} && exec \"$@\"", procs.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", &Self::binary(), ARGUMENT, name]);
        command.args(params.iter().map(|(key, value)| format!("{key}={value}")));
        Self::spawn(&mut command)
    }

    /// The same, as another user.
    pub fn start_as(uid: u32, name: &str, params: &[(&str, &str)]) -> Self {
        use std::os::unix::process::CommandExt as _;
        Self::spawn(Self::command(name, params).uid(uid).gid(uid))
    }

    fn binary() -> String {
        std::env::current_exe().unwrap().display().to_string()
    }

    fn command(name: &str, params: &[(&str, &str)]) -> Command {
        let mut command = Command::new(Self::binary());
        command.arg(ARGUMENT).arg(name).args(params.iter().map(|(key, value)| format!("{key}={value}")));
        command
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the program {command:?} did not begin");
        Self { child, output }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the program to end, and for what it says of itself.
    pub fn truth(mut self) -> Truth {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        Self::read(&mut self.output)
    }

    /// What a program that ran by itself has printed.
    pub fn read(output: &mut impl std::io::BufRead) -> Truth {
        output
            .lines()
            .map_while(Result::ok)
            .find_map(|line| serde_json::from_str(&line).ok())
            .expect("the program tells its truth")
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_a_program_says_of_itself_sums_up_to_its_life() {
    for name in ["sleep", "pipe-ping-pong", "futex-convoy"] {
        let program = Ledger::start(name, &[]);
        std::thread::sleep(std::time::Duration::from_millis(400));
        let truth = program.truth();
        assert!(!truth.threads.is_empty() && truth.ended > truth.began, "{truth:?}");
        let sum: f64 = truth.components().iter().map(|component| truth.share(component)).sum();
        assert!((sum - 1.0).abs() < 0.001, "{name}: {sum} {truth:?}");
    }
}
