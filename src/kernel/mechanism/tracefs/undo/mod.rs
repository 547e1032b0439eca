//! What would stay when rdiag is killed, since no descriptor holds it, is registered with a small process before it is made, which waits
//! until rdiag is gone, and undoes it. It is started with the first such thing and ends with the last one.
//!
//! It knows of rdiag's end by a pipe that the kernel closes with rdiag, so no process id is looked at that could be another's by then; and
//! what it undoes has names that no process of rdiag gives again. Where it cannot be started, or is killed as well, the next start sweeps.

mod process;

use std::io::{self, Write as _};
use std::process::{Child, ChildStdin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use process::main;

/// The hidden first argument that makes this program the one that undoes.
pub const HELPER_ARGUMENT: &str = "undo-helper";

/// How often, and after which pauses, it is looked whether the process has ended that has nothing left to do.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// Something that stays when its maker is gone. Paths are without a leading slash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Owed {
    /// An instance.
    Instance { directory: String },
    /// The global tracing, with the instance that tells what it was.
    Global { place: String, record: String },
    /// The events of a group.
    Events { place: String, group: String },
}

/// What is registered with the process, a line each.
#[derive(Debug, Serialize, Deserialize)]
enum Notice {
    Made(Owed),
    Gone(Owed),
}

/// All that this process owes, and who knows of it.
static DEBTS: Mutex<Debts> = Mutex::new(Debts { owed: Vec::new(), process: None });

#[derive(Debug)]
struct Debts {
    owed: Vec<Owed>,
    process: Option<(Child, ChildStdin)>,
}

/// Something that is to be undone, by the process that made it or after its end.
#[derive(Debug)]
pub(super) struct Debt(Owed);

/// Registers something that is about to be made.
pub(super) fn owe(what: Owed) -> Debt {
    lock().add(what.clone());
    Debt(what)
}

impl Debt {
    /// It has been undone. What is not settled is undone when rdiag has ended.
    pub(super) fn settle(&self) {
        lock().remove(&self.0);
    }
}

fn lock() -> MutexGuard<'static, Debts> {
    DEBTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Debts {
    fn add(&mut self, what: Owed) {
        self.owed.push(what.clone());
        if self.process.is_some() && self.tell(&Notice::Made(what)).is_ok() {
            return;
        }
        // One that was killed is replaced, and told all.
        self.process = process::start().ok();
        for what in self.owed.clone() {
            let _ = self.tell(&Notice::Made(what));
        }
    }

    fn remove(&mut self, what: &Owed) {
        self.owed.retain(|other| other != what);
        if !self.owed.is_empty() {
            let _ = self.tell(&Notice::Gone(what.clone()));
        } else if let Some((mut child, mut pipe)) = self.process.take() {
            let _ = put(&mut pipe, &Notice::Gone(what.clone()));
            drop(pipe);
            // It ends at once; on a host that is short of everything it is not waited for.
            for _ in 0..LOOKS {
                if !matches!(child.try_wait(), Ok(None)) {
                    break;
                }
                let _ = rustix::thread::nanosleep(&rustix::time::Timespec {
                    tv_sec: 0,
                    tv_nsec: i64::from(PAUSE.subsec_nanos()),
                });
            }
        }
    }

    fn tell(&mut self, what: &Notice) -> io::Result<()> {
        let Some((_, pipe)) = &mut self.process else { return Err(io::ErrorKind::NotConnected.into()) };
        put(pipe, what)
    }
}

/// A line is shorter than a pipe takes in one piece.
fn put(pipe: &mut ChildStdin, what: &Notice) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    pipe.write_all(&line)
}
