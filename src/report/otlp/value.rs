//! Values and attributes, as the JSON mapping of OTLP has them.

use serde::Serialize;

/// A value of any type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) enum AnyValue {
    #[serde(rename = "stringValue")]
    Text(String),
    /// A 64-bit integer, which JSON has as a string.
    #[serde(rename = "intValue")]
    Whole(String),
    #[serde(rename = "doubleValue")]
    Number(f64),
    #[serde(rename = "arrayValue")]
    List { values: Vec<AnyValue> },
}

/// A named value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Attribute {
    pub(super) key: String,
    pub(super) value: AnyValue,
}

/// The text as it is: only what would act in a terminal is escaped when it is written.
pub(super) fn text(text: &str) -> AnyValue {
    AnyValue::Text(text.to_owned())
}

pub(super) fn whole(number: impl Into<i64>) -> AnyValue {
    AnyValue::Whole(number.into().to_string())
}

/// A count or a place, which is never so large.
pub(super) fn count(number: usize) -> AnyValue {
    AnyValue::Whole(number.to_string())
}

/// JSON has no other numbers.
pub(super) fn number(value: f64) -> Option<AnyValue> {
    value.is_finite().then_some(AnyValue::Number(value))
}

/// A list; none of nothing.
pub(super) fn list(values: impl Iterator<Item = AnyValue>) -> Option<AnyValue> {
    let values: Vec<AnyValue> = values.collect();
    (!values.is_empty()).then_some(AnyValue::List { values })
}

/// Attributes; those without a value are left out.
pub(super) fn attributes<const N: usize>(pairs: [(&str, Option<AnyValue>); N]) -> Vec<Attribute> {
    pairs.into_iter().filter_map(|(key, value)| Some(Attribute { key: key.to_owned(), value: value? })).collect()
}

/// The word that a value has in JSON (`cpu`, `per_second`).
pub(super) fn word(value: &impl Serialize) -> Option<AnyValue> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Some(AnyValue::Text(word)),
        _ => None,
    }
}
