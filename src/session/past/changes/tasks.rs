//! Processes that began and ended: a deployment, a backup, a service that was restarted. Told by name, since a service is many processes,
//! and only where they use much.

use std::collections::{BTreeMap, HashMap};

use super::{Seen, short, wall};
use crate::past::time::Span;
use rdiag_history::Block;
use rdiag_kernel::host::Zone;
use rdiag_kernel::host::cgroups::container;
use rdiag_model::quantity;
use rdiag_model::recording::{Process, ProcessPoint};
use rdiag_model::report::ChangeKind;

/// Processes that are remembered. Real hosts have a tenth of that; files may come from anywhere.
const MOST: usize = 200_000;
/// A process with less of one CPU, and less of the memory, is not reported.
const CPU_SHARE: f64 = 0.02;
const MEMORY_SHARE: f64 = 0.01;
/// What ran for a while must have used so many times as much to be told, and what stays, or went for good, comes first.
const OF_PASSING: f64 = 3.0;
const STAYING: f64 = 1000.0;
/// Less of a CPU, or of the memory, is no figure worth reading.
const WORTH_A_FIGURE: f64 = 0.002;
/// Seconds: who lived for less is a passing command; who had lived for longer and ended had been there to stay.
const PASSING: f64 = 30.0;
const SETTLED: f64 = 600.0;
/// Processes of one name that follow each other by less belong together.
const APART: i64 = 60_000_000;
/// Who begins so soon after the host is part of its boot.
const OF_BOOT: f64 = 180.0;
/// Of a restart, the new one may begin so long before the old one has ended.
const OVERLAP: i64 = 10_000_000;

/// A process as far as it is known.
#[derive(Debug, Clone)]
struct Life {
    name: String,
    pid: u32,
    unit: Option<String>,
    began: i64,
    /// The last sample that saw it.
    seen: i64,
    /// The first sample that did not, if it ended.
    ended: Option<i64>,
    /// Whether nothing was recorded for a while before that.
    is_unwatched: bool,
    is_of_boot: bool,
    cpu_seconds: f64,
    /// Since when that was counted: birth, or the first sample.
    counted_from: i64,
    /// Part of the memory.
    memory: f64,
    resident: f64,
}

impl Life {
    fn end(&self) -> i64 {
        self.ended.unwrap_or(i64::MAX)
    }

    /// Seconds that it has lived, as far as is known.
    fn lived(&self) -> f64 {
        self.ended.unwrap_or(self.seen).saturating_sub(self.began) as f64 * 1e-6
    }
}

/// Processes, block by block.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    boot: String,
    alive: HashMap<(u32, u64), Life>,
    done: Vec<Life>,
}

impl Tasks {
    /// Enters a block; `last` is when the block before ended.
    pub(super) fn add(&mut self, block: &Block, last: Option<i64>, is_damaged: bool) {
        if self.boot != block.header.boot {
            // No process ended by itself.
            self.alive.clear();
            self.done.clear();
            self.boot.clone_from(&block.header.boot);
        }
        let Some(record) = block.collectors.get(Block::PROCESSES) else { return };
        let (Some(first), Some(newest)) = (record.times.first(), record.times.last()) else { return };
        let (begins, ends) = (wall(block, *first), wall(block, *newest));
        for process in record.processes.iter().filter(|process| !is_of_kernel(process)) {
            self.enter(process, block, &record.times);
        }
        for key in &block.idle {
            if let Some(life) = self.alive.get_mut(key) {
                life.seen = ends;
            }
        }
        let mut ended = Vec::new();
        self.alive.retain(|_, life| {
            let is_gone = life.ended.is_some() || life.seen < begins && !is_damaged && last.is_some();
            if is_gone && life.ended.is_none() {
                (life.ended, life.is_unwatched) = (Some(begins), begins.saturating_sub(life.seen) > APART);
            }
            if is_gone {
                ended.push(life.clone());
            }
            !is_gone
        });
        ended.truncate(MOST.saturating_sub(self.done.len()));
        self.done.extend(ended);
    }

