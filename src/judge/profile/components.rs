//! The rows of the profile: each component over all threads, with what it is made of.

use std::collections::BTreeMap;

use rdiag_model::Component;
use rdiag_model::ledger::{Accuracy, Durations, FunctionTime, Ledger, Part, SlowCall};
use rdiag_model::probe::Frame;
use rdiag_model::profile::{ComponentRow, Piece};

use super::account::{Account, clean, share};
use super::skew;

/// Pieces of a component, by each key.
const MAX_PIECES: usize = 10;
/// Functions of a component, and the least share of one that is told.
const MAX_CODE: usize = 10;
const LEAST_CODE: f64 = 0.02;
/// Slow calls of a component.
const MAX_SLOW: usize = 5;

/// A sum with what is known about single waits.
#[derive(Default)]
struct Sum {
    seconds: f64,
    /// Of waits that began and ended within the window.
    whole: f64,
    count: Option<u64>,
    max: f64,
}

/// A component, being gathered.
#[derive(Default)]
struct Gathered {
    seconds: f64,
    variance: f64,
    estimated: bool,
    samples: Option<u64>,
    edge: f64,
    open: u64,
    durations: Option<Durations>,
    threads: BTreeMap<String, Sum>,
    calls: BTreeMap<String, Sum>,
    keys: BTreeMap<String, Sum>,
}

/// All components, the largest first.
pub(super) fn rows(account: &Account<'_>, ledger: &Ledger) -> Vec<ComponentRow> {
    let mut all: BTreeMap<Component, Gathered> = BTreeMap::new();
    for thread in &account.threads {
        let name = thread.name();
        for part in thread.thread.parts.iter().filter(|part| clean(part.seconds) > 0.0 || part.durations.is_some()) {
            all.entry(part.component).or_default().add(part, &name);
        }
    }
    let busy = account.sum_of(|component| !account.is_idle(component));
    let mut rows: Vec<ComponentRow> =
        all.into_iter().map(|(id, gathered)| gathered.row(id, account, busy, ledger)).collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.id.cmp(&b.id)));
    rows
}

impl Sum {
    fn add(&mut self, part: &Part) {
        self.seconds += clean(part.seconds);
        if let Some(durations) = &part.durations {
            self.count = Some(self.count.unwrap_or(0).saturating_add(durations.count));
            self.whole += clean(durations.seconds);
            self.max = self.max.max(clean(durations.max));
        }
    }
}

impl Gathered {
    fn add(&mut self, part: &Part, thread: &str) {
        self.seconds += clean(part.seconds);
        self.edge += clean(part.edge_seconds);
        self.open = self.open.saturating_add(part.open);
        match part.accuracy {
            Accuracy::Exact => {}
            Accuracy::Estimate(error) => {
                self.estimated = true;
                self.variance += clean(error.unwrap_or(0.0)).powi(2);
            }
            Accuracy::Sampled(samples, error) => {
                self.estimated = true;
                self.samples = Some(self.samples.unwrap_or(0).saturating_add(samples));
                self.variance += clean(error).powi(2);
            }
        }
        if let Some(durations) = &part.durations {
            self.durations.get_or_insert_default().add(&cleaned(durations));
        }
        self.threads.entry(thread.to_owned()).or_default().add(part);
        for (sums, name) in [(&mut self.calls, &part.call), (&mut self.keys, &part.key)] {
            sums.entry(name.clone()).or_default().add(part);
        }
    }

