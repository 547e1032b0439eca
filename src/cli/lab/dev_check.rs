//! `rdiag lab dev-check`: the gate for authors.

use std::sync::Arc;

use super::super::ui::{Text, Ui};
use super::live;
use crate::cli::exit::{Exit, Failure};
use rdiag_lab::dev_check::{Checked, batches, check, check_again};
use rdiag_lab::place::Place;
use rdiag_lab::{LabError, library};
use rdiag_model::Unit;
use rdiag_model::quantity::with_unit;
use rdiag_report::shown;

/// What to check.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 every variant that can run here is ok; 1 something is wrong; 2 wrong usage; 3 nothing is wrong, but a \
                  variant could not be judged, because others used the CPUs or a hypervisor took them away."
)]
pub(super) struct Args {
    /// Exercises; all if none is named.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

/// How many variants did not come out well.
#[derive(Debug, Default)]
struct Tally {
    wrong: usize,
    unjudged: usize,
}

impl Tally {
    /// Counts what became of a variant, and says it.
    fn line(&mut self, checked: Result<Checked, LabError>, took: &str) -> String {
        let (word, why) = match checked {
            Ok(Checked::Well) => return format!("ok ({took})"),
            Ok(Checked::NotHere(why)) => return format!("not here: {why}"),
            Ok(Checked::CannotJudge(disturbance, wrong)) => {
                self.unjudged += 1;
                (format!("cannot judge: {disturbance}"), wrong)
            }
            Ok(Checked::Wrong(wrong)) => {
                self.wrong += 1;
                ("WRONG".to_owned(), wrong)
            }
            Err(error) => {
                self.wrong += 1;
                return format!("FAILED: {error}");
            }
        };
        format!("{word}\n    {}", why.join("\n    "))
    }

    fn exit(&self) -> Exit {
        match self {
            Self { wrong: 0, unjudged: 0 } => Exit::Done,
            Self { wrong: 0, .. } => Exit::Nothing,
            _ => Exit::Findings,
        }
    }
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let host = Arc::new(live());
    let place = Place::of_user()?;
    let _lock = place.lock()?;
    if place.run()?.is_some() {
        return Err(LabError::usage("an exercise was started and not stopped", "`rdiag lab stop` ends it").into());
    }
    let scenarios = match args.ids.as_slice() {
        [] => library::all()?,
        ids => ids.iter().map(|id| library::find(id)).collect::<Result<_, _>>()?,
    };
    let mut tally = Tally::default();
    let begun = host.now();
    for batch in batches(&scenarios) {
        for (scenario, variant) in &batch {
            ui.note(shown!("checking {} {} …", Text::seen(&scenario.id), Text::seen(&variant.name)));
        }
        let from = host.now();
        let checked = std::thread::scope(|scope| {
            let check = |(scenario, variant)| {
                let (host, place) = (&host, &place);
                scope.spawn(move || check(host, place, scenario, variant))
            };
            let threads: Vec<_> = batch.iter().copied().map(check).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        for ((scenario, variant), checked) in batch.iter().zip(checked) {
            let ended = |_| Err(LabError::failed("checking")(std::io::Error::other("its thread ended")));
            let mut checked = checked.unwrap_or_else(ended);
            if let Ok(Checked::CannotJudge(disturbance, _)) = &checked {
                let told = format!("{} {}: {disturbance}", scenario.id, variant.name);
                ui.note(shown!("{}; once more when that is over …", Text::seen(told)));
                checked = check_again(&host, &place, scenario, variant);
            }
            let took = with_unit(host.now() - from, Unit::Seconds);
            let line = tally.line(checked, &took);
            ui.print(&Text::lines(format!("{} {}: {line}\n", scenario.id, variant.name)))?;
        }
    }
    let took = Text::seen(with_unit(host.now() - begun, Unit::Seconds));
    ui.note(shown!("all of it took {}", took));
    Ok(tally.exit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_lab::disturbance::Disturbance;

    #[test]
    fn what_could_not_be_judged_is_no_success_and_what_is_wrong_weighs_more() {
        let exit = |all: &[Checked]| {
            let mut tally = Tally::default();
            let lines: Vec<String> = all.iter().map(|checked| tally.line(Ok(checked.clone()), "3.0 s")).collect();
            (lines.join("; "), tally.exit())
        };
        let (well, not_here) = (Checked::Well, Checked::NotHere("it needs swap space".into()));
        let unjudged = Checked::CannotJudge(Disturbance::default(), vec!["no rule".into()]);
        let wrong = Checked::Wrong(vec!["no rule".into(), "no answer".into()]);
        assert_eq!(exit(&[well, not_here]), ("ok (3.0 s); not here: it needs swap space".into(), Exit::Done));
        let (told, code) = exit(&[Checked::Well, unjudged.clone()]);
        assert_eq!(
            (told.as_str(), code),
            ("ok (3.0 s); cannot judge: others used 0.0 of 0 CPUs\n    no rule", Exit::Nothing)
        );
        let (told, code) = exit(&[wrong, unjudged]);
        assert!(told.starts_with("WRONG\n    no rule\n    no answer;") && code == Exit::Findings, "{told}");
        assert_eq!((Tally { wrong: 1, unjudged: 0 }).exit(), Exit::Findings);
    }
}
