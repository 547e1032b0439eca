//! `rdiag doctor`: what can be measured here, what not, why, and the least that would change it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::run::open_host;
use super::{Exit, Failure, ui::Ui};
use crate::model::{Facts, Reason, Unavailable};
use crate::report::escape::visible;
use crate::session;

/// Say what can be measured on this host, what not, why, and the least remedy.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Look at this tree instead of the machine.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let host = Arc::new(open_host(&args.root)?);
    let survey = session::survey(&host).map_err(Failure::io("asking the sources"))?;
    let mut out = describe(host.facts());
    let works = survey.iter().filter(|source| source.gaps.is_empty()).count();
    let _ = writeln!(out, "\n{works} of {} sources answer in full.\n", survey.len());
    let mut by_gap: BTreeMap<(Reason, &str), (&Unavailable, Vec<&str>)> = BTreeMap::new();
    for source in &survey {
        for (_, gap) in &source.gaps {
            let entry = by_gap.entry((gap.reason, &gap.why)).or_insert((gap, Vec::new()));
            if !entry.1.contains(&source.collector) {
                entry.1.push(source.collector);
            }
        }
    }
    section(&mut out, "Cannot be measured", by_gap.values().filter(|(gap, _)| gap.reason != Reason::NotApplicable));
    section(&mut out, "Does not apply here", by_gap.values().filter(|(gap, _)| gap.reason == Reason::NotApplicable));
    ui.print(&out)?;
    Ok(if works == 0 { Exit::Nothing } else { Exit::Done })
}

fn section<'g>(out: &mut String, title: &str, gaps: impl Iterator<Item = &'g (&'g Unavailable, Vec<&'g str>)>) {
    let mut gaps = gaps.peekable();
    if gaps.peek().is_none() {
        return;
    }
    let _ = writeln!(out, "{title}");
    for (gap, collectors) in gaps {
        let _ = writeln!(out, "  {} ({}): {}", collectors.join(", "), gap.reason.word(), visible(&gap.why));
        if let Some(remedy) = &gap.remedy {
            let _ = writeln!(out, "      → {}", visible(remedy));
        }
    }
    out.push('\n');
}

fn describe(facts: &Facts) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Host:       {}, {}, Linux {} ({})",
        visible(&facts.hostname),
        visible(&facts.os),
        visible(&facts.kernel),
        facts.arch
    );
    let place = if facts.virtual_machine { "a virtual machine" } else { "no sign of a virtual machine" };
    let container =
        facts.container.as_deref().map_or("no sign of a container".to_owned(), |how| format!("a container ({how})"));
    let _ = writeln!(out, "Runs in:    {place}; {container}; cgroup {}", facts.cgroup);
    let _ = writeln!(out, "CPUs:       {} online of {}", facts.cpus, facts.cpus_present);
    let user = if facts.uid == 0 { "root".to_owned() } else { format!("user id {}", facts.uid) };
    let rights = if facts.capabilities == 0 {
        "no capabilities".to_owned()
    } else {
        format!("capabilities {:#x}", facts.capabilities)
    };
    let _ = writeln!(out, "Running as: {user}, {rights}");
    out
}
