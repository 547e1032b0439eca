//! The table of processes as a column, field by field: each value as the step from the one before of the same process.

use std::collections::BTreeMap;

use super::bytes::{Reader, Writer};
use rdiag_model::recording::{Process, ProcessPoint};

/// Processes of a block, and values of all of them together.
const MAX_PROCESSES: usize = 100_000;
const MAX_POINTS: usize = 400_000;

/// A number of a point; of those that may be missing, none.
struct Field {
    get: fn(&ProcessPoint) -> Option<u64>,
    set: fn(&mut ProcessPoint, u64),
}

macro_rules! optional {
    ($name:ident) => {
        Field { get: |point| point.$name, set: |point, value| point.$name = Some(value) }
    };
}

/// In the order on disk: what is new comes last, and raises the version.
const FIELDS: [Field; 14] = [
    Field { get: |point| Some(point.utime), set: |point, value| point.utime = value },
    Field { get: |point| Some(point.stime), set: |point, value| point.stime = value },
    Field { get: |point| Some(point.minor_faults), set: |point, value| point.minor_faults = value },
    Field { get: |point| Some(point.major_faults), set: |point, value| point.major_faults = value },
    Field { get: |point| Some(u64::from(point.threads)), set: |point, value| point.threads = value as u32 },
    Field { get: |point| Some(point.resident_pages), set: |point, value| point.resident_pages = value },
    Field { get: |point| Some(u64::from(u32::from(point.state))), set: |point, value| point.state = letter(value) },
    optional!(run_ns),
    optional!(wait_ns),
    optional!(voluntary_switches),
    optional!(involuntary_switches),
    optional!(swap_kb),
    optional!(read_bytes),
    optional!(write_bytes),
];

fn letter(value: u64) -> char {
    u32::try_from(value).ok().and_then(char::from_u32).unwrap_or('?')
}

/// Which fields a point has.
fn mask(point: &ProcessPoint) -> u64 {
    FIELDS.iter().enumerate().map(|(at, field)| u64::from((field.get)(point).is_some()) << at).sum()
}

/// Writes one point as the way from another.
pub(super) fn point(out: &mut Writer, from: &ProcessPoint, to: &ProcessPoint) {
    out.unsigned(mask(to));
    for field in &FIELDS {
        if let Some(value) = (field.get)(to) {
            out.step((field.get)(from).unwrap_or(0), value);
        }
    }
}

/// Reads a point.
pub(super) fn read_point(reader: &mut Reader<'_>, from: &ProcessPoint, at: u16) -> Option<ProcessPoint> {
    let mask = reader.unsigned()?;
    let mut point = ProcessPoint { at, ..ProcessPoint::default() };
    for (index, field) in FIELDS.iter().enumerate().filter(|(index, _)| mask >> index & 1 == 1) {
        let _ = index;
        (field.set)(&mut point, reader.step((field.get)(from).unwrap_or(0))?);
    }
    Some(point)
}

/// Texts, each once.
#[derive(Default)]
struct Texts<'t> {
    index: BTreeMap<&'t str, usize>,
    all: Vec<&'t str>,
}

impl<'t> Texts<'t> {
    fn number(&mut self, text: &'t str) -> usize {
        *self.index.entry(text).or_insert_with(|| {
            self.all.push(text);
            self.all.len() - 1
        })
    }
}

/// Writes the table, and who lived to the end without doing anything.
pub(super) fn write(processes: &[Process], idle: &[(u32, u64)]) -> Vec<u8> {
    let mut out = Writer::default();
    let mut texts = Texts::default();
    let mut body = Writer::default();
    body.size(processes.len());
    let (mut pid, mut start) = (0, 0);
    for process in processes {
        head(&mut body, process, (&mut pid, &mut start), |text| texts.number(text));
        body.size(process.points.len());
    }
    let nothing = ProcessPoint::default();
    for process in processes {
        let mut before = 0;
        for point in &process.points {
            body.step(before, u64::from(point.at));
            body.unsigned(mask(point));
            before = u64::from(point.at);
        }
    }
    for field in &FIELDS {
        for process in processes {
            let mut before = (field.get)(&nothing).unwrap_or(0);
            for value in process.points.iter().filter_map(field.get) {
                body.step(before, value);
                before = value;
            }
        }
    }
    body.size(idle.len());
    (pid, start) = (0, 0);
    for (idle, started) in idle {
        body.step(pid, u64::from(*idle));
        body.step(start, *started);
        (pid, start) = (u64::from(*idle), *started);
    }
    out.size(texts.all.len());
    texts.all.iter().for_each(|text| out.text(text));
    out.0.extend_from_slice(&body.0);
    out.0
}

