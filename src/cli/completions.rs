//! `rdiag completions`: for the shell, with the names that are known when it is asked for.

use clap::Command;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap_complete::Shell;

use super::command;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_lab::{lesson, library};
use rdiag_probes as probes;
use rdiag_session as session;

/// Print the completion script for a shell; it knows the names of playbooks, rules, probes and exercises, your own too.
#[derive(Debug, clap::Args)]
#[command(after_help = "For this shell alone: source <(rdiag completions bash). For good, by the shell's own folder: \
~/.local/share/bash-completion/completions/rdiag, ~/.config/fish/completions/rdiag.fish, or _rdiag in a folder of zsh's fpath. \
Write it again when you add a playbook.")]
pub(super) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    let names = Names::known()?;
    clap_complete::generate(args.shell, &mut names.within(command()), "rdiag", &mut script);
    if args.shell == Shell::Fish {
        script.extend(names.for_fish().into_bytes());
    }
    ui.print(&Text::lines(String::from_utf8_lossy(&script)))?;
    Ok(Exit::Done)
}

/// Names that can be typed, each with what it means.
type Known = Vec<(String, String)>;

struct Names {
    playbooks: Known,
    rules: Known,
    probes: Known,
    exercises: Known,
    lessons: Known,
}

impl Names {
    fn known() -> Result<Self, Failure> {
        let library = session::library(&session::default_folders(), &[])?;
        let playbooks = library.playbooks.iter().map(|(name, loaded)| (name.clone(), loaded.playbook.title.clone()));
        let rules = library.rules.iter().map(|(id, loaded)| (id.clone(), loaded.rule.title.clone()));
        let probes = probes::ALL.iter().map(|def| (def.id.to_owned(), def.question.to_owned()));
        let exercises = library::all()?.into_iter().map(|scenario| (scenario.id, scenario.title));
        let lessons = lesson::all()?.into_iter().map(|lesson| (lesson.id, lesson.title));
        Ok(Self {
            playbooks: playbooks.collect(),
            rules: rules.collect(),
            probes: probes.collect(),
            exercises: exercises.collect(),
            lessons: lessons.collect(),
        })
    }

    /// What the script for fish is given besides: the values of arguments without an option are left out of it.
    fn for_fish(&self) -> String {
        let within = |words: &str, known: &[&Known]| {
            let names = known.iter().copied().flatten().map(|(name, _)| name.as_str()).filter(|name| is_name(name));
            let names: Vec<&str> = names.collect();
            let seen: Vec<String> = words.split('+').map(|of| format!("__fish_seen_subcommand_from {of}")).collect();
            format!("complete -c rdiag -n \"{}\" -a \"{}\"\n", seen.join("; and "), names.join(" "))
        };
        [
            within("run record", &[&self.playbooks]),
            within("probe", &[&self.probes]),
            within("explain", &[&self.rules, &self.probes, &self.playbooks]),
            within("lab+start info", &[&self.exercises]),
            within("lab+lesson", &[&self.lessons]),
        ]
        .concat()
    }

    /// The command line with these names as the values of what takes them.
    fn within(&self, command: Command) -> Command {
        let explained: Known = [&self.rules, &self.probes, &self.playbooks].into_iter().flatten().cloned().collect();
        let mut command = command;
        for name in ["run", "record", "analyze", "diff", "fleet"] {
            command = command.mut_subcommand(name, |of| with(of, "playbook", &self.playbooks));
        }
        command
            .mut_subcommand("probe", |of| with(of, "name", &self.probes))
            .mut_subcommand("explain", |of| with(of, "id", &explained))
            .mut_subcommand("lab", |lab| {
                lab.mut_subcommand("start", |of| with(of, "id", &self.exercises))
                    .mut_subcommand("info", |of| with(of, "id", &self.exercises))
                    .mut_subcommand("lesson", |of| with(of, "id", &self.lessons))
            })
    }
}

/// What a shell cannot take for anything but a name.
fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// A command whose argument has these values. Their descriptions come from untrusted playbooks, too: scripts hold none of theirs that
/// a shell could take for its own.
fn with(command: Command, argument: &'static str, known: &Known) -> Command {
    let is_plain = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '.' | ',' | '-' | '_' | '/' | '?');
    let values = known.iter().filter(|(name, _)| is_name(name));
    // The command line is made of what lives as long as the program, which ends after this.
    let values = values.map(|(name, help)| {
        let help: String = help.chars().filter(is_plain).collect();
        PossibleValue::new(&*name.clone().leak()).help(&*help.leak())
    });
    let parser = PossibleValuesParser::new(values.collect::<Vec<_>>());
    // In place, since positional arguments are identified by their order.
    command.mut_args(|known| if known.get_id() == argument { known.value_parser(parser.clone()) } else { known })
}
