//! The words about where values come from that all renderers share. Names within are as they were found.

use rdiag_model::Unit;
use rdiag_model::hot::{CallTree, Hot};
use rdiag_model::probe::Activity;
use rdiag_model::quantity::{number, percent, with_unit};

/// What "self" and "total" mean.
pub(super) fn meaning(activity: Activity) -> &'static str {
    match activity {
        Activity::Running => "Self: the function itself was on the CPU. Total: it was, or something that it called.",
        Activity::Waiting => {
            "Self: the function went to sleep; the scheduler’s own functions are left aside. Total: it did, or something that \
             it called."
        }
        Activity::Event => "Self: of stacks that end in the function. Total: of stacks that it is in.",
    }
}

/// A share of the whole.
pub(super) fn share(hot: &Hot, value: f64) -> String {
    percent(if hot.whole > 0.0 { (value / hot.whole).clamp(0.0, 1.0) } else { 0.0 })
}

/// The functions with most of their own, in a line: `work 41.0%, read 20.0%`; none without functions.
pub(super) fn functions(hot: &Hot, most: usize) -> Option<String> {
    let rows = hot.functions.rows.iter().filter(|row| row.own > 0.0).take(most);
    let rows: Vec<String> = rows.map(|row| format!("{} {}", row.name, share(hot, row.own))).collect();
    (!rows.is_empty()).then(|| rows.join(", "))
}

/// The path with most: `app › main › work (41.0%)`; the middle of a long one is left out.
pub(super) fn path(hot: &Hot, most: usize) -> Option<String> {
    let last = hot.path.last().filter(|_| hot.path.len() > 1)?;
    let mut names: Vec<&str> = hot.path.iter().map(|row| row.name.as_str()).collect();
    if let Some(hidden) = names.len().checked_sub(most.max(2)).filter(|hidden| *hidden > 0) {
        names.splice(1..=hidden, ["…"]);
    }
    Some(format!("{} ({})", names.join(" › "), share(hot, last.total)))
}

/// What a tree does not show; empty when it shows everything.
pub(super) fn cut(hot: &Hot, tree: &CallTree, unit: Unit, hidden: usize) -> String {
    let lines = if hidden > 0 { format!("the last {hidden} lines") } else { String::new() };
    let branches = if tree.cut > 0 {
        let (many, value) = (number(tree.cut as f64), with_unit(tree.cut_value, unit));
        format!("{many} smaller branches ({value} together, none above {})", share(hot, tree.cut_largest))
    } else {
        String::new()
    };
    let parts: Vec<String> = [lines, branches].into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!("Not shown: {}.", parts.join(", ")) }
}

/// A line of a tree: calls that nothing branches off from stand in one line.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Line {
    /// Lines above it that it belongs to.
    pub(super) depth: usize,
    /// The functions, outermost first.
    pub(super) names: Vec<String>,
    /// Value of the stacks that go through them.
    pub(super) value: f64,
    /// Of these, the stacks that end in the last of them.
    pub(super) own: f64,
}

/// The lines of a tree.
pub(super) fn lines(tree: &CallTree) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    // Of the lines that the next node may belong to: depth of the last node in each.
    let mut open: Vec<u16> = Vec::new();
    let mut before: Option<&rdiag_model::hot::CallNode> = None;
    for node in &tree.nodes {
        let only = before.is_some_and(|before| {
            node.depth == before.depth.saturating_add(1) && before.own <= 0.0 && node.value >= before.value * 0.9999
        });
        before = Some(node);
        // The only callee, which has all that its caller has.
        if let (true, Some(line), Some(last)) = (only, lines.last_mut(), open.last_mut()) {
            line.names.push(node.name.clone());
            line.own = node.own;
            *last = node.depth;
            continue;
        }
        while open.last().is_some_and(|depth| *depth >= node.depth) {
            open.pop();
        }
        lines.push(Line { depth: open.len(), names: vec![node.name.clone()], value: node.value, own: node.own });
        open.push(node.depth);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::hot::{CallNode, HotRow};

    fn node(depth: u16, name: &str, value: f64, own: f64) -> CallNode {
        CallNode { depth, name: name.into(), value, own, ..CallNode::default() }
    }

    #[test]
    fn calls_without_a_branch_stand_in_one_line() {
        let nodes = vec![
            node(0, "app", 9.0, 0.0),
            node(1, "main", 9.0, 0.0),
            node(2, "x", 6.0, 0.0),
            node(3, "y", 6.0, 6.0),
            node(2, "z", 3.0, 2.0),
            node(3, "w", 1.0, 1.0),
            node(0, "other", 1.0, 1.0),
        ];
        let tree = CallTree { nodes, ..CallTree::default() };
        let lines = lines(&tree);
        let shown: Vec<_> = lines.iter().map(|line| (line.depth, line.names.join("/"), line.value, line.own)).collect();
        let expected = [
            (0, "app/main", 9.0, 0.0),
            (1, "x/y", 6.0, 6.0),
            (1, "z", 3.0, 2.0),
            (2, "w", 1.0, 1.0),
            (0, "other", 1.0, 1.0),
        ];
        assert_eq!(shown, expected.map(|(depth, names, value, own)| (depth, names.to_owned(), value, own)));
    }

    #[test]
    fn a_long_path_keeps_its_ends() {
        let row = |name: &str| HotRow { name: name.into(), total: 5.0, ..HotRow::default() };
        let hot = Hot { whole: 10.0, path: ["a", "b", "c", "d", "e"].map(row).to_vec(), ..Hot::default() };
        assert_eq!(path(&hot, 9).unwrap(), "a › b › c › d › e (50.0%)");
        assert_eq!(path(&hot, 3).unwrap(), "a › … › d › e (50.0%)");
        assert_eq!(path(&Hot::default(), 3), None);
    }
}
