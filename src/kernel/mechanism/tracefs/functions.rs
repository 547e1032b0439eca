//! Functions of the kernel that its tracers can be limited to: by name, by pattern, by module.

use std::collections::BTreeSet;

use super::instance::Instance;
use super::place;
use super::select::fits;
use crate::host::Host;
use crate::mechanism::perf::select::EventError;
use rdiag_model::{Reason, Unavailable};

/// The file of an instance that limits its tracers.
const FILTER: &str = "set_ftrace_filter";
/// In front of a module's name.
const MODULE: &str = ":mod:";

/// The parts of a list: `vfs_read,*balance*,:mod:ext4`.
pub fn patterns(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|pattern| !pattern.is_empty())
}

/// Whether the kernel lists a function for each pattern, for those who want to say so before anything is measured. A host that
/// does not show its functions has nothing to compare with; the measurement will say why.
pub fn check(host: &Host, list: &str) -> Result<(), EventError> {
    let known = listed(host);
    if known.is_empty() {
        return Ok(());
    }
    let stranger = |pattern: &&str| !known.iter().any(|function| is_meant(pattern, function));
    let Some(pattern) = patterns(list).find(stranger) else { return Ok(()) };
    let near = (!pattern.contains(['*', '?', ':']))
        .then(|| (pattern.to_owned(), known.iter().map(|function| function.name.clone()).collect()));
    let message = format!("the kernel lists no function {pattern:?} that can be traced");
    Err(EventError { message, near, elsewhere: true })
}

/// A function that the kernel lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The module that it is part of; none for the kernel itself.
    pub module: Option<String>,
}

/// The functions that a list means, found by trying: those that the kernel takes over as a limit of its tracers. A kernel may list
/// many and take none.
pub fn traceable(host: &Host, list: &str) -> Result<Vec<Function>, Unavailable> {
    limit(&Instance::create(host)?, host, list)
}

/// Limits the tracers of an instance to the functions of a list, and tells which they are. After an error nothing may be traced:
/// an instance without a limit traces every function.
pub fn limit(instance: &Instance, host: &Host, list: &str) -> Result<Vec<Function>, Unavailable> {
    for pattern in patterns(list) {
        // Each write adds to the ones before, since the file is not opened to be cut off.
        instance.try_set(FILTER, pattern).map_err(|error| refused(&format!("{pattern:?}"), &error))?;
    }
    let taken = instance.get(host, FILTER).map_err(|gap| told(gap.reason, &gap.why))?;
    let functions = parse(&taken);
    // A pattern of a module that is not loaded is kept for the day when it is.
    let unknown = patterns(list).find(|pattern| !functions.iter().any(|function| is_meant(pattern, function)));
    match unknown {
        None if !functions.is_empty() => Ok(functions),
        _ => {
            let which = unknown.unwrap_or("by this list");
            Err(Unavailable::new(Reason::Absent, format!("the kernel knows no function {which:?} that can be traced")))
        }
    }
}

/// Whether the tracers of an instance can be limited at all, before anything else is tried.
pub fn ready(instance: &Instance, host: &Host) -> Result<(), Unavailable> {
    instance.get(host, FILTER).map(drop).map_err(|gap| told(gap.reason, &gap.why))
}

/// Leaves out the function that reads the clock by which calls are stamped: it would be called within every other one. That of a
/// fast clock is never traced; slow ones stand in for it where the CPUs' counters cannot be trusted.
pub fn leave_out_clock(instance: &Instance, host: &Host) {
    let reader = match host.read_line("sys/devices/system/clocksource/clocksource0/current_clocksource").as_deref() {
        Ok("hpet") => "read_hpet",
        Ok("acpi_pm") => "acpi_pm_read",
        _ => return,
    };
    // The global tracing stays as it is, and a kernel that does not trace the function refuses.
    if !instance.is_global() {
        let _ = instance.try_set("set_ftrace_notrace", reader);
    }
}

/// The kernel's answer to a choice of functions.
fn refused(what: &str, error: &std::io::Error) -> Unavailable {
    let reason = match error.kind() {
        std::io::ErrorKind::PermissionDenied => Reason::Denied,
        std::io::ErrorKind::NotFound => Reason::Absent,
        _ => Reason::Malformed,
    };
    told(reason, &format!("{what}: {error}"))
}

fn told(reason: Reason, why: &str) -> Unavailable {
    let gap = Unavailable::new(reason, format!("the functions for the kernel's tracer cannot be set: {why}"));
    match reason {
        Reason::Denied => gap.with_remedy(
            "run rdiag as root; where root is refused too, this kernel has tracing of functions locked: boot one that permits it",
        ),
        Reason::Absent => {
            gap.with_remedy("use a kernel that is built with CONFIG_DYNAMIC_FTRACE and CONFIG_FUNCTION_TRACER")
        }
        _ => gap,
    }
}

/// All that the kernel lists; nothing where it shows nothing.
fn listed(host: &Host) -> BTreeSet<Function> {
    let text = place::find(host).ok().and_then(|place| host.read(&format!("{place}/available_filter_functions")).ok());
    parse(&text.unwrap_or_default()).into_iter().collect()
}

/// `vfs_read` or `ext4_map_blocks [ext4]`, one per line; remarks and triggers are passed over.
fn parse(text: &str) -> Vec<Function> {
    let function = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().filter(|name| !name.contains([':', '#']))?;
        let module = words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
        Some(Function { name: name.to_owned(), module: module.map(str::to_owned) })
    };
    text.lines().filter_map(function).collect()
}

/// Whether a pattern stands for a function, as the kernel reads it: `name`, `:mod:module`, `name:mod:module`.
#[must_use]
pub fn is_meant(pattern: &str, function: &Function) -> bool {
    let (name, module) = match pattern.split_once(MODULE) {
        Some((name, module)) => (name, Some(module)),
        None => (pattern, None),
    };
    let name = if name.is_empty() { "*" } else { name };
    let is_of_module = module.is_none_or(|module| function.module.as_deref().is_some_and(|own| fits(module, own)));
    is_of_module && fits(name, &function.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        let all = parse(
            "vfs_read\nload_balance\next4_map_blocks [ext4]\next4_sync_fs [ext4]\n#### all functions\nx:traceon:1\n",
        );
        let meant = all.into_iter().filter(|function| patterns(list).any(|pattern| is_meant(pattern, function)));
        meant.map(|function| function.name).collect()
    }

    #[test]
    fn functions_are_meant_by_name_pattern_and_module() {
        assert_eq!(names("vfs_read"), ["vfs_read"]);
        assert_eq!(names("*balance*, vfs_?ead"), ["vfs_read", "load_balance"]);
        assert_eq!(names(":mod:ext4"), ["ext4_map_blocks", "ext4_sync_fs"]);
        assert_eq!(names("*sync*:mod:ext*"), ["ext4_sync_fs"]);
        assert_eq!(names("vfs_read:mod:ext4,ext"), [""; 0]);
        assert_eq!(names("*").len(), 4, "neither remarks nor triggers are functions");
    }
}
