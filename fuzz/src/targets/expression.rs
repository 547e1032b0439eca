//! The language of rules: conditions, values and sentences. A sentence begins with `says`, anything else is an expression.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use minijinja::{Environment, Value};
use rdiag_judge::rules::references::{Reference, has_fallback, mentioned, references, template_references};
use rdiag_judge::rules::{Expressions, Values};
use rdiag_model::{Facts, Metrics, Reading, Stats, Status, Unit};

/// No sentence is longer that anybody reads.
const MOST_TEXT: usize = 1 << 20;

struct Scene {
    expressions: Expressions,
    context: Value,
}

static SCENE: LazyLock<Scene> = LazyLock::new(|| {
    let mut metrics = Metrics { seconds: 10.0, ..Metrics::default() };
    let mut values = Values::default();
    for (metric, dimension) in
        [("cpu.busy.ratio", None), ("disk.await.seconds", Some("device")), ("process.cpu.seconds", Some("process"))]
    {
        let instances = dimension.map_or(vec![""], |_| vec!["sda", "dm-0", "(others)"]);
        let reading = Reading::Measured {
            unit: Unit::Seconds,
            dimension: dimension.map(str::to_owned),
            source: "x".into(),
            rank: 0,
            instances: instances.iter().map(|name| ((*name).to_owned(), Ok(Stats::constant(0.75)))).collect(),
        };
        metrics.readings.insert(metric.to_owned(), reading);
        values.set_level(metric, Some(0.75));
    }
    let label = |value: &str| [("stacked".to_owned(), value.to_owned()), ("cgroup".to_owned(), "/a".to_owned())].into();
    let labels = [("sda".to_owned(), label("no")), ("dm-0".to_owned(), label("yes"))];
    metrics.labels.insert("device".into(), labels.into());
    values.set("value", Value::from(0.75));
    values.set("instance", Value::from("sda"));
    values.set("label.rotational", Value::from("1"));
    let log = BTreeMap::from([("oom".to_owned(), vec!["x (pid 1)".to_owned()])]);
    let statuses = BTreeMap::from([("cpu.saturation".to_owned(), Status::Warning)]);
    let expressions = Expressions::new(&Facts::default(), Arc::new(metrics), Arc::new(log), statuses);
    Scene { expressions, context: values.context() }
});

/// One expression or sentence.
pub fn expression(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let Scene { expressions, context } = &*SCENE;
    let resolve = |path: &str| path.starts_with("cpu.busy.ratio").then(|| "cpu.busy.ratio".to_owned());
    if let Some(sentence) = text.strip_prefix("says ") {
        let cited = template_references(sentence, &resolve);
        let mentioned = mentioned(sentence, &resolve);
        assert!(
            cited.is_ok_and(|cited| cited == mentioned) || expressions.sentence(sentence).is_err(),
            "{mentioned:?}"
        );
        let Ok(sentence) = expressions.sentence(sentence) else { return false };
        if let Ok(said) = sentence.render(context) {
            assert!(said.len() <= MOST_TEXT, "a sentence of {} bytes", said.len());
        }
        return true;
    }
    if let Ok(cited) = references(text, &|path| Some(path.to_owned())) {
        let parsed = Environment::empty().compile_expression(text).map(|parsed| parsed.undeclared_variables(true));
        let parsed = parsed.map(|paths| paths.into_iter().map(|path| Reference::Metric(path, None)).collect());
        assert_eq!(Ok(cited), parsed.map_err(|error| error.to_string()), "what is found without a parser");
    }
    let _ = has_fallback(text, "cpu.busy.ratio");
    let Ok(compiled) = expressions.compile(text) else { return false };
    let _ = compiled.references(&resolve);
    if let Ok(value) = compiled.eval(context) {
        assert!(value.as_str().is_none_or(|text| text.len() <= MOST_TEXT), "a text of more than a MiB");
    }
    let _ = compiled.holds(context);
    assert!(
        compiled.number(context).is_ok_and(f64::is_finite) || compiled.number(context).is_err(),
        "a number that is none"
    );
    true
}
