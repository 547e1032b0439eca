//! Which CPUs are online: those that go take their events with them, those that come need new ones.

use std::collections::BTreeSet;

use crate::host::Host;
use crate::model::{Reason, Unavailable};

const FILE: &str = "sys/devices/system/cpu/online";

/// The CPUs that are sampled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cpus(BTreeSet<u32>);

impl Cpus {
    pub(super) fn read(host: &Host) -> Result<Self, Unavailable> {
        let text = host.read_line(FILE)?;
        let online = parse(&text).filter(|cpus| !cpus.is_empty());
        online.map(Self).ok_or_else(|| Unavailable::new(Reason::Malformed, format!("/{FILE} holds no list of CPUs")))
    }

    pub(super) fn online(&self) -> Vec<u32> {
        self.0.iter().copied().collect()
    }

    /// The CPUs that came online since the last look, and what is to be said about those that came and went.
    pub(super) fn changed(&mut self, host: &Host) -> (Vec<u32>, Option<String>) {
        let Ok(now) = Self::read(host) else { return (Vec::new(), None) };
        let before = std::mem::replace(self, now);
        if before == *self {
            return (Vec::new(), None);
        }
        let came: Vec<u32> = self.0.difference(&before.0).copied().collect();
        let went: Vec<u32> = before.0.difference(&self.0).copied().collect();
        let said = |cpus: &[u32], what: &str| {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            (!cpus.is_empty()).then(|| format!("CPU {} {what} meanwhile", cpus.join(", ")))
        };
        let note = [said(&came, "came online"), said(&went, "went offline")].into_iter().flatten().collect::<Vec<_>>();
        (came, Some(note.join("; ")))
    }
}

/// CPUs in a list such as `0-3,8`; at most 8192 of them.
fn parse(list: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        cpus.extend((low..=high).take(8192_usize.saturating_sub(cpus.len())));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_read_and_nonsense_is_refused() {
        assert_eq!(parse("0-2,8"), Some([0, 1, 2, 8].into()));
        assert_eq!(parse("5-3"), Some(BTreeSet::new()));
        assert_eq!(parse("0-4294967295").map(|cpus| cpus.len()), Some(8192));
        assert_eq!(parse("a"), None);
    }
}
