//! What the probes measured, as the report holds it: the largest rows, and the figures that people ask for.

use std::collections::BTreeMap;

use super::bars::bars;
use super::heat::heat;
use super::hot::hot;
use super::probe_words::is_empty;
use super::schedule::strips;
use crate::parts::ProbeTexts;
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Histogram, HistogramRow, LESS_CONFINED, Output, ProbeResult, ProbeTable, Stack, Stacks};
use rdiag_model::probed::{Distribution, Distributions, Probed, ProbedOutput, StackSums};
use rdiag_model::report::StepOutcome;
use rdiag_model::{Evidence, Finding, Formula, Metrics, Reading, Recording, Source};

/// Rows of a table; the recording has all of them.
const MAX_ROWS: usize = 50;
/// Single events.
const MAX_EVENTS: usize = 200;
/// Calls as they happened.
const MAX_CALLS: usize = 1_000;
/// Pieces of time of a schedule.
const MAX_PIECES: usize = 200;
/// Distributions of one kind.
const MAX_DISTRIBUTIONS: usize = 20;
/// Stacks, enough for a flame graph.
const MAX_STACKS: usize = 1_000;
/// Frames of one stack.
const MAX_DEPTH: usize = 256;
/// Outputs of one probe, and its attachments, losses and notes.
const MAX_ITEMS: usize = 40;

/// The probes that ran: first those that findings cite, in the order of the findings; last those that saw nothing.
pub(super) fn probed(
    recording: &Recording,
    metrics: &[Metrics],
    findings: &[Finding],
    steps: &[StepOutcome],
    texts: &dyn Fn(&str) -> Option<ProbeTexts>,
) -> Vec<Probed> {
    let mut all = Vec::new();
    for (at, window) in recording.windows.iter().enumerate() {
        for (id, result) in &window.probes {
            let Ok(result) = result else { continue };
            let asked = steps.iter().filter(|step| step.window == Some(at) && step.probes.contains(id));
            let asked = asked.map(|step| step.id.clone()).collect();
            all.push(one(id, result, at, asked, metrics.get(at), texts(id)));
        }
    }
    let cites = |probed: &Probed, finding: &Finding| {
        let of =
            |evidence: &Evidence| probed.window == evidence.window && probed.metrics.contains_key(&evidence.metric);
        finding.status.fired() && finding.evidence.iter().any(of)
    };
    all.sort_by_cached_key(|probed| {
        let cited = findings.iter().position(|finding| cites(probed, finding));
        (cited.unwrap_or(usize::MAX), is_empty(probed))
    });
    all
}

/// Leaves a note on how symbols were read to the account of the task's time, or else to the first probe that has it: it is about the host,
/// and the same for all.
pub(super) fn confinement_once(told: &[String], probes: &mut [Probed]) {
    let mut is_told = told.iter().any(|note| note.starts_with(LESS_CONFINED));
    for probed in probes {
        probed.notes.retain(|note| !note.starts_with(LESS_CONFINED) || !std::mem::replace(&mut is_told, true));
    }
}

/// One result that belongs to no run.
pub(super) fn alone(result: &ProbeResult, question: &str) -> Probed {
    let mut probed = one(&result.probe, result, 0, Vec::new(), None, None);
    probed.question = question.to_owned();
    probed
}

fn one(
    id: &str,
    result: &ProbeResult,
    window: usize,
    steps: Vec<String>,
    metrics: Option<&Metrics>,
    texts: Option<ProbeTexts>,
) -> Probed {
    let cost = result.cost.clone();
    Probed {
        probe: id.to_owned(),
        question: texts.map_or("", |texts| texts.question).to_owned(),
        caveats: texts.map_or("", |texts| texts.caveats).to_owned(),
        window,
        steps,
        params: result.params.clone(),
        seconds: result.seconds,
        outputs: result.outputs.iter().take(MAX_ITEMS).flat_map(|from| outputs(from, result.seconds)).collect(),
        attached: result.attached.iter().take(MAX_ITEMS).cloned().collect(),
        lost: result.lost.iter().take(MAX_ITEMS).map(|(reason, count)| (reason.clone(), *count)).collect(),
        notes: result.notes.iter().take(MAX_ITEMS).cloned().collect(),
        cost_ratio: (cost.sampled_seconds > 0.0).then(|| cost.cpu_seconds / cost.sampled_seconds),
        cost,
        metrics: texts.map(|texts| derived(&texts, metrics)).unwrap_or_default(),
    }
}

/// The metrics that this window has from the probe, and the outputs behind them.
fn derived(texts: &ProbeTexts, metrics: Option<&Metrics>) -> BTreeMap<String, String> {
    let measured = |id: &str| matches!(metrics.and_then(|all| all.readings.get(id)), Some(Reading::Measured { .. }));
    let output = |formula: &Formula| match formula {
        Formula::Taken(Source::Probe(pick)) => Some(output_of(*pick).to_owned()),
        _ => None,
    };
    texts
        .metrics
        .iter()
        .filter(|metric| measured(metric.id))
        .filter_map(|metric| Some((metric.id.to_owned(), output(metric.sources.first()?)?)))
        .collect()
}

