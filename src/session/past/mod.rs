//! A time that is over, as a recording: from what the recorder kept. Rules judge it like any other; what only a probe could have told is a
//! gap.
//!
//! Blocks and tail are cut and joined (`join.rs`). What other programs recorded becomes such a recording, too (`elsewhere/`). What changed
//! around that time follows from comparing blocks (`changes/`), how it is on earlier days from comparing readings (`usual.rs`): no rule
//! asks for either.

mod around;
mod beside;
mod bursts;
mod changes;
mod elsewhere;
#[cfg(test)]
mod equal;
mod join;
mod pick;
#[cfg(test)]
mod tests;
pub(super) mod time;
mod usual;

pub use self::around::{around, around_elsewhere};
pub use self::beside::NEAR;
pub use self::changes::AROUND;
pub use self::elsewhere::{Given, Journal, elsewhere, given, joined, sosreport, temper};
pub use self::time::{HistoryFile, Origin, Past, Piece, Span, interval};
pub use self::usual::{SAMPLES, Side, comparable, unlike, usual};

use self::time::params;
use super::analyze::Analyst;
use rdiag_collectors as collectors;
use rdiag_history::{read_block, read_tail};
use rdiag_kernel::host::Zone;
use rdiag_model::recording::{CollectorRecord, FORMAT_VERSION, Overhead};
use rdiag_model::{Reason, Recording, Setup, Target, Unavailable, Window};
use rdiag_playbook::{Plan, PlannedStep};
use rdiag_probes as probes;

/// Reads files of the recorder, in the order of their names; what is none is named.
#[must_use]
pub fn pieces(files: &[HistoryFile]) -> (Vec<Piece>, Vec<String>) {
    let (mut read, mut notes) = (Vec::new(), Vec::new());
    for file in files {
        let outcome = if file.name == super::watch::TAIL { read_tail(&file.bytes) } else { read_block(&file.bytes) };
        match outcome {
            Ok((block, damage)) => read.push(Piece { name: file.name.clone(), block, damage }),
            Err(why) => notes.push(format!("{} is left out: {why}", file.name)),
        }
    }
    (read, notes)
}

/// The recording of a time, by a plan; `zone` is that of the reader of the notes.
///
/// # Errors
/// When nothing of it was recorded, in words.
pub fn past(files: &[HistoryFile], span: Span, plan: &Plan, zone: &Zone) -> Result<Past, String> {
    past_every(files, span, plan, zone, 0.0)
}

/// The same with at least so many seconds from sample to sample, to be compared with a time that has no more.
///
/// # Errors
/// As [`past`].
pub fn past_every(files: &[HistoryFile], span: Span, plan: &Plan, zone: &Zone, at_least: f64) -> Result<Past, String> {
    recorded(pieces(files), (span, at_least), plan, zone)
}

/// The same of what is in memory.
pub(super) fn past_of(pieces: Vec<Piece>, span: Span, plan: &Plan, zone: &Zone) -> Result<Past, String> {
    recorded((pieces, Vec::new()), (span, 0.0), plan, zone)
}

fn recorded(
    (mut pieces, mut notes): (Vec<Piece>, Vec<String>),
    (span, at_least): (Span, f64),
    plan: &Plan,
    zone: &Zone,
) -> Result<Past, String> {
    let evened = even(&mut pieces, span, zone, at_least);
    let picked = pick::pick(&pieces, span, zone).ok_or_else(|| {
        let is_within = |piece: &Piece| {
            let header = &piece.block.header;
            let ends = header.wall_micros.saturating_add((header.seconds * 1e6) as i64);
            header.recorded_every.is_some() && header.wall_micros <= span.to && ends >= span.from
        };
        if let Some(piece) = pieces.iter().find(|piece| is_within(piece)) {
            let every = interval(piece.block.header.interval_seconds);
            notes.push(format!("this time was thinned to a sample every {every}: ask for a longer one with --last"));
        }
        let so_far = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
        format!("nothing was recorded between {} and {}{so_far}", zone.shown(span.from), zone.shown(span.to))
    })?;
    let mut joined = join::join(&picked, plan);
    let beside = beside::Beside::of(&pieces, &picked).complete(&mut joined.window);
    notes.insert(0, source(&picked, &joined.window));
    let every = interval(joined.window.interval_seconds);
    match evened {
        Evened::Not => {}
        Evened::WithPart => notes.push(format!(
            "Part of this time has a sample every {every} only, so all of it is judged at that distance"
        )),
        Evened::WithOther => notes.push(format!(
            "The time it is compared with has a sample every {every} only, so this one is judged at that distance too"
        )),
    }
    notes.extend(beside);
    let thinned_from = picked.parts.iter().find_map(|part| part.piece.block.header.recorded_every);
    let host = &joined.host;
    notes.extend(thinned_from.and_then(|every| bursts::told(&joined.window, (host, every), (joined.started, zone))));
    notes.extend(picked.notes.iter().cloned());
    let mut recording = Recording {
        format_version: FORMAT_VERSION,
        tool: picked.newest.header.tool.clone(),
        playbook: plan.playbook.name.clone(),
        params: params(plan, &joined.window),
        target: Target::default(),
        host: joined.host,
        // How the host was set up is not kept with its history.
        setup: Setup::default(),
        started: zone.instant(joined.started),
        exercise: None,
        windows: Vec::new(),
        interrupted: false,
        overhead: overhead(&picked),
    };
    let mut window = joined.window;
    for steps in plan.windows.iter().skip(1) {
        let mut analyst = Analyst::new(&recording.host, plan, &recording.target);
        analyst.add(&window);
        look_closer(&analyst.wanted(steps), &mut window);
    }
    recording.windows = vec![window];
    Ok(Past { recording, began: joined.started, notes, origin: Origin::RECORDER, holes: Vec::new() })
}

