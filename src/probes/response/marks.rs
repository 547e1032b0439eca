//! The marks between which a thread is observed (`--each-from`). They begin and end the thread's record, so each request has one, and a
//! thread outside of requests is not observed at all.

use super::super::per_point::wrong;
use super::mark::Mark;
use super::moves::Moves;
use super::request_key::{self, At, RequestKey};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Moments, Object};
use rdiag_kernel::mechanism::points::{PointError, Target};
use rdiag_model::Unavailable;
use rdiag_model::ledger::Marks;

/// Where requests begin and end, what they are called by, and how they are followed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    from: Mark,
    to: Mark,
    key: Option<RequestKey>,
    moves: Option<Moves>,
}

impl Pair {
    /// Looks all marks up, as the process sees files if there is one.
    pub(super) fn find(host: &Host, marks: &Marks, pids: &[u32]) -> Result<Self, PointError> {
        let process = if let [pid] = pids { Some(*pid) } else { None };
        let key = marks.key.as_deref().map(request_key::parse);
        let of = |mark: At| key.filter(|(at, _)| *at == mark).map(|(_, field)| field);
        let from = Mark::find(host, &marks.from, process, of(At::From))?;
        let to = Mark::find(host, &marks.to, process, of(At::To))?;
        if from == to {
            return Err(wrong(format!("{:?} cannot be the beginning and the end of the same", marks.from)));
        }
        let moves = match &marks.handover {
            Some(handover) => Some(Moves::by_marks(host, handover, process, [&from, &to])?),
            None => Moves::of_goroutines(&from, &to)?,
        };
        let key = match key {
            Some((At::From, field)) => Some(RequestKey::new(At::From, from.read(field)?)),
            Some((At::To, field)) => Some(RequestKey::new(At::To, to.read(field)?)),
            None => None,
        };
        let key = key.map(|key| if marks.handover.is_some() { key.behind_an_id() } else { key });
        Ok(Self { from, to, key, moves })
    }

    /// What requests are called by.
    pub(super) fn key(&self) -> Option<RequestKey> {
        self.key
    }

    /// How requests are followed from one thread to another.
    pub(super) fn moves(&self) -> Option<Moves> {
        self.moves.clone()
    }

    /// Whether the program stops at any of them.
    pub(super) fn is_in_a_program(&self) -> bool {
        let is_user = |mark: &Mark| matches!(mark.point.target, Target::User { .. } | Target::Marker { .. });
        is_user(&self.from) || is_user(&self.to) || self.moves.is_some()
    }

    /// Whether they are the entry and the return of one function, of which calls may lie within each other.
    fn nest(&self) -> bool {
        self.from.point.target == self.to.point.target
            && (self.from.moment, self.to.moment) == (Moments::Entry, Moments::Return)
    }

    /// The end comes before the beginning, so that none waits for an end that was not seen; what moves a request comes first of all.
    pub(super) fn attach(&self, object: &mut Object, host: &Host, pids: &[u32]) -> Result<(), Unavailable> {
        if let Some(moves) = &self.moves {
            moves.attach(object, host, pids)?;
        }
        self.to.attach(object, host, pids, ("to_point", "to_text"))?;
        self.from.attach(object, host, pids, ("from_point", "from_text"))
    }

    /// The constants of the programs.
    pub(super) fn globals(&self) -> Vec<Global> {
        let ((from, from_length), (to, to_length)) = (self.from.padded(), self.to.padded());
        let mut globals = vec![
            Global::u32("marks_nest", u32::from(self.nest())),
            Global::bytes("from_text", from),
            Global::u32("from_text_length", from_length),
            Global::bytes("to_text", to),
            Global::u32("to_text_length", to_length),
        ];
        globals.extend(self.key.into_iter().flat_map(RequestKey::globals));
        globals.extend(self.moves.iter().flat_map(Moves::globals));
        globals
    }
}
