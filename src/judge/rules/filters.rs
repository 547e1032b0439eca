//! The filters with which the sentences of rules write numbers.

use minijinja::{Environment, filters, tests};

use rdiag_model::quantity::{bytes, number, percent, seconds};

/// Characters of a name within a sentence.
const SHORT: usize = 80;

/// Adds what there is of the template language: a few filters that make nothing larger than it was, and the questions whether something is
/// defined and how a name begins. Then the filters `percent`, `bytes`, `seconds`, `number`, `per_second` and `bytes_per_second`.
pub(super) fn add_filters(env: &mut Environment<'_>) {
    env.add_filter("default", filters::default);
    env.add_filter("abs", filters::abs);
    env.add_filter("round", filters::round);
    env.add_filter("int", filters::int);
    env.add_filter("float", filters::float);
    env.add_filter("length", filters::length);
    env.add_filter("short", |text: &str| text.chars().take(SHORT).collect::<String>());
    env.add_test("startingwith", tests::is_startingwith);
    env.add_test("defined", tests::is_defined);
    env.add_test("undefined", tests::is_undefined);
    env.add_test("none", tests::is_none);
    env.add_filter("percent", percent);
    env.add_filter("bytes", bytes);
    env.add_filter("seconds", seconds);
    env.add_filter("number", number);
    env.add_filter("per_second", |value: f64| format!("{}/s", number(value)));
    env.add_filter("bytes_per_second", |value: f64| format!("{}/s", bytes(value)));
}
