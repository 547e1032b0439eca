//! What the command line makes of the map of old tools: texts, and whether each command in it can be typed.

use std::fmt::Write as _;

use clap::Parser as _;

use super::{Cli, Command, probe};
use crate::playbook::tools::{Found, Standing, Tool, Tools, check};
use crate::playbook::{Library, Measure, Problem};
use crate::report::escape::visible;
use crate::session;
use rdiag_collectors as collectors;
use rdiag_probes::{self as probes, ParamKind};

/// Stands in commands for the name that was asked for.
const NAME: &str = "{name}";

/// The map that is part of the program.
pub(super) fn map() -> Tools {
    Tools::builtin(&session::catalogue())
}

/// What stands for a tool here, and what to type.
pub(super) fn text(map: &Tools, found: &Found<'_>, library: &Library) -> String {
    let tool = found.tool;
    let mut out = format!("{} — {}\n\nAnswers\n  {}\n", visible(&found.name), found.group, tool.answers);
    out.push_str("\nHere\n");
    if let Some(why) = &tool.outside {
        let _ = writeln!(out, "  No part of diagnosis. {why}");
    }
    for id in &tool.by {
        let _ = writeln!(out, "  {}", answerer(map, id, library));
    }
    let commands = commands(map, tool, &found.name, library);
    if tool.by.is_empty() && tool.outside.is_none() {
        out.push_str("  Answered by a command of rdiag.\n");
    }
    if !commands.is_empty() {
        let when = if map.standing(tool) == Standing::Planned { "Until then" } else { "Type" };
        let _ = writeln!(out, "\n{when}");
    }
    for command in &commands {
        let _ = writeln!(out, "  {command}");
    }
    for (title, text) in [("By hand", &tool.manual), ("Note", &tool.note)] {
        if let Some(text) = text {
            let _ = writeln!(out, "\n{title}\n  {text}");
        }
    }
    let others: Vec<&str> = tool.names.iter().map(String::as_str).filter(|name| *name != found.name).collect();
    if !others.is_empty() {
        let _ = writeln!(out, "\nThe same holds for\n  {}", others.join(", "));
    }
    out.trim_end().to_owned()
}

/// One probe or collector, what it answers, and where it is asked.
fn answerer(map: &Tools, id: &str, library: &Library) -> String {
    if let Some(def) = probes::find(id) {
        return format!("{id} (probe): {}", def.question);
    }
    if let Some(what) = map.planned(id) {
        return format!("{id} (planned, not part of rdiag yet): {what}.");
    }
    let help = collectors::find(id).map_or("", |def| def.help);
    let steps = library.playbooks.values().flat_map(|loaded| {
        let asking = loaded.playbook.steps.iter().filter(|step| step.collect.iter().any(|measure| measure.id() == id));
        asking.map(|step| format!("{}/{}", loaded.playbook.name, step.id))
    });
    format!("{id} (collector, for {}): {help}", steps.collect::<Vec<_>>().join(", "))
}

/// How a tool stands here, in a few words.
pub(super) fn standing_words(map: &Tools, tool: &Tool) -> String {
    match (map.standing(tool), tool.by.first(), tool.run.first()) {
        (Standing::Outside, ..) => "no part of diagnosis".to_owned(),
        (Standing::Planned, Some(id), _) => format!("planned: {id}"),
        (_, Some(id), _) => format!("by {id}"),
        (_, None, command) => command.cloned().unwrap_or_default(),
    }
}

/// The names of tools that this probe foremost stands for, its own excepted.
pub(super) fn answered_by<'t>(map: &'t Tools, id: &str) -> Vec<&'t str> {
    let tools = map.all().filter(|(_, tool)| tool.by.first().is_some_and(|first| first == id));
    tools.flat_map(|(_, tool)| &tool.names).map(String::as_str).filter(|name| *name != id).collect()
}