/// Which output a figure comes from.
fn output_of(pick: Pick) -> &'static str {
    match pick {
        Pick::Percentile(id, _)
        | Pick::Mean(id)
        | Pick::Max(id)
        | Pick::Sum(id)
        | Pick::Count(id)
        | Pick::Column(id, _)
        | Pick::ColumnSum(id, _)
        | Pick::Cell(id, ..)
        | Pick::Rows(id) => id,
    }
}

/// What stands for an output; events have a picture of all of them beside the first few.
fn outputs(output: &Output, seconds: f64) -> Vec<ProbedOutput> {
    let picture = match output {
        Output::Events(table) => heat(table, seconds).map(ProbedOutput::Heat),
        _ => None,
    };
    picture.into_iter().chain([first_of(output)]).collect()
}

fn first_of(output: &Output) -> ProbedOutput {
    match output {
        Output::Histogram(histogram) => ProbedOutput::Histogram(distributions(histogram, MAX_DISTRIBUTIONS)),
        Output::Table(table) => ProbedOutput::Table(first_rows(table, MAX_ROWS)),
        Output::Events(table) => ProbedOutput::Events(first_rows(table, MAX_EVENTS)),
        Output::Stacks(stacks) => ProbedOutput::Stacks(stack_sums(stacks)),
        Output::Calls(trace) => ProbedOutput::Calls(trace.first(MAX_CALLS)),
        Output::Schedule(all) => ProbedOutput::Schedule(strips(all, MAX_PIECES)),
    }
}

/// The first distributions, with the figures that people read.
pub(super) fn distributions(histogram: &Histogram, most: usize) -> Distributions {
    let row = |row: &HistogramRow| Distribution {
        instance: row.instance.clone(),
        count: row.count,
        sum: row.sum,
        mean: row.mean(),
        p50: histogram.percentile(row, 0.5),
        p95: histogram.percentile(row, 0.95),
        p99: histogram.percentile(row, 0.99),
        max: (row.count > 0).then_some(row.max),
        bars: bars(row, histogram.unit),
    };
    Distributions {
        id: histogram.id.clone(),
        title: histogram.title.clone(),
        unit: histogram.unit,
        dimension: histogram.dimension.clone(),
        rows: histogram.rows.iter().take(most).map(row).collect(),
        others: histogram.rows.len().saturating_sub(most),
    }
}

/// The table with its first rows; sums over the rest are kept where the table has such sums.
pub(super) fn first_rows(table: &ProbeTable, most: usize) -> ProbeTable {
    let mut kept = table.clone();
    let cut = kept.rows.split_off(most.min(kept.rows.len()));
    kept.others = kept.others.saturating_add(cut.len() as u64);
    for (at, column) in table.columns.iter().enumerate() {
        // Only the probe knows which columns may be summed: a longest time may not.
        let Some(sum) = kept.others_sum.get_mut(&column.id) else { continue };
        *sum += cut.iter().filter_map(|row| row.cells.get(at)?.number()).sum::<f64>();
    }
    kept
}

/// The sum over all stacks, those left out included.
pub(super) fn whole(all: &Stacks) -> f64 {
    all.stacks.iter().map(|stack| stack.value).sum::<f64>() + all.others
}

/// The largest stacks, with the frames that they need.
fn stack_sums(all: &Stacks) -> StackSums {
    let whole = whole(all);
    let left_out: f64 = all.stacks.iter().skip(MAX_STACKS).map(|stack| stack.value).sum();
    let mut places: BTreeMap<u32, u32> = BTreeMap::new();
    let mut frames = Vec::new();
    let mut kept = Vec::new();
    for stack in all.stacks.iter().take(MAX_STACKS) {
        let mut own = Vec::new();
        for at in stack.frames.iter().take(MAX_DEPTH) {
            let Some(frame) = all.frames.get(*at as usize) else { continue };
            let next = frames.len() as u32;
            let place = *places.entry(*at).or_insert(next);
            if place == next {
                frames.push(frame.clone());
            }
            own.push(place);
        }
        kept.push(Stack { frames: own, ..stack.clone() });
    }
    let share = |part: f64, of: f64| if of > 0.0 { (part / of).clamp(0.0, 1.0) } else { 0.0 };
    StackSums {
        whole,
        hot: Box::new(hot(all)),
        unresolved_ratio: share(all.unresolved, whole),
        truncated_ratio: share(all.truncated, whole),
        missing_ratio: share(all.missing, whole + all.missing),
        stacks: Stacks {
            id: all.id.clone(),
            title: all.title.clone(),
            unit: all.unit,
            activity: all.activity,
            frames,
            stacks: kept,
            others: all.others + left_out,
            ..*all
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_symbols_were_read_is_noted_once_and_other_notes_stay() {
        let of = |notes: &[&str]| {
            let notes = notes.iter().map(|note| (*note).to_owned()).collect();
            alone(&ProbeResult { notes, ..ProbeResult::default() }, "")
        };
        let lacks = format!("{LESS_CONFINED}Landlock");
        let mut probes = [of(&["x"]), of(&["y", &lacks]), of(&[&lacks, "x"])];
        confinement_once(&[], &mut probes);
        let left = probes.clone().map(|probed| probed.notes);
        assert_eq!(left, [vec!["x".to_owned()], vec!["y".to_owned(), lacks.clone()], vec!["x".to_owned()]]);
        confinement_once(&[lacks], &mut probes);
        assert_eq!(probes.map(|probed| probed.notes), [["x"], ["y"], ["x"]]);
    }
}
