//! What `--root` names.

use std::path::Path;

use super::Failure;
use crate::playbook::{PlaybookError, load};
use rdiag_kernel::host::{Host, files};

/// The machine, another root, or a recorded tree.
pub(super) fn open_host(root: &Path) -> Result<Host, Failure> {
    let description = root.join("host.yaml");
    if description.symlink_metadata().is_err() {
        if !root.is_dir() {
            let message = format!("--root {}: there is no such folder", root.display());
            return Err(Failure::Usage { message, hint: None });
        }
        return Ok(Host::live(root));
    }
    let label = description.display().to_string();
    let bytes =
        files::read_below(root, "host.yaml", load::MAX_BYTES).map_err(Failure::io(format!("reading {label}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let spec = load::parse(&label, &text).map_err(|problem| PlaybookError::Invalid(vec![problem]))?;
    Ok(Host::recorded(root, spec))
}
