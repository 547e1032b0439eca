//! Folders of what rdiag keeps from one run to the next.

use std::path::{Path, PathBuf};

use crate::cli::exit::Failure;

/// Where root keeps it.
const OF_ROOT: &str = "/var/lib/rdiag";

/// A folder of what this user keeps; `--WHAT` names another one.
pub(super) fn folder(asked: Option<&PathBuf>, what: &str) -> Result<PathBuf, Failure> {
    if let Some(asked) = asked {
        return Ok(asked.clone());
    }
    if rustix::process::geteuid().is_root() {
        return Ok(Path::new(OF_ROOT).join(what));
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    let hint = format!("name a folder with --{what}");
    let unknown = || Failure::usage(format!("there is no home to keep {what} in"), Some(&hint));
    Ok(state.ok_or_else(unknown)?.join("rdiag").join(what))
}
