//! Parameters of probes: declared, checked once, and then asked for without a failure.

use std::collections::BTreeMap;

use super::grammar;
use rdiag_kernel::mechanism::tracefs::trigger::Condition;

/// A parameter of a probe.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct ParamDef {
    /// Its name.
    pub name: &'static str,
    /// What values it takes.
    pub kind: ParamKind,
    /// The value when nothing is given.
    pub default: &'static str,
    /// What it is for.
    pub help: &'static str,
}

impl ParamDef {
    /// How many rows a table has, as most probes have it.
    pub(super) const fn top(help: &'static str) -> Self {
        Self { name: "top", kind: ParamKind::Count { min: 1, max: 1000 }, default: "20", help }
    }
}

/// What values a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamKind {
    /// `10us`, `5ms`, `1s`.
    Duration,
    /// A whole number within bounds.
    Count {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words; "" stands for none where that is the default.
    OneOf(&'static [&'static str]),
    /// Any text; "" stands for none.
    Text,
    /// Performance events as `rdiag list events` shows them, separated by commas.
    Events,
    /// A function: `vfs_read`, `libc:malloc`, `/path/to/program:function`; "" for none.
    Function,
    /// A tracepoint: `kmem:kmalloc`; "" for none.
    Tracepoint,
    /// A place that the developers of a program have marked: `python3:python:gc__start`; "" for none.
    Marker,
    /// What to read of each event: a field, `arg1`, `return`, `latency`; "" for nothing.
    Value,
    /// Values, separated by commas; text too: `arg1:string`.
    Values,
    /// By what to sum up, separated by commas: as a value, or `comm`, `pid`, `tid`, `cpu`, `stack`.
    Keys,
    /// Comparisons that must hold: `bytes_req > 1000 and node == 0`.
    Filter,
    /// Events that the kernel announces, as `group:name` with `*` and `?`, separated by commas.
    Tracepoints,
    /// Functions of the kernel: names with `*` and `?`, `:mod:MODULE` for those of a module, separated by commas; "" for all.
    KernelFunctions,
    /// What has to happen: `group:name if FILTER`, or a function of the kernel; "" for nothing.
    Condition,
}

/// The parameter of probes that may end before the window does.
pub const FOR: &str = "for";

/// The parameter that names a place that developers have marked (USDT).
pub(super) const MARKER: &str = "usdt";

/// The parameters of one probe in force: the defaults, and what was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(BTreeMap<String, String>);

impl Params {
    /// Checks what was given against the definitions. The error is a sentence.
    pub fn new(probe: &str, defs: &[ParamDef], given: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut values: BTreeMap<String, String> =
            defs.iter().map(|def| (def.name.to_owned(), def.default.to_owned())).collect();
        for (name, value) in given {
            let Some(def) = defs.iter().find(|def| def.name == name) else {
                let known: Vec<&str> = defs.iter().map(|def| def.name).collect();
                let known =
                    if known.is_empty() { "it has none".into() } else { format!("it has {}", known.join(", ")) };
                return Err(format!("{probe} has no parameter {name:?}; {known}"));
            };
            check(def, value.trim()).map_err(|problem| format!("{name} of {probe}: {problem}"))?;
            values.insert(name.clone(), value.trim().to_owned());
        }
        let params = Self(values);
        if defs.iter().any(|def| def.kind == ParamKind::Function) {
            params.names_one_point().map_err(|problem| format!("{probe}: {problem}"))?;
        }
        Ok(params)
    }

    /// Probes of any point need one kind of it.
    fn names_one_point(&self) -> Result<(), String> {
        match ["function", "tracepoint", MARKER].iter().filter(|name| self.text(name).is_some()).count() {
            0 => {
                let examples =
                    "function=libc:malloc, function=vfs_read, tracepoint=kmem:kmalloc or usdt=python3:python:gc__start";
                Err(format!("say what to look at: {examples}"))
            }
            1 => Ok(()),
            _ => Err("give a function, a tracepoint or a marked place, not several of them".into()),
        }
    }

