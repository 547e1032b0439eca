//! From the program's sums to tables, histograms and stacks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::Key;
use super::names::Names;
use super::query::{Query, Value};
use super::tabled;
use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::{hist, words};
use rdiag_kernel::mechanism::symbols::{Part, Piece, Process, Sample};
use rdiag_model::Unit;
use rdiag_model::probe::{Frame, Histogram, HistogramRow, Output, ProbeTable};

/// Where functions of the kernel are that are in no module.
const KERNEL: &str = "[kernel]";

/// `struct sum` of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) count: u64,
    /// Modulo 2⁶⁴, as the program adds up values with a sign.
    pub(super) sum: u64,
}

impl Value {
    /// Base unit, and what one unit of the program is in it.
    pub(super) fn unit(&self) -> (Unit, f64) {
        if self.is_time { (Unit::Seconds, 1e-9) } else { (Unit::Count, 1.0) }
    }

    /// A sum of values.
    pub(super) fn sum(&self, sum: u64) -> f64 {
        let whole = if self.is_signed { sum.cast_signed() as f64 } else { sum as f64 };
        whole * self.unit().1
    }
}

impl Sum {
    pub(super) fn of_all_cpus(copies: &[[u64; 2]]) -> Self {
        copies.iter().fold(Self::default(), |all, [count, sum]| all.plus(Self { count: *count, sum: *sum }))
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, sum: self.sum.wrapping_add(other.sum) }
    }
}

impl Query {
    /// `kmem:kmalloc by comm, bytes_req`.
    pub(super) fn heading(&self, what: &str) -> String {
        let mut by: Vec<&str> = self.keys.iter().map(|(name, _)| name.as_str()).collect();
        if self.by_comm {
            by.insert(0, "task");
        }
        if self.shows_point {
            by.insert(0, "point");
        }
        if self.has_stack() {
            by.push("stack");
        }
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
        format!("{what}{}{by}", self.title)
    }

    /// The key's parts as text: the point, the task's name, the numbers and texts.
    fn parts(&self, key: &Key, names: &Names) -> Vec<String> {
        let [first, second, third, comm @ ..] = key;
        let numbers = self.keys.iter().zip([first, second, third]).map(|((_, read), word)| names.shown(*read, *word));
        let name = self.by_comm.then(|| words::text_of_words(comm.get(..2).unwrap_or_default()));
        let point = self.shows_point.then(|| self.reads.point.name.clone());
        point.into_iter().chain(name).chain(numbers).collect()
    }

    /// What a row of the outputs is.
    fn dimension(&self) -> Option<&'static str> {
        (self.has_key() || self.shows_point).then_some("key")
    }

    /// Id and title of a column for each part of the key.
    fn part_columns(&self) -> impl Iterator<Item = (&str, &str)> {
        let point = self.shows_point.then_some(("point", "point"));
        let name = self.by_comm.then_some(("name", "task"));
        let keys = self.keys.iter().map(|(name, _)| (name.as_str(), name.as_str()));
        point.into_iter().chain(name).chain(keys)
    }

    /// A sum with the stack that the kernel has named, and whether that may be cut.
    pub(super) fn named_sample<'s>(
        &self,
        key: &Key,
        sum: Sum,
        (frames, is_cut): (&'s [Frame], bool),
        names: &Names,
    ) -> Sample<'s> {
        let nothing = HashMap::new();
        let (owner, value) = {
            let plain = self.sample(key, sum, &nothing, names);
            (plain.owner, plain.value)
        };
        Sample { owner, pid: None, pieces: vec![Piece::Named(frames, is_cut)], value, count: sum.count }
    }

    /// A sum with its stacks, as far as they were kept.
    pub(super) fn sample<'s>(
        &self,
        key: &Key,
        sum: Sum,
        stacks: &'s HashMap<u64, Vec<u64>>,
        names: &Names,
    ) -> Sample<'s> {
        let [.., kernel, user, tgid, born] = *key;
        let process = Process { pid: tgid as u32, born };
        let part = |id: u64| match (id, stacks.get(&id)) {
            (0, _) => Part::None,
            (_, Some(stack)) => Part::Taken(stack),
            (_, None) => Part::Missing,
        };
        let parts = self.parts(key, names);
        let owner = if parts.is_empty() { self.reads.point.name.clone() } else { parts.join(", ") };
        let value = self.value.as_ref().map_or(sum.count as f64, |value| value.sum(sum.sum));
        let frames = |process, id| Piece::Frames { process, part: part(id), reversed: false };
        Sample {
            owner,
            pid: (tgid != 0).then_some(tgid as u32),
            pieces: vec![frames(Some(process), user), frames(None, kernel)],
            value,
            count: sum.count,
        }
    }
}

/// The kernel's own words for functions of a stack, innermost first: `ext4_map_blocks+0x1c/0x700 [ext4]`.
pub(super) fn frames(stack: &[String]) -> Vec<Frame> {
    let frame = |text: &String| {
        let (place, module) =
            text.split_once(' ').map_or((text.as_str(), None), |(place, module)| (place, Some(module)));
        let name = place.rsplit_once("+0x").map_or(place, |(name, _)| name);
        let object = module.unwrap_or(KERNEL).to_owned();
        Frame { name: name.to_owned(), object: Some(object), line: None, kernel: true }
    };
    stack.iter().map(frame).collect()
}

