//! Repeated runs of one program (`--each`): how their response times and components are spread, and what differs between the slowest
//! quarter (of many runs: tenth) and the faster half.
//!
//! Runs are identified by process and parent, at level L3 only: samples miss short ones. With a command, the process that stands still
//! stays rdiag, starts it again and again, and is left out of the account.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::Component;
use rdiag_model::ledger::{Ledger, Level, Target};
use rdiag_model::probed::Bar;
use rdiag_model::profile::Conversation;
use rdiag_model::quantity::{percent, seconds};
use rdiag_model::runs::{Difference, Growth, Run, RunComponent, Runs, Spread};

use super::Mentioned;
use super::account::{Account, ThreadAccount, share};
use super::keys::{self, Look};
use super::names::cut;
use super::percentile;
use super::serial::{Family, Key, Parts, leaders, own_parts};

/// Fewer runs than this are not divided into slow and fast ones.
pub(super) const LEAST: usize = 8;
/// From this many runs on the slowest tenth is compared, before the slowest quarter.
const MANY: usize = 50;
/// Slow runs that take longer than the fast ones by less than this share are no slow runs: some run is always the last.
const ALIKE: f64 = 0.1;
/// Rows of components, of growth, of slow runs; bars.
const MAX_ROWS: usize = 16;
const MAX_BARS: usize = 12;

/// A run with all its parts.
pub(super) struct One<'l, 'a> {
    first: &'a ThreadAccount<'l>,
    number: u64,
    pub(super) parts: Parts<'l>,
}

impl One<'_, '_> {
    pub(super) fn seconds(&self) -> f64 {
        self.first.seconds
    }

    /// What it is called by, if that was read.
    pub(super) fn key(&self) -> Option<&str> {
        self.first.thread.key.as_deref()
    }

    pub(super) fn of(&self, id: Component) -> f64 {
        self.parts.iter().filter(|(key, _)| key.component == id).map(|(_, seconds)| seconds).sum()
    }
}

/// The runs of a window, and how they stand to the goal that was told.
pub(super) fn runs(
    account: &Account<'_>,
    ledger: &Ledger,
    target: &Target,
    told: &Conversation,
    mentioned: &Mentioned,
) -> Runs {
    let goal = told.goal_seconds;
    if ledger.level != Level::L3 {
        let limit = "Single runs are measured inside the kernel only (level L3), which this account is \
                     not: it is about all runs together.";
        return Runs { limits: vec![limit.to_owned()], ..Runs::default() };
    }
    let (whole, open): (Vec<_>, Vec<_>) =
        firsts(account, target).into_iter().partition(|own| own.thread.born && own.thread.died);
    let family = Family::new(account);
    let mut beside = 0_usize;
    let mut all: Vec<One<'_, '_>> = Vec::new();
    for (first, number) in whole.into_iter().zip(1..) {
        let (parts, with_children) =
            if target.marks.is_some() { (own_parts(first, ""), true) } else { family.serial(first) };
        beside += usize::from(!with_children);
        all.push(One { first, number, parts });
    }
    // The fastest first, from here on.
    all.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
    let times: Vec<f64> = all.iter().map(One::seconds).collect();
    let every: Vec<&One<'_, '_>> = all.iter().collect();
    let difference = difference(&every, mentioned.growth);
    let slow = difference.as_ref().map_or(0, |difference| difference.slow_runs as usize);
    let look = Look { slow, goal, growth: mentioned.growth };
    let field = target.marks.as_ref().and_then(|marks| marks.key.as_deref());
    let mut runs = Runs {
        count: all.len() as u64,
        open: open.len() as u64,
        response: spread(&times),
        within_goal: goal.map(|goal| times.iter().filter(|time| **time <= goal).count() as u64),
        percentile: told.goal_share.zip(goal).map(|(share, goal)| percentile::of(&all, share, goal)),
        histogram: histogram(&times),
        components: components(&all),
        keyed: field.map(|field| keys::keyed(&all, field, look)),
        difference,
        slowest: all.iter().rev().take(MAX_ROWS).map(run).collect(),
        headline: String::new(),
        limits: limits(&all, account, target, beside),
        between: target.marks.clone(),
        followed: ledger.follows,
    };
    runs.headline = headline(&runs);
    runs
}