    fn row(self, id: Component, account: &Account<'_>, busy: f64, ledger: &Ledger) -> ComponentRow {
        let def = id.def();
        let (total, idle) = (account.total, account.is_idle(id));
        let keys = pieces(self.keys, self.seconds);
        let durations = self.durations.as_ref();
        let (skew, skew_words) = skew::verdict(durations, &keys);
        let some = durations.filter(|durations| durations.count > 0);
        ComponentRow {
            id,
            title: def.title.into(),
            help: def.help.into(),
            seconds: self.seconds,
            share: share(self.seconds, total),
            plus_minus: (self.variance > 0.0).then(|| self.variance.sqrt()),
            exact: !self.estimated,
            samples: self.samples,
            count: durations.map(|durations| durations.count),
            mean: some.and_then(Durations::mean),
            min: some.map(|durations| durations.min),
            p50: skew::percentile(durations, 0.5),
            p95: skew::percentile(durations, 0.95),
            p99: skew::percentile(durations, 0.99),
            max: some.map(|durations| durations.max),
            open: self.open,
            edge_seconds: self.edge,
            idle,
            busy_share: (!idle).then(|| share(self.seconds, busy)),
            threads: pieces(self.threads, self.seconds),
            calls: named(pieces(self.calls, self.seconds)),
            keys: named(keys),
            code: code(ledger, id, self.seconds),
            ranges: durations.map(skew::ranges).unwrap_or_default(),
            bins: durations.map(skew::bins).unwrap_or_default(),
            skew,
            skew_words,
            slow: slow(ledger, id),
            rules: def.rules.iter().map(|rule| (*rule).to_owned()).collect(),
            next: Vec::new(),
        }
    }
}

/// The functions of a component that have more than a fiftieth of it.
fn code(ledger: &Ledger, id: Component, whole: f64) -> Vec<Piece> {
    let own = ledger.stacks.iter().filter(|stacks| stacks.component == id).flat_map(|stacks| &stacks.functions);
    let piece = |function: &FunctionTime| {
        let Frame { name, object, .. } = &function.function;
        let seconds = clean(function.seconds);
        Piece {
            name: object.as_ref().map_or_else(|| name.clone(), |object| format!("{name} ({object})")),
            seconds,
            share: share(seconds, whole).min(1.0),
            count: Some(function.count),
            mean: None,
            max: None,
            others: 0,
        }
    };
    own.map(piece).filter(|piece| piece.share > LEAST_CODE).take(MAX_CODE).collect()
}

/// Nothing is known if all that is known is that nothing is known.
fn named(pieces: Vec<Piece>) -> Vec<Piece> {
    if pieces.iter().all(|piece| piece.name.is_empty()) { Vec::new() } else { pieces }
}

fn pieces(sums: BTreeMap<String, Sum>, whole: f64) -> Vec<Piece> {
    let mut all: Vec<Piece> = sums
        .into_iter()
        .map(|(name, sum)| Piece {
            name,
            seconds: sum.seconds,
            share: share(sum.seconds, whole),
            count: sum.count,
            mean: sum.count.filter(|count| *count > 0).map(|count| sum.whole / count as f64),
            max: sum.count.map(|_| sum.max),
            others: 0,
        })
        .collect();
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.name.cmp(&b.name)));
    let cut = all.split_off(MAX_PIECES.min(all.len()));
    if !cut.is_empty() {
        let seconds: f64 = cut.iter().map(|piece| piece.seconds).sum();
        let counts: Option<u64> =
            cut.iter().map(|piece| piece.count).try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)));
        all.push(Piece {
            name: String::new(),
            seconds,
            share: share(seconds, whole),
            count: counts,
            mean: None,
            max: cut.iter().filter_map(|piece| piece.max).reduce(f64::max),
            others: cut.len() as u64,
        });
    }
    all
}

fn slow(ledger: &Ledger, id: Component) -> Vec<SlowCall> {
    let mut slow: Vec<SlowCall> =
        ledger.slow.iter().filter(|call| call.component == id && clean(call.seconds) > 0.0).cloned().collect();
    slow.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    slow.truncate(MAX_SLOW);
    slow
}

/// Durations that can be added up.
fn cleaned(durations: &Durations) -> Durations {
    Durations {
        count: durations.count,
        seconds: clean(durations.seconds),
        min: clean(durations.min),
        max: clean(durations.max),
        buckets: durations.buckets.iter().filter(|bucket| bucket.below.is_finite()).take(1_000).copied().collect(),
    }
}