    /// Name and value of all.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// A duration in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self, name: &str) -> u64 {
        self.0.get(name).and_then(|text| duration(text)).unwrap_or(0)
    }

    /// A whole number.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|text| text == "true")
    }

    /// Text; none if it is empty.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }
}

fn check(def: &ParamDef, value: &str) -> Result<(), String> {
    match def.kind {
        ParamKind::Duration => {
            duration(value).map(drop).ok_or_else(|| format!("{value:?} is no duration; write 10us, 5ms or 1s"))
        }
        ParamKind::Count { min, max } => match value.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(()),
            _ => Err(format!("{value:?} is no whole number between {min} and {max}")),
        },
        ParamKind::Flag if ["true", "false"].contains(&value) => Ok(()),
        ParamKind::Flag => Err(format!("{value:?} is neither true nor false")),
        ParamKind::OneOf(words) if words.contains(&value) || value == def.default => Ok(()),
        ParamKind::OneOf(words) => Err(format!("{value:?} is none of {}", words.join(", "))),
        _ if value.is_empty() => Ok(()),
        ParamKind::Function => grammar::function(value),
        ParamKind::Tracepoint => grammar::tracepoint(value),
        ParamKind::Marker => grammar::marker(value),
        ParamKind::Value => grammar::value(value).map(drop),
        ParamKind::Values => grammar::values(value).map(drop),
        ParamKind::Keys => grammar::keys(value).map(drop),
        ParamKind::Filter => grammar::filter(value).map(drop),
        // Which events there are, the machine must say: `check_events` and the like.
        ParamKind::Text | ParamKind::Events | ParamKind::Tracepoints => Ok(()),
        ParamKind::KernelFunctions => grammar::kernel_functions(value),
        ParamKind::Condition => Condition::parse(value).map(drop),
    }
}

/// `10us`, `5ms`, `1s`, or plain seconds → nanoseconds; more than a day is a day.
pub(super) fn duration(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    let nanoseconds = number.parse::<f64>().ok()? * factor;
    (nanoseconds.is_finite() && nanoseconds >= 0.0).then_some(nanoseconds.min(86_400e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFS: &[ParamDef] = &[
        ParamDef { name: "stack", kind: ParamKind::OneOf(&["user", "kernel"]), default: "", help: "…" },
        ParamDef { name: "threshold", kind: ParamKind::Duration, default: "10ms", help: "…" },
        ParamDef { name: "top", kind: ParamKind::Count { min: 1, max: 100 }, default: "20", help: "…" },
        ParamDef { name: "failed", kind: ParamKind::Flag, default: "false", help: "…" },
    ];

    fn params(given: &[(&str, &str)]) -> Result<Params, String> {
        Params::new("p", DEFS, &given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        assert_eq!(params(&[("stack", "")]).unwrap().text("stack"), None);
        let params = params(&[("top", "5")]).unwrap();
        assert_eq!(
            (params.nanoseconds("threshold"), params.count("top"), params.flag("failed")),
            (10_000_000, 5, false)
        );
    }

    #[test]
    fn durations_of_playbooks_are_durations_here_and_end_at_a_day() {
        for (text, seconds) in [("500ms", 0.5), ("2m", 120.0), ("2min", 120.0), ("3h", 10_800.0), ("99999h", 86_400.0)]
        {
            assert_eq!(duration(text), Some((seconds * 1e9) as u64), "{text}");
        }
        assert_eq!(duration("1 year"), None);
    }

    #[test]
    fn wrong_values_and_names_are_told_with_what_would_be_right() {
        for (name, value, says) in [
            ("top", "0", "between 1 and 100"),
            ("threshold", "10 parsecs", "5ms"),
            ("threshold", "-1s", "5ms"),
            ("failed", "yes", "true"),
            ("stack", "all", "none of user, kernel"),
            ("topp", "1", "it has stack, threshold, top, failed"),
        ] {
            let error = params(&[(name, value)]).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