/// What to type for a tool that was asked for by this name: a probe that no command asks is asked by its own.
pub(super) fn commands(map: &Tools, tool: &Tool, name: &str, library: &Library) -> Vec<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,".contains(c);
    let first = tool.names.first().map_or("", String::as_str);
    let name = if !name.is_empty() && name.chars().all(plain) { name } else { first };
    let is_probe = |id: &&String| probes::find(id).is_some() && map.planned(id).is_none();
    let unasked = |id: &&String| is_probe(id) && !is_asked(tool, id, library);
    let by_itself = |id: &String| {
        let of_any_point = |def: &probes::ProbeDef| def.params.iter().any(|param| param.kind == ParamKind::Function);
        let point = if probes::find(id).is_some_and(of_any_point) { " --param function=FUNCTION" } else { "" };
        format!("rdiag probe {id}{point} --duration 10s")
    };
    let foremost = tool.by.iter().take(1).filter(unasked).map(by_itself);
    let others = tool.by.iter().skip(1).filter(unasked).map(by_itself);
    foremost.chain(tool.run.iter().map(|command| command.replace(NAME, name))).chain(others).collect()
}

/// Whether a command of the tool takes what this probe or collector measures.
fn is_asked(tool: &Tool, id: &str, library: &Library) -> bool {
    tool.run.iter().any(|command| match command.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["rdiag", "probe", probe, ..] => *probe == id,
        ["rdiag", "run" | "record", name, ..] => library.playbook(name).is_ok_and(|loaded| {
            loaded.playbook.steps.iter().flat_map(|step| &step.collect).map(Measure::id).any(|measure| measure == id)
        }),
        _ => false,
    })
}

/// Everything that is wrong with the map.
pub(super) fn problems(map: &Tools, library: &Library) -> Vec<Problem> {
    let mut problems = check::map(map, &session::catalogue());
    for group in &map.groups {
        for tool in &group.tools {
            let first = tool.names.first().map_or("", String::as_str);
            for command in &tool.run {
                if let Some(message) = wrong_command(tool, command, library) {
                    problems.push(check::problem(group.file, first, format!("{first}: {message}")));
                }
            }
            for id in tool.by.iter().filter(|id| collectors::find(id).is_some() && !is_asked(tool, id, library)) {
                let message = format!("{first} is said to be answered by {id}, which no playbook in `run` collects");
                problems.push(check::problem(group.file, first, message));
            }
        }
    }
    problems
}

/// What is wrong with a command for any of the names that may stand in it.
fn wrong_command(tool: &Tool, command: &str, library: &Library) -> Option<String> {
    let names = tool.names.iter().filter(|name| !name.contains('*'));
    let count = if command.contains(NAME) { tool.names.len() } else { 1 };
    names.take(count).map(|name| command.replace(NAME, name)).find_map(|command| {
        let error = run_dry(&command, library).err()?;
        Some(format!("`{command}`: {error}"))
    })
}

/// The words of a command as a shell takes them, and all that stands outside of quotes; the map uses single ones.
fn words(command: &str) -> (Vec<String>, String) {
    let (mut words, mut plain) = (Vec::new(), String::new());
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
        plain.extend(Some(c).filter(|_| !quoted));
    }
    words.extend(word);
    (words, plain)
}

