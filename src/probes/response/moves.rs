//! Requests that move from one thread to another: by which marks that is seen, and what they go by there.
//!
//! A goroutine that waits is laid down, and taken up later by whichever thread of the program has nothing to do. Both are functions of Go's
//! scheduler, which are watched as the marks are. Other programs have places of their own where a request goes into a queue and out of it.

use super::super::grammar;
use super::super::per_point::wrong;
use super::super::point_reads::{Reads, words};
use super::super::value_read::{NOTHING, Read, Source};
use super::mark::{Mark, Programs};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Moments, Object};
use rdiag_kernel::mechanism::points::{CALLER, Point, PointError, Scheduler};
use rdiag_model::Unavailable;
use rdiag_model::ledger::Handover;

/// What is said of a goroutine that could run.
const RUNNABLE: &str = "runnable";
/// Names of the marks in `--each-id`, in the order of the programs.
const MARKS: [&str; 4] = ["from", "to", "on", "off"];
const ON: Programs = ("on_point", "on_text");
const OFF: Programs = ("off_point", "off_text");
/// Where a function that is just entered will return to.
const CALLER_FIELD: Read =
    Read { source: if CALLER.how == 1 { Source::Entry } else { Source::Memory }, offset: CALLER.offset, ..NOTHING };

/// How requests are followed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moves {
    how: How,
    /// How the id is read at each mark and where a goroutine parks; none where the first word of a text is it.
    ids: [Option<Read>; 5],
    /// How the reason is read for which it parks.
    reason: Read,
}

#[derive(Debug, Clone, PartialEq)]
enum How {
    Goroutines(Box<Scheduler>),
    Marks { on: Box<Mark>, off: Box<Mark> },
}

impl Moves {
    /// Between two functions of a Go program; none in others, where a thread keeps what it has begun.
    pub(super) fn of_goroutines(from: &Mark, to: &Mark) -> Result<Option<Self>, PointError> {
        // The return of a function of Go is refused elsewhere, with the reason.
        if [from.moment, to.moment] != [Moments::Entry; 2] {
            return Ok(None);
        }
        let Some(scheduler) = Scheduler::of(&from.point, &to.point)? else { return Ok(None) };
        let read = |field: &str| -> Result<Read, PointError> {
            Reads::of(scheduler.parks.clone(), "")?.read_any(0, &grammar::operand(field).map_err(wrong)?)
        };
        let (running, its) = (read(Scheduler::GOROUTINE)?, read(Scheduler::ITS_GOROUTINE)?);
        let reason = Read { bytes: 1, ..read(Scheduler::REASON)? };
        let ids = [running, running, its, its, running].map(Some);
        Ok(Some(Self { how: How::Goroutines(Box::new(scheduler)), ids, reason }))
    }

    /// By two marks where threads hand requests over.
    pub(super) fn by_marks(
        host: &Host,
        handover: &Handover,
        process: Option<u32>,
        [from, to]: [&Mark; 2],
    ) -> Result<Self, PointError> {
        let ids = ids(&handover.id).map_err(wrong)?;
        let [at_from, at_to, at_on, at_off] = ids;
        let on = Mark::find(host, &handover.on, process, Some(at_on))?;
        let off = Mark::find(host, &handover.off, process, Some(at_off))?;
        if on == off {
            return Err(wrong(format!(
                "{:?} cannot be where a request is laid down and where it is taken up",
                handover.on
            )));
        }
        let ids = [from.read(at_from)?, to.read(at_to)?, on.read(at_on)?, off.read(at_off)?, Some(NOTHING)];
        Ok(Self { how: How::Marks { on: Box::new(on), off: Box::new(off) }, ids, reason: NOTHING })
    }

