//! The option `--param`.

use std::collections::BTreeMap;

use super::Failure;

/// What `--param NAME=VALUE` gives, by name; the last of a name counts.
pub(super) fn by_name(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Failure::usage(format!("--param {text:?} has no value"), Some("write --param name=value"))),
    };
    texts.iter().map(pair).collect()
}
