//! The one expression language of rules, `when` and templates: minijinja, with the functions of this file.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind, Expression, Template, UndefinedBehavior, escape_formatter};

use super::references::{Reference, all_references};
use super::{aggregates, bounds, culprit, filters, paths};
use rdiag_model::{Facts, Metrics, Status};

/// Steps that evaluating one expression may take; rules are not trusted.
const FUEL: u64 = 50_000;

/// Names that expressions may use besides metrics.
pub const VARIABLES: [&str; 5] = ["value", "host", "label", "instance", "window"];
/// Functions that expressions may call.
pub const FUNCTIONS: [&str; 8] = ["knee", "top", "highest", "sum", "log", "status", "min", "max"];

/// The metrics and functions of one window, ready to evaluate expressions.
pub struct Expressions {
    env: Environment<'static>,
}

/// An expression that was parsed once, to be evaluated in many contexts.
pub struct Compiled<'e> {
    parsed: Expression<'e, 'e>,
    /// What it was parsed from: quicker to look through than asking the parser.
    text: &'e str,
}

impl Compiled<'_> {
    /// What it refers to. `resolve` finds the metric id at the start of a dotted path.
    pub fn references(&self, resolve: &dyn Fn(&str) -> Option<String>) -> BTreeSet<Reference> {
        all_references(self.paths(), resolve)
    }

    fn paths(&self) -> HashSet<String> {
        paths::of_expression(self.text).unwrap_or_else(|| self.parsed.undeclared_variables(true))
    }

    /// The labels of the judged instance that it asks for: `class` of `label.class`.
    pub(super) fn labels(&self) -> BTreeSet<String> {
        let paths = self.paths();
        paths.iter().filter_map(|path| path.strip_prefix("label.").map(str::to_owned)).collect()
    }

    /// Evaluates it.
    pub fn eval(&self, context: &Value) -> Result<Value, Error> {
        self.parsed.eval(context.clone())
    }

    /// Evaluates it as a condition: anything but true and false is an error.
    pub fn holds(&self, context: &Value) -> Result<bool, Error> {
        let value = self.eval(context)?;
        bool::try_from(value.clone()).map_err(|_| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("the condition is {}, not true or false", bounds::shown(&value)),
            )
        })
    }

    /// Evaluates it to a finite number.
    pub fn number(&self, context: &Value) -> Result<f64, Error> {
        let value = self.eval(context)?;
        let number = f64::try_from(value.clone()).map_err(|_| {
            Error::new(ErrorKind::InvalidOperation, format!("the value is {}, not a number", bounds::shown(&value)))
        })?;
        if number.is_finite() {
            return Ok(number);
        }
        Err(Error::new(ErrorKind::InvalidOperation, "the value is not finite: something was divided by zero"))
    }
}

/// A sentence with expressions in it, parsed once.
pub struct Sentence<'e>(Template<'e, 'e>);

impl Sentence<'_> {
    /// Writes it out.
    pub fn render(&self, context: &Value) -> Result<String, Error> {
        let mut written = bounds::Written::default();
        self.0.render_captured_to(context, &mut written)?;
        Ok(written.into_text())
    }
}

/// The facts as expressions see them: where a source does not say how many CPUs there are, that is undefined.
fn host(facts: &Facts) -> Value {
    let all = Value::from(Serde(facts));
    let unknown = if facts.cpus == 0 { "cpus" } else { return all };
    let names = all.try_iter().into_iter().flatten().filter(|name| name.as_str() != Some(unknown));
    Value::from_pairs(names.filter_map(|name| Some((name.to_string(), all.get_item(&name).ok()?))))
}