/// Counts and sums by key, largest first. A point that was not passed has a row only if there is no other.
pub(super) fn table(points: &[(&Query, Vec<(Key, Sum)>)], names: &Names, seconds: f64, top: usize) -> ProbeTable {
    let Some((query, _)) = points.first() else {
        return ProbeTable { id: "counts".into(), ..ProbeTable::default() };
    };
    // A marked place that was compiled in several ways is one for people.
    let mut rows: BTreeMap<Vec<String>, (u64, f64)> = BTreeMap::new();
    for (query, sums) in points {
        for (key, sum) in sums.iter().filter(|(_, sum)| sum.count > 0 || !query.shows_point) {
            let (count, whole) = rows.entry(query.parts(key, names)).or_default();
            *count += sum.count;
            *whole += query.value.as_ref().map_or(0.0, |value| value.sum(sum.sum));
        }
    }
    let mut sorted: Vec<(Vec<String>, (u64, f64))> = rows.into_iter().collect();
    let size = |(count, sum): &(u64, f64)| if query.value.is_some() { *sum } else { *count as f64 };
    sorted.sort_by(|(_, left), (_, right)| size(right).total_cmp(&size(left)));
    let mut spec = TableSpec::<(Vec<String>, (u64, f64))>::new("counts", query.heading(""));
    if let Some(dimension) = query.dimension() {
        spec = spec.rows(dimension, |(parts, _)| parts.join(", "));
    }
    for (at, (id, title)) in query.part_columns().enumerate() {
        spec = spec.text(id, title, move |(parts, _)| parts.get(at).cloned());
    }
    spec = spec.sum("count", "times", Unit::Count, |(_, (count, _))| *count as f64).sum(
        "per_second",
        "per second",
        Unit::PerSecond,
        |(_, (count, _))| *count as f64 / seconds,
    );
    if let Some(value) = &query.value {
        let (unit, _) = value.unit();
        spec = spec.sum("sum", &format!("sum of {}", value.name), unit, |(_, (_, sum))| *sum).number(
            "mean",
            "mean",
            unit,
            |(_, (count, sum))| sum / (*count).max(1) as f64,
        );
    }
    spec.top(sorted, top)
}

/// Distributions by key, largest count first; and how many values were left out.
pub(super) fn histogram(points: &[(&Query, Vec<(Key, hist::Hist)>)], names: &Names, top: usize) -> (Output, u64) {
    let Some((query, _)) = points.first() else { return (Output::Histogram(Histogram::default()), 0) };
    let (unit, scale) = query.value.as_ref().map_or((Unit::Count, 1.0), Value::unit);
    let mut rows: BTreeMap<Vec<String>, hist::Hist> = BTreeMap::new();
    for (query, hists) in points {
        for (key, values) in hists.iter().filter(|(_, [count, ..])| *count > 0 || !query.shows_point) {
            let add = |known: &mut hist::Hist| *known = hist::sum([&*known, values]);
            rows.entry(query.parts(key, names)).and_modify(add).or_insert(*values);
        }
    }
    let rows = rows.into_iter().map(|(parts, values)| hist::row(&parts.join(", "), &values, scale)).collect();
    distribution(query, unit, rows, top)
}

/// The same by power of two, as the kernel's own tables have it. The figures of values stand for whole numbers.
pub(super) fn powers(points: &[(&Query, Vec<(tabled::Row, Sum)>)], names: &Names, top: usize) -> (Output, u64) {
    let Some((query, _)) = points.first() else { return (Output::Histogram(Histogram::default()), 0) };
    let mut rows: BTreeMap<Vec<String>, BTreeMap<u32, Sum>> = BTreeMap::new();
    for (query, sums) in points {
        for (row, sum) in sums {
            let known = rows.entry(query.parts(&row.key, names)).or_default().entry(row.power).or_default();
            *known = known.plus(*sum);
        }
    }
    let most = |power: &u32| f64::from(*power).exp2();
    let row = |(parts, powers): (Vec<String>, BTreeMap<u32, Sum>)| {
        let whole = powers.values().fold(Sum::default(), |all, sum| all.plus(*sum));
        HistogramRow {
            instance: parts.join(", "),
            count: whole.count,
            sum: query.value.as_ref().map_or(0.0, |value| value.sum(whole.sum)),
            max: powers.keys().next_back().map_or(0.0, most),
            buckets: powers.iter().map(|(power, sum)| (most(power) + 1.0, sum.count)).collect(),
            coarse: true,
        }
    };
    distribution(query, Unit::Count, rows.into_iter().map(row).collect(), top)
}

/// The rows with most values, and how many the others have.
fn distribution(query: &Query, unit: Unit, mut rows: Vec<HistogramRow>, top: usize) -> (Output, u64) {
    rows.sort_by_key(|row| Reverse(row.count));
    let left_out = rows.iter().skip(top).map(|row| row.count).sum();
    rows.truncate(top);
    let name = query.value.as_ref().map_or("", |value| value.name.as_str());
    let title = query.heading(&format!("{name} of "));
    let dimension = query.dimension().map(str::to_owned);
    let histogram = Histogram { id: "values".into(), title, unit, dimension, rows };
    (Output::Histogram(histogram), left_out)
}
