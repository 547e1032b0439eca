//! The block in the making: a header, then a frame for each sample, appended and never synced, since a recorder must not wait for a disk in
//! trouble. A kill costs nothing; a crash of the kernel what was not yet written back.
//!
//! A frame gives each value as the step from the first one that the tail has of that series, so it needs none of the frames before it but
//! those in which series and processes got their names.

use std::collections::{BTreeMap, HashMap};

use super::block::{self, Block, Header, Readable};
use super::bytes::{Reader, Writer};
use super::frame::{self, Kind};
use super::text::Words;
use super::{column, numbers, table};
use rdiag_model::recording::{CollectorRecord, Number, Process, ProcessPoint, Series};

/// What a collector gave in one sample.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'r> {
    /// The collector.
    pub id: &'r str,
    /// Its record; its newest sample is meant. Series only ever come at the end of its list.
    pub record: &'r CollectorRecord,
    /// Processes of which something is new: with one point if they did something, without if they have ended.
    pub processes: &'r [Process],
}

/// What was said so far of one collector.
#[derive(Debug, Default)]
struct Said {
    /// The first value of each series.
    series: Vec<Number>,
    processes: HashMap<(u32, u64), (usize, ProcessPoint)>,
    words: Words,
}

/// A tail that is written.
#[derive(Debug, Default)]
pub struct Tail {
    said: BTreeMap<String, Said>,
    /// What the sample in the making has so far.
    body: Writer,
    count: usize,
    words: Vec<u8>,
}

impl Tail {
    /// A new tail, and the bytes that it begins with.
    #[must_use]
    pub fn begin(header: &Header) -> (Self, Vec<u8>) {
        let mut out = Vec::new();
        frame::write(&mut out, Kind::Header, "", &serde_json::to_vec(header).unwrap_or_default());
        (Self::default(), out)
    }

    /// Adds what a collector gave to the sample in the making.
    pub fn add(&mut self, sample: &Sample<'_>) {
        let said = self.said.entry(sample.id.to_owned()).or_default();
        if !said.words.are_those_of(sample.record) {
            said.words = Words::of(sample.record);
            frame::write(&mut self.words, Kind::Text, sample.id, &said.words.to_json());
        }
        self.count += 1;
        self.body.text(sample.id);
        said.sample(&mut self.body, sample);
    }

    /// The bytes that the sample adds: `number` counts from 0.
    pub fn end(&mut self, number: usize) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.words);
        let mut body = Writer::default();
        body.size(number);
        body.size(std::mem::take(&mut self.count));
        body.0.extend(std::mem::take(&mut self.body.0));
        frame::write(&mut out, Kind::Sample, "", &body.0);
        out
    }
}

impl Said {
    fn sample(&mut self, out: &mut Writer, sample: &Sample<'_>) {
        let record = sample.record;
        let at = record.times.len().saturating_sub(1);
        let value = |series: &Series| series.values.get(at).copied().flatten();
        column::times(out, record.times.get(at..).unwrap_or_default());
        let known = self.series.len();
        out.size(known);
        out.size(record.series.len().saturating_sub(known));
        let mut before = "";
        for series in record.series.iter().skip(known) {
            column::name(out, series, before);
            before = &series.name;
            let first = value(series).unwrap_or(Number::Whole(0));
            numbers::one(out, first);
            self.series.push(first);
        }
        for (series, first) in record.series.iter().zip(&self.series) {
            step(out, *first, value(series));
        }
        out.size(sample.processes.len());
        for process in sample.processes {
            let next = self.processes.len();
            let key = (process.pid, process.start_ticks);
            let first = process.points.last().cloned().unwrap_or_default();
            let is_new = !self.processes.contains_key(&key);
            let (number, base) = self.processes.entry(key).or_insert((next, first));
            out.size(*number);
            out.0.push(u8::from(is_new) | u8::from(process.points.is_empty()) << 1);
            if is_new {
                table::one(out, process);
                table::point(out, &ProcessPoint::default(), base);
            }
            if let Some(point) = process.points.last() {
                table::point(out, base, point);
            }
        }
    }
}

