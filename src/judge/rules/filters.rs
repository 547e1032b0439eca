//! The filters with which the sentences of rules write numbers.

use minijinja::Environment;

use rdiag_model::quantity::{bytes, number, percent, seconds};

/// Adds the filters `percent`, `bytes`, `seconds`, `number`, `per_second` and `bytes_per_second`.
pub(super) fn add_filters(env: &mut Environment<'_>) {
    env.add_filter("percent", percent);
    env.add_filter("bytes", bytes);
    env.add_filter("seconds", seconds);
    env.add_filter("number", number);
    env.add_filter("per_second", |value: f64| format!("{}/s", number(value)));
    env.add_filter("bytes_per_second", |value: f64| format!("{}/s", bytes(value)));
}