    fn enter(&mut self, process: &Process, block: &Block, times: &[f64]) {
        let header = &block.header;
        let facts = &header.host;
        let hertz = facts.ticks_per_second.max(1) as f64;
        let (first, last) = (usize::from(process.first), usize::from(process.last));
        let (Some(from), Some(to)) = (times.get(first), times.get(last)) else { return };
        let key = (process.pid, process.start_ticks);
        if !self.alive.contains_key(&key) && self.alive.len() + self.done.len() >= MOST {
            return;
        }
        let since_boot = process.start_ticks as f64 / hertz;
        let life = self.alive.entry(key).or_insert_with(|| Life {
            name: String::new(),
            pid: process.pid,
            unit: None,
            began: wall(block, since_boot - header.boottime).min(wall(block, *from)),
            seen: 0,
            ended: None,
            is_unwatched: false,
            is_of_boot: since_boot < OF_BOOT,
            cpu_seconds: 0.0,
            counted_from: i64::MAX,
            memory: 0.0,
            resident: 0.0,
        });
        life.name = short(&process.comm);
        if let Some(unit) = process.cgroup.as_deref().and_then(unit) {
            life.unit = Some(unit);
        }
        let ticks = |point: &ProcessPoint| point.utime.saturating_add(point.stime);
        let counted_from = if first > 0 { life.began } else { wall(block, *from) };
        life.counted_from = life.counted_from.min(counted_from);
        let base = if first > 0 { 0 } else { process.points.first().map_or(0, ticks) };
        life.cpu_seconds += process.points.last().map_or(0, ticks).saturating_sub(base) as f64 / hertz;
        let pages = process.points.iter().map(|point| point.resident_pages).max().unwrap_or(0);
        life.resident = life.resident.max(pages as f64 * facts.page_size as f64);
        if facts.memory_bytes > 0 {
            life.memory = life.memory.max(life.resident / facts.memory_bytes as f64);
        }
        life.seen = wall(block, *to);
        life.ended = times.get(last + 1).map(|next| wall(block, *next));
    }

    /// What is worth telling of the time that was looked at.
    pub(super) fn seen(self, looked: Span, zone: &Zone) -> Vec<Seen> {
        // Two services may run programs of one name: that one ends and the other begins is no restart.
        let mut by_name: BTreeMap<(String, Option<String>), Vec<Life>> = BTreeMap::new();
        for life in self.done.into_iter().chain(self.alive.into_values()) {
            by_name.entry((life.name.clone(), life.unit.clone())).or_default().push(life);
        }
        let mut seen = Vec::new();
        for mut lives in by_name.into_values() {
            lives.sort_by_key(|life| (life.began, life.pid));
            for episode in lives.chunk_by(together()) {
                seen.extend(of_episode(episode, looked, zone));
            }
        }
        seen.truncate(super::MOST_KNOWN);
        seen
    }
}

/// Whether a process belongs to those of its name before: it begins before the last of them has ended, or soon after.
fn together() -> impl FnMut(&Life, &Life) -> bool {
    let mut latest = i64::MIN;
    move |one, next| {
        latest = latest.max(one.end());
        let goes_on = next.began <= latest.saturating_add(APART);
        if !goes_on {
            latest = i64::MIN;
        }
        goes_on
    }
}

/// Threads of the kernel have no memory of their own and one parent.
fn is_of_kernel(process: &Process) -> bool {
    process.pid == 2 && process.comm == "kthreadd"
        || process.ppid == 2 && process.points.iter().all(|point| point.resident_pages == 0)
}

/// The unit or container that a control group is.
fn unit(cgroup: &str) -> Option<String> {
    if let Some(id) = container(cgroup) {
        return Some(format!("container {id}"));
    }
    let name = cgroup.rsplit('/').find(|part| !part.is_empty())?;
    let is_telling = name.ends_with(".service") || name.ends_with(".scope") && !name.starts_with("session-");
    (is_telling && name != "init.scope").then(|| short(name))
}

