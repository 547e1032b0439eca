//! Stall times of single groups, which only the unified hierarchy keeps.

use super::{Hierarchy, Version};
use crate::host::Host;
use rdiag_model::{Reason, Unavailable};
use rdiag_proc::Pressure;

/// Where the pressure files are.
#[derive(Debug)]
pub struct Pressures {
    tree: Option<Hierarchy>,
    hybrid: bool,
}

impl Pressures {
    /// Pressure files of the groups of a hierarchy. On a hybrid host the unified tree has groups of the same paths, if
    /// one manager made both, and keeps their stall times although v1 has the controllers.
    #[must_use]
    pub fn find(host: &Host, hierarchy: &Hierarchy) -> Self {
        match hierarchy.version {
            Version::V2 => Self { tree: Some(hierarchy.clone()), hybrid: false },
            Version::V1 => Self { tree: Hierarchy::unified(host), hybrid: true },
        }
    }

    /// Microseconds in which some, and in which all, of the tasks of a group that were not idle stalled for `resource`
    /// (`cpu`, `memory`, `io`).
    pub fn read(&self, host: &Host, group: &str, resource: &str) -> Result<(u64, u64), Unavailable> {
        // The root's files are the whole host's, not those of a v1 group that happens to be a root.
        let tree = self.tree.as_ref().filter(|_| !self.hybrid || group != "/");
        let tree = tree.ok_or_else(|| {
            let gap = Unavailable::new(Reason::Absent, "control groups of version 1 have no pressure files");
            gap.with_remedy("boot with systemd.unified_cgroup_hierarchy=1")
        })?;
        let path = tree.file(group, &format!("{resource}.pressure"));
        let text = host.read(&path).map_err(|error| match error.reason {
            Reason::Absent if self.hybrid => {
                let why = "control groups of version 1 have no pressure files, and the unified tree has no such group";
                Unavailable::new(Reason::Absent, why)
            }
            Reason::Absent | Reason::Disabled => error.gap().with_remedy("boot with psi=1"),
            _ => error.gap(),
        })?;
        both(&text, resource).map_err(|gap| Unavailable { why: format!("/{path} {}", gap.why), ..gap })
    }
}

/// Both totals of a file. Before Linux 5.13 that of the CPU has no line `full`: then it is whole, and there is nothing to mend.
fn both(text: &str, resource: &str) -> Result<(u64, u64), Unavailable> {
    let [some, full] = ["some", "full"].map(|kind| Pressure::parse(text.as_bytes(), kind));
    let Some(some) = some.and_then(Pressure::total) else {
        return Err(Unavailable::new(Reason::Malformed, "lacks a line `some`"));
    };
    match full.map(Pressure::total) {
        Some(Some(full)) => Ok((some, full)),
        None if resource == "cpu" => {
            let gap = Unavailable::new(Reason::Absent, "has no line `full` before Linux 5.13");
            Err(gap.with_remedy("a kernel of version 5.13 or later"))
        }
        _ => Err(Unavailable::new(Reason::Malformed, "lacks a line `full`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_cpu_without_full_is_that_of_an_old_kernel_and_not_malformed() {
        let some = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n";
        assert_eq!(both(some, "cpu").unwrap_err().reason, Reason::Absent);
        assert_eq!(both(some, "memory").unwrap_err().reason, Reason::Malformed);
        assert_eq!(both(&format!("{some}full avg10=0.00\n"), "cpu").unwrap_err().reason, Reason::Malformed);
        assert_eq!(both(&format!("{some}full total=7\n"), "cpu").unwrap(), (12, 7));
    }
}