/// Whether a command could begin: its options, and the playbook, probe and parameters that it names.
pub(super) fn run_dry(command: &str, library: &Library) -> Result<(), String> {
    let (words, plain) = words(command);
    if plain.contains(['<', '>', '|', '&', ';', '$', '`', '(', ')', '#']) {
        return Err("a shell would not take it as it stands; put single quotes around the word".into());
    }
    if words.first().is_none_or(|word| word != "rdiag") {
        return Err("a command begins with rdiag; others belong into `manual`".into());
    }
    let cli = Cli::try_parse_from(words)
        .map_err(|error| error.to_string().lines().next().unwrap_or("it cannot be parsed").to_owned())?;
    let Some(command) = &cli.command else { return Ok(()) };
    let playbook = match command {
        Command::Run(args) => args.measure.playbook.as_deref().unwrap_or_default(),
        Command::Record(args) => args.measure.playbook.as_deref().unwrap_or_default(),
        Command::Probe(args) => return probe::checked(args).map(drop).map_err(|failure| failure.to_string()),
        _ => return Ok(()),
    };
    library.playbook(playbook).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playbook::SourceFile;
    use rdiag_kernel::host::Host;

    fn library() -> Library {
        Library::read(Vec::<SourceFile>::new())
    }

    #[test]
    fn every_tool_leads_to_what_is_shipped_or_planned_and_every_command_can_be_typed() {
        let problems: Vec<String> = problems(&map(), &library()).iter().map(ToString::to_string).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn commands_that_cannot_be_typed_are_found() {
        for (command, says) in [
            ("vmstat 1", "begins with rdiag"),
            ("rdiag probe count --param tracepoint=kmem:kmalloc --param filter=bytes_req>1000", "single quotes"),
            ("rdiag measure", "unrecognized subcommand"),
            ("rdiag run use-metod", "no playbook named"),
            ("rdiag record use-metod", "no playbook named"),
            ("rdiag probe biosnop", "no probe named"),
            ("rdiag probe biosnoop --param speed=1", "speed"),
            ("rdiag probe biosnoop --threshold fast", "no duration"),
            ("rdiag list shoes", "invalid value"),
        ] {
            let error = run_dry(command, &library()).unwrap_err();
            assert!(error.contains(says), "{command}: {error}");
        }
        assert_eq!(run_dry("rdiag probe biosnoop --threshold 10ms", &library()), Ok(()));
    }

    #[test]
    fn words_are_taken_apart_as_a_shell_does() {
        let (words, plain) = words("rdiag  probe 'a > b' c'd 'e ''");
        assert_eq!(words, ["rdiag", "probe", "a > b", "cd e", ""]);
        assert!(!plain.contains('>'), "{plain}");
    }

    #[test]
    fn the_events_in_commands_are_events() {
        let host = Host::live(std::path::Path::new("/"));
        let mut checked = 0;
        for (_, tool) in map().all() {
            for (name, command) in tool.names.iter().flat_map(|name| tool.run.iter().map(move |run| (name, run))) {
                let command = command.replace(NAME, name);
                let Some(events) = command.split_whitespace().find_map(|word| word.split_once("events=")) else {
                    continue;
                };
                // Tracepoints and devices differ from machine to machine.
                let events: Vec<&str> = events
                    .1
                    .split(',')
                    .filter(|event| !event.contains(['/', '_']) && *event != "kmem:kmalloc")
                    .collect();
                if !events.is_empty() {
                    rdiag_kernel::mechanism::perf::select::check(&host, &events.join(","))
                        .unwrap_or_else(|e| panic!("{command}: {}", e.message));
                    checked += events.len();
                }
            }
        }
        assert!(checked > 40, "{checked}");
    }

    #[test]
    fn a_probe_that_no_command_asks_is_asked_by_its_own() {
        let tool = |by: &[&str], run: &[&str]| Tool {
            names: vec!["tool".into()],
            by: by.iter().map(|id| (*id).to_owned()).collect(),
            run: run.iter().map(|command| (*command).to_owned()).collect(),
            ..Tool::default()
        };
        let map = Tools::read(&[], ("plan.yaml", "format_version: 1\nplanned: {runqlat: one day}"));
        let commands = |tool: Tool| commands(&map, &tool, "tool", &library());
        assert_eq!(commands(tool(&["biosnoop"], &[])), ["rdiag probe biosnoop --duration 10s"]);
        assert_eq!(commands(tool(&["response"], &["rdiag run method-r"])), ["rdiag run method-r"]);
        let [first, then, last] = &commands(tool(&["biotop", "biosnoop"], &["rdiag doctor"]))[..] else { panic!() };
        assert_eq!((first.as_str(), then.as_str()), ("rdiag probe biotop --duration 10s", "rdiag doctor"));
        assert!(last.starts_with("rdiag probe biosnoop"));
        assert!(commands(tool(&["runqlat"], &[])).is_empty());
    }

    #[test]
    fn a_name_that_a_shell_would_not_take_as_it_is_stays_out_of_commands() {
        let tool = Tool {
            names: vec!["cycles".into()],
            run: vec!["rdiag probe stat --param events={name}".into()],
            ..Tool::default()
        };
        let command = |name: &str| commands(&map(), &tool, name, &library()).remove(0);
        assert!(command("cycles:u").ends_with("events=cycles:u"));
        assert!(command("cycles;reboot").ends_with("events=cycles"));
    }
}
