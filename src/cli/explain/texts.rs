//! What is said of each kind of thing that has an id.

use std::fmt::Write as _;

use super::super::tools;
use rdiag_collectors as collectors;
use rdiag_judge::profile::advice;
use rdiag_lab as lab;
use rdiag_model::{Component, Formula, MetricDef, OfSeries, Per, Source, Term};
use rdiag_playbook::advice::book;
use rdiag_playbook::tools::Tools;
use rdiag_playbook::{Library, LoadedRule, Playbook};
use rdiag_probes as probes;

/// A rule: its expressions, why it is so, and what to do next.
pub(super) fn rule(loaded: &LoadedRule) -> String {
    let rule = &loaded.rule;
    let mut out = format!("{} — {}\n\n", rule.id, rule.title);
    let _ = writeln!(out, "Value:      {}", rule.value);
    for (status, condition) in rule.conditions() {
        let _ = writeln!(out, "{:<11} {condition}", format!("{}:", capital(status.word())));
    }
    if let Some(hold) = rule.hold {
        let _ = writeln!(out, "For:        {hold} intervals in a row");
    }
    for (name, condition) in [("Applies if", &rule.applies), ("Unless", &rule.unless)] {
        if let Some(condition) = condition {
            let _ = writeln!(out, "{:<11} {} ({})", format!("{name}:"), condition.when, condition.because);
        }
    }
    if let Some(culprit) = &rule.culprit {
        let _ = writeln!(out, "Culprit:    {culprit}");
    }
    let _ = writeln!(out, "Defined in: {}\n\nWhy\n  {}\n", loaded.label, rule.why.trim().replace('\n', "\n  "));
    if !rule.false_if.is_empty() {
        out.push_str("Its words would be false if\n");
        for one in &rule.false_if {
            let _ = writeln!(out, "  - {} ({})", one.situation, one.excluded());
        }
        out.push('\n');
    }
    let _ = writeln!(out, "By hand\n  {}\n\nNext", rule.verify.trim().replace('\n', "\n  "));
    for next in &rule.next {
        let step = next.step();
        let mark = if step.changes_host { " [changes the host]" } else { "" };
        let _ = writeln!(out, "  - {}{mark}", step.action);
    }
    if let Some(exercise) = lab::library::reproducing().get(&rule.id) {
        let _ = writeln!(out, "\nSee it for yourself\n  rdiag lab start {exercise}");
    }
    out.trim_end().to_owned()
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// A metric: its formula and sources, and the rules that use it.
pub(super) fn metric(owner: &str, metric: &MetricDef, library: &Library) -> String {
    let mut out = format!("{} — {}\n\n", metric.id, metric.help);
    let unit = serde_json::to_value(metric.unit).ok();
    let unit = unit.as_ref().and_then(serde_json::Value::as_str).unwrap_or("").replace('_', " ");
    let each = metric.dimension.map_or("the whole host".to_owned(), |of| format!("each {of}"));
    let probe = probes::find(owner);
    let kind = if probe.is_some() { "Probe:" } else { "Collector:" };
    let _ = writeln!(out, "Unit:       {unit}, for {each}\n{kind:<11} {owner}");
    if let Some(probe) = probe {
        let _ = writeln!(out, "Attached to {}", probe.attach);
    }
    for (rank, formula) in metric.sources.iter().enumerate() {
        let name = if rank == 0 { "Formula:" } else { "or else:" };
        let _ = writeln!(out, "{name:<11} {}", describe(formula));
    }
    let mut sources: Vec<&str> = metric.sources.iter().flat_map(|formula| sources_of(formula)).collect();
    sources.dedup();
    for source in sources {
        let _ = writeln!(out, "Source:     {source}");
    }
    let _ = writeln!(out, "\nCaveat\n  {}\n\nBy hand\n  {}", metric.caveat, metric.manual);
    let users: Vec<&str> = library
        .rules
        .values()
        .filter(|loaded| cites(loaded, metric.id))
        .map(|loaded| loaded.rule.id.as_str())
        .collect();
    if !users.is_empty() {
        let _ = writeln!(out, "\nUsed by\n  {}", users.join(", "));
    }
    out.trim_end().to_owned()
}

fn cites(loaded: &LoadedRule, metric: &str) -> bool {
    loaded.rule.expressions().iter().any(|(_, text)| text.contains(metric))
}

fn sources_of(formula: &Formula) -> Vec<&'static str> {
    let find = |name: &str| collectors::ALL.iter().flat_map(|def| def.series).find(|series| series.name == name);
    formula.terms().0.iter().filter_map(|term| find(term.series)).map(|series| series.source).collect()
}

/// A formula in words: `(a + b) per second`.
fn describe(formula: &Formula) -> String {
    match formula {
        Formula::Series(of) => divided(of),
        Formula::Taken(source) => match *source {
            Source::Process(field) => format!("{field:?} of each process over the window"),
            Source::ProcessRate(field) => format!("{field:?} of each process per second"),
            Source::KernelThreads(prefix, field) => format!("{field:?} of the kernel threads {prefix}*"),
            Source::Probe(pick) => pick.words(),
            Source::UnseenCpu => "busy CPU time of the host that is of no process seen, per busy CPU time".to_owned(),
            Source::OneRequest => "time per request in the least-loaded interval of each device".to_owned(),
            Source::WaitOfTasks => "run-queue delay per delay and run time, summed over the processes seen".to_owned(),
        },
    }
}

