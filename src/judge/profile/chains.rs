//! Waker chains: which thread waited for which, as far as sums over the window can tell.
//!
//! A link says that waits of one thread were ended by another; what that one waited for meanwhile is the next link. Only
//! sums are recorded, so how long two waits went on side by side is given as bounds: at most the shorter of the two, and
//! at least what does not fit into the window one after the other.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::Component;
use rdiag_model::chain::{Chain, ChainLink};
use rdiag_model::ledger::{Ledger, MAX_LINKS, Target, Waker, WakerKind};
use rdiag_model::quantity::percent;

use super::account::{Account, clean, share};

/// Chains.
const MAX_CHAINS: usize = 6;
/// Links of a chain.
const MAX_DEPTH: usize = 5;
/// A link is followed if it may explain at least this share of the one before: of less, bounds that follow from sums say nothing.
const FOLLOWED: f64 = 0.1;
/// Threads of one name that are kept separate; more of them are merged, and so are those that lived for less than
/// a chain begins with.
const APART: usize = 8;

/// Who waits or wakes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    /// Thread id, name.
    Thread(u32, String),
    /// All threads of this name.
    Named(String),
    /// What is no thread, in words.
    Other(String),
}

/// A party's waits in a component that another ended.
type Waits = BTreeMap<(Party, Component, Party), (f64, u64)>;

/// What is known of those who were observed.
#[derive(Default)]
struct Life {
    seconds: f64,
    threads: u64,
    parts: BTreeMap<Component, f64>,
}

struct Web {
    waits: Waits,
    lives: BTreeMap<Party, Life>,
    elapsed: f64,
}

/// The chains that begin with the longest waits, of at least this share of the window, those of the command's first thread first.
pub(super) fn chains(ledger: &Ledger, account: &Account<'_>, target: &Target, least: f64) -> Vec<Chain> {
    let web = Web::new(ledger, account, least);
    let first = account.first_of(target).map(|first| first.thread.tid);
    let is_first = |party: &Party| matches!(party, Party::Thread(tid, _) if Some(*tid) == first);
    let least = (web.elapsed * least).max(1e-9);
    let mut begins: Vec<_> = web.waits.iter().filter(|(_, (seconds, _))| *seconds >= least).collect();
    begins.sort_by(|(a, x), (b, y)| is_first(&b.0).cmp(&is_first(&a.0)).then(y.0.total_cmp(&x.0)));
    let mut chains: Vec<Chain> = Vec::new();
    for (begin, _) in begins {
        // What a longer chain has told already need not be told again.
        let told = |chain: &Chain| chain.links.iter().any(|link| web.is(link, begin));
        if chains.len() < MAX_CHAINS && !chains.iter().any(told) {
            chains.push(web.follow(begin));
        }
    }
    chains
}

impl Web {
    fn new(ledger: &Ledger, account: &Account<'_>, least: f64) -> Self {
        let links = ledger.links.get(..ledger.links.len().min(MAX_LINKS)).unwrap_or_default();
        // A thread may have had another name when it woke another; the observed one counts. Many short requests may be one thread's.
        let lasts = |seconds: f64| account.requests || seconds >= account.elapsed * least;
        let known: BTreeMap<u32, (&str, bool)> = account
            .threads
            .iter()
            .map(|own| (own.thread.tid, (own.thread.comm.as_str(), lasts(own.seconds))))
            .collect();
        let mut apart: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for (tid, (name, lasts)) in &known {
            apart.entry(name).or_default().extend(lasts.then_some(*tid));
        }
        let wakers = links.iter().map(|link| &link.edge.waker).filter(|waker| waker.kind == WakerKind::Thread);
        for waker in wakers.filter(|waker| !known.contains_key(&waker.tid)) {
            apart.entry(&waker.comm).or_default().insert(waker.tid);
        }
        let party = |tid: u32, comm: &str| {
            let name = known.get(&tid).map_or(comm, |(name, _)| *name);
            match apart.get(name) {
                Some(tids) if tids.len() <= APART && tids.contains(&tid) && tid != 0 => {
                    Party::Thread(tid, name.to_owned())
                }
                _ => Party::Named(name.to_owned()),
            }
        };
        let mut lives: BTreeMap<Party, Life> = BTreeMap::new();
        for own in &account.threads {
            let life = lives.entry(party(own.thread.tid, &own.thread.comm)).or_default();
            life.seconds += own.seconds;
            life.threads = life.threads.saturating_add(u64::from(own.thread.stands_for));
            for (component, seconds) in &own.parts {
                *life.parts.entry(*component).or_default() += seconds;
            }
        }
        let mut waits = Waits::new();
        for link in links {
            let waker = &link.edge.waker;
            let by = match waker.kind {
                WakerKind::Thread => party(waker.tid, &waker.comm),
                _ => Party::Other(waker_name(waker)),
            };
            let sum = waits.entry((party(link.tid, &link.comm), link.edge.component, by)).or_default();
            *sum = (sum.0 + clean(link.edge.seconds), sum.1.saturating_add(link.edge.count));
        }
        Self { waits, lives, elapsed: account.elapsed }
    }

