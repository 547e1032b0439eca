//! What the samples add up to: by task, by place, and by stack.

use std::collections::{BTreeMap, HashMap};

use super::{Blocked, ByTask, place};
use rdiag_model::probe::{Column, Frame, Output, ProbeResult, ProbeTable, Row, Stack, Stacks};
use rdiag_model::{Unavailable, Unit};

/// Rows of each table; the others are summed up.
const ROWS: usize = 20;
/// Distinct stacks that are kept.
const STACKS: usize = 1000;

#[derive(Default)]
pub(super) struct Sightings {
    tasks: ByTask,
    stacks: HashMap<(String, Vec<String>), u64>,
    without_stack: u64,
    refused: Option<Unavailable>,
    incomplete: bool,
}

/// A task that was blocked at some sample.
#[derive(Default)]
pub(super) struct Task {
    pid: u32,
    name: String,
    seen: u64,
    first_turns: Option<u64>,
    last_turns: Option<u64>,
    places: BTreeMap<String, u64>,
}

impl Sightings {
    /// Not all tasks could be looked at.
    pub(super) fn unseen(&mut self) {
        self.incomplete = true;
    }

    /// The blocked tasks of one sample.
    pub(super) fn add(&mut self, blocked: Vec<Blocked>) {
        for one in blocked {
            let task = self.tasks.entry((one.tid, one.born)).or_default();
            if task.seen == 0 {
                task.pid = one.pid;
                task.first_turns = one.turns;
            }
            task.name = one.name;
            task.seen += 1;
            task.last_turns = one.turns;
            match one.stack {
                Ok(stack) => {
                    if let Some(place) = place(&stack) {
                        *task.places.entry(place.to_owned()).or_default() += 1;
                    }
                    let key = (task.name.clone(), stack);
                    if self.stacks.len() < STACKS || self.stacks.contains_key(&key) {
                        *self.stacks.entry(key).or_default() += 1;
                    } else {
                        self.without_stack += 1;
                    }
                }
                Err(gap) => {
                    self.without_stack += 1;
                    self.refused.get_or_insert(gap);
                }
            }
        }
    }

    /// What is recorded; `seconds` from the first of the samples to the last.
    pub(super) fn into_result(self, samples: usize, seconds: f64) -> Result<ProbeResult, Unavailable> {
        let samples_f = samples.max(1) as f64;
        // The samples stand for the whole time together, its two ends included: a task that is in all of them was blocked for no longer.
        let each = seconds / samples_f;
        let mut outputs = vec![self.places(samples_f), self.by_task(samples, each)];
        if let Some(stacks) = self.by_stack(each) {
            outputs.push(stacks);
        }
        let mut notes = Vec::new();
        if let Some(gap) = &self.refused {
            notes.push(format!("{} sightings without a stack: {gap}", self.without_stack));
        }
        if self.incomplete {
            notes.push("there were more tasks than are looked at in one sample".to_owned());
        }
        Ok(ProbeResult { probe: "blocked_tasks".into(), seconds, outputs, notes, ..ProbeResult::default() })
    }

    fn places(&self, samples: f64) -> Output {
        let mut places: BTreeMap<&str, (u64, BTreeMap<&str, u64>)> = BTreeMap::new();
        for task in self.tasks.values() {
            let known: u64 = task.places.values().sum();
            let unknown = [("(not readable)", task.seen - known.min(task.seen))];
            let all = task.places.iter().map(|(place, seen)| (place.as_str(), *seen)).chain(unknown);
            for (place, seen) in all.filter(|(_, seen)| *seen > 0) {
                let entry = places.entry(place).or_default();
                entry.0 += seen;
                *entry.1.entry(&task.name).or_default() += seen;
            }
        }
        let mut rows: Vec<(&str, u64, &str)> = places
            .iter()
            .map(|(place, (seen, names))| {
                let most = names.iter().max_by_key(|(_, seen)| **seen).map_or("", |(name, _)| *name);
                (*place, *seen, most)
            })
            .collect();
        rows.sort_by_key(|(place, seen, _)| (std::cmp::Reverse(*seen), *place));
        let mut table = ProbeTable {
            id: "places".into(),
            title: "Where in the kernel tasks were blocked".into(),
            dimension: Some("place".into()),
            columns: vec![
                Column::text("where", "function"),
                Column::text("task", "mostly"),
                Column::number("tasks", "tasks", Unit::Count),
            ],
            ..ProbeTable::default()
        };
        for (at, (place, seen, most)) in rows.into_iter().enumerate() {
            let tasks = seen as f64 / samples;
            if at < ROWS {
                table.rows.push(Row { instance: place.into(), cells: vec![place.into(), most.into(), tasks.into()] });
            } else {
                table.others += 1;
                *table.others_sum.entry("tasks".into()).or_default() += tasks;
            }
        }
        Output::Table(table)
    }

