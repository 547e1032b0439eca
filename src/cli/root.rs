//! What `--root` names.

use std::path::Path;

use crate::cli::exit::Failure;
use rdiag_kernel::host::{Host, HostSpec, files};
use rdiag_playbook::{PlaybookError, load};

/// Instants of a tree: each file is looked for in all of them.
const MAX_INSTANTS: usize = 1000;

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
    match wrong(&spec) {
        Some(why) => Err(Failure::usage(format!("{label}: {why}"), None)),
        None => Ok(Host::recorded(root, spec)),
    }
}

/// Why the instants of a tree cannot be measured.
fn wrong(spec: &HostSpec) -> Option<String> {
    if spec.times.len() > MAX_INSTANTS {
        return Some(format!("it has {} instants, and no more than {MAX_INSTANTS} are read", spec.times.len()));
    }
    let in_order = spec.times.iter().all(|time| time.is_finite()) && spec.times.is_sorted();
    (!in_order).then(|| "its times are not in order".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_few_instants_and_they_are_in_order() {
        let of = |times: Vec<f64>| wrong(&HostSpec { times, ..HostSpec::default() });
        assert_eq!(of(Vec::new()).or(of(vec![0.0, 0.0, 5.0])).or(of(vec![1.0; MAX_INSTANTS])), None);
        assert!(of(vec![1.0; MAX_INSTANTS + 1]).is_some_and(|why| why.contains("1001 instants")));
        for times in [vec![0.0, f64::NAN], vec![5.0, 0.0], vec![f64::NEG_INFINITY, 0.0]] {
            assert_eq!(of(times).as_deref(), Some("its times are not in order"));
        }
    }
}
