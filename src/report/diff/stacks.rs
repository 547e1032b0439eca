//! Stacks of two measurements, normalised to the same whole.

use std::collections::HashMap;

use crate::calls::{Calls, Family, is_real};
use crate::flame::{Meaning, Picture};
use crate::shown::{Html, Shown};
use rdiag_model::comparison::{FunctionChange, StacksChange};
use rdiag_model::probe::{Activity, Stacks};

/// Functions that are listed.
const MAX_FUNCTIONS: usize = 40;
/// A smaller change of share is not listed: a twentieth of a point.
const LEAST: f64 = 0.0005;

/// Sum over all stacks, those that were not kept too.
fn whole(stacks: &Stacks) -> f64 {
    let kept: f64 = stacks.stacks.iter().map(|stack| stack.value).filter(|value| is_real(*value)).sum();
    kept + if is_real(stacks.others) { stacks.others } else { 0.0 }
}

/// Both, each with half of the whole; none if one is empty.
fn merged(before: &Stacks, after: &Stacks) -> Option<Calls> {
    let wholes = [whole(before), whole(after)];
    if wholes.iter().any(|whole| !is_real(*whole)) {
        return None;
    }
    let mut calls = Calls::default();
    for (side, (stacks, whole)) in [before, after].into_iter().zip(wholes).enumerate() {
        calls.add(stacks, side, 0.5 / whole);
    }
    calls.sort();
    Some(calls)
}

/// How the shares of functions moved.
#[must_use]
pub fn compare_stacks(probe: &str, before: &Stacks, after: &Stacks) -> StacksChange {
    let mut change = StacksChange {
        probe: probe.to_owned(),
        title: after.title.clone(),
        unit: after.unit,
        whole_before: whole(before),
        whole_after: whole(after),
        ..StacksChange::default()
    };
    let Some(mut calls) = merged(before, after) else { return change };
    if after.activity == Activity::Waiting {
        calls.end_before_scheduler();
    }
    let mut sums: HashMap<u32, ([f64; 2], [f64; 2])> = HashMap::new();
    let add = |sum: &mut [f64; 2], values: [f64; 2]| {
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += 2.0 * value);
    };
    for path in &calls.paths {
        let mut distinct = path.functions.clone();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.into_iter().for_each(|at| add(&mut sums.entry(at).or_default().1, path.values));
        if let Some(last) = path.functions.last() {
            add(&mut sums.entry(*last).or_default().0, path.values);
        }
    }
    let moved = |[before, after]: [f64; 2]| (after - before).abs();
    let mut functions: Vec<FunctionChange> = sums
        .into_iter()
        .filter(|(_, (own, total))| moved(*own) >= LEAST || moved(*total) >= LEAST)
        .filter_map(|(at, (own, total))| {
            let function = calls.function(at).filter(|function| function.family != Family::Owner)?;
            let kernel = function.family == Family::Kernel;
            Some(FunctionChange { name: function.name.clone(), object: function.object.clone(), kernel, own, total })
        })
        .collect();
    functions.sort_by(|a, b| {
        let by_own = moved(b.own).total_cmp(&moved(a.own));
        by_own
            .then(moved(b.total).total_cmp(&moved(a.total)))
            .then_with(|| (&a.name, &a.object).cmp(&(&b.name, &b.object)))
    });
    change.others = functions.len().saturating_sub(MAX_FUNCTIONS);
    functions.truncate(MAX_FUNCTIONS);
    change.functions = functions;
    change
}

/// The differential flame graph; none if one side has no stacks.
#[must_use]
pub fn picture(before: &Stacks, after: &Stacks, for_page: bool) -> Option<Shown<Html>> {
    let calls = merged(before, after)?;
    let left_out = [before, after].iter().filter(|stacks| is_real(stacks.others)).count();
    let left_out = if left_out > 0 { vec!["stacks that were not kept".to_owned()] } else { Vec::new() };
    let title = format!("{}, before and after", after.title);
    let picture = Picture { calls, title, whole: 1.0, meaning: Meaning::Difference, left_out };
    if for_page { picture.on_page() } else { picture.in_file() }
}