impl Expressions {
    /// Expressions over the metrics of one window of a host. `log` holds, by class, who the kernel log names.
    pub fn new(
        facts: &Facts,
        metrics: Arc<Metrics>,
        log: Arc<BTreeMap<String, Vec<String>>>,
        statuses: BTreeMap<String, Status>,
    ) -> Self {
        let mut env = PLAIN.clone();
        env.add_global("host", host(facts));
        env.add_global("window", Value::from_pairs([("seconds", metrics.seconds)]));
        for (name, status) in STATUS_NAMES {
            env.add_global(name, rank(status));
        }
        let by_rule = statuses;
        env.add_function("status", move |id: &str| -> Result<u32, Error> {
            let status = by_rule.get(id).copied();
            status
                .map(rank)
                .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("rule {id} was not evaluated")))
        });
        let shared = Arc::clone(&metrics);
        env.add_function("top", move |metric: Value, options: Kwargs| -> Result<Value, Error> {
            let group: Option<String> = options.get("cgroup")?;
            let wanted = labels(&options, "cgroup")?;
            Ok(culprit::top(&shared, &metric_id(&metric)?, group.as_deref(), &wanted)
                .map_or(Value::from(()), |found| Value::from(Serde(found))))
        });
        // Undefined where nothing was measured: an error in a condition, unless `|default(0)` follows.
        let shared = Arc::clone(&metrics);
        env.add_function("sum", move |metric: Value, options: Kwargs| -> Result<Value, Error> {
            let counted: Option<Value> = options.get("where")?;
            let counted = counted.map(|counted| metric_id(&counted)).transpose()?;
            let wanted = labels(&options, "where")?;
            let sum = aggregates::sum(&shared, &metric_id(&metric)?, counted.as_deref(), &wanted);
            Ok(sum.map_or(Value::UNDEFINED, Value::from))
        });
        env.add_function("highest", move |metric: Value, options: Kwargs| -> Result<Value, Error> {
            let beside: Option<String> = options.get("beside")?;
            let wanted = labels(&options, "beside")?;
            let highest = aggregates::highest(&metrics, &metric_id(&metric)?, beside.as_deref(), &wanted);
            Ok(highest.map_or(Value::UNDEFINED, Value::from))
        });
        env.add_function("log", move |class: &str| -> Value {
            let subjects = log.get(class).cloned().unwrap_or_default();
            culprit::named_by_log(&subjects).map_or(Value::from(()), |found| Value::from(Serde(found)))
        });
        Self { env }
    }

    /// Parses an expression.
    pub fn compile<'e>(&'e self, expression: &'e str) -> Result<Compiled<'e>, Error> {
        bounds::expression(expression)?;
        Ok(Compiled { parsed: self.env.compile_expression(expression)?, text: expression })
    }

    /// Parses a sentence.
    pub fn sentence<'e>(&'e self, template: &'e str) -> Result<Sentence<'e>, Error> {
        bounds::sentence(template)?;
        self.env.template_from_str(template).map(Sentence)
    }
}

/// The labels that a call asks for, all its options but one.
fn labels(options: &Kwargs, but: &str) -> Result<Vec<(String, String)>, Error> {
    let names: Vec<String> = options.args().filter(|name| *name != but).map(str::to_owned).collect();
    names.into_iter().map(|name| Ok((name.clone(), options.get(&name)?))).collect()
}

/// The language without a window: enough to parse. Filling an environment costs more than parsing an expression.
pub(super) static PLAIN: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::empty();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(FUEL));
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    // "none" in a sentence would be a hole, too.
    env.set_formatter(|out, state, value| match value.is_none() {
        true => Err(Error::new(ErrorKind::InvalidOperation, "nothing to write: the value is none")),
        false => escape_formatter(out, state, value),
    });
    filters::add_filters(&mut env);
    env.add_function("knee", knee);
    env.add_function("min", |a: f64, b: f64| a.min(b));
    env.add_function("max", |a: f64, b: f64| a.max(b));
    env
});

/// The utilization at which response time begins to grow faster than throughput (the minimum of R/ρ), for `servers`
/// equal servers behind one queue with random arrivals (Erlang C).
#[must_use]
pub fn knee(servers: f64) -> f64 {
    let servers = servers.round().clamp(1.0, 4096.0) as u32;
    let response = |load: f64| {
        let m = f64::from(servers);
        let offered = load * m;
        // Erlang B by its recursion, then C: stable for any number of servers.
        let blocked = (1..=servers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
        let waits = blocked / (1.0 - load * (1.0 - blocked));
        1.0 + waits / (m * (1.0 - load))
    };
    let best =
        (1..1000).map(|k| f64::from(k) / 1000.0).min_by(|a, b| (response(*a) / a).total_cmp(&(response(*b) / b)));
    best.unwrap_or(0.5)
}

fn metric_id(value: &Value) -> Result<String, Error> {
    let id = value.get_attr("metric_id").ok().filter(|id| !id.is_undefined());
    id.map(|id| id.to_string())
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "this function takes a metric, without a statistic"))
}

/// Status words as they may stand in `when`: `status("cpu.saturation") >= warning`.
pub(super) const STATUS_NAMES: [(&str, Status); 5] = [
    ("ok", Status::Ok),
    ("unknown", Status::Unknown),
    ("info", Status::Info),
    ("warning", Status::Warning),
    ("critical", Status::Critical),
];

