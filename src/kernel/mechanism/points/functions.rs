//! Functions of the kernel, by name.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};

use super::PointError;
use crate::host::Host;
use crate::mechanism::perf::select::tracing;
use crate::mechanism::tracefs::select::fits;
use rdiag_model::Reason;

/// As much of /proc/kallsyms as is read; large kernels have some 20 MB.
const MAX_LIST: u64 = 256 << 20;

/// Whether the kernel has a function of this name; it may still be one to which nothing can be attached.
pub(super) fn must_exist(host: &Host, name: &str) -> Result<(), PointError> {
    let mut known = Vec::new();
    let mut is_there = false;
    each_symbol(host, |symbol| {
        is_there |= symbol == name;
        if !is_there {
            known.push(symbol.to_owned());
        }
        !is_there
    })?;
    if is_there {
        return Ok(());
    }
    Err(PointError::absent(format!("the kernel has no function {name:?}"), name, known))
}

/// The functions of the kernel that fit a pattern, sorted: those that the kernel's own tracer can stop at where it has one, else
/// all.
pub(super) fn matching(host: &Host, pattern: &str) -> Result<Vec<String>, PointError> {
    let mut names = BTreeSet::new();
    let traceable = format!("{}/../available_filter_functions", tracing(host));
    match host.open(&traceable) {
        Ok(file) => {
            let lines = BufReader::new(file.take(MAX_LIST)).lines().map_while(Result::ok);
            // `nf_hook_slow [nf_tables]`
            let name = |line: String| line.split_whitespace().next().map(str::to_owned);
            names.extend(lines.filter_map(name).filter(|name| fits(pattern, name)));
        }
        Err(_) => each_symbol(host, |symbol| {
            if fits(pattern, symbol) {
                names.insert(symbol.to_owned());
            }
            true
        })?,
    }
    if names.is_empty() {
        return Err(PointError::plain(Reason::Absent, format!("no function of the kernel fits {pattern:?}")));
    }
    Ok(names.into_iter().collect())
}

/// Hands on the names of all functions, for as long as they are wanted.
fn each_symbol(host: &Host, mut is_wanted: impl FnMut(&str) -> bool) -> Result<(), PointError> {
    let file = host.open("proc/kallsyms").map_err(|error| {
        PointError::plain(error.reason, format!("functions of the kernel cannot be looked up: {error}"))
    })?;
    let mut has_any = false;
    for line in BufReader::new(file.take(MAX_LIST)).lines().map_while(Result::ok) {
        let mut words = line.split_whitespace().skip(1);
        let (Some(kind), Some(symbol)) = (words.next(), words.next()) else { continue };
        if !matches!(kind, "t" | "T" | "w" | "W") {
            continue;
        }
        has_any = true;
        if !is_wanted(symbol) {
            break;
        }
    }
    if has_any {
        return Ok(());
    }
    let message = "the kernel shows no list of its functions (/proc/kallsyms)".into();
    Err(PointError::plain(Reason::NotVisible, message))
}
