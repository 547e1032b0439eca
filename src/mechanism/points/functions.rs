//! Functions of the kernel, by name.

use std::io::{BufRead as _, BufReader, Read as _};

use super::PointError;
use crate::host::Host;
use crate::model::Reason;

/// As much of /proc/kallsyms as is read; large kernels have some 20 MB.
const MAX_LIST: u64 = 256 << 20;

/// Whether the kernel has a function of this name; it may still be one to which nothing can be attached.
pub(super) fn must_exist(host: &Host, name: &str) -> Result<(), PointError> {
    let file = match host.open("proc/kallsyms") {
        Ok(file) => file,
        Err(error) => {
            return Err(PointError::plain(
                error.reason,
                format!("functions of the kernel cannot be looked up: {error}"),
            ));
        }
    };
    let mut known = Vec::new();
    for line in BufReader::new(file.take(MAX_LIST)).lines().map_while(Result::ok) {
        let mut words = line.split_whitespace().skip(1);
        let (Some(kind), Some(symbol)) = (words.next(), words.next()) else { continue };
        if !matches!(kind, "t" | "T" | "w" | "W") {
            continue;
        }
        if symbol == name {
            return Ok(());
        }
        known.push(symbol.to_owned());
    }
    if known.is_empty() {
        return Err(PointError::plain(
            Reason::NotVisible,
            "the kernel shows no list of its functions (/proc/kallsyms)".into(),
        ));
    }
    Err(PointError::absent(format!("the kernel has no function {name:?}"), name, known))
}