/// The first threads of the runs, in the order in which they began: what the starter started; by name, all that were not
/// started within another run. A server that is always there may well start what counts as a run of its own. Between marks each
/// record is one.
fn firsts<'l, 'a>(account: &'a Account<'l>, target: &Target) -> Vec<&'a ThreadAccount<'l>> {
    let of_runs = leaders(account).filter(|own| own.thread.born && own.thread.died);
    let of_runs: BTreeSet<u32> = of_runs.map(|own| own.thread.pid).collect();
    let is_first = |own: &&ThreadAccount<'_>| match target.starter() {
        Some(starter) => own.thread.parent == starter,
        None => !of_runs.contains(&own.thread.parent),
    };
    let mut firsts: Vec<_> = if target.marks.is_some() {
        account.threads.iter().filter(|own| own.thread.tid != 0).collect()
    } else {
        leaders(account).filter(is_first).collect()
    };
    firsts.sort_by(|a, b| a.thread.began.total_cmp(&b.thread.began));
    firsts
}

fn run(one: &One<'_, '_>) -> Run {
    let ids: BTreeSet<Component> = one.parts.keys().map(|key| key.component).collect();
    let mut parts: Vec<(Component, f64)> = ids.into_iter().map(|id| (id, one.of(id))).collect();
    parts.retain(|(_, seconds)| *seconds > 0.0);
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let key = one.key().map(str::to_owned);
    Run {
        number: one.number,
        pid: one.first.thread.pid,
        key,
        at: one.first.thread.began,
        seconds: one.seconds(),
        parts,
    }
}

/// How values are spread; none of nothing. Percentiles where there are ten values beyond them.
pub(super) fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |part: f64| sorted.get(((part * sorted.len() as f64).ceil() as usize).saturating_sub(1)).copied();
    let sure = |part: f64| rank(part).filter(|_| sorted.len() as f64 >= (10.0 / (1.0 - part)).round());
    Some(Spread {
        mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        min: *sorted.first()?,
        p50: rank(0.5)?,
        p95: sure(0.95),
        p99: sure(0.99),
        max: *sorted.last()?,
    })
}

/// Ascending values in ranges of equal width.
fn histogram(sorted: &[f64]) -> Vec<Bar> {
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let number = ((sorted.len() as f64).sqrt().ceil() as usize * 2).clamp(1, MAX_BARS);
    let width = (most - least) / number as f64;
    if width <= 0.0 {
        return vec![Bar { from: *least, below: *most, count: sorted.len() as u64, length: 1.0 }];
    }
    let bound = |at: usize| least + width * at as f64;
    let mut bars: Vec<Bar> =
        (0..number).map(|at| Bar { from: bound(at), below: bound(at + 1), ..Bar::default() }).collect();
    for value in sorted {
        let at = (((value - least) / width) as usize).min(number - 1);
        if let Some(bar) = bars.get_mut(at) {
            bar.count += 1;
        }
    }
    let fullest = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
    for bar in &mut bars {
        bar.length = share(bar.count as f64, fullest as f64);
    }
    bars
}

fn components(all: &[One<'_, '_>]) -> Vec<RunComponent> {
    let whole: f64 = all.iter().map(One::seconds).sum();
    let ids: BTreeSet<Component> = all.iter().flat_map(|one| one.parts.keys().map(|key| key.component)).collect();
    let row = |id: Component| {
        let values: Vec<f64> = all.iter().map(|one| one.of(id)).collect();
        Some(RunComponent {
            id,
            title: id.def().title.to_owned(),
            share: share(values.iter().sum(), whole),
            runs: values.iter().filter(|seconds| **seconds > 0.0).count() as u64,
            spread: spread(&values).filter(|spread| spread.max > 0.0)?,
        })
    };
    let mut rows: Vec<RunComponent> = ids.into_iter().filter_map(row).collect();
    rows.sort_by(|a, b| b.spread.mean.total_cmp(&a.spread.mean));
    rows.truncate(MAX_ROWS);
    rows
}

/// The slow runs against the faster half; none where there are too few of them, or the slow ones are hardly slower. Growth of less
/// than `least_growth` of the difference has no row.
pub(super) fn difference(all: &[&One<'_, '_>], least_growth: f64) -> Option<Difference> {
    if all.len() < LEAST {
        return None;
    }
    let slow = all.len().div_ceil(if all.len() >= MANY { 10 } else { 4 });
    let (rest, slow) = all.split_at_checked(all.len() - slow)?;
    let fast = rest.get(..all.len() / 2)?;
    let (slow_mean, fast_mean) = (mean(slow, |one| one.seconds()), mean(fast, |one| one.seconds()));
    let gap = slow_mean - fast_mean;
    if gap <= ALIKE * fast_mean {
        return None;
    }
    let ids: BTreeSet<Component> = all.iter().flat_map(|one| one.parts.keys().map(|key| key.component)).collect();
    let growth = |id: Component| {
        let highest = fast.iter().map(|one| one.of(id)).fold(0.0, f64::max);
        let (slow_mean, fast_mean) = (mean(slow, |one| one.of(id)), mean(fast, |one| one.of(id)));
        Growth {
            id,
            title: id.def().title.to_owned(),
            mostly: mostly(id, slow, fast),
            slow_mean,
            fast_mean,
            seconds: slow_mean - fast_mean,
            share: share(slow_mean - fast_mean, gap),
            above_all_fast: slow.iter().filter(|one| one.of(id) > highest).count() as u64,
        }
    };
    let mut rows: Vec<Growth> = ids.into_iter().map(growth).collect();
    let explained: f64 = rows.iter().map(|row| row.seconds).sum();
    rows.retain(|row| row.share.abs() >= least_growth);
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    rows.truncate(MAX_ROWS);
    Some(Difference {
        slow_runs: slow.len() as u64,
        fast_runs: fast.len() as u64,
        slow_mean,
        fast_mean,
        seconds: gap,
        rows,
        unexplained_seconds: gap - explained,
    })
}