fn divided(quotient: &OfSeries) -> String {
    let sum = terms(quotient.sum);
    let text = match quotient.per {
        Per::Second => format!("change of {sum} per second"),
        Per::Change(of) => format!("change of {sum} per change of {}", terms(of)),
        Per::Nothing => format!("change of {sum}"),
        Per::Level => format!("level of {sum}"),
        Per::Slope => format!("change of {sum} per second, up or down"),
        Per::LevelOf(of) => format!("level of {sum} per level of {}", terms(of)),
        Per::Waiting(of) => format!(
            "change of {sum} per change of {sum} + {}, without the waits of tasks that a CPU quota stopped",
            terms(of)
        ),
        Per::Capacity(of) => format!("change of {sum} per second, per level of {}", terms(of)),
    };
    if quotient.floor > 0.0 { format!("{text}, if that changed by at least {}", quotient.floor) } else { text }
}

fn terms(terms: &[Term]) -> String {
    let mut out = String::new();
    for term in terms {
        let sign = match (out.is_empty(), term.weight < 0.0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        let factor = term.weight.abs();
        let factor = if (factor - 1.0).abs() < f64::EPSILON { String::new() } else { format!("{factor}·") };
        let _ = write!(out, "{sign}{factor}{}", term.series);
    }
    if terms.len() > 1 { format!("({out})") } else { out }
}

/// A collector: its cost, metrics and series.
pub(super) fn collector(def: &collectors::CollectorDef) -> String {
    let mut out = format!("{} — {}\n\nOverhead\n  {}\n\nMetrics\n", def.id, def.help, def.overhead);
    for metric in def.metrics {
        let _ = writeln!(out, "  {} — {}", metric.id, metric.help);
    }
    out.push_str("\nSeries\n");
    for series in def.series {
        let _ = writeln!(out, "  {} — {}", series.name, series.source);
    }
    out.trim_end().to_owned()
}

/// A probe: what it attaches to, what limits it, its parameters and metrics.
pub(super) fn probe(def: &probes::ProbeDef, map: &Tools) -> String {
    let mut out = format!("{} — {}\n\n", def.id, def.question);
    for (name, text) in
        [("Attaches to", def.attach), ("Output", def.output), ("Caveats", def.caveats), ("Overhead", def.overhead)]
    {
        let _ = writeln!(out, "{name}\n  {text}\n");
    }
    let filters: Vec<&str> = def
        .filters
        .iter()
        .map(|filter| match filter {
            probes::FilterKind::Pid => "--pid",
            probes::FilterKind::Comm => "--comm",
            probes::FilterKind::Cgroup => "--cgroup",
        })
        .collect();
    if !filters.is_empty() {
        let _ = writeln!(out, "Can be limited by\n  {}\n", filters.join(", "));
    }
    if !def.params.is_empty() {
        out.push_str("Parameters\n");
        for param in def.params {
            let default = if param.default.is_empty() { "none" } else { param.default };
            let _ = writeln!(out, "  {} = {default} — {}", param.name, param.help);
        }
        out.push('\n');
    }
    if !def.metrics.is_empty() {
        out.push_str("Metrics\n");
        for metric in def.metrics {
            let _ = writeln!(out, "  {} — {}", metric.id, metric.help);
        }
        out.push('\n');
    }
    let replaced = tools::answered_by(map, def.id);
    if !replaced.is_empty() {
        let _ = writeln!(out, "Stands for\n  {}", replaced.join(", "));
    }
    out.trim_end().to_owned()
}

/// A component of a task's time: what counts, and what can be done about it.
pub(super) fn component(of: Component) -> String {
    let def = of.def();
    let (_, saving, next) = advice(book(), of);
    let mut out = format!("{} — {}, a component of response time (Method R)\n\n", def.id, def.title);
    let _ = writeln!(out, "What counts\n  {}\n", def.help);
    let _ = writeln!(out, "State:      {}", def.state.word());
    let idle = if def.idle { "often: then it is no part of a response time" } else { "no" };
    let _ = writeln!(out, "Idle:       {idle}");
    let _ = writeln!(out, "Saving:     {saving}");
    if !def.rules.is_empty() {
        let _ = writeln!(out, "Rules:      {}", def.rules.join(", "));
    }
    if !next.is_empty() {
        out.push_str("\nNext\n");
    }
    for step in next {
        let _ = writeln!(out, "  - {}", step.action);
    }
    out.trim_end().to_owned()
}

/// A playbook: its symptoms, causes, parameters and steps.
pub(super) fn playbook(playbook: &Playbook) -> String {
    let mut out = format!("{} — {}\n\n", playbook.name, playbook.title);
    if !playbook.symptoms.is_empty() {
        out.push_str("Symptoms\n");
    }
    for symptom in &playbook.symptoms {
        let _ = writeln!(out, "  {symptom}");
    }
    if let Some(answer) = &playbook.answer {
        out.push_str("\nCauses\n");
        for cause in &answer.causes {
            let _ = writeln!(out, "  {}: {} ({})", cause.id, cause.title, cause.rules.join(", "));
        }
        if !answer.unseen.is_empty() {
            out.push_str("\nNot looked at\n");
        }
        for unseen in &answer.unseen {
            let _ = writeln!(out, "  {unseen}");
        }
        out.push('\n');
    }
    out.push_str("Parameters\n");
    for (name, param) in &playbook.params {
        let _ = writeln!(out, "  {name} = {} — {}", param.default, param.help);
    }
    out.push_str("\nSteps\n");
    for (index, step) in playbook.steps.iter().enumerate() {
        let _ = writeln!(out, "  {}. {}: {}", index + 1, step.id, step.question);
        if let Some(when) = &step.when {
            let _ = writeln!(out, "     only when {when}");
        }
    }
    out.trim_end().to_owned()
}
