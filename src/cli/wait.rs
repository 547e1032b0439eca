//! `rdiag wait`: measure when it happens, without a recorder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser as _;

use super::Cli;
use super::root::open_host;
use super::signals::stop_on_signal;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::again;
use rdiag_model::Unavailable;
use rdiag_playbook as playbook;
use rdiag_report::shown;
use rdiag_session::{Condition, ConditionError, Waited};

/// Wait until a condition over metrics holds, then run rdiag once: `rdiag wait --when 'psi.io.full.ratio > 0.1' -- run use-method`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The metrics that the condition names (`rdiag list metrics`) are read each second; one without a statistic means its mean \
        over that \
second. rdiag runs nothing but itself. The exit code is that of the command, or 6 if --timeout was over first."
)]
pub(super) struct Args {
    /// The condition, in the language of playbooks: 'psi.io.full.ratio > 0.1', 'highest(disk.await.seconds)|default(0) > 0.05'.
    #[arg(long, value_name = "EXPR")]
    when: String,
    /// How long it must hold, without a second in which it does not.
    #[arg(long = "for", value_name = "TIME", default_value = "3s")]
    held: String,
    /// Give up after this time [default: never].
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// What rdiag does then: a command of its own with its options.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Look at this tree instead of the machine.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let held = playbook::duration("--for", &args.held)?;
    let timeout = args.timeout.as_deref().map(|text| playbook::duration("--timeout", text)).transpose()?;
    // What is wrong with the command would be noticed when it happens.
    let words = std::iter::once(OsString::from("rdiag")).chain(args.command.iter().cloned());
    if let Err(error) = Cli::try_parse_from(words) {
        let text = error.to_string();
        let first: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let first = first.join(" ").trim_start_matches("error: ").to_owned();
        let hint = "behind -- stands a command of rdiag, as in `rdiag wait --when … -- run use-method --out report`";
        return Err(Failure::usage(format!("the command behind --: {first}"), Some(hint)));
    }
    let condition = Condition::parse(&args.when).map_err(failure)?;
    let stop = stop_on_signal()?;
    let host = Arc::new(open_host(Path::new(&args.root))?);
    ui.note(shown!("waiting until {} holds for {}", Text::seen(&args.when), Text::seen(&args.held)));
    match condition.wait(&host, held, timeout, &stop).map_err(failure)? {
        Waited::Stopped => Ok(Exit::Interrupted),
        Waited::TimedOut => {
            ui.note(shown!(
                "within {} it did not hold for {}",
                Text::seen(args.timeout.as_deref().unwrap_or("the time")),
                Text::seen(&args.held)
            ));
            Ok(Exit::TimedOut)
        }
        Waited::Held => {
            ui.note(shown!("it held for {}", Text::seen(&args.held)));
            Err(Failure::io("running rdiag")(again::become_another(&args.command)))
        }
    }
}

fn failure(error: ConditionError) -> Failure {
    match error {
        ConditionError::Wrong(why) => Failure::usage(why, None),
        ConditionError::Unavailable(what, why) => {
            Failure::Unavailable { what, gap: Unavailable::new(rdiag_model::Reason::Absent, why) }
        }
        ConditionError::Io(source) => Failure::Io { attempt: "reading what the condition names".into(), source },
    }
}
