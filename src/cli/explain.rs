//! `rdiag explain`: what a metric, rule, collector, probe or playbook is about, what a term of the field means, and what stands
//! for an old tool.

mod terms;
mod texts;

use super::hanging::hanging;
use super::tools;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_collectors as collectors;
use rdiag_model::{Component, MetricDef};
use rdiag_playbook::Library;
use rdiag_playbook::suggest::did_you_mean;
use rdiag_playbook::tools::Tools;
use rdiag_probes as probes;
use rdiag_session as session;

/// Explain a term (iowait, %util, steal, D state), a metric, rule, component of response time, collector, probe or playbook, or
/// show what replaces an old tool: a command, a subcommand of perf, a tool of bcc, a file of ftrace or /proc, an event.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A term, an id as reports and `rdiag list` show it, or the name of a tool: await, biosnoop, perf sched, set_ftrace_filter.
    #[arg(required = true, value_name = "ID")]
    id: Vec<String>,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let id = args.id.join(" ");
    let id = id.trim();
    let library = session::library(&session::default_folders(), &[])?;
    let map = tools::map();
    let own = own(id, &library, &map);
    let term = terms::find(id).map(|term| terms::text(term, &|id| title(id, &library)));
    // A tool may have the name of what answers it; what else was typed is then not guessed at.
    let tool = if own.is_some() || term.is_some() { map.named(id) } else { map.find(id) };
    let tool = tool.map(|found| tools::text(&map, &found, &library));
    let found: Vec<String> = [term, tool, own].into_iter().flatten().collect();
    if found.is_empty() {
        return Err(unknown(id, &library, &map));
    }
    let text = found.join("\n\n");
    ui.print(&Text::lines(hanging(&text, ui.style().width)))?;
    Ok(Exit::Done)
}

/// What has this id in rdiag itself.
fn own(id: &str, library: &Library, map: &Tools) -> Option<String> {
    let metric = session::catalogue().resolve(id);
    if let Some(loaded) = library.rules.get(id) {
        Some(texts::rule(loaded))
    } else if let Some((owner, metric)) = metric.as_deref().and_then(find_metric) {
        Some(texts::metric(owner, metric, library))
    } else if let Some(def) = collectors::find(id) {
        Some(texts::collector(def))
    } else if let Some(def) = probes::find(id) {
        Some(texts::probe(def, map))
    } else if let Some(component) = Component::find(id) {
        Some(texts::component(component))
    } else {
        library.playbook(id).ok().map(|loaded| texts::playbook(&loaded.playbook))
    }
}

/// What an id stands for, in a few words.
fn title(id: &str, library: &Library) -> Option<String> {
    let rule = library.rules.get(id).map(|loaded| loaded.rule.title.clone());
    let metric = || find_metric(id).map(|(_, metric)| metric.help.to_owned());
    let probe = || probes::find(id).map(|def| def.question.to_owned());
    rule.or_else(metric).or_else(probe)
}

fn find_metric(id: &str) -> Option<(&'static str, &'static MetricDef)> {
    session::all_metrics().find(|(_, metric)| metric.id == id)
}

fn unknown(id: &str, library: &Library, map: &Tools) -> Failure {
    let metrics = session::all_metrics().map(|(_, metric)| metric.id);
    let all = metrics
        .chain(collectors::ALL.iter().map(|def| def.id))
        .chain(probes::ALL.iter().map(|def| def.id))
        .chain(Component::ALL.iter().map(|component| component.id()))
        .chain(library.rules.keys().map(String::as_str))
        .chain(library.playbooks.keys().map(String::as_str))
        .chain(map.names());
    let mut all: Vec<&str> = all.collect();
    all.extend(terms::names().map(|name| -> &str { name }));
    let others = "`rdiag list rules`, `rdiag list metrics` and `rdiag list tools` show the names";
    let like = |typed: &str| did_you_mean(&typed.to_lowercase(), all.iter().copied());
    // Of a question, one word may be known.
    let known = || id.split_whitespace().find(|word| word.len() > 2 && terms::find(word).is_some());
    let hint = known().map(|word| format!("did you mean `{word}`?")).or_else(|| like(id));
    let hint = hint.or_else(|| id.split_whitespace().filter(|word| word.len() > 3).find_map(like));
    let hint = hint.or_else(|| Some(others.into()));
    Failure::Usage { message: format!("nothing is named {id:?}"), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_listed_is_explained() {
        let (library, map) = (session::library(&[], &[]).unwrap(), tools::map());
        let metrics = session::all_metrics().map(|(_, metric)| metric.id);
        let collectors = collectors::ALL.iter().map(|def| def.id);
        let probes = probes::ALL.iter().map(|def| def.id);
        let all = metrics.chain(collectors).chain(probes);
        let all =
            all.chain(library.rules.keys().map(String::as_str)).chain(library.playbooks.keys().map(String::as_str));
        for id in all {
            let text = own(id, &library, &map);
            assert!(
                text.as_ref().is_some_and(|text| text.starts_with(id) && text.lines().count() > 1),
                "{id}: {text:?}"
            );
        }
    }
}
