//! What the command line makes of the map of old tools.

pub(super) mod dry_run;

use std::fmt::Write as _;

use rdiag_collectors as collectors;
use rdiag_playbook::tools::{Found, Standing, Tool, Tools};
use rdiag_playbook::{Library, Measure};
use rdiag_probes::{self as probes, ParamKind};
use rdiag_report::escape::visible;
use rdiag_session as session;

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

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_kernel::host::Host;
    use rdiag_playbook::SourceFile;

    fn library() -> Library {
        Library::read(Vec::<SourceFile>::new())
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
