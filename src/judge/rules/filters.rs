//! The filters with which the sentences of rules write numbers.

use minijinja::{Environment, filters};

use rdiag_model::quantity::{bytes, number, percent, seconds};

/// Characters of a name within a sentence.
const SHORT: usize = 80;

/// Adds what there is of the template language: a few filters that make nothing larger than it was, and the questions whether something is
/// defined and how a name begins. Then the filters `percent`, `bytes`, `seconds`, `number`, `per_second` and `bytes_per_second`.
/// `number("zombie")` adds what is counted, in the plural unless it is one; where that is more than an s, it is given too:
/// `number("process", "processes")`.
pub(super) fn add_filters(env: &mut Environment<'_>) {
    env.add_filter("default", filters::default);
    env.add_filter("abs", filters::abs);
    env.add_filter("round", filters::round);
    env.add_filter("int", filters::int);
    env.add_filter("float", filters::float);
    env.add_filter("length", filters::length);
    env.add_filter("short", |text: &str| text.chars().take(SHORT).collect::<String>());
    env.add_test("startingwith", minijinja::tests::is_startingwith);
    env.add_test("defined", minijinja::tests::is_defined);
    env.add_test("undefined", minijinja::tests::is_undefined);
    env.add_test("none", minijinja::tests::is_none);
    env.add_filter("percent", percent);
    env.add_filter("bytes", bytes);
    env.add_filter("seconds", seconds);
    env.add_filter("number", counted);
    env.add_filter("per_second", |value: f64| format!("{}/s", number(value)));
    env.add_filter("bytes_per_second", |value: f64| format!("{}/s", bytes(value)));
}

/// A number, and what it counts.
fn counted(value: f64, one: Option<&str>, many: Option<&str>) -> String {
    let shown = number(value);
    match (one, many) {
        (None, _) => shown,
        (Some(one), _) if shown == "1" => format!("1 {one}"),
        (Some(_), Some(many)) => format!("{shown} {many}"),
        (Some(one), None) => format!("{shown} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn what_is_counted_is_in_the_plural_unless_it_is_one() {
        let killed = |count: f64| counted(count, Some("process"), Some("processes"));
        assert_eq!([0.0, 1.0, 2.0].map(killed), ["0 processes", "1 process", "2 processes"]);
        assert_eq!([0.5, 1.0, 1.5].map(|count| counted(count, Some("CPU"), None)), ["0.50 CPUs", "1 CPU", "1.5 CPUs"]);
        assert_eq!(counted(1.0, None, None), "1");
    }
}
