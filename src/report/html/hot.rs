//! Where the values of stacks come from, as the page shows it: tables, and trees that open without a script.

use serde::Serialize;

use super::table::{CellView, Head, TableView};
use crate::escape::visible_within as short;
use crate::{hot_words as words, probe_words};
use rdiag_model::Unit;
use rdiag_model::call_trace::{Call, CallTrace as Trace};
use rdiag_model::hot::{CallTree, Hot, HotRow, HotTable};
use rdiag_model::probe::Stacks;

/// Longest name, in characters.
const MAX_NAME: usize = 100;
/// Functions in one line of a tree; more are named by their number.
const MAX_NAMES: usize = 8;
/// Lines of a tree for each row of a table.
const LINES: usize = 4;
/// Branches that stand open: so many levels.
const OPEN: usize = 2;
/// Levels of a page below each other.
const DEEPEST: usize = 50;

#[derive(Serialize)]
pub(super) struct HotView {
    meaning: &'static str,
    path: String,
    functions: TableView,
    objects: TableView,
    commands: TableView,
    trees: Vec<TreeView>,
}

/// A tree that opens without a script.
#[derive(Serialize)]
pub(super) struct TreeView {
    title: String,
    lines: Vec<LineView>,
    cut: String,
}

#[derive(Serialize)]
struct LineView {
    figure: String,
    name: String,
    /// What else is said of it.
    more: String,
    /// Whether lines below it follow, and whether they are seen at once.
    has_more: bool,
    open: bool,
    /// How many lines above end with this one.
    ends: usize,
}

impl HotView {
    pub(super) fn of(stacks: &Stacks, hot: &Hot, rows: usize) -> Self {
        let unit = stacks.unit;
        let trees = [
            ("What is called, from the outermost function", &hot.callees),
            ("Who calls the hottest functions", &hot.callers),
        ];
        Self {
            meaning: words::meaning(stacks.activity),
            path: words::path(hot, 16).map(|path| short(&path, 800).into_owned()).unwrap_or_default(),
            functions: table("Functions", "Function", &hot.functions, hot, rows, true),
            objects: table("Objects", "Object", &hot.objects, hot, rows, false),
            commands: table("Commands", "Command", &hot.commands, hot, rows, false),
            trees: trees.into_iter().map(|(title, tree)| TreeView::of(title, tree, hot, unit, rows * LINES)).collect(),
        }
    }
}

fn table(title: &str, what: &str, table: &HotTable, hot: &Hot, most: usize, objects: bool) -> TableView {
    let head = |title: &str, number| Head { title: title.to_owned(), number };
    let mut heads = vec![head("Self", true), head("Total", true), head(what, false)];
    heads.extend(objects.then(|| head("Object", false)));
    let text = |text: &str| CellView { text: short(text, MAX_NAME).into_owned(), number: false };
    let row = |row: &HotRow| {
        let share = |value| CellView { text: words::share(hot, value), number: true };
        let mut cells = vec![share(row.own), share(row.total), text(&row.name)];
        cells.extend(objects.then(|| text(row.object.as_deref().unwrap_or("–"))));
        cells
    };
    let hidden = table.rows.iter().skip(most);
    let (count, own) = (table.others + hidden.clone().count(), hidden.map(|row| row.own).sum::<f64>());
    let others = format!("and {count} more, {} self", words::share(hot, table.others_self + own));
    TableView {
        title: title.to_owned(),
        head: heads,
        rows: table.rows.iter().take(most).map(row).collect(),
        others: if count > 0 { others } else { String::new() },
    }
}

impl TreeView {
    fn of(title: &'static str, tree: &CallTree, hot: &Hot, unit: Unit, most: usize) -> Self {
        let all = words::lines(tree);
        let lines = all.get(..all.len().min(most)).unwrap_or_default();
        let next = lines.iter().skip(1).map(|line| line.depth).chain([0]);
        let view = |(line, next): (&words::Line, usize)| {
            let named =
                |names: &[String]| names.iter().map(|name| short(name, MAX_NAME)).collect::<Vec<_>>().join(" › ");
            let name = match line.names.len().checked_sub(MAX_NAMES).filter(|more| *more > 0) {
                None => named(&line.names),
                Some(more) => {
                    let (first, last) = line.names.split_at(MAX_NAMES / 2);
                    let last = last.get(more..).unwrap_or_default();
                    format!("{} › … {more} more … › {}", named(first), named(last))
                }
            };
            LineView {
                figure: words::share(hot, line.value),
                name,
                more: if line.own > 0.0 { format!("{} self", words::share(hot, line.own)) } else { String::new() },
                has_more: next > line.depth,
                open: line.depth < OPEN,
                ends: line.depth.saturating_sub(next),
            }
        };
        Self {
            title: title.to_owned(),
            lines: lines.iter().zip(next).map(view).collect(),
            cut: words::cut(hot, tree, unit, all.len() - lines.len()),
        }
    }

    /// Calls as they happened.
    pub(super) fn calls(trace: &Trace, most: usize) -> Self {
        let (mut calls, cut) = probe_words::calls(trace, most, usize::MAX);
        calls.iter_mut().for_each(|(_, depth)| *depth = (*depth).min(DEEPEST));
        let next = calls.iter().skip(1).map(|(_, depth)| *depth).chain([0]);
        let view = |((call, depth), next): (&(&Call, usize), usize)| LineView {
            figure: probe_words::took(call),
            name: short(&call.function, MAX_NAME).into_owned(),
            more: short(&probe_words::whose(call), MAX_NAME).into_owned(),
            has_more: next > *depth,
            open: *depth < OPEN,
            ends: depth.saturating_sub(next),
        };
        Self { title: trace.title.clone(), lines: calls.iter().zip(next).map(view).collect(), cut }
    }
}
