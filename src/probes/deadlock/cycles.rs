//! Circles among orders in which locks were taken.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// `struct order` of the program: process, the lock that was held, the lock that was asked for.
pub(super) type Order = [u64; 3];

/// `struct seen` of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) count: u64,
    pub(super) stack: u64,
    pub(super) born: u64,
    tid: u64,
    by_others: bool,
    pub(super) comm: [u64; 2],
}

impl Seen {
    pub(super) fn of([count, stack, born, tid, by_others, first, second]: [u64; 7]) -> Self {
        Self { count, stack, born, tid, by_others: by_others != 0, comm: [first, second] }
    }
}

/// A circle of a process, beginning with the lock of the lowest address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cycle {
    pub(super) tgid: u64,
    pub(super) orders: Vec<Order>,
    /// How often the order that was seen least was seen.
    pub(super) count: u64,
}

impl Cycle {
    /// `0x10 → 0x20 → 0x10`.
    pub(super) fn told(&self) -> String {
        let mut locks: Vec<String> = self.orders.iter().map(|[_, first, _]| format!("{first:#x}")).collect();
        locks.extend(locks.first().cloned());
        locks.join(" → ")
    }
}

/// Orders of circles that are looked at; a program with more has enough to do with these.
const MOST: usize = 500;

/// The shortest circle through each order, each once; those that were gone through most come first. Those of one thread alone,
/// which cannot wait for itself, are left out.
pub(super) fn find(orders: &HashMap<Order, Seen>) -> Vec<Cycle> {
    let mut after: BTreeMap<(u64, u64), BTreeSet<u64>> = BTreeMap::new();
    for [tgid, first, then] in in_circles(orders.keys().copied().collect()) {
        after.entry((tgid, first)).or_default().insert(then);
    }
    let starts = after.iter().flat_map(|((tgid, first), then)| then.iter().map(|then| [*tgid, *first, *then]));
    let circles: BTreeSet<Vec<Order>> = starts.take(MOST).filter_map(|order| shortest(order, &after)).collect();
    let judged = circles.into_iter().filter_map(|circle| {
        let seen: Vec<&Seen> = circle.iter().filter_map(|order| orders.get(order)).collect();
        let threads: BTreeSet<u64> = seen.iter().map(|seen| seen.tid).collect();
        let many = threads.len() > 1 || seen.iter().any(|seen| seen.by_others);
        let count = seen.iter().map(|seen| seen.count).min().filter(|_| many)?;
        let [tgid, ..] = *circle.first()?;
        Some(Cycle { tgid, orders: circle, count })
    });
    let mut judged: Vec<Cycle> = judged.collect();
    judged.sort_by_key(|cycle| std::cmp::Reverse(cycle.count));
    judged
}

/// Leaves out locks before which, or after which, no other one is taken, until none is left of them.
fn in_circles(mut orders: BTreeSet<Order>) -> BTreeSet<Order> {
    loop {
        let held: BTreeSet<(u64, u64)> = orders.iter().map(|[tgid, first, _]| (*tgid, *first)).collect();
        let asked: BTreeSet<(u64, u64)> = orders.iter().map(|[tgid, _, then]| (*tgid, *then)).collect();
        let before = orders.len();
        orders.retain(|[tgid, first, then]| asked.contains(&(*tgid, *first)) && held.contains(&(*tgid, *then)));
        if orders.len() == before {
            return orders;
        }
    }
}

/// The shortest way from where an order leads back to where it begins, with the order itself.
fn shortest([tgid, first, then]: Order, after: &BTreeMap<(u64, u64), BTreeSet<u64>>) -> Option<Vec<Order>> {
    let mut came_from: BTreeMap<u64, u64> = BTreeMap::from([(then, first)]);
    let mut queue = VecDeque::from([then]);
    while let Some(lock) = queue.pop_front() {
        if lock == first {
            break;
        }
        for next in after.get(&(tgid, lock)).into_iter().flatten() {
            if !came_from.contains_key(next) {
                came_from.insert(*next, lock);
                queue.push_back(*next);
            }
        }
    }
    let mut circle = Vec::new();
    let mut lock = first;
    loop {
        let before = *came_from.get(&lock)?;
        circle.push([tgid, before, lock]);
        if before == first {
            break;
        }
        lock = before;
    }
    circle.reverse();
    let lowest = circle.iter().enumerate().min_by_key(|(_, [_, first, _])| *first).map_or(0, |(at, _)| at);
    circle.rotate_left(lowest);
    Some(circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(count: u64, tid: u64) -> Seen {
        Seen { count, tid, ..Seen::default() }
    }

    #[test]
    fn contradicting_orders_are_told_once_and_the_same_order_is_none() {
        let orders = HashMap::from([
            ([7, 0x10, 0x20], seen(5, 1)),
            ([7, 0x20, 0x10], seen(3, 2)),
            ([7, 0x10, 0x30], seen(9, 1)),
            ([7, 0x20, 0x30], seen(9, 2)),
            ([8, 0x30, 0x10], seen(9, 3)),
        ]);
        let found = find(&orders);
        let [circle] = &found[..] else { panic!("{found:?}") };
        assert_eq!((circle.tgid, circle.count), (7, 3));
        assert_eq!(circle.told(), "0x10 → 0x20 → 0x10");
    }

    #[test]
    fn a_circle_of_three_is_found_and_one_thread_alone_is_in_nobodys_way() {
        let mut orders = HashMap::from([
            ([7, 3, 1], seen(2, 1)),
            ([7, 1, 2], seen(2, 1)),
            ([7, 2, 3], seen(2, 1)),
            ([7, 9, 1], seen(2, 4)),
        ]);
        assert!(find(&orders).is_empty());
        orders.insert([7, 2, 3], Seen { by_others: true, ..seen(1, 1) });
        let found = find(&orders);
        let [circle] = &found[..] else { panic!("{found:?}") };
        assert_eq!(circle.orders, [[7, 1, 2], [7, 2, 3], [7, 3, 1]]);
        assert_eq!(circle.count, 1);
    }

    #[test]
    fn many_orders_without_a_circle_and_many_in_circles_take_no_time() {
        let chain: HashMap<Order, Seen> = (0..3000).map(|at| ([7, at, at + 1], seen(1, at))).collect();
        assert!(find(&chain).is_empty());
        let pairs = (0..100).flat_map(|a| (0..100).filter(move |b| *b != a).map(move |b| [7, a, b]));
        let all: HashMap<Order, Seen> = pairs.map(|order| (order, seen(1, order[1]))).collect();
        assert!(find(&all).len() >= 100);
        assert!(find(&HashMap::new()).is_empty());
    }
}