    fn by_task(&self, samples: usize, each: f64) -> Output {
        let mut table = ProbeTable {
            id: "tasks".into(),
            title: "Tasks by time in uninterruptible sleep".into(),
            dimension: Some("task".into()),
            columns: vec![
                Column::text("name", "task"),
                Column::text("pid", "pid"),
                Column::text("tid", "tid"),
                Column::text("where", "mostly in"),
                Column::number("blocked", "blocked", Unit::Seconds),
                Column::number("stuck", "stuck", Unit::Count),
            ],
            ..ProbeTable::default()
        };
        let blocked = |seen: u64| seen as f64 * each;
        let mut tasks: Vec<_> = self.tasks.iter().collect();
        tasks.sort_by_key(|(id, task)| (std::cmp::Reverse(task.seen), **id));
        for (at, ((tid, born), task)) in tasks.into_iter().enumerate() {
            let still = task.first_turns.is_some() && task.first_turns == task.last_turns;
            let stuck = f64::from(u8::from(samples > 1 && task.seen as usize == samples && still));
            if at >= ROWS {
                table.others += 1;
                *table.others_sum.entry("blocked".into()).or_default() += blocked(task.seen);
                *table.others_sum.entry("stuck".into()).or_default() += stuck;
                continue;
            }
            let place = task.places.iter().max_by_key(|(_, seen)| **seen).map_or("(not readable)", |(place, _)| place);
            table.rows.push(Row {
                instance: format!("{tid}:{born}"),
                cells: vec![
                    task.name.clone().into(),
                    task.pid.to_string().into(),
                    tid.to_string().into(),
                    place.into(),
                    blocked(task.seen).into(),
                    stuck.into(),
                ],
            });
        }
        Output::Table(table)
    }

    fn by_stack(&self, each: f64) -> Option<Output> {
        if self.stacks.is_empty() {
            return None;
        }
        let mut all: Vec<_> = self.stacks.iter().collect();
        all.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let mut frames: Vec<Frame> = Vec::new();
        let mut known: HashMap<&str, u32> = HashMap::new();
        let mut stacks = Vec::new();
        for ((owner, functions), seen) in all {
            let indices = functions.iter().rev().map(|name| {
                *known.entry(name).or_insert_with(|| {
                    frames.push(Frame { name: name.clone(), kernel: true, ..Frame::default() });
                    frames.len() as u32 - 1
                })
            });
            let frames = indices.collect();
            stacks.push(Stack { owner: owner.clone(), pid: None, frames, value: *seen as f64 * each, count: *seen });
        }
        Some(Output::Stacks(Stacks {
            id: "stacks".into(),
            title: "Time in uninterruptible sleep, by kernel stack".into(),
            unit: Unit::Seconds,
            frames,
            stacks,
            missing: self.without_stack as f64 * each,
            ..Stacks::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that was blocked at some of six samples, within five seconds.
    fn seen_at(samples: usize) -> ProbeResult {
        let mut seen = Sightings::default();
        let stack = || Ok(vec!["__schedule".to_owned(), "nfs_wait_bit_killable".to_owned()]);
        for _ in 0..samples {
            let unread = Err(Unavailable::new(rdiag_model::Reason::Denied, "a test"));
            let both = [(7, "dd", stack()), (8, "cat", unread)];
            let blocked = both.map(|(tid, name, stack)| Blocked {
                pid: tid,
                tid,
                born: 1,
                name: name.into(),
                turns: Some(3),
                stack,
            });
            seen.add(blocked.into());
        }
        seen.into_result(6, 5.0).unwrap()
    }

    #[test]
    fn a_stack_took_as_long_as_its_task_was_blocked_and_no_longer_than_the_window() {
        for (samples, seconds) in [(6, 5.0), (3, 2.5), (1, 5.0 / 6.0)] {
            let result = seen_at(samples);
            let table = result.outputs.iter().find_map(|output| match output {
                Output::Table(table) if table.id == "tasks" => Some(table),
                _ => None,
            });
            let stacks = result.outputs.iter().find_map(|output| match output {
                Output::Stacks(stacks) => Some(stacks),
                _ => None,
            });
            let (table, stacks) = (table.unwrap(), stacks.unwrap());
            let figures = [table.rows[0].cells[4].number().unwrap(), stacks.stacks[0].value, stacks.missing];
            assert!(figures.iter().all(|figure| (figure - seconds).abs() < 1e-9), "{samples} of 6: {figures:?}");
        }
    }
}
