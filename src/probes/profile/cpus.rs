//! Which CPUs are online: those that go take their events with them, those that come need new ones.

use std::collections::BTreeSet;

use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::perf::cpus::online;

/// The CPUs that are sampled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cpus(BTreeSet<u32>);

impl Cpus {
    pub(super) fn read(host: &Host) -> Self {
        Self(online(host).into_iter().collect())
    }

    pub(super) fn online(&self) -> Vec<u32> {
        self.0.iter().copied().collect()
    }

    /// The CPUs that came online since the last look, and what is to be said about those that came and went.
    pub(super) fn changed(&mut self, host: &Host) -> (Vec<u32>, Option<String>) {
        self.become_these(Self::read(host))
    }

    fn become_these(&mut self, now: Self) -> (Vec<u32>, Option<String>) {
        let before = std::mem::replace(self, now);
        let came: Vec<u32> = self.0.difference(&before.0).copied().collect();
        let went: Vec<u32> = before.0.difference(&self.0).copied().collect();
        let said = |cpus: &[u32], what: &str| {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            (!cpus.is_empty()).then(|| format!("CPU {} {what} meanwhile", cpus.join(", ")))
        };
        let notes: Vec<String> =
            [said(&came, "came online"), said(&went, "went offline")].into_iter().flatten().collect();
        (came, (!notes.is_empty()).then(|| notes.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_come_are_given_and_those_that_go_are_told() {
        let mut cpus = Cpus([0, 1, 2].into());
        assert_eq!(cpus.become_these(Cpus([0, 1, 2].into())), (vec![], None));
        let (came, note) = cpus.become_these(Cpus([0, 3, 4].into()));
        assert_eq!(came, [3, 4]);
        assert_eq!(note.unwrap(), "CPU 3, 4 came online meanwhile; CPU 1, 2 went offline meanwhile");
        assert_eq!(cpus.online(), [0, 3, 4]);
    }
}
