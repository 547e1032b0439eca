//! Figures as other programs print them.

use serde_json::{Map, Value};

/// No figure of a host is larger; sums of them stay finite.
pub(super) const LARGEST: f64 = 1e18;

/// A figure of theirs; some are printed as text. What is negative stands for none.
pub(super) fn figure(map: &Map<String, Value>, key: &str) -> Option<f64> {
    signed(map, key).filter(|value| *value >= 0.0)
}

/// A figure that may be below zero.
pub(super) fn signed(map: &Map<String, Value>, key: &str) -> Option<f64> {
    let value = match map.get(key)? {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    value.filter(|value: &f64| value.abs() <= LARGEST)
}
