//! The kinds of a thread's waits, distinguished as cells of wakers and stacks do: by all but the stack they ended with.

use std::collections::{BTreeMap, HashMap};

use super::kind::Kind;
use rdiag_model::Component;

/// The components of each kind of wait of a thread.
pub(super) type Kinds = HashMap<Kind, Split>;

/// The time of waits of one kind by component: their stacks may say different things.
#[derive(Debug, Clone, Default)]
pub(super) struct Split(BTreeMap<Component, u64>);

impl Split {
    pub(super) fn add(&mut self, component: Component, ns: u64) {
        let sum = self.0.entry(component).or_default();
        *sum = sum.saturating_add(ns);
    }

    /// The component of most of the time.
    pub(super) fn mostly(&self) -> Option<Component> {
        self.0.iter().max_by_key(|(_, ns)| **ns).map(|(component, _)| *component)
    }

    /// That of most of the time which is not one's, unless there is no other.
    pub(super) fn mostly_other(&self, than: Component) -> Option<Component> {
        let others = self.0.iter().filter(|(component, _)| **component != than);
        others.max_by_key(|(_, ns)| **ns).map(|(component, _)| *component).or_else(|| self.mostly())
    }

    /// Divides time and number of some of the waits, of which only the kind is known: so that no component has more of them than it has
    /// time.
    pub(super) fn divide(&self, ns: u64, count: u64) -> impl Iterator<Item = (Component, u64, u64)> {
        let whole = self.0.values().fold(0_u64, |sum, own| sum.saturating_add(*own));
        let part = move |of: u64, own: u64| match whole {
            0 => of,
            whole => (u128::from(of) * u128::from(own) / u128::from(whole)) as u64,
        };
        let known = self.0.iter().filter(move |(_, own)| **own > 0 || whole == 0);
        known.map(move |(component, own)| (*component, part(ns, *own), part(count, *own).max(1).min(count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_kind_is_divided_so_that_no_component_gets_more_than_it_has() {
        let mut split = Split::default();
        assert_eq!((split.mostly(), split.divide(10, 1).count()), (None, 0));
        split.add(Component::IoBlockMeta, 600);
        split.add(Component::LockKernel, 200);
        split.add(Component::OtherOff, 0);
        assert_eq!(split.mostly(), Some(Component::IoBlockMeta));
        assert_eq!(split.mostly_other(Component::IoBlockMeta), Some(Component::LockKernel));
        assert_eq!(split.mostly_other(Component::IpcPipe), Some(Component::IoBlockMeta));
        let parts: Vec<_> = split.divide(400, 8).collect();
        assert_eq!(parts, [(Component::IoBlockMeta, 300, 6), (Component::LockKernel, 100, 2)]);
    }

    #[test]
    fn what_has_no_time_is_not_lost() {
        let mut split = Split::default();
        split.add(Component::IpcPipe, 0);
        assert_eq!(split.divide(5, 2).collect::<Vec<_>>(), [(Component::IpcPipe, 5, 2)]);
    }
}
