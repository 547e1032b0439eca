//! The two marks between which a thread is observed (`--each-from`): what was written → where the programs are attached. They begin and end
//! the thread's record, so each request has one, and a thread outside of requests is not observed at all.

use super::super::per_point::wrong;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Moments, Object};
use rdiag_kernel::mechanism::points::{self, Point, PointError, Target};
use rdiag_model::Unavailable;
use rdiag_model::ledger::Marks;

/// Longest text of a mark and one byte more.
const MARK_TEXT: usize = 64;

/// A mark that was found on this machine.
#[derive(Debug, Clone, PartialEq)]
struct Mark {
    point: Point,
    moment: Moments,
    /// What the text begins with that is written to ftrace's marker; none for other marks.
    text: Option<String>,
}

/// Both marks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    from: Mark,
    to: Mark,
}

impl Pair {
    /// Looks both up, as the process sees files if there is one.
    pub(super) fn find(host: &Host, marks: &Marks, pids: &[u32]) -> Result<Self, PointError> {
        let process = if let [pid] = pids { Some(*pid) } else { None };
        let (from, to) = (find(host, &marks.from, process)?, find(host, &marks.to, process)?);
        if from == to {
            return Err(wrong(format!("{:?} cannot be the beginning and the end of the same", marks.from)));
        }
        Ok(Self { from, to })
    }

    /// Whether they are the entry and the return of one function, of which calls may lie within each other.
    fn nest(&self) -> bool {
        self.from.point.target == self.to.point.target
            && (self.from.moment, self.to.moment) == (Moments::Entry, Moments::Return)
    }

    /// The end comes first, so that no beginning waits for one that was not seen.
    pub(super) fn attach(&self, object: &mut Object, host: &Host, pids: &[u32]) -> Result<(), Unavailable> {
        let program = |mark: &Mark, point, text| if mark.text.is_some() { text } else { point };
        let (to, from) = (program(&self.to, "to_point", "to_text"), program(&self.from, "from_point", "from_text"));
        object.attach_point_to(host, to, &self.to.point, self.to.moment, pids)?;
        object.attach_point_to(host, from, &self.from.point, self.from.moment, pids)
    }

    /// The constants of the programs.
    pub(super) fn globals(&self) -> Vec<Global> {
        let text = |mark: &Mark| mark.text.clone().unwrap_or_default().into_bytes();
        let (from, to) = (text(&self.from), text(&self.to));
        let padded = |mut text: Vec<u8>| {
            text.resize(MARK_TEXT, 0);
            text
        };
        vec![
            Global::u32("marks_nest", u32::from(self.nest())),
            Global::u32("from_text_length", from.len() as u32),
            Global::u32("to_text_length", to.len() as u32),
            Global::bytes("from_text", padded(from)),
            Global::bytes("to_text", padded(to)),
        ]
    }
}

fn find(host: &Host, text: &str, process: Option<u32>) -> Result<Mark, PointError> {
    let (kind, name) = text.split_once('=').unwrap_or(("function", text));
    let mut text = None;
    let (found, moment) = match kind {
        "function" => (points::functions(host, name, process)?, Moments::Entry),
        "return" => (points::functions(host, name, process)?, Moments::Return),
        "tracepoint" => (points::tracepoints(host, name)?, Moments::Entry),
        "marker" if name.is_empty() || name.len() >= MARK_TEXT => {
            return Err(wrong(format!("{name:?} is no text for a mark: it has 1 to {} bytes", MARK_TEXT - 1)));
        }
        "marker" => {
            text = Some(name.to_owned());
            (points::tracepoints(host, "syscalls:sys_enter_write")?, Moments::Entry)
        }
        "usdt" => (points::markers(host, name, process)?, Moments::Entry),
        _ => {
            let kinds = "function=FILE:NAME, return=FILE:NAME, usdt=FILE:PROVIDER:NAME, tracepoint=GROUP:EVENT or \
                         marker=TEXT";
            return Err(wrong(format!("{kind:?} is no kind of mark; write {kinds}")));
        }
    };
    let count = found.len();
    let point = one(found).ok_or_else(|| wrong(format!("{text:?} is {count} points; a mark is one")))?;
    Ok(Mark { point, moment, text })
}

/// The point, if it is one. A place that developers have marked may have been compiled into several, which differ in how they keep
/// their arguments: no caller asks for these here.
fn one(points: Vec<Point>) -> Option<Point> {
    let mut points = points.into_iter();
    let mut first = points.next()?;
    for other in points {
        match (&mut first.target, other.target) {
            (
                Target::Marker { path, offsets, semaphore },
                Target::Marker { path: same, offsets: more, semaphore: counter },
            ) if *path == same && *semaphore == counter && first.name == other.name => offsets.extend(more),
            _ => return None,
        }
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(name: &str, offset: u64) -> Point {
        let target = Target::Marker { path: "/usr/bin/x".into(), offsets: vec![offset], semaphore: Some(4) };
        Point { name: name.into(), declared: String::new(), target, fields: Vec::new(), arguments: None }
    }

    #[test]
    fn a_marked_place_that_was_compiled_into_several_is_one_mark_and_two_places_are_none() {
        let both = one(vec![marker("x:a:b", 10), marker("x:a:b", 20)]).unwrap();
        assert!(matches!(&both.target, Target::Marker { offsets, .. } if *offsets == [10, 20]));
        assert_eq!(one(vec![marker("x:a:b", 10), marker("x:a:c", 20)]), None);
        assert_eq!(one(Vec::new()), None);
    }

    #[test]
    fn what_is_no_mark_is_told_with_what_would_be_one() {
        let host = Host::live(std::path::Path::new("/"));
        let told = |text: &str| find(&host, text, None).unwrap_err().message;
        assert!(told("uprobe=x").contains("write function=FILE:NAME"), "{}", told("uprobe=x"));
        assert!(told("function=/no/such/file:main").contains("/no/such/file"));
        assert!(told("marker=").contains("1 to 63 bytes"));
        assert!(told(&format!("marker={}", "x".repeat(64))).contains("1 to 63 bytes"));
    }
}
