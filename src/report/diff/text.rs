//! A comparison as text for a terminal.

use super::{MOVED, task_cells, task_heads};
use crate::flame::points;
use crate::shown;
use crate::shown::{Shown, Terminal};
use crate::words;
use rdiag_model::comparison::{Change, Comparison, FunctionChange, PartChange, TaskChange};
use rdiag_model::quantity::{percent, with_unit};
use rdiag_model::{Status, Unit};

/// What a terminal is written.
type Text = Shown<Terminal>;

/// Rows of each list.
const ROWS: usize = 20;
/// Longest name.
const NAME: usize = 100;

/// What a change is called.
pub(crate) fn word(change: Change) -> &'static str {
    match change {
        Change::Appeared => "appeared",
        Change::Worse => "worse",
        Change::Better => "better",
        Change::Gone => "gone",
        Change::NotSeen => "not seen any more",
    }
}

/// `ok → warning`.
pub(crate) fn statuses(before: Option<Status>, after: Option<Status>) -> String {
    let word = |status: Option<Status>| status.map_or("not evaluated", Status::word);
    format!("{} → {}", word(before), word(after))
}

/// `12.0% → 31.5%`.
pub(crate) fn values(before: Option<f64>, after: Option<f64>, unit: Unit) -> String {
    let value = |value: Option<f64>| value.map_or("–".to_owned(), |value| with_unit(value, unit));
    format!("{} → {}", value(before), value(after))
}

/// Self before, after, and the change in points; then the same of the total.
pub(crate) fn shares(function: &FunctionChange) -> [String; 6] {
    let [own_before, own_after] = function.own;
    let [before, after] = function.total;
    [
        percent(own_before),
        percent(own_after),
        points(own_after - own_before),
        percent(before),
        percent(after),
        points(after - before),
    ]
}

/// How many findings differ, and which of them may differ by chance.
pub(crate) fn lead(comparison: &Comparison) -> String {
    let mut lead = format!("{} differ, {} as before", comparison.findings.len(), comparison.findings_same);
    let noise = &comparison.findings_in_noise;
    if !noise.is_empty() {
        let ids = words::some(noise, 4);
        lead.push_str(&format!("; {} crossed a threshold by no more than its noise: {ids}", noise.len()));
    }
    lead
}

/// How many findings and metrics differ, and which finding most of all.
#[must_use]
pub fn in_one_line(comparison: &Comparison) -> Text {
    if comparison.before.playbook.is_empty() || comparison.after.playbook.is_empty() {
        let moved = comparison.stacks.iter().map(|stacks| stacks.functions.len() + stacks.others).sum::<usize>();
        return shown!("{} functions moved\n", moved);
    }
    let count = |change| comparison.findings.iter().filter(|finding| finding.change == change).count();
    let all = [Change::Appeared, Change::Worse, Change::Better, Change::Gone, Change::NotSeen];
    let counts = all.into_iter().map(|change| (count(change), word(change))).filter(|(count, _)| *count > 0);
    let counts: Vec<Text> = counts.map(|(count, word)| shown!("{} {}", count, word)).collect();
    let findings = if counts.is_empty() { Text::of("no finding differs") } else { Text::joined(counts, ", ") };
    let worst = comparison.findings.first().map(|finding| {
        let statuses = Text::seen(statuses(finding.before, finding.after));
        shown!(" ({} {})", short(&finding.id), statuses)
    });
    let moved = comparison.metrics.len() + comparison.metrics_others;
    let (worst, compared) = (worst.unwrap_or_default(), comparison.metrics_compared);
    shown!("{}{}; {} of {} metrics {}\n", findings, worst, moved, compared, MOVED)
}