fn rank(status: Status) -> u32 {
    status as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::values::Values;
    use rdiag_model::Stats;

    #[test]
    fn the_knee_is_the_published_one() {
        for (servers, expected) in [(1.0, 0.50), (2.0, 0.58), (4.0, 0.66), (8.0, 0.74), (16.0, 0.81), (64.0, 0.90)] {
            assert!((knee(servers) - expected).abs() < 0.01, "{servers} servers: {}", knee(servers));
        }
    }

    #[test]
    fn how_many_cpus_there_are_is_undefined_where_it_is_not_known() {
        let holds = |cpus: u32, condition: &str| {
            let facts = Facts { cpus, ..Facts::default() };
            let all = Expressions::new(&facts, Arc::default(), Arc::default(), BTreeMap::new());
            all.compile(condition).and_then(|condition| condition.holds(&Values::default().context())).ok()
        };
        assert_eq!([1, 2, 0].map(|cpus| holds(cpus, "host.cpus > 1")), [Some(false), Some(true), None]);
        assert_eq!([1, 0].map(|cpus| holds(cpus, "host.page_size == 4096")), [Some(true); 2]);
    }

    #[test]
    fn the_highest_of_labelled_instances_is_found_and_nothing_is_undefined() {
        let mut metrics = Metrics::default();
        let instance = |value: f64| Ok(Stats::constant(value));
        let reading = rdiag_model::Reading::Measured {
            unit: rdiag_model::Unit::Seconds,
            dimension: Some("device".into()),
            source: String::new(),
            rank: 0,
            instances: [("sda", 1.0), ("dm-0", 5.0), ("(others)", 9.0)]
                .map(|(name, value)| (name.to_owned(), instance(value)))
                .into(),
        };
        metrics.readings.insert("disk.x.seconds".into(), reading);
        let stacked = |value: &str| [("stacked".to_owned(), value.to_owned())].into();
        let labels = [("sda".to_owned(), stacked("no")), ("dm-0".to_owned(), stacked("yes"))].into();
        metrics.labels.insert("device".into(), labels);
        let mut values = Values::default();
        values.set_metric("disk.x.seconds", None);
        let expressions = Expressions::new(&Facts::default(), Arc::new(metrics), Arc::default(), BTreeMap::new());
        let context = values.context();
        let number = |text: &str| expressions.compile(text).unwrap().number(&context);
        assert_eq!(number("highest(disk.x.seconds)").unwrap(), 5.0);
        assert_eq!(number("highest(disk.x.seconds, stacked='no')").unwrap(), 1.0);
        assert_eq!(number("highest(disk.x.seconds, stacked='maybe')|default(0)").unwrap(), 0.0);
        assert_eq!(number("highest(disk.x.seconds, beside='dm-0')").unwrap(), 1.0);
        assert!(number("highest(disk.x.seconds, stacked='maybe') + 1").is_err());
        assert_eq!(number("sum(disk.x.seconds, stacked='no')").unwrap(), 1.0);
        assert_eq!(number("sum(disk.x.seconds, where=disk.x.seconds, stacked='maybe')|default(7)").unwrap(), 0.0);
    }

    #[test]
    fn a_division_by_zero_is_an_error_and_not_a_number() {
        let expressions = Expressions::new(&Facts::default(), Arc::default(), Arc::default(), BTreeMap::new());
        assert!(expressions.compile("1 / 0").unwrap().number(&Value::UNDEFINED).is_err());
        assert!(expressions.compile("0.0 / 0.0").unwrap().number(&Value::UNDEFINED).is_err());
    }

    #[test]
    fn no_sentence_takes_much_memory_or_time() {
        let expressions = Expressions::new(&Facts::default(), Arc::default(), Arc::default(), BTreeMap::new());
        let context = Value::from_pairs([("instance", "a".repeat(1000))]);
        let long = format!("{{{{ {}instance }}}}", "instance ~ ".repeat(900));
        for template in [
            "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}",
            "{% set x = 'aa' %}{% set x = x ~ x %}",
            "{% macro m() %}{{ m() }}{% endmacro %}",
            "{% filter upper %}a{% endfilter %}",
            "{{ 'a' * 9000000 }}",
            "{{ ('a'*9000000)|replace('a', 'bbbb') }}",
            "{{ instance|replace('a', instance) }}",
            "{{ instance|indent(1000000) }}",
            "{{ '%1000000000d'|format(1) }}",
            "{{ range(1000000)|list }}",
            "{{ [1] * 100000000 }}",
            "{{ dict(a=1)|tojson(indent=1000000) }}",
            &long,
        ] {
            let rendered = expressions.sentence(template).and_then(|sentence| sentence.render(&context));
            assert!(rendered.is_err(), "{}", template.chars().take(60).collect::<String>());
        }
        let rendered = expressions.sentence("{{ instance|length }}, {{ (1.5 * 2)|round }}").unwrap().render(&context);
        assert_eq!(rendered.unwrap(), "1000, 3.0");
        let error = expressions.sentence("{% set x = 1 %}").err().unwrap();
        assert!(error.to_string().contains("may hold if, elif, else, endif"), "{error}");
    }
}
