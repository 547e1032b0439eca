//! Who ran when: stays on CPUs summed up in pieces of time, and drawn with one character for each piece.

use std::collections::BTreeMap;

use super::escape::visible_within;
use rdiag_model::quantity::{number, seconds};
use rdiag_model::schedule::{CpuSchedule, CpuStrip, Layer, RunSlice, Runner, Schedule, Strips, TaskStrip};

/// Tasks that are shown separately: as many as letters and colours.
pub(super) const TASKS: usize = 8;
/// CPUs that are drawn.
const CPUS: usize = 64;
/// Less of a piece than this is not drawn: it would make every CPU look busy.
const LEAST: f64 = 0.02;
/// Longest name of a task.
const NAME: usize = 40;

/// Sums up a schedule in pieces of equal length.
#[must_use]
pub(super) fn strips(schedule: &Schedule, pieces: usize) -> Strips {
    let grid = Grid { from: schedule.from, until: schedule.until, pieces: pieces.max(1) };
    let slices = || schedule.cpus.iter().flat_map(|cpu| &cpu.slices);
    let task = |(at, task): (usize, &rdiag_model::schedule::ScheduledTask)| {
        let own = || slices().filter(move |slice| slice.task == Some(at as u32));
        let waits = own().filter_map(|slice| {
            let waited = slice.waited.filter(|waited| *waited > 0.0)?;
            Some((slice.from - waited, slice.from))
        });
        TaskStrip {
            task: task.clone(),
            seconds: own().map(length).sum(),
            ran: grid.shares(own().map(|slice| (slice.from, slice.until))),
            waited: grid.shares(waits),
        }
    };
    Strips {
        id: schedule.id.clone(),
        title: schedule.title.clone(),
        from: schedule.from,
        until: schedule.until,
        tasks: schedule.tasks.iter().enumerate().take(TASKS).map(task).collect(),
        other_tasks: schedule.tasks.len().saturating_sub(TASKS) as u64,
        cpus: schedule.cpus.iter().take(CPUS).map(|cpu| cpu_strip(cpu, &grid)).collect(),
        other_cpus: schedule.cpus.len().saturating_sub(CPUS) as u64,
    }
}

fn length(slice: &RunSlice) -> f64 {
    (slice.until - slice.from).max(0.0)
}

fn cpu_strip(cpu: &CpuSchedule, grid: &Grid) -> CpuStrip {
    let mut by: BTreeMap<Runner, Vec<(f64, f64)>> = BTreeMap::new();
    for slice in &cpu.slices {
        let of = match slice.task {
            Some(at) if (at as usize) < TASKS => Runner::Task(at),
            Some(_) => Runner::Others,
            None => Runner::Unknown,
        };
        by.entry(of).or_default().push((slice.from, slice.until));
    }
    let layers = by.into_iter().map(|(of, times)| Layer { of, shares: grid.shares(times.into_iter()) });
    CpuStrip { cpu: cpu.cpu, layers: layers.collect() }
}

/// Pieces of equal length.
struct Grid {
    from: f64,
    until: f64,
    pieces: usize,
}

impl Grid {
    /// The share of each piece that these times cover. They do not overlap; waits of a task may, by a hair.
    fn shares(&self, times: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
        let mut sums = vec![0.0; self.pieces];
        let scale = self.pieces as f64 / (self.until - self.from);
        if !(scale.is_finite() && scale > 0.0) {
            return sums;
        }
        for (from, until) in times {
            let place = |at: f64| ((at - self.from) * scale).clamp(0.0, self.pieces as f64);
            let (from, until) = (place(from), place(until));
            // Only the pieces that it touches: there may be very many times.
            for (at, sum) in sums.iter_mut().enumerate().take(until.ceil() as usize).skip(from as usize) {
                *sum += (until.min(at as f64 + 1.0) - from.max(at as f64)).max(0.0);
            }
        }
        // A thousandth is too small to be seen.
        sums.iter().map(|sum: &f64| (sum.min(1.0) * 1000.0).round() / 1000.0).collect()
    }
}

