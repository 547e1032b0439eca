//! `rdiag list`: what there is.

use std::path::Path;

use clap::ValueEnum;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::output::json as json_text;
use super::root::open_host;
use super::tools;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_collectors as collectors;
use rdiag_kernel::mechanism::perf::catalogue::{self, EventInfo};
use rdiag_kernel::mechanism::tracefs::functions;
use rdiag_lab as lab;
use rdiag_playbook::tools::Standing;
use rdiag_probes as probes;
use rdiag_report::shown;
use rdiag_session as session;

/// List playbooks, rules, metrics, collectors, probes, events, functions, exercises, or what stands for old tools.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to list.
    #[arg(value_enum)]
    kind: ListKind,
    /// Which functions: names with * and ?, :mod:MODULE for those of a module, separated by commas.
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,
    /// For programs.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListKind {
    /// Ordered diagnoses that `rdiag run` executes.
    Playbooks,
    /// Questions with thresholds.
    Rules,
    /// Measured quantities.
    Metrics,
    /// Code that reads a source.
    Collectors,
    /// Measurements inside the kernel, for `rdiag probe` and playbooks.
    Probes,
    /// What can be counted here (`rdiag probe stat --param events=…`), found by trying.
    Events,
    /// Functions of the kernel that `rdiag probe functions` and `graph` can trace here, found by trying.
    Functions,
    /// Exercises for `rdiag lab`.
    Labs,
    /// Commands, subcommands, tracers, events and counters that people know, and what answers them here.
    Tools,
}

/// The tools whose names are those of probes.
const BCC: &str = "tool of bcc";

/// Events that no list holds, and what can stand behind those that one does.
const OTHER_EVENTS: &str = "any event of a CPU by its number: rNNN (hexadecimal), or device/event=0x3c,umask=0x01/ with the fields that \
    the \
     device has; behind a name: :u user mode, :k kernel, :h hypervisor, :G guests, :H no guests, :p precise";