/// What became of processes of one name and unit that belong together, in the order in which they began.
fn of_episode(lives: &[Life], looked: Span, zone: &Zone) -> Option<Seen> {
    let (first, newest) = (lives.first()?, lives.last()?);
    let (began, end) = (first.began, lives.iter().map(Life::end).max()?);
    let seen_to = lives.iter().map(|life| life.seen).max()?;
    let counted_from = lives.iter().map(|life| life.counted_from).min()?;
    let recorded = seen_to.saturating_sub(counted_from) as f64 * 1e-6;
    let cpu = lives.iter().map(|life| life.cpu_seconds).sum::<f64>() / recorded.max(1.0);
    let memory = lives.iter().map(|life| life.memory).fold(0.0, f64::max);
    let began_then = began >= looked.from && !first.is_of_boot;
    let ended_then = end <= looked.to;
    let is_passing = began_then && ended_then;
    let least = if is_passing { OF_PASSING } else { 1.0 };
    if cpu < least * CPU_SHARE && memory < least * MEMORY_SHARE {
        return None;
    }
    let lasted = end.min(seen_to).saturating_sub(began) as f64 * 1e-6;
    let name = &first.name;
    let (at, what) = match (began_then, ended_then) {
        (true, true) if lasted >= PASSING => (began, format!("{name} ran until {}", zone.time_of_day(end))),
        (true, false) if lasted >= PASSING => {
            let again =
                restarted(lives, looked, zone).map(|(at, _)| format!(", restarted at {}", zone.time_of_day(at)));
            (began, format!("{name} started{}", again.unwrap_or_default()))
        }
        (false, true) if lasted >= SETTLED => {
            let gap = lives.iter().find(|life| life.is_unwatched && life.end() == end);
            let from =
                gap.map(|life| format!(" between {} and {},", zone.time_of_day(life.seen), zone.time_of_day(end)));
            (end, format!("{name} ended{} after {}", from.unwrap_or_default(), quantity::seconds(lasted)))
        }
        (false, false) => restarted(lives, looked, zone)?,
        _ => return None,
    };
    let who = if lives.len() > 1 { format!("{} processes", lives.len()) } else { format!("pid {}", newest.pid) };
    let unit = newest.unit.as_ref().filter(|unit| unit.trim_end_matches(".service") != name);
    let unit = unit.map(|unit| format!(" of {unit}")).unwrap_or_default();
    let resident = lives.iter().map(|life| life.resident).fold(0.0, f64::max);
    let mut used = Vec::new();
    if cpu >= WORTH_A_FIGURE {
        used.push(format!("{} of a CPU", quantity::percent(cpu)));
    }
    if memory >= WORTH_A_FIGURE {
        used.push(quantity::bytes(resident));
    }
    let text = format!("{what} ({who}{unit}: {})", used.join(", "));
    let weight = cpu + memory + if is_passing { 0.0 } else { STAYING };
    Some(Seen { at, kind: ChangeKind::Process, subject: name.clone(), text, weight })
}

/// When all that had been there for long was replaced by new ones, and how often that happened again.
fn restarted(lives: &[Life], looked: Span, zone: &Zone) -> Option<(i64, String)> {
    let mut times: Vec<i64> = Vec::new();
    let (mut latest, mut oldest) = (i64::MIN, 0.0_f64);
    for life in lives {
        let is_next = latest != i64::MIN && life.began >= latest.saturating_sub(OVERLAP);
        if is_next && life.began >= looked.from && (oldest >= SETTLED || !times.is_empty()) {
            times.push(life.began);
        }
        latest = latest.max(life.end());
        oldest = oldest.max(life.lived());
    }
    let (first, again) = (*times.first()?, times.last()?);
    let after = lives.iter().filter(|life| life.began >= first).map(Life::lived).sum::<f64>();
    let name = &lives.first()?.name;
    match times.len() {
        1 if after < PASSING => None,
        1 => Some((first, format!("{name} restarted"))),
        many => Some((first, format!("{name} restarted {many} times until {}", zone.time_of_day(*again)))),
    }
}
