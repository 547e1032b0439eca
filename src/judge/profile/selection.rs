//! How the next commands name the observed task, in words that a shell takes as they are. What has ended is started again, not named by a
//! PID that no longer exists.

use rdiag_model::ledger::{Target, Thread};

use super::account::Account;

/// Longest command that is written out, in characters.
const MAX_COMMAND: usize = 200;

/// How the next commands name the task.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// The options that select it: `--pid 4711`; or the command that starts it again: `-- sort big`.
    target: String,
    /// ` -- sort big` for a command that has ended, so that there is something to be seen of it; else nothing.
    again: String,
}

impl Selection {
    /// Of the observed task. What has ended is not named by its PID, which is free or reused.
    pub(super) fn of(account: &Account<'_>, target: &Target, partial: bool) -> Self {
        // A row for threads that were not seen says nothing about an end.
        let seen = || account.threads.iter().map(|own| own.thread).filter(|thread| thread.tid != 0);
        let has_ended = |pid: &u32| {
            let mut own = seen().filter(|thread| thread.pid == *pid).peekable();
            target.marks.is_none() && own.peek().is_some() && own.all(|thread| thread.died)
        };
        let alive: Vec<String> = target.pids.iter().filter(|pid| !has_ended(pid)).map(u32::to_string).collect();
        // An account that ended early says nothing of what became of the command.
        // The process that starts the runs is not one of them, and requests tell nothing of the end of what they were sent to.
        if target.command.is_some() && (alive.is_empty() || partial || target.each) {
            let again = format!("-- {}", written(&target.words));
            return Self { again: format!(" {again}"), target: again };
        }
        let first = |thread: &&Thread| thread.tid == thread.pid && target.pids.contains(&thread.pid);
        let name = seen().find(first).map(|thread| &thread.comm).filter(|comm| !comm.is_empty());
        let target = match (&target.comm, &target.cgroup, name) {
            _ if !alive.is_empty() => format!("--pid {}", alive.join(",")),
            (Some(comm), ..) => format!("--comm {}", quoted(comm)),
            (None, Some(cgroup), _) => format!("--cgroup {}", quoted(cgroup)),
            // The next process that does the same has the same name.
            (None, None, Some(comm)) => format!("--comm {}", quoted(comm)),
            (None, None, None) => String::new(),
        };
        Self { target, again: String::new() }
    }

    /// An advice with the task in its places.
    pub(super) fn named(&self, advice: &str) -> String {
        // What was put in is not looked at again: a program may be named like a place.
        let parts: Vec<String> = advice.split("{target}").map(|part| part.replace("{again}", &self.again)).collect();
        parts.join(&self.target).trim().to_owned()
    }
}

/// A command as a shell takes it; a placeholder if it is too long, not known word by word, or has what no line can show.
fn written(words: &[String]) -> String {
    let line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let plain = !line.is_empty() && line.chars().count() <= MAX_COMMAND && !line.chars().any(char::is_control);
    if plain { line } else { "COMMAND".to_owned() }
}

/// A word as a shell takes it, whatever is in it.
fn quoted(word: &str) -> String {
    // Some shells look up what follows a `=` at the beginning.
    let plain = !word.is_empty()
        && !word.starts_with('=')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@=+,%".contains(c));
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