    pub(super) fn attach(&self, object: &mut Object, host: &Host, pids: &[u32]) -> Result<(), Unavailable> {
        let Scheduler { takes, lays_down, parks, readies, ends, .. } = match &self.how {
            How::Goroutines(scheduler) => &**scheduler,
            How::Marks { on, off } => {
                on.attach(object, host, pids, ON)?;
                return off.attach(object, host, pids, OFF);
            }
        };
        let mut attach = |(programs, _): Programs, points: &[Point]| {
            points.iter().try_for_each(|point| object.attach_point_to(host, programs, point, Moments::Entry, pids))
        };
        attach(ON, takes)?;
        attach(OFF, lays_down)?;
        attach(("gone_point", ""), ends)?;
        attach(("ready_point", ""), readies)?;
        attach(("park_point", ""), std::slice::from_ref(parks))
    }

    /// The constants of the programs.
    pub(super) fn globals(&self) -> Vec<Global> {
        let reads = self.ids.map(|id| id.unwrap_or(NOTHING));
        let texts = reads.map(Read::text_at);
        let (on, off, across) = match &self.how {
            How::Goroutines(_) => ((Vec::new(), 0), (Vec::new(), 0), 0),
            How::Marks { on, off } => (on.padded(), off.padded(), u32::from(self.is_told_everywhere())),
        };
        let mut globals = vec![
            Global::u32("with_ids", 1),
            Global::u32("across_processes", across),
            Global::bytes("id_fields", reads.iter().flat_map(Read::bytes_of).collect()),
            Global::bytes("id_text_in", words(&texts.map(|(kind, _)| kind))),
            Global::bytes("id_text_at", words(&texts.map(|(_, at)| at))),
            Global::bytes("reason_field", self.reason.bytes_of().collect()),
            Global::bytes("caller_field", CALLER_FIELD.bytes_of().collect()),
            Global::u32("on_text_length", on.1),
            Global::u32("off_text_length", off.1),
        ];
        if matches!(self.how, How::Marks { .. }) {
            globals.extend([Global::bytes("on_text", on.0), Global::bytes("off_text", off.0)]);
        }
        globals
    }

    /// Whether all ids are text, which is the same in every process; a number may be an address.
    fn is_told_everywhere(&self) -> bool {
        self.ids.iter().take(MARKS.len()).all(|id| id.is_none_or(|read| read.text.is_some()))
    }

    /// Why no thread had a goroutine, in Go's words; none where requests go through a queue.
    pub(super) fn reason(&self, number: u64) -> Option<&str> {
        let How::Goroutines(scheduler) = &self.how else { return None };
        let named = |at: u64| scheduler.reasons.get(usize::try_from(at).ok()?).map(String::as_str);
        Some(number.checked_sub(1).map_or(RUNNABLE, |at| named(at).unwrap_or_default()))
    }
}

/// The field of each mark: `arg1`, `arg1,on=arg2`.
fn ids(text: &str) -> Result<[&str; 4], String> {
    let mut all = [None; 4];
    let mut default = None;
    for part in text.split(',').map(str::trim) {
        let (place, field) = match part.split_once('=') {
            None => (&mut default, part),
            Some((mark, field)) => {
                let at = MARKS.iter().position(|known| *known == mark.trim());
                let known = at.and_then(|at| all.get_mut(at));
                let wrong = || format!("{mark:?} is no mark of a request; there are {}", MARKS.join(", "));
                (known.ok_or_else(wrong)?, field.trim())
            }
        };
        if place.replace(field).is_some() {
            return Err(format!("{text:?} says twice what a request goes by"));
        }
    }
    let [from, to, on, off] = all.map(|own| own.or(default));
    match (from, to, on, off) {
        (Some(from), Some(to), Some(on), Some(off)) => Ok([from, to, on, off]),
        _ => Err(format!("{text:?} does not say for each mark what a request goes by; write arg1, or arg1,on=arg2")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_field_of_all_marks_or_another_one_of_some() {
        assert_eq!(ids("arg1"), Ok(["arg1"; 4]));
        assert_eq!(ids("arg1, on=arg2:string"), Ok(["arg1", "arg1", "arg2:string", "arg1"]));
        assert_eq!(ids("from=a,to=b,on=c,off=d"), Ok(["a", "b", "c", "d"]));
        for (text, says) in [("on=arg1", "for each mark"), ("arg1,arg2", "twice"), ("at=arg1", "from, to, on, off")] {
            let error = ids(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