/// Missing, the same, so much more, or something else.
fn step(out: &mut Writer, from: Number, to: Option<Number>) {
    match (from, to) {
        (_, None) => out.0.push(0),
        (Number::Whole(from), Some(Number::Whole(to))) if from == to => out.0.push(1),
        (Number::Real(from), Some(Number::Real(to))) if from.to_bits() == to.to_bits() => out.0.push(1),
        (Number::Whole(from), Some(Number::Whole(to))) => {
            out.0.push(2);
            out.step(from, to);
        }
        (_, Some(to)) => {
            out.0.push(3);
            numbers::one(out, to);
        }
    }
}

fn read_step(reader: &mut Reader<'_>, from: Option<Number>) -> Option<Option<Number>> {
    Some(match (reader.byte()?, from) {
        (0, _) => None,
        (1, from) => from,
        (2, from) => {
            // Without the first value the step leads nowhere, and is read all the same.
            let step = reader.signed()?.cast_unsigned();
            match from {
                Some(Number::Whole(from)) => Some(Number::Whole(from.wrapping_add(step))),
                _ => None,
            }
        }
        (3, _) => Some(numbers::read_one(reader)?),
        _ => return None,
    })
}

/// Samples of a tail: a block ends long before.
const MAX_SAMPLES: usize = column::MAX_SAMPLES;
/// Series and processes of one collector in a tail.
const MAX_KNOWN: usize = 100_000;
/// Values of a tail, at 16 bytes each.
const MAX_VALUES: usize = 6_000_000;

/// What is known of a collector while a tail is read.
#[derive(Debug, Default)]
struct Known {
    record: CollectorRecord,
    /// The first value of each series; none where the frame that names it is lost.
    series: Vec<Option<(Number, usize)>>,
    processes: HashMap<usize, Alive>,
}

#[derive(Debug)]
struct Alive {
    process: Process,
    base: ProcessPoint,
    has_ended: bool,
}

/// Reads a tail as the block that it would have become. Command lines and log lines are read when a block ends, so it has none.
///
/// # Errors
/// When it has no header, or is one of another version.
pub fn read_tail(bytes: &[u8]) -> Readable {
    let mut damage = Vec::new();
    let frames = frame::read(bytes, &mut damage);
    let header = frames.iter().find(|frame| frame.kind == Kind::Header).map(|frame| block::header(&frame.content));
    let mut header = header.ok_or("it has no header that can be read, so it is no tail of the recorder")??;
    let mut all: BTreeMap<String, Known> = BTreeMap::new();
    let mut values = 0;
    for frame in &frames {
        let entered = match frame.kind {
            Kind::Header => Some(()),
            Kind::Text => Words::read(&frame.content)
                .map(|words| words.enter(&mut all.entry(frame.name.clone()).or_default().record)),
            Kind::Sample => sample(&frame.content, &mut all, &mut values),
            Kind::Series | Kind::Processes => None,
        };
        if entered.is_none() {
            damage.push("a sample is none of the recorder's".to_owned());
        }
    }
    let mut idle = Vec::new();
    let mut collectors = BTreeMap::new();
    for (id, known) in all {
        header.seconds = known.record.times.last().copied().unwrap_or(0.0).max(header.seconds);
        collectors.insert(id, known.finish(&mut idle));
    }
    Ok((Block { header, collectors, idle }, damage))
}

/// Enters one sample; none if it is none. What was entered before that stays.
fn sample(content: &[u8], all: &mut BTreeMap<String, Known>, values: &mut usize) -> Option<()> {
    let mut reader = Reader(content);
    reader.count(MAX_SAMPLES)?;
    for _ in 0..reader.count(1000)? {
        let id = reader.text()?;
        let known = all.entry(id.to_owned()).or_default();
        known.sample(&mut reader, values)?;
    }
    Some(())
}

