//! Who used CPUs and storage in each slice, by the name of the program: a service is many processes.

use std::collections::HashMap;

use super::grid::{Axis, Place};
use rdiag_model::recording::{CollectorRecord, Process, ProcessPoint};

/// Names that are kept: some 20 MB. A real host has some hundred; files may come from anywhere.
const MOST_NAMES: usize = 10_000;
/// A process that used less of one CPU has, in a block, its first and its last figure only.
const LITTLE: f64 = 0.005;
/// More than the CPUs had, by so much and so many ticks, may be due to rounding.
const ROUNDING: (f64, f64) = (1.1, 2.0);

/// CPU seconds, and bytes from and to storage.
type Used = [f64; 2];

/// What the processes of each name used, slice by slice.
#[derive(Default)]
pub(super) struct Users {
    numbers: HashMap<String, usize>,
    used: Vec<Vec<Used>>,
}

/// Who used most of something in some slices, and how much.
pub(super) type Most<'n> = Option<(&'n str, f64)>;

/// Who used most in some slices.
#[derive(Clone, Default)]
pub(super) struct Largest<'n> {
    pub(super) cpu: Most<'n>,
    pub(super) io: Most<'n>,
    /// Bytes of all.
    pub(super) moved: f64,
}

impl Users {
    /// Adds a process of a stretch.
    pub(super) fn add(&mut self, process: &Process, (record, place): (&CollectorRecord, &Place<'_>), axis: Axis) {
        let Some(own) = self.of(&process.comm, axis) else { return };
        let host = place.host();
        let hertz = host.ticks_per_second.max(1) as f64;
        let of_all = f64::from(host.cpus.max(1)) * hertz;
        let ticks = |point: &ProcessPoint| point.utime.saturating_add(point.stime);
        let traffic = |point: &ProcessPoint| Some(point.read_bytes?.saturating_add(point.write_bytes?));
        let is_short = process.points.len() <= 2;
        // One that began within the stretch has used all that it has.
        let born = usize::from(process.first).checked_sub(1);
        let mut before = born.map(|at| (at, 0, Some(0)));
        for point in &process.points {
            let now = (usize::from(point.at), ticks(point), traffic(point));
            let Some((at, used, moved)) = before.replace(now).filter(|(at, ..)| *at < now.0) else { continue };
            let cpu = now.1.saturating_sub(used) as f64;
            let bytes = now.2.zip(moved).map_or(0.0, |(now, before)| now.saturating_sub(before) as f64);
            if cpu <= 0.0 && bytes <= 0.0 {
                continue;
            }
            let is_possible = |(from, until): &(f64, f64)| cpu <= (until - from) * of_all * ROUNDING.0 + ROUNDING.1;
            let is_little = is_short && cpu < LITTLE * place.seconds() * hertz;
            // Between two points nothing moved before the last interval, unless points between them were left out.
            let last = place.between(record, now.0 - 1, now.0).filter(|last| !is_little && is_possible(last));
            let between = last.or_else(|| place.between(record, at, now.0).filter(is_possible));
            for (at, part, _) in between.into_iter().flat_map(|between| axis.shares(between)) {
                let Some([own_cpu, own_bytes]) = own.get_mut(at) else { continue };
                *own_cpu += cpu / hertz * part;
                *own_bytes += bytes * part;
            }
        }
    }

    /// What those of a name used; none where there are too many names.
    fn of(&mut self, name: &str, axis: Axis) -> Option<&mut Vec<Used>> {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None if self.used.len() >= MOST_NAMES => return None,
            None => {
                self.numbers.insert(name.to_owned(), self.used.len());
                self.used.push(vec![Used::default(); axis.slices]);
                self.used.len() - 1
            }
        };
        self.used.get_mut(number)
    }

    /// Who used most in each of some groups of slices; `group` is that of a slice. Of equal ones it is the first in the alphabet.
    pub(super) fn largest(&self, groups: usize, group: impl Fn(usize) -> usize) -> Vec<Largest<'_>> {
        let mut names: Vec<(&str, usize)> =
            self.numbers.iter().map(|(name, number)| (name.as_str(), *number)).collect();
        names.sort_unstable();
        let mut all = vec![Largest::default(); groups];
        for (name, number) in names {
            let mut sums = vec![Used::default(); groups];
            for (at, [cpu, bytes]) in self.used.get(number).into_iter().flatten().enumerate() {
                let Some([sum_cpu, sum_bytes]) = sums.get_mut(group(at)) else { continue };
                *sum_cpu += cpu;
                *sum_bytes += bytes;
            }
            for (largest, [cpu, bytes]) in all.iter_mut().zip(sums) {
                largest.moved += bytes;
                for (most, used) in [(&mut largest.cpu, cpu), (&mut largest.io, bytes)] {
                    if used > most.map_or(0.0, |(_, most)| most) {
                        *most = Some((name, used));
                    }
                }
            }
        }
        all
    }
}
