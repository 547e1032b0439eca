//! What functions of the kernel say about a wait. Functions are renamed and inlined every few releases, so each name says in
//! which kernels it is found.

use rdiag_model::Component;

mod clear;
mod hints;
mod locks;
mod waits;

pub use clear::CLEAR;
pub use hints::HINTS;
pub use locks::is_lock_caller;
pub use waits::{BLOCK, FAULT, reads_or_writes, throttled_by};

/// A rule: any of these functions among the innermost [`DEPTH`].
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Id in reports.
    pub id: &'static str,
    /// What it means.
    pub meaning: Meaning,
    /// The functions.
    pub names: &'static [Name],
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The component.
    Component(Component),
    /// A wait for a disk; what for, the call says.
    Disk,
}

/// A function, and the kernels that have it ("" for all that are known). A `*` at its end stands for anything.
pub type Name = (&'static str, &'static str);

/// So many frames are looked at, from the innermost.
pub const DEPTH: usize = 12;

/// The first rule that fits.
#[must_use]
pub fn find<'r>(rules: &'r [Rule], frames: &[&str]) -> Option<&'r Rule> {
    let fits = |rule: &&Rule| frames.iter().take(DEPTH).any(|frame| fits(rule, bare(frame)));
    rules.iter().find(fits)
}

fn fits(rule: &Rule, frame: &str) -> bool {
    rule.names.iter().any(|(name, _)| match name.strip_suffix('*') {
        Some(beginning) => frame.starts_with(beginning),
        None => frame == *name,
    })
}

/// The name of a function without what the compiler (`.constprop.0`, `.isra.0`, `.cold`, `.llvm.123`) and the kernel
/// (`+0x1/0x2`, `[module]`) append.
#[must_use]
pub fn bare(frame: &str) -> &str {
    frame.split(['.', '+', ' ']).next().unwrap_or_default()
}

/// Whether the freezer of cgroup v2 holds a task: it handles that like a signal, and nothing else sleeps in get_signal itself in the states
/// S and D, into which compilers inline do_freezer_trap.
#[must_use]
pub fn is_frozen_by_v2(frames: &[&str]) -> bool {
    let mut asleep =
        frames.iter().map(|frame| bare(frame)).filter(|name| !name.starts_with("schedule") && *name != "__schedule");
    asleep.next() == Some("get_signal")
}

const fn rule(id: &'static str, component: Component, names: &'static [Name]) -> Rule {
    Rule { id, meaning: Meaning::Component(component), names }
}