impl Known {
    fn sample(&mut self, reader: &mut Reader<'_>, values: &mut usize) -> Option<()> {
        let time = *column::read_times(reader, 1)?.first()?;
        let at = u16::try_from(self.record.times.len()).ok().filter(|at| usize::from(*at) < MAX_SAMPLES)?;
        let begin = reader.count(MAX_KNOWN)?;
        let new = reader.count(MAX_KNOWN - begin)?;
        self.series.resize(begin.max(self.series.len()), None);
        let mut before = String::new();
        for index in begin..begin + new {
            let series = column::read_name(reader, &before)?;
            before.clone_from(&series.name);
            let first = numbers::read_one(reader)?;
            let place = (first, self.record.series.len());
            self.record.series.push(series);
            match self.series.get_mut(index) {
                Some(known) => *known = Some(place),
                None => self.series.push(Some(place)),
            }
        }
        // A sample is entered as a whole or not at all.
        let mut read = Vec::with_capacity(begin + new);
        for index in 0..begin + new {
            let known = self.series.get(index).copied().flatten();
            let value = read_step(reader, known.map(|(first, _)| first))?;
            read.extend(known.map(|(_, place)| (place, value)));
        }
        let mut changed = Vec::new();
        for _ in 0..reader.count(MAX_KNOWN)? {
            changed.push(self.process(reader, at)?);
        }
        *values += read.len();
        if *values > MAX_VALUES {
            return None;
        }
        for (place, value) in read {
            if let Some(series) = self.record.series.get_mut(place) {
                series.values.resize(usize::from(at), None);
                series.values.push(value);
            }
        }
        for (number, point) in changed {
            if let Some(alive) = self.processes.get_mut(&number) {
                match point {
                    Some(point) => alive.process.points.push(point),
                    None => (alive.has_ended, alive.process.last) = (true, at.saturating_sub(1)),
                }
            }
        }
        self.processes.values_mut().filter(|alive| !alive.has_ended).for_each(|alive| alive.process.last = at);
        self.record.times.push(time);
        Some(())
    }

    /// Reads what is new of a process: its number, and a point unless it has ended.
    fn process(&mut self, reader: &mut Reader<'_>, at: u16) -> Option<(usize, Option<ProcessPoint>)> {
        let number = reader.count(MAX_KNOWN)?;
        let marks = reader.byte()?;
        if marks & 1 == 1 {
            let mut process = table::read_one(reader)?;
            process.first = at;
            let base = table::read_point(reader, &ProcessPoint::default(), 0)?;
            self.processes.insert(number, Alive { process, base, has_ended: false });
        }
        if marks & 2 == 2 {
            return Some((number, None));
        }
        let nothing = ProcessPoint::default();
        let base = self.processes.get(&number).map_or(&nothing, |alive| &alive.base);
        Some((number, Some(table::read_point(reader, base, at)?)))
    }

    fn finish(mut self, idle: &mut Vec<(u32, u64)>) -> CollectorRecord {
        let samples = self.record.times.len();
        self.record.series.iter_mut().for_each(|series| series.values.resize(samples, None));
        self.record.series.sort_by(|a, b| (&a.name, &a.instance).cmp(&(&b.name, &b.instance)));
        let mut processes: Vec<(usize, Alive)> = self.processes.into_iter().collect();
        processes.sort_unstable_by_key(|(number, _)| *number);
        for (_, alive) in processes {
            if alive.process.points.is_empty() {
                idle.push((alive.process.pid, alive.process.start_ticks));
            } else {
                self.record.processes.push(alive.process);
            }
        }
        self.record
    }
}

/// As the times of a block are kept.
#[cfg(test)]
pub(super) fn rounded(times: &[f64]) -> Vec<f64> {
    times.iter().map(|time| column::rounded(*time)).collect()
}