/// Shares summed up in so many columns.
fn columns(shares: &[f64], columns: usize) -> Vec<f64> {
    let grid = Grid { from: 0.0, until: shares.len() as f64, pieces: columns.max(1) };
    let per_column = shares.len() as f64 / grid.pieces as f64;
    let mut sums = vec![0.0; grid.pieces];
    for (at, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        let (from, until) = (at as f64 / per_column, (at + 1) as f64 / per_column);
        for (column, sum) in sums.iter_mut().enumerate().take(until.ceil() as usize).skip(from as usize) {
            *sum += (until.min(column as f64 + 1.0) - from.max(column as f64)).max(0.0) * share;
        }
    }
    sums
}

/// The letter of a task by its place.
pub(super) fn letter(at: u32) -> char {
    char::from(b'A' + (at as usize).min(TASKS - 1) as u8)
}

/// `A`, or `a` if it ran for less than half of the piece.
fn drawn(at: u32, share: f64) -> char {
    if share >= 0.5 { letter(at) } else { letter(at).to_ascii_lowercase() }
}

/// A CPU: the letter of the task that ran longest in each piece.
fn cpu_line(strip: &CpuStrip, width: usize) -> String {
    let layers: Vec<(Runner, Vec<f64>)> =
        strip.layers.iter().map(|layer| (layer.of, columns(&layer.shares, width))).collect();
    let piece = |at: usize| {
        let shares = layers.iter().filter_map(|(of, shares)| Some((*of, *shares.get(at)?)));
        let most = shares.reduce(|most, next| if next.1 > most.1 { next } else { most });
        match most.filter(|(_, share)| *share > LEAST) {
            Some((Runner::Task(task), share)) => drawn(task, share),
            Some((Runner::Others, _)) => '+',
            Some((Runner::Unknown, _)) => '?',
            None => '.',
        }
    };
    (0..width).map(piece).collect()
}

/// A task: where it ran, and where it waited for longer than that.
fn task_line(strip: &TaskStrip, at: u32, width: usize) -> String {
    let (ran, waited) = (columns(&strip.ran, width), columns(&strip.waited, width));
    let piece = |(ran, waited): (&f64, &f64)| match ran.max(*waited) {
        most if most <= LEAST => '.',
        _ if waited > ran => '~',
        _ => drawn(at, *ran),
    };
    ran.iter().zip(&waited).map(piece).collect()
}

/// The name of a task, as the user sees it: `A nginx (4711)`.
pub(super) fn named(strip: &TaskStrip, at: u32) -> String {
    let (task, name) = (&strip.task, visible_within(&strip.task.name, NAME));
    let tid = if task.tid == task.pid { String::new() } else { format!(", thread {}", task.tid) };
    format!("{} {name} ({}{tid})", letter(at), task.pid)
}

/// What the characters mean.
const MEANING: &str = "A capital letter: it ran for at least half of that piece, a small one: for less; + another task, ~ waits for a CPU, \
                       . idle or not looked at, ? not known";

/// A line of the picture, or of the text around it.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// As it is.
    Drawn(String),
    /// To be wrapped.
    Said(String),
}

/// The picture, no wider than this, and who the letters stand for.
pub(super) fn lines(strips: &Strips, width: usize) -> Vec<Line> {
    let last = strips.cpus.last().map_or(0, |cpu| cpu.cpu);
    let label = format!("CPU {last}").len();
    let width = width.saturating_sub(label + 1).max(10);
    let length = (strips.until - strips.from).max(0.0);
    let mut out =
        vec![Line::Said(format!("{}, {} for each character", seconds(length), seconds(length / width as f64)))];
    for cpu in &strips.cpus {
        out.push(Line::Drawn(format!("{:<label$} {}", format!("CPU {}", cpu.cpu), cpu_line(cpu, width))));
    }
    for (at, task) in (0..).zip(&strips.tasks) {
        out.push(Line::Drawn(format!("{:<label$} {}", letter(at), task_line(task, at, width))));
    }
    for (at, task) in (0..).zip(&strips.tasks) {
        out.push(Line::Said(format!("{}, ran {}", named(task, at), seconds(task.seconds))));
    }
    out.extend(hidden(strips).map(Line::Said));
    out.push(Line::Said(MEANING.to_owned()));
    out
}