/// The comparison; all rows of it if `is_whole`.
#[must_use]
pub fn text(comparison: &Comparison, is_whole: bool) -> Text {
    let most = if is_whole { usize::MAX } else { ROWS };
    let mut out = Text::new();
    for (name, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        let parts = [&side.file, &side.playbook, &side.host, &side.started];
        let parts = parts.into_iter().filter(|part| !part.is_empty()).map(short);
        out.push(shown!("{:>6}: {}\n", name, Text::joined(parts, " · ")));
    }
    for note in &comparison.notes {
        out.push(shown!("  note: {}\n", Text::seen_within(note, 400)));
    }
    if let Some(task) = &comparison.task {
        task_change(&mut out, task, most);
    }
    if comparison.before.playbook.is_empty() || comparison.after.playbook.is_empty() {
        stacks(&mut out, comparison, most);
        return out;
    }
    out.push("\nFindings: ");
    for (at, line) in Text::seen_within(lead(comparison), 400).wrapped_at_hyphens(100, 0, 2).into_iter().enumerate() {
        out.push(if at == 0 { "" } else { "\n  " });
        out.push(line.trimmed_end());
    }
    out.push("\n");
    for finding in comparison.findings.iter().take(most) {
        let instance = finding.instance.as_deref().map(|instance| shown!(" {}", short(instance)));
        out.push(shown!(
            "  {}: {}{} ({}; {})\n      {}\n",
            word(finding.change),
            short(&finding.id),
            instance.unwrap_or_default(),
            Text::seen(statuses(finding.before, finding.after)),
            Text::seen(values(finding.value_before, finding.value_after, finding.unit)),
            Text::seen_within(&finding.summary, 300)
        ));
    }
    more(&mut out, comparison.findings.len(), 0, most);
    out.push(shown!(
        "\nMetrics: {} of {} {}\n",
        comparison.metrics.len() + comparison.metrics_others,
        comparison.metrics_compared,
        MOVED
    ));
    for metric in comparison.metrics.iter().take(most) {
        let instance = short(&metric.instance);
        let instance = if instance.is_empty() { instance } else { shown!(" {}", instance) };
        let errors =
            metric.errors.map_or(Text::of(" (noise not known)"), |errors| shown!(" ({:.0} standard errors)", errors));
        let change = Text::seen(values(Some(metric.before), Some(metric.after), metric.unit));
        out.push(shown!("  {}{}: {}{}\n", short(&metric.id), instance, change, errors));
    }
    more(&mut out, comparison.metrics.len(), comparison.metrics_others, most);
    stacks(&mut out, comparison, most);
    out
}

fn short(name: impl AsRef<str>) -> Text {
    Text::seen_within(name, NAME)
}

fn task_change(out: &mut Text, task: &TaskChange, most: usize) {
    out.push("\nWhere the time of the task went\n");
    for text in [&task.headline].into_iter().chain(&task.notes) {
        for line in Text::seen_within(text, 1_000).wrapped_at_hyphens(100, 2, 2) {
            let line: Text = shown!("  {}", line);
            out.push(line.trimmed_end());
            out.push("\n");
        }
    }
    for (name, parts) in [("component", &task.components), ("call", &task.calls)] {
        let clear: Vec<&PartChange> = parts.iter().filter(|part| part.is_clear).take(most).collect();
        if clear.is_empty() {
            continue;
        }
        let [before, after, change, of, times, mean] = task_heads(parts);
        out.push(shown!("\n  {:>9} {:>9} {:>9} {:>13}  {}\n", before, after, change, of, name));
        for part in clear {
            let [before, after, change, of, count, each] = task_cells(part, task.basis).map(Text::seen);
            let counts = match part.count {
                [None, None] => Text::new(),
                _ => shown!(" ({} {}, {} {})", times, count, mean, each),
            };
            let name = short(&part.id);
            out.push(shown!("  {:>9} {:>9} {:>9} {:>13}  {}{}\n", before, after, change, of, name, counts));
        }
    }
}

fn more(out: &mut Text, listed: usize, others: usize, most: usize) {
    let hidden = listed.saturating_sub(most) + others;
    if hidden > 0 {
        out.push(shown!("  and {} more\n", hidden));
    }
}

fn stacks(out: &mut Text, comparison: &Comparison, most: usize) {
    for stacks in &comparison.stacks {
        let [before, after] =
            [stacks.whole_before, stacks.whole_after].map(|whole| Text::seen(with_unit(whole, stacks.unit)));
        out.push(shown!(
            "\n{}: {} ({} → {}; shares are of each whole)\n",
            short(&stacks.probe),
            short(&stacks.title),
            before,
            after
        ));
        if stacks.functions.is_empty() {
            out.push("  no function moved by a twentieth of a point\n");
            continue;
        }
        out.push("    self before    after         change   total before    after         change  function\n");
        for function in stacks.functions.iter().take(most) {
            let [own, own_after, own_change, total, total_after, total_change] = shares(function).map(Text::seen);
            out.push(shown!(
                "  {:>13}  {:>7}  {:>13}  {:>13}  {:>7}  {:>13}  {}\n",
                own,
                own_after,
                own_change,
                total,
                total_after,
                total_change,
                short(&function.name)
            ));
        }
        more(out, stacks.functions.len(), stacks.others, most);
    }
}