fn mean(of: &[&One<'_, '_>], value: impl Fn(&One<'_, '_>) -> f64) -> f64 {
    share(of.iter().map(|one| value(one)).sum(), of.len() as f64)
}

/// The call, the object and the child of a component that grew most from fast to slow runs; "" if none is known.
fn mostly(id: Component, slow: &[&One<'_, '_>], fast: &[&One<'_, '_>]) -> String {
    let mut growth: BTreeMap<Key<'_>, f64> = BTreeMap::new();
    for (of, weight) in [(slow, 1.0 / slow.len() as f64), (fast, -1.0 / fast.len() as f64)] {
        for (key, seconds) in of.iter().flat_map(|one| &one.parts).filter(|(key, _)| key.component == id) {
            *growth.entry(*key).or_default() += seconds * weight;
        }
    }
    let most = growth.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, seconds)| *seconds > 0.0);
    let Some((key, _)) = most else { return String::new() };
    let mut words = Vec::new();
    if !key.call.is_empty() {
        words.push(cut(key.call));
    }
    if !key.object.is_empty() {
        words.push(format!("[{}]", cut(key.object)));
    }
    if !key.child.is_empty() {
        words.push(format!("in {}", cut(key.child)));
    }
    words.join(" ")
}

/// `20 runs took 1.02 s on average (…); the slowest 5 took 1.00 s longer than the fastest 10: 98% of that is …`.
fn headline(runs: &Runs) -> String {
    let Some(response) = &runs.response else { return "No run both began and ended within the window.".to_owned() };
    if runs.count == 1 {
        return format!("One run took {}; a distribution takes more than one.", seconds(response.mean));
    }
    let spread = format!(
        "{} runs took {} on average (median {}, from {} to {})",
        runs.count,
        seconds(response.mean),
        seconds(response.p50),
        seconds(response.min),
        seconds(response.max)
    );
    let Some(difference) = &runs.difference else {
        let why = if (runs.count as usize) < LEAST {
            format!("too few to compare slow runs with fast ones, which takes {LEAST}")
        } else {
            format!("the slow ones take less than {} longer than the fast ones", percent(ALIKE))
        };
        return format!("{spread}; {why}.");
    };
    let mut text = format!(
        "{spread}; the slowest {} took {} longer than the fastest {}",
        difference.slow_runs,
        seconds(difference.seconds),
        difference.fast_runs
    );
    for (at, row) in difference.rows.iter().take(3).enumerate() {
        if row.share < ALIKE {
            break;
        }
        let mostly = if row.mostly.is_empty() { String::new() } else { format!(", {}", row.mostly) };
        let of = if at == 0 { ": " } else { "; " };
        let that = if at == 0 { " of that" } else { "" };
        text.push_str(&format!("{of}{}{that} is {}{mostly}", percent(row.share), row.id.def().phrase));
    }
    text.push('.');
    if let Some(keyed) = runs.keyed.as_ref().filter(|keyed| !keyed.headline.is_empty()) {
        text.push(' ');
        text.push_str(&keyed.headline);
    }
    text
}

fn limits(all: &[One<'_, '_>], account: &Account<'_>, target: &Target, beside: usize) -> Vec<String> {
    let mut limits = Vec::new();
    let summed = account.threads.iter().filter(|own| own.thread.tid == 0).map(|own| u64::from(own.thread.stands_for));
    let summed: u64 = summed.sum();
    if summed > 0 && target.marks.is_some() {
        limits.push(format!(
            "{summed} more were seen and are summed up; those here are a sample, of which each had the same chance."
        ));
    } else if summed > 0 {
        limits.push(format!(
            "{summed} threads are summed up instead of listed, mostly the shortest, so the fastest runs are missing \
             here: repeat it fewer times."
        ));
    }
    if beside > 0 {
        limits.push(format!(
            "In {beside} of {} runs children ran side by side, or beside their parent: their time is not divided, and counts as \
             waiting for a child or as what the parent did meanwhile.",
            all.len()
        ));
    }
    limits
}