/// What is not drawn by itself.
pub(super) fn hidden(strips: &Strips) -> Option<String> {
    let parts: Vec<String> =
        [(strips.other_tasks, "more tasks ran (+)"), (strips.other_cpus, "more CPUs are not drawn")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", number(count as f64)))
            .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::schedule::ScheduledTask;

    fn slice(from: f64, until: f64, task: Option<u32>, waited: Option<f64>) -> RunSlice {
        RunSlice { from, until, task, waited, left: None }
    }

    fn schedule(cpus: Vec<Vec<RunSlice>>, tasks: u32) -> Schedule {
        let cpu = |(cpu, slices)| CpuSchedule { cpu, slices };
        let task = |tid| ScheduledTask { name: format!("t{tid}"), pid: 1, tid };
        Schedule {
            from: 2.0,
            until: 12.0,
            tasks: (1..=tasks).map(task).collect(),
            cpus: (0..).zip(cpus).map(cpu).collect(),
            ..Schedule::default()
        }
    }

    #[test]
    fn each_piece_shows_who_ran_longest_and_who_waited() {
        let first = vec![slice(2.0, 5.0, Some(0), None), slice(5.2, 5.5, Some(1), None), slice(8.0, 12.0, None, None)];
        let second = vec![slice(4.0, 6.0, Some(1), Some(1.0)), slice(6.0, 7.0, Some(8), None)];
        let strips = strips(&schedule(vec![first, second], 9), 10);
        assert_eq!(cpu_line(&strips.cpus[0], 10), "AAAb..????");
        assert_eq!(cpu_line(&strips.cpus[1], 10), "..BB+.....");
        assert_eq!(task_line(&strips.tasks[1], 1, 10), ".~BB......");
        assert_eq!((strips.tasks.len(), strips.other_tasks), (TASKS, 1));
        assert!((strips.tasks[1].seconds - 2.3).abs() < 1e-9);
    }

    #[test]
    fn pieces_are_shares_of_the_time_whatever_the_width() {
        let busy = |from: f64, until: f64| vec![slice(from, until, Some(0), None)];
        let strips = strips(&schedule(vec![busy(2.0, 7.0)], 1), 200);
        for width in [1, 3, 10, 77, 200, 500] {
            let sum: f64 = columns(&strips.tasks[0].ran, width).iter().sum();
            assert!((sum / width as f64 - 0.5).abs() < 0.001, "{width}: {sum}");
        }
        let drawn = cpu_line(&strips.cpus[0], 20);
        assert_eq!((drawn.matches('A').count(), drawn.matches('.').count()), (10, 10), "{drawn}");
    }

    #[test]
    fn no_times_give_no_picture_and_odd_ones_do_no_harm() {
        assert!(strips(&Schedule::default(), 0).cpus.is_empty());
        let odd = vec![
            slice(f64::NAN, 3.0, Some(0), Some(f64::INFINITY)),
            slice(9.0, 3.0, Some(0), Some(-1.0)),
            slice(-1e300, 1e300, Some(77), None),
        ];
        let strips = strips(&schedule(vec![odd], 1), 50);
        let shares = strips.cpus.iter().flat_map(|cpu| &cpu.layers).flat_map(|layer| &layer.shares);
        assert!(shares.chain(&strips.tasks[0].waited).all(|share| (0.0..=1.0).contains(share)), "{strips:?}");
        assert_eq!(cpu_line(&strips.cpus[0], 5), "+++++");
        assert_eq!(lines(&strips, 3)[1], Line::Drawn("CPU 0 A+++++++++".into()));
    }
}
