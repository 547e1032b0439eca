//! What the metrics and variables look like to an expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::value::{Object, Value};

use rdiag_model::Stats;

/// The values of metrics and variables, by the names that an expression has for them.
#[derive(Debug, Default)]
pub struct Values {
    tree: BTreeMap<String, Node>,
}

#[derive(Debug)]
enum Node {
    Branch(BTreeMap<String, Node>),
    Leaf(Value),
}

/// A metric in an expression: its statistics, and its id for `top` and `highest`.
#[derive(Debug)]
struct Figures {
    id: String,
    /// In the order of [`Stats::FIELDS`]; none where the metric was not measured.
    values: Option<[f64; Stats::FIELDS.len()]>,
}

impl Object for Figures {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        if key == "metric_id" {
            return Some(Value::from(self.id.as_str()));
        }
        let at = Stats::FIELDS.iter().position(|field| *field == key)?;
        self.values?.get(at).copied().map(Value::from)
    }
}

impl Values {
    /// Sets a value at a dotted path.
    pub fn set(&mut self, path: &str, value: Value) {
        let (stem, last) = path.rsplit_once('.').map_or((None, path), |(stem, last)| (Some(stem), last));
        let mut at = &mut self.tree;
        for part in stem.into_iter().flat_map(|stem| stem.split('.')) {
            let node = at.entry(part.to_owned()).or_insert_with(|| Node::Branch(BTreeMap::new()));
            if !matches!(node, Node::Branch(_)) {
                *node = Node::Branch(BTreeMap::new());
            }
            let Node::Branch(below) = node else { return };
            at = below;
        }
        at.insert(last.to_owned(), Node::Leaf(value));
    }

    /// Sets a metric to its statistics.
    pub fn set_metric(&mut self, id: &str, stats: Option<&Stats>) {
        let values = stats.map(|stats| Stats::FIELDS.map(|field| stats.field(field).unwrap_or(f64::NAN)));
        self.set(id, Value::from_object(Figures { id: id.to_owned(), values }));
    }

    /// Sets a metric to one value, which then is all of its statistics.
    pub fn set_level(&mut self, id: &str, value: Option<f64>) {
        let values = value.map(|value| [value; Stats::FIELDS.len()]);
        self.set(id, Value::from_object(Figures { id: id.to_owned(), values }));
    }

    /// The context that an expression is evaluated in.
    #[must_use]
    pub fn context(self) -> Value {
        names(self.tree)
    }
}

/// With texts as keys: a map that could have any takes longer to make, and one is made for each instance and interval.
fn names(tree: BTreeMap<String, Node>) -> Value {
    let value = |node| match node {
        Node::Branch(below) => names(below),
        Node::Leaf(value) => value,
    };
    Value::from_object(tree.into_iter().map(|(name, node)| (name, value(node))).collect::<BTreeMap<String, Value>>())
}