    fn name(&self, party: &Party) -> String {
        match party {
            Party::Thread(tid, comm) => format!("{comm} (thread {tid})"),
            Party::Named(comm) => match self.lives.get(party) {
                Some(life) if life.threads == 1 => format!("{comm} (a brief thread)"),
                Some(life) => format!("{comm} ({} threads)", life.threads),
                None => format!("{comm} (several threads)"),
            },
            Party::Other(name) => name.clone(),
        }
    }

    fn is(&self, link: &ChainLink, (waiter, component, waker): &(Party, Component, Party)) -> bool {
        link.component == *component && link.waiter == self.name(waiter) && link.waker == self.name(waker)
    }

    fn link(&self, key: &(Party, Component, Party), together: [f64; 2]) -> ChainLink {
        let (waiter, component, waker) = key;
        let (seconds, count) = self.waits.get(key).copied().unwrap_or_default();
        ChainLink {
            waiter: self.name(waiter),
            component: *component,
            waker: self.name(waker),
            seconds,
            share: share(seconds, self.lives.get(waiter).map_or(0.0, |life| life.seconds)),
            count,
            together,
        }
    }

    /// Goes from waker to waker, by the longest of its waits. Those that a member of the chain ended are left out: a waker
    /// runs, so these two did not wait at the same time.
    fn follow(&self, begin: &(Party, Component, Party)) -> Chain {
        let whole = self.waits.get(begin).map_or(0.0, |wait| wait.0);
        let mut together = [self.least(&begin.0, whole, self.elapsed), whole];
        let mut links = vec![self.link(begin, [whole; 2])];
        let mut members = vec![&begin.0, &begin.2];
        while links.len() < MAX_DEPTH {
            let Some(last) = members.last().copied() else { break };
            let own = self.waits.iter().filter(|((waiter, _, waker), _)| waiter == last && !members.contains(&waker));
            let Some((key, (seconds, _))) = own.max_by(|a, b| a.1.0.total_cmp(&b.1.0)) else { break };
            let most = together[1].min(*seconds);
            if most < whole * FOLLOWED {
                break;
            }
            together = [self.least(last, *seconds, together[0]).min(most), most];
            links.push(self.link(key, together));
            members.push(&key.2);
        }
        let end = members.last().map_or_else(String::new, |last| self.end(last));
        Chain { links, end }
    }

    /// How much of a time must coincide with a party's waits of so many seconds: nothing is known of several threads, whose
    /// waits may coincide with each other.
    fn least(&self, party: &Party, seconds: f64, with: f64) -> f64 {
        match party {
            Party::Thread(..) => (with + seconds - self.elapsed).max(0.0),
            _ => 0.0,
        }
    }

    /// Where a chain ends.
    fn end(&self, last: &Party) -> String {
        let name = self.name(last);
        if matches!(last, Party::Other(_)) {
            return String::new();
        }
        let Some(life) = self.lives.get(last).filter(|life| life.seconds > 0.0) else {
            return format!("What {name} did meanwhile was not observed.");
        };
        let mut parts: Vec<_> = life.parts.iter().collect();
        parts.sort_by(|a, b| b.1.total_cmp(a.1));
        let shown = parts.iter().take(3).map(|(component, seconds)| {
            format!("{} {}", component.def().title, percent(share(**seconds, life.seconds)))
        });
        format!("{name} itself: {}.", shown.collect::<Vec<_>>().join(", "))
    }
}

/// A waker in words.
pub(super) fn waker_name(waker: &Waker) -> String {
    match waker.kind {
        WakerKind::Unknown => "not known".to_owned(),
        WakerKind::Interrupt if waker.comm.is_empty() => "an interrupt (device, timer or network)".to_owned(),
        WakerKind::Interrupt => format!("interrupt {}", waker.comm),
        WakerKind::Thread if waker.tid == 0 => format!("{} (process {})", waker.comm, waker.pid),
        WakerKind::Thread => format!("{} (thread {})", waker.comm, waker.tid),
    }
}

#[cfg(test)]
mod tests;