/// Who a process is; `before` are pid and start of the one before.
fn head<'t>(
    out: &mut Writer,
    process: &'t Process,
    before: (&mut u64, &mut u64),
    mut text: impl FnMut(&'t str) -> usize,
) {
    out.step(*before.0, u64::from(process.pid));
    out.step(*before.1, process.start_ticks);
    (*before.0, *before.1) = (u64::from(process.pid), process.start_ticks);
    out.unsigned(u64::from(process.ppid));
    out.size(text(&process.comm));
    out.unsigned(process.uid.map_or(0, |uid| u64::from(uid) + 1));
    for optional in [&process.cgroup, &process.command] {
        out.size(optional.as_deref().map_or(0, |name| text(name) + 1));
    }
    out.size(process.other_cgroups.len());
    process.other_cgroups.iter().for_each(|group| out.size(text(group)));
    out.unsigned(u64::from(process.first));
    out.unsigned(u64::from(process.last));
}

fn read_head<'t>(
    reader: &mut Reader<'_>,
    before: (&mut u64, &mut u64),
    text: impl Fn(u64) -> Option<&'t str>,
) -> Option<Process> {
    *before.0 = reader.step(*before.0)?;
    *before.1 = reader.step(*before.1)?;
    let mut process = Process {
        pid: u32::try_from(*before.0).ok()?,
        start_ticks: *before.1,
        ppid: u32::try_from(reader.unsigned()?).ok()?,
        comm: text(reader.unsigned()?)?.to_owned(),
        ..Process::default()
    };
    process.uid = reader.unsigned()?.checked_sub(1).map(u32::try_from).transpose().ok()?;
    process.cgroup = optional(reader.unsigned()?, &text)?;
    process.command = optional(reader.unsigned()?, &text)?;
    for _ in 0..reader.count(64)? {
        process.other_cgroups.push(text(reader.unsigned()?)?.to_owned());
    }
    process.first = u16::try_from(reader.unsigned()?).ok()?;
    process.last = u16::try_from(reader.unsigned()?).ok()?;
    Some(process)
}

fn optional<'t>(number: u64, text: impl Fn(u64) -> Option<&'t str>) -> Option<Option<String>> {
    match number.checked_sub(1) {
        None => Some(None),
        Some(number) => text(number).map(|text| Some(text.to_owned())),
    }
}

/// The table, and who lived to the end without doing anything.
pub(super) type Table = (Vec<Process>, Vec<(u32, u64)>);

/// Reads the table; none if it is none.
pub(super) fn read(content: &[u8]) -> Option<Table> {
    let mut reader = Reader(content);
    let mut texts = Vec::new();
    for _ in 0..reader.count(MAX_PROCESSES * 4)? {
        texts.push(reader.text()?);
    }
    let text = |number: u64| texts.get(usize::try_from(number).ok()?).copied();
    let count = reader.count(MAX_PROCESSES)?;
    let (mut processes, mut masks, mut total) = (Vec::new(), Vec::new(), 0_usize);
    let (mut pid, mut start) = (0, 0);
    for _ in 0..count {
        let mut process = read_head(&mut reader, (&mut pid, &mut start), text)?;
        let points = reader.count(MAX_POINTS - total)?;
        // Each takes at least two bytes of what is left.
        if points.saturating_mul(2) > reader.0.len() {
            return None;
        }
        total += points;
        process.points = vec![ProcessPoint::default(); points];
        processes.push(process);
    }
    for process in &mut processes {
        let mut before = 0;
        for point in &mut process.points {
            before = reader.step(before)?;
            point.at = u16::try_from(before).ok()?;
            masks.push(reader.unsigned()?);
        }
    }
    for (index, field) in FIELDS.iter().enumerate() {
        let mut masks = masks.iter();
        for process in &mut processes {
            let mut before = (field.get)(&ProcessPoint::default()).unwrap_or(0);
            for point in &mut process.points {
                if masks.next()? >> index & 1 == 1 {
                    before = reader.step(before)?;
                    (field.set)(point, before);
                }
            }
        }
    }
    let mut idle = Vec::new();
    (pid, start) = (0, 0);
    for _ in 0..reader.count(MAX_PROCESSES)? {
        pid = reader.step(pid)?;
        start = reader.step(start)?;
        idle.push((u32::try_from(pid).ok()?, start));
    }
    reader.0.is_empty().then_some((processes, idle))
}

/// Writes one process by itself, without its points.
pub(super) fn one(out: &mut Writer, process: &Process) {
    let mut texts = Texts::default();
    let mut body = Writer::default();
    head(&mut body, process, (&mut 0, &mut 0), |text| texts.number(text));
    out.size(texts.all.len());
    texts.all.iter().for_each(|text| out.text(text));
    out.0.extend_from_slice(&body.0);
}

/// Reads one process that was written by itself.
pub(super) fn read_one(reader: &mut Reader<'_>) -> Option<Process> {
    let mut texts = Vec::new();
    for _ in 0..reader.count(70)? {
        texts.push(reader.text()?);
    }
    read_head(reader, (&mut 0, &mut 0), |number| texts.get(usize::try_from(number).ok()?).copied())
}
