//! The name of a function, and how much of it is kept.

/// Longest name that is kept, in characters; templates of C++ can be longer than any page.
pub(super) const MAX_NAME: usize = 500;
/// Functions that are inlined into each other at one address; no page shows more.
pub(super) const MAX_INLINED: usize = 50;

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    /// Module of the kernel that it belongs to.
    pub(super) module: Option<String>,
    pub(super) line: Option<String>,
}

/// `[ext4]` for a module; none for the kernel itself.
pub(super) fn module_name(module: &str) -> Option<String> {
    let name = module.trim_matches(['[', ']']).rsplit('/').next().unwrap_or_default();
    (!name.is_empty() && name != "kallsyms" && name != "vmlinux").then(|| format!("[{name}]"))
}
