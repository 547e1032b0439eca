//! What to look at first.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use rdiag_model::finding::Levels;
use rdiag_model::{Confidence, Evidence, Finding, Kind, Resource, Status};

/// Sorts findings: the worst status first; then errors before saturation before utilization, because errors are the
/// cheapest to interpret and utilization alone is no problem; what is over comes after what is as bad in the window, and a lack of memory
/// that has been over for more than a minute after all that fired in it; then what can be trusted more. Among equals, memory comes
/// first: a lack of memory keeps disks and CPUs busy, and seldom the other way round. Findings of one cell stay
/// together, the general rule (`cpu.saturation`) before the special ones, unless it cannot be trusted. What is left equal goes by id, but
/// shares of one whole by their size.
pub(super) fn sort(findings: &mut [Finding], levels: &BTreeMap<String, Levels>) {
    let mut trust: BTreeMap<Cell, Confidence> = BTreeMap::new();
    for finding in findings.iter() {
        let best = trust.entry(cell(finding)).or_insert(finding.confidence);
        *best = (*best).max(finding.confidence);
    }
    findings.sort_by_cached_key(|finding| {
        let confidence = trust.get(&cell(finding)).copied().unwrap_or(finding.confidence);
        let low_is_bad = levels.get(&finding.id).is_some_and(|levels| levels.low_is_bad);
        let badness = Badness::of(finding.value, low_is_bad);
        Key(
            rank(finding, confidence),
            whole(&finding.id).to_owned(),
            badness,
            finding.id.clone(),
            finding.instance.clone(),
        )
    });
}

type Cell = (Status, Resource, Kind);

fn cell(finding: &Finding) -> Cell {
    (finding.status, finding.resource, finding.kind)
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key(Rank, String, Badness, String, Option<String>);

/// Rules whose values are shares of the host's memory.
const OF_MEMORY: [&str; 3] =
    ["memory.utilization.page_tables", "memory.utilization.slab", "memory.utilization.unaccounted"];

/// What a rule's value is a share of, by the rule that comes first by its id: values of one whole can be compared, those of other rules
/// with their own only.
fn whole(id: &str) -> &str {
    match OF_MEMORY {
        [first, ..] if OF_MEMORY.contains(&id) => first,
        _ => id,
    }
}

/// What is over once the kernel has logged it: a kill frees memory, a failed allocation is given up. A disk, a file system or a CPU that
/// failed goes on failing, whatever the distance of its last line.
const OVER_AT_ONCE: [&str; 2] = ["memory.errors.oom", "memory.errors.page_allocation"];
/// Such an error of so many seconds before the window may still have its consequences in it.
const FRESH: f64 = 60.0;

type Rank = (Reverse<u8>, u8, Reverse<Confidence>, u8, bool, Reverse<Confidence>);

fn rank(finding: &Finding, cell_confidence: Confidence) -> Rank {
    let importance = match finding.status {
        // What is over comes after what is not.
        Status::Critical if is_long_over(finding) => 6,
        Status::Critical if finding.is_over() => 8,
        Status::Critical => 9,
        Status::Warning if finding.is_over() => 5,
        Status::Warning => 7,
        Status::Info if finding.is_past() => 3,
        Status::Info => 4,
        Status::Unknown => 2,
        Status::Ok => 1,
        Status::Skipped => 0,
    };
    let kind = match finding.kind {
        Kind::Errors => 0,
        Kind::Saturation => 1,
        Kind::Utilization => 2,
    };
    let row = Resource::ALL.iter().position(|resource| *resource == finding.resource).unwrap_or_default() as u8;
    let resource = if finding.resource == Resource::Memory { 0 } else { row + 1 };
    if finding.status.fired() {
        let general = finding.id.matches('.').count() == 1 && finding.confidence > Confidence::Low;
        (Reverse(importance), kind, Reverse(cell_confidence), resource, !general, Reverse(finding.confidence))
    } else {
        (Reverse(importance), row, Reverse(Confidence::High), kind, false, Reverse(Confidence::High))
    }
}

fn is_long_over(finding: &Finding) -> bool {
    OVER_AT_ONCE.contains(&finding.id.as_str()) && finding.seconds_before.is_some_and(|before| before > FRESH)
}

/// Among the instances of one rule, and shares of one whole: the value that is further on the bad side comes first.
struct Badness(f64);

impl Badness {
    fn of(value: Option<f64>, low_is_bad: bool) -> Self {
        Self(match value {
            Some(value) if low_is_bad => value,
            Some(value) => -value,
            None => f64::INFINITY,
        })
    }
}

impl Ord for Badness {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Badness {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Badness {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Badness {}

/// Puts the reading that a finding was judged by before those that it only mentions.
pub(super) fn judged_first(finding: &mut Finding) {
    let mut evidence = std::mem::take(&mut finding.evidence);
    evidence.sort_by_key(|reading| !judged_by(finding, reading));
    finding.evidence = evidence;
}

/// Whether a finding's value is a figure of this reading.
pub(super) fn judged_by(finding: &Finding, evidence: &Evidence) -> bool {
    let Some(value) = finding.value else { return false };
    finding.unit == evidence.unit && [evidence.mean, evidence.max, evidence.total].contains(&Some(value))
}
