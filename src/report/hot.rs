//! Stacks → where their values come from: self and total by function, the hottest path, trees of callees and callers. This is done once,
//! for all renderers.

use std::collections::{BTreeMap, HashMap};

use super::calls::{Calls, Family, Function, LeftOut, Node};
use rdiag_model::hot::{CallNode, CallTree, Hot, HotRow, HotTable};
use rdiag_model::probe::{Activity, Stacks};

/// Rows of a table.
const ROWS: usize = 25;
/// Calls of a tree.
const NODES: usize = 120;
/// No smaller branch is shown, as a share of the whole.
const LEAST: f64 = 0.005;
/// Longest path.
const PATH: usize = 64;
/// A callee with less than this share of its caller's value is not where the time is.
const FOLLOWED: f64 = 0.3;

/// The analysis of stacks.
#[must_use]
pub fn hot(stacks: &Stacks) -> Hot {
    let mut calls = Calls::of(stacks);
    let whole = calls.whole() + stacks.others.max(0.0);
    if stacks.activity == Activity::Waiting {
        calls.end_before_scheduler();
    }
    let callers = calls.reversed();
    let sums = sums(&calls);
    let (nodes, cut) = calls.nodes(LEAST * whole, NODES);
    let (mut outward, outward_cut) = callers.nodes(LEAST * whole, NODES);
    // Where a stack begins is nothing that its outermost function has of its own.
    outward.iter_mut().for_each(|node| node.own = [0.0; 2]);
    Hot {
        whole,
        commands: table(sums.commands),
        objects: table(sums.objects),
        functions: table(sums.functions),
        path: path(&calls, &nodes),
        callees: tree(&calls, &nodes, cut),
        callers: tree(&callers, &outward, outward_cut),
    }
}

/// Own and total values, by key.
#[derive(Default)]
struct Sums {
    commands: Vec<HotRow>,
    objects: Vec<HotRow>,
    functions: Vec<HotRow>,
}

fn sums(calls: &Calls) -> Sums {
    let mut functions: HashMap<u32, (f64, f64)> = HashMap::new();
    let mut objects: BTreeMap<(&str, bool), (f64, f64)> = BTreeMap::new();
    for path in &calls.paths {
        let value: f64 = path.values.iter().sum();
        // Once for each stack, however often it calls itself.
        let mut distinct = path.functions.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let mut held: Vec<_> = distinct.iter().filter_map(|at| object(calls.function(*at)?)).collect();
        held.sort_unstable();
        held.dedup();
        distinct.into_iter().for_each(|at| functions.entry(at).or_default().1 += value);
        held.into_iter().for_each(|key| objects.entry(key).or_default().1 += value);
        let Some(last) = path.functions.last() else { continue };
        functions.entry(*last).or_default().0 += value;
        if let Some(key) = calls.function(*last).and_then(object) {
            objects.entry(key).or_default().0 += value;
        }
    }
    let mut sums = Sums::default();
    for (at, (own, total)) in functions {
        let Some(function) = calls.function(at) else { continue };
        let mut row = row(function, own, total);
        if function.family == Family::Owner {
            row.own = total;
            sums.commands.push(row);
        } else {
            sums.functions.push(row);
        }
    }
    let row = |((name, kernel), (own, total)): ((&str, bool), (f64, f64))| HotRow {
        name: name.to_owned(),
        object: None,
        kernel,
        own,
        total,
    };
    sums.objects = objects.into_iter().map(row).collect();
    sums
}

fn object(function: &Function) -> Option<(&str, bool)> {
    let kernel = function.family == Family::Kernel;
    let unknown = if kernel { "[kernel]" } else { "[unknown]" };
    (function.family != Family::Owner).then(|| (function.object.as_deref().unwrap_or(unknown), kernel))
}

fn row(function: &Function, own: f64, total: f64) -> HotRow {
    HotRow {
        name: function.name.clone(),
        object: function.object.clone(),
        kernel: function.family == Family::Kernel,
        own,
        total,
    }
}

fn table(mut rows: Vec<HotRow>) -> HotTable {
    rows.sort_by(|a, b| {
        let by = |row: &HotRow| (row.own, row.total);
        let (a_own, a_total) = by(a);
        let (b_own, b_total) = by(b);
        let name = || (&a.name, &a.object).cmp(&(&b.name, &b.object));
        b_own.total_cmp(&a_own).then(b_total.total_cmp(&a_total)).then_with(name)
    });
    let cut = rows.split_off(ROWS.min(rows.len()));
    HotTable { others: cut.len(), others_self: cut.iter().fold(0.0, |sum, row| sum + row.own), rows }
}

/// From the owner with most inwards, as long as one callee stands out.
fn path(calls: &Calls, nodes: &[Node]) -> Vec<HotRow> {
    let weight = |node: &Node| -> f64 { node.values.iter().sum() };
    let below = below(nodes);
    let mut path = Vec::new();
    let mut at = None;
    while let Some(next) = below.get(&at).and_then(|nodes| nodes.first())
        && let Some(node) = nodes.get(*next)
        && let Some(function) = calls.function(node.function)
        && path.len() < PATH
    {
        let caller = path.last().map_or(0.0, |row: &HotRow| row.total);
        if weight(node) < FOLLOWED * caller {
            break;
        }
        path.push(row(function, node.own.iter().sum(), weight(node)));
        at = Some(*next);
    }
    path
}

/// The nodes below each node, the largest first.
fn below(nodes: &[Node]) -> HashMap<Option<usize>, Vec<usize>> {
    // They come in order of their values.
    let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        below.entry(node.parent).or_default().push(at);
    }
    below
}

fn tree(calls: &Calls, nodes: &[Node], cut: LeftOut) -> CallTree {
    let below = below(nodes);
    let mut tree =
        CallTree { cut: cut.branches, cut_value: cut.value, cut_largest: cut.largest, ..CallTree::default() };
    let children = |at: Option<usize>| below.get(&at).into_iter().flatten().rev().copied();
    let mut waiting: Vec<usize> = children(None).collect();
    while let Some(at) = waiting.pop() {
        let Some(node) = nodes.get(at) else { continue };
        if let Some(function) = calls.function(node.function) {
            tree.nodes.push(CallNode {
                depth: u16::try_from(node.depth).unwrap_or(u16::MAX),
                name: function.name.clone(),
                object: function.object.clone(),
                kernel: function.family == Family::Kernel,
                value: node.values.iter().sum(),
                own: node.own.iter().sum(),
            });
        }
        waiting.extend(children(Some(at)));
    }
    tree
}

#[cfg(test)]
#[path = "hot_tests.rs"]
mod tests;
