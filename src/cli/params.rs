//! The option `--param`.

use std::collections::BTreeMap;

use crate::cli::exit::Failure;
use rdiag_model::quantity::seconds;

/// What `--param NAME=VALUE` gives, by name; the last of a name counts.
pub(super) fn by_name(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Failure::usage(format!("--param {text:?} has no value"), Some("write --param name=value"))),
    };
    texts.iter().map(pair).collect()
}

/// Refuses an interval that is longer than what it divides.
pub(super) fn interval_fits(interval: Option<f64>, duration: Option<f64>) -> Result<(), Failure> {
    match (interval, duration) {
        (Some(interval), Some(duration)) if interval > duration => {
            let [interval, duration] = [interval, duration].map(seconds);
            let message = format!("--interval {interval} is longer than the duration, {duration}");
            Err(Failure::usage(message, Some("take a shorter --interval, or a longer --duration")))
        }
        _ => Ok(()),
    }
}