/// Whether samples were left out that were recorded and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evened {
    Not,
    /// As in the rest of the time.
    WithPart,
    /// As in another time.
    WithOther,
}

/// Where a part of the time was thinned, or more is asked for, thins the rest as well: all intervals of a window have one length, and a
/// mean of a minute in twelve of 5 s would be taken for "three in a row".
fn even(pieces: &mut [Piece], span: Span, zone: &Zone, at_least: f64) -> Evened {
    let Some(picked) = pick::pick(pieces, span, zone) else { return Evened::Not };
    let headers = || picked.parts.iter().map(|part| &part.piece.block.header);
    let thinned = headers().filter(|header| header.recorded_every.is_some()).map(|header| header.interval_seconds);
    let of_part = thinned.fold(0.0, f64::max);
    let seconds = of_part.max(at_least);
    let evened = match headers().any(|header| header.is_finer(seconds)) {
        false => Evened::Not,
        true if at_least > of_part => Evened::WithOther,
        true => Evened::WithPart,
    };
    pieces.iter_mut().for_each(|piece| piece.block.thin(seconds));
    evened
}

fn source(picked: &pick::Picked<'_>, window: &Window) -> String {
    let every = interval(window.interval_seconds);
    let stretched =
        |(id, times): (&String, &u32)| format!("{id} every {}", interval(f64::from(*times) * window.interval_seconds));
    let stretched: Vec<String> = picked.newest.header.stretched.iter().map(stretched).collect();
    let but = if stretched.is_empty() { String::new() } else { format!("; {}", stretched.join(", ")) };
    let thinned = picked.parts.iter().find_map(|part| part.piece.block.header.recorded_every).map_or(String::new(), |from| {
        let from = interval(from);
        format!(" (thinned from {from}): counters are exact, levels are means, and a burst that is shorter may hide in them")
    });
    format!("Source: the recorder, a sample every {every}{thinned}{but}")
}

/// What recording cost meanwhile.
fn overhead(picked: &pick::Picked<'_>) -> Overhead {
    let mut overhead = Overhead::default();
    let mut seconds = 0.0;
    for part in &picked.parts {
        let header = &part.piece.block.header;
        overhead.cpu_seconds += header.cost.cpu_seconds;
        overhead.max_resident_bytes = overhead.max_resident_bytes.max(header.cost.resident_bytes);
        seconds += header.seconds;
        for (id, took) in &header.cost.collectors {
            *overhead.collectors.entry(id.clone()).or_default() += took;
        }
    }
    overhead.cpu_ratio = if seconds > 0.0 { overhead.cpu_seconds / seconds } else { 0.0 };
    overhead
}

/// Adds steps that would have looked closer, with gaps in the place of what was not looked at.
fn look_closer(steps: &[&PlannedStep], window: &mut Window) {
    let gap = |what: &str| {
        let why = format!("not recorded then: {what} looks closer only while `rdiag run` measures");
        Unavailable::new(Reason::Absent, why).with_remedy("run rdiag while it is slow")
    };
    window.steps.extend(steps.iter().map(|planned| planned.step.id.clone()));
    for id in steps.iter().flat_map(|planned| &planned.step.collect).map(rdiag_playbook::Measure::id) {
        if probes::find(id).is_some() {
            window.probes.insert(id.to_owned(), Err(gap(id)));
        } else if collectors::find(id).is_some() {
            let missing = || CollectorRecord { unavailable: Some(gap(id)), ..CollectorRecord::default() };
            window.collectors.entry(id.to_owned()).or_insert_with(missing);
        }
    }
}
