//! What was retransmitted, summed up by who holds the socket and by the peer's address.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Resent;
use crate::table::TableSpec;
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;

/// Distinct pairs.
const MOST: usize = 10_000;

/// Process id, name, and the peer's address without its port.
type Pair = (String, String, String);

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    segments: u64,
    after_timer: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.segments += other.segments;
        self.after_timer += other.after_timer;
        self.bytes += other.bytes;
    }
}

/// Sums since the last reading.
#[derive(Debug, Default)]
pub(super) struct Peers {
    pairs: BTreeMap<Pair, Sum>,
    /// Of pairs that found no room.
    rest: Sum,
}

impl Peers {
    pub(super) fn add(&mut self, resent: &Resent) {
        let [name, pid] = [&resent.name, &resent.pid].map(|text| text.clone().unwrap_or_default());
        let address = |end: &str| end.parse::<SocketAddr>().map(|end| end.ip().to_string()).ok();
        let pair = (pid, name, resent.remote.as_deref().and_then(address).unwrap_or_default());
        let sum = if self.pairs.len() >= MOST && !self.pairs.contains_key(&pair) {
            &mut self.rest
        } else {
            self.pairs.entry(pair).or_default()
        };
        let after_timer = if resent.after_timer() { resent.segments } else { 0 };
        sum.add(Sum { segments: resent.segments, after_timer, bytes: resent.bytes });
    }

    /// The sums, most segments first, and forgets them.
    pub(super) fn take(&mut self, top: usize) -> ProbeTable {
        let mut pairs: Vec<(Pair, Sum)> = std::mem::take(&mut self.pairs).into_iter().collect();
        let rest = std::mem::take(&mut self.rest);
        pairs.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.segments));
        TableSpec::<(Pair, Sum)>::new("peers", "Retransmitted TCP segments by task and peer")
            .rows("task and peer", |(pair @ (pid, ..), _)| format!("{pid}:{}", told(pair)))
            .text("name", "task and peer", |(pair, _)| told(pair))
            .text("pid", "pid", |((pid, ..), _)| (!pid.is_empty()).then(|| pid.clone()))
            .sum("segments", "segments", Unit::Count, |(_, sum)| sum.segments as f64)
            .sum("after_timer", "after a timer", Unit::Count, |(_, sum)| sum.after_timer as f64)
            .sum("bytes", "bytes", Unit::Bytes, |(_, sum)| sum.bytes as f64)
            .top_with_rest(pairs, top, (rest, rest.segments > 0), |rest, sum| rest.add(*sum))
    }
}

fn told((_, name, peer): &Pair) -> String {
    let whose = if name.is_empty() { "(unknown)" } else { name.as_str() };
    format!("{whose} to {peer}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owners::Owners;
    use crate::tcpretrans::tests::record;

    #[test]
    fn what_goes_to_one_peer_is_one_row_and_the_largest_comes_first() {
        let mut peers = Peers::default();
        for (last, congestion) in [(7, 4), (8, 4), (8, 3), (9, 0)] {
            peers.add(&Resent::parse(&record(0, last, 1, congestion), &Owners::default()));
        }
        let table = peers.take(2);
        let [first, second] = &table.rows[..] else { panic!("two rows: {table:?}") };
        assert_eq!(first.cells.len(), table.columns.len());
        assert_eq!(first.cells[0], "(no process) to 192.0.2.8".into());
        assert_eq!(first.cells[2..], [4.0.into(), 2.0.into(), 5792.0.into()]);
        assert_eq!(second.cells[0], "(no process) to 192.0.2.7".into());
        assert_eq!((table.others, table.others_sum["segments"], table.others_sum["after_timer"]), (1, 2.0, 0.0));
        assert!(peers.take(2).rows.is_empty());
    }

    #[test]
    fn pairs_beyond_the_bound_are_summed_up_in_one() {
        let mut peers = Peers::default();
        for at in 0..MOST + 3 {
            let mut resent = Resent::parse(&record(0, 7, 1, 4), &Owners::default());
            resent.remote = Some(format!("10.{}.{}.1:80", at / 256, at % 256));
            peers.add(&resent);
        }
        let table = peers.take(1);
        assert_eq!((table.rows.len(), table.others), (1, MOST as u64));
        assert_eq!(table.others_sum["segments"], 2.0 * (MOST + 2) as f64);
    }
}
