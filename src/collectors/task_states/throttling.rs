//! How long the quotas of control groups stopped the observed tasks' groups.

use std::collections::BTreeMap;

use super::thread_reader::Process;
use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Version, keyed};

/// Groups with their ancestors, and how long each had been stopped when the window began.
#[derive(Default)]
pub(super) struct Throttling {
    hierarchy: Option<Hierarchy>,
    /// Nanoseconds, by path.
    began: BTreeMap<String, u64>,
}

/// Seconds in which groups were stopped within the window, by path; those that were not are left out.
pub(super) type Throttled = BTreeMap<String, f64>;

impl Throttling {
    pub(super) fn begin<'p>(host: &Host, processes: impl Iterator<Item = &'p Process>) -> Self {
        let mut throttling = Self { hierarchy: Hierarchy::find(host, "cpu").ok(), began: BTreeMap::new() };
        for group in processes.filter_map(|process| process.group.as_deref()) {
            for path in ancestry(group) {
                if !throttling.began.contains_key(path)
                    && let Some(stopped) = throttling.stopped(host, path)
                {
                    throttling.began.insert(path.to_owned(), stopped);
                }
            }
        }
        throttling
    }

    pub(super) fn end(&self, host: &Host) -> Throttled {
        let change = |(path, before): (&String, &u64)| {
            let seconds = self.stopped(host, path)?.saturating_sub(*before) as f64 * 1e-9;
            (seconds > 0.0).then(|| (path.clone(), seconds))
        };
        self.began.iter().filter_map(change).collect()
    }

    /// Nanoseconds in which a group has been stopped so far, summed over the CPUs.
    fn stopped(&self, host: &Host, group: &str) -> Option<u64> {
        let hierarchy = self.hierarchy.as_ref()?;
        let text = host.read(&hierarchy.file(group, "cpu.stat")).ok()?;
        match hierarchy.version {
            Version::V1 => keyed(&text, "throttled_time"),
            Version::V2 => keyed(&text, "throttled_usec").map(|micros| micros.saturating_mul(1000)),
        }
    }
}

/// The group that stopped a process of this one the longest: itself or one above it.
pub(super) fn stopped_by<'t>(throttled: &'t Throttled, group: &str) -> Option<(&'t str, f64)> {
    let found = ancestry(group).filter_map(|path| throttled.get_key_value(path));
    found.max_by(|a, b| a.1.total_cmp(b.1)).map(|(path, seconds)| (path.as_str(), *seconds))
}

/// A group and those above it.
fn ancestry(group: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(group), |path| {
        let (above, _) = path.trim_end_matches('/').rsplit_once('/')?;
        (!above.is_empty()).then_some(above)
    })
    .take(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_that_stopped_the_longest_is_found_among_those_above() {
        assert_eq!(ancestry("/a/b/c").collect::<Vec<_>>(), ["/a/b/c", "/a/b", "/a"]);
        assert_eq!(ancestry("/").collect::<Vec<_>>(), ["/"]);
        let throttled: Throttled = [("/a/b".to_owned(), 3.0), ("/a".to_owned(), 1.0), ("/x".to_owned(), 9.0)].into();
        assert_eq!(stopped_by(&throttled, "/a/b/c"), Some(("/a/b", 3.0)));
        assert_eq!(stopped_by(&throttled, "/y"), None);
    }
}