/// One line of a list: the columns for people, and all of it for programs.
struct Entry {
    columns: Vec<String>,
    json: Value,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    if args.pattern.is_some() != matches!(args.kind, ListKind::Functions) {
        let message = "a pattern is for functions, and functions need one".to_owned();
        return Err(Failure::Usage { message, hint: Some("write rdiag list functions '*balance*'".into()) });
    }
    let entries = match args.kind {
        ListKind::Playbooks | ListKind::Rules => from_library(args.kind)?,
        ListKind::Metrics => metrics(),
        ListKind::Collectors => collector_entries(),
        ListKind::Probes => probe_entries(),
        ListKind::Events => event_entries()?,
        ListKind::Functions => function_entries(args.pattern.as_deref().unwrap_or_default())?,
        ListKind::Labs => lab_entries()?,
        ListKind::Tools => tool_entries()?,
    };
    if args.json {
        let all: Vec<&Value> = entries.iter().map(|entry| &entry.json).collect();
        ui.print(&json_text(&all)?)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<Text>> = entries.iter().map(|entry| entry.columns.iter().map(Text::seen).collect()).collect();
    ui.print(&table(&rows))?;
    if args.kind == ListKind::Probes {
        note_other_names(ui);
    }
    if args.kind == ListKind::Events {
        ui.note(OTHER_EVENTS);
    }
    Ok(Exit::Done)
}

/// The playbooks by what a person sees, for who names none: nothing was run.
pub(super) fn by_symptom(ui: &Ui) -> Result<Exit, Failure> {
    let library = session::library(&session::default_folders(), &[])?;
    let playbooks = || library.playbooks.values().map(|loaded| &loaded.playbook);
    let mut out = Text::of("Name a playbook. By symptom:\n\n");
    let rows: Vec<Vec<Text>> = playbooks()
        .flat_map(|playbook| {
            playbook.symptoms.iter().enumerate().map(|(at, symptom)| {
                let name = if at == 0 { format!("rdiag run {}", playbook.name) } else { String::new() };
                vec![Text::of("  "), Text::seen(name), Text::seen(symptom)]
            })
        })
        .collect();
    out.push(table(&rows));
    out.push("\nOthers:\n\n");
    let rows: Vec<Vec<Text>> = playbooks()
        .filter(|playbook| playbook.symptoms.is_empty())
        .map(|playbook| {
            vec![Text::of("  "), Text::seen(format!("rdiag run {}", playbook.name)), Text::seen(&playbook.title)]
        })
        .collect();
    out.push(table(&rows));
    ui.print(&out)?;
    Ok(Exit::Usage)
}

fn from_library(kind: ListKind) -> Result<Vec<Entry>, Failure> {
    let library = session::library(&session::default_folders(), &[])?;
    if kind == ListKind::Playbooks {
        let entry = |loaded: &rdiag_playbook::LoadedPlaybook| {
            let playbook = &loaded.playbook;
            Entry {
                columns: vec![playbook.name.clone(), playbook.title.clone(), format!("{} steps", playbook.steps.len())],
                json: json!({"name": playbook.name, "title": playbook.title, "file": loaded.file.label, "playbook": playbook}),
            }
        };
        return Ok(library.playbooks.values().map(entry).collect());
    }
    let entry = |loaded: &rdiag_playbook::LoadedRule| {
        let rule = &loaded.rule;
        let statuses: Vec<&str> = rule.conditions().iter().map(|(status, _)| status.word()).collect();
        Entry {
            columns: vec![rule.id.clone(), rule.title.clone(), statuses.join(", ")],
            json: json!({"id": rule.id, "title": rule.title, "origin": loaded.origin, "rule": rule}),
        }
    };
    Ok(library.rules.values().map(entry).collect())
}

fn metrics() -> Vec<Entry> {
    let mut all: Vec<_> = session::all_metrics().collect();
    all.sort_by_key(|(_, metric)| metric.id);
    let entry = |(owner, metric): (&str, &rdiag_model::MetricDef)| Entry {
        columns: vec![metric.id.to_owned(), metric.dimension.unwrap_or("").to_owned(), metric.help.to_owned()],
        json: json!({"collector": owner, "metric": metric}),
    };
    all.into_iter().map(entry).collect()
}

fn collector_entries() -> Vec<Entry> {
    let entry = |def: &&collectors::CollectorDef| Entry {
        columns: vec![def.id.to_owned(), format!("{} metrics", def.metrics.len()), def.help.to_owned()],
        json: json!({
            "id": def.id, "help": def.help, "cadence": def.cadence, "overhead": def.overhead, "series": def.series,
            "metrics": def.metrics.iter().map(|metric| metric.id).collect::<Vec<_>>(),
        }),
    };
    collectors::ALL.iter().map(entry).collect()
}

fn probe_entries() -> Vec<Entry> {
    let map = tools::map();
    let entry = |def: &&probes::ProbeDef| Entry {
        columns: vec![def.id.to_owned(), def.question.to_owned()],
        json: json!({
            "id": def.id, "question": def.question, "attach": def.attach, "output": def.output, "caveats": def.caveats,
            "overhead": def.overhead, "params": def.params, "filters": def.filters, "streams": def.streams,
            "stands_for": tools::answered_by(&map, def.id),
            "metrics": def.metrics.iter().map(|metric| metric.id).collect::<Vec<_>>(),
        }),
    };
    probes::ALL.iter().map(entry).collect()
}

/// Says where the tools of bcc are that have another name here.
fn note_other_names(ui: &Ui) {
    let map = tools::map();
    let of_bcc = || map.all().filter(|(group, _)| *group == BCC).map(|(_, tool)| tool);
    let names = |standing: Standing| -> Vec<&str> {
        let tools = of_bcc().filter(|tool| map.standing(tool) == standing);
        tools.flat_map(|tool| &tool.names).map(String::as_str).filter(|name| probes::find(name).is_none()).collect()
    };
    for (standing, says) in [(Standing::Answered, "Answered by another of these"), (Standing::Planned, "Not here yet")]
    {
        let names = names(standing);
        if !names.is_empty() {
            let names = Text::seen(names.join(", "));
            ui.note(shown!("{}: {}; `rdiag explain NAME` says what to type", says, names));
        }
    }
}

fn tool_entries() -> Result<Vec<Entry>, Failure> {
    let map = tools::map();
    let library = session::library(&session::default_folders(), &[])?;
    let entry = |(group, tool): (&str, &rdiag_playbook::tools::Tool)| {
        let name = tool.names.first().cloned().unwrap_or_default();
        let commands = tools::commands(&map, tool, &name, &library);
        let standing = map.standing(tool);
        Entry {
            columns: vec![name, tools::standing_words(&map, tool), tool.answers.clone()],
            json: json!({
                "names": tool.names, "group": group, "answers": tool.answers, "standing": standing, "by": tool.by,
                "commands": commands, "outside": tool.outside, "note": tool.note, "manual": tool.manual,
            }),
        }
    };
    Ok(map.all().map(entry).collect())
}

fn lab_entries() -> Result<Vec<Entry>, Failure> {
    let entry = |scenario: lab::Scenario| Entry {
        columns: vec![scenario.id.clone(), format!("level {}", scenario.level), scenario.title.clone()],
        json: json!({
            "id": scenario.id, "title": scenario.title, "level": scenario.level, "minutes": scenario.minutes,
            "topics": scenario.topics, "teaches": scenario.teaches,
        }),
    };
    Ok(lab::library::all()?.into_iter().map(entry).collect())
}

fn event_entries() -> Result<Vec<Entry>, Failure> {
    let host = open_host(Path::new("/"))?;
    let entry = |event: EventInfo| {
        let json = json!(event);
        let kind = json.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let text = match &event.unavailable {
            None => event.help,
            Some(gap) => {
                let own = format!("{}: ", event.name);
                format!("{} [not here: {}]", event.help, gap.why.strip_prefix(&own).unwrap_or(&gap.why))
            }
        };
        let name = if event.also.is_empty() { event.name } else { format!("{} or {}", event.name, event.also) };
        Entry { columns: vec![name, kind, text], json }
    };
    Ok(catalogue::events(&host).into_iter().map(entry).collect())
}

fn function_entries(list: &str) -> Result<Vec<Entry>, Failure> {
    let wrong = |message| Failure::Usage { message, hint: None };
    probes::check_function_list(list).map_err(wrong)?;
    let functions = functions::traceable(&open_host(Path::new("/"))?, list);
    let functions = functions.map_err(|gap| Failure::Unavailable { what: "functions".to_owned(), gap })?;
    let entry = |function: functions::Function| {
        let json = json!(function);
        Entry { columns: vec![function.name, function.module.unwrap_or_default()], json }
    };
    Ok(functions.into_iter().map(entry).collect())
}

/// Columns, aligned; the last one runs free.
pub(super) fn table(rows: &[Vec<Text>]) -> Text {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|text| text.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = Text::new();
    for row in rows {
        let padded = row.iter().zip(&widths).map(|(text, width)| text.clone().padded(width + 2));
        out.push(shown!("{}\n", padded.collect::<Text>().trimmed_end()));
    }
    out
}
