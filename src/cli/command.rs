//! A command after `--`: started for a measurement, and what became of it.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::launch::{Ended, How, Launched, User, Watch};
use rdiag_kernel::host::secrets;
use rdiag_model::quantity;
use rdiag_report::escape::visible_within;
use rdiag_report::shown;

/// How long a command that got the same Ctrl-C may take to end, in seconds, before rdiag goes without it.
const GRACE_SECONDS: f64 = 1.0;
/// Longest command line that is shown.
const SHOWN: usize = 200;

/// A command that stands still until everything is attached.
pub(super) struct Command {
    launched: Launched,
    words: String,
    /// The same one by one; empty if they are no text.
    separate: Vec<String>,
    times: u32,
    stop: Arc<AtomicBool>,
    terminated: Arc<AtomicBool>,
}

impl Command {
    /// Starts it as a user, to run so many `times`. `stop` is what a Ctrl-C sets; the end of the last run sets it too.
    pub(super) fn start(
        words: &[OsString],
        times: u32,
        user: Option<&str>,
        stop: &Arc<AtomicBool>,
        ui: &Ui,
    ) -> Result<Self, Failure> {
        let user = user_for(user, ui)?;
        let terminated = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&terminated))
            .map_err(Failure::io("installing the signal handler"))?;
        let launched = Launched::start(words, times, user.as_ref(), Arc::clone(stop))?;
        let is_text = words.iter().all(|word| word.to_str().is_some());
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let separate = secrets::masked(words.iter().map(AsRef::as_ref));
        let (words, stop) = (separate.join(" "), Arc::clone(stop));
        Ok(Self { launched, words, separate: if is_text { separate } else { Vec::new() }, times, stop, terminated })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.launched.pid()
    }

    /// What the user wrote, without the secrets in it.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// The same, word by word; empty if a word is no text.
    pub(super) fn separate(&self) -> &[String] {
        &self.separate
    }

    /// What those need who measure it.
    pub(super) fn watch(&self) -> Watch {
        self.launched.watch()
    }

    /// Lets it begin.
    pub(super) fn let_go(&mut self) {
        self.launched.let_go();
    }

    /// Whether it turned out that it cannot be executed.
    pub(super) fn never_began(&self) -> bool {
        matches!(self.launched.ended(), Some(Ended { how: How::NotStarted(_), .. }))
    }

    /// The exit code that it passes on: none if it did not fail, or if rdiag was told to end and has ended it.
    pub(super) fn passes_on(&self, ended: &Ended) -> Option<Exit> {
        Exit::of_command(ended).filter(|_| !self.terminated.load(Ordering::Relaxed))
    }

    /// Tells how it ended, or that it goes on; an error if it never began. A Ctrl-C at the terminal has reached the command
    /// without rdiag; a SIGTERM has not, and is passed on.
    pub(super) fn settle(&self, ui: &Ui) -> Result<Option<Ended>, Failure> {
        if self.terminated.load(Ordering::Relaxed) {
            self.launched.terminate();
        }
        let patience = if self.stop.load(Ordering::Relaxed) { GRACE_SECONDS } else { 0.0 };
        let ended = self.launched.wait(patience);
        let words = visible_within(&self.words, SHOWN);
        let quoted = Text::seen(format!("{words:?}"));
        let what = if self.times > 1 { shown!("{}, {} times,", &quoted, self.times) } else { quoted.clone() };
        match &ended {
            Some(Ended { how: how @ How::NotStarted(_), .. }) => {
                return Err(Failure::Usage { message: format!("{words:?} {how}"), hint: None });
            }
            Some(ended) => {
                let [elapsed, user, system] =
                    [ended.elapsed, ended.user, ended.system].map(|time| Text::seen(quantity::seconds(time)));
                let how = Text::seen(ended.how.to_string());
                ui.note(shown!("{} {} after {}; CPU time {} user, {} system", what, how, elapsed, user, system));
                if self.times > 1 && matches!(ended.how, How::Exited(1..)) {
                    ui.warn("not every run ended with code 0; those that did not are in the figures as well");
                }
            }
            None if self.times > 1 => {
                // The runs to come would not be measured.
                self.launched.stop_repeating();
                ui.note(shown!("{} is not over; the run that is under way goes on", what));
            }
            None => ui.note(shown!("{} goes on as process {}", quoted, self.pid())),
        }
        Ok(ended)
    }
}

/// The user to run a command as, if not rdiag's own: the one asked for; else, where sudo made rdiag root, the user who ran sudo.
fn user_for(asked: Option<&str>, ui: &Ui) -> Result<Option<User>, Failure> {
    const STAYS: &str = "--user root runs it as root";
    let own = rustix::process::geteuid().as_raw();
    if let Some(name) = asked {
        let unknown = || Failure::usage(format!("there is no user {name:?}"), Some("`getent passwd` lists them"));
        let user = User::named(name).ok_or_else(unknown)?;
        if user.id() != own && own != 0 {
            let hint = "leave --user out, or run rdiag as root";
            return Err(Failure::usage("only root can start a command as another user".into(), Some(hint)));
        }
        return Ok(Some(user).filter(|user| user.id() != own));
    }
    let started_sudo = std::env::var("SUDO_UID").ok().and_then(|id| id.parse::<u32>().ok());
    let Some(id) = started_sudo.filter(|id| own == 0 && *id != 0) else { return Ok(None) };
    let unknown = || Failure::usage(format!("user {id} started sudo, and has no account here"), Some(STAYS));
    let user = User::with_id(id).ok_or_else(unknown)?;
    ui.note(shown!("the command runs as {}, who started sudo; {}", Text::seen(user.name()), STAYS));
    Ok(Some(user))
}
