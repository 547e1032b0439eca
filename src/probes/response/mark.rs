//! A place that threads pass: what was written (`--each-from` and the others) → where a program is attached, and what is read there.

use super::super::grammar;
use super::super::per_point::wrong;
use super::super::point_reads::Reads;
use super::super::value_read::{Read, Source};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Moments, Object};
use rdiag_kernel::mechanism::points::{self, Point, PointError, Target};
use rdiag_model::Unavailable;

/// Longest text of a mark and one byte more.
const MARK_TEXT: usize = 64;
/// The one field of a mark that is what is written to ftrace's marker: what follows its own text.
const REST: &str = "text";

/// A mark that was found on this machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) point: Point,
    /// The same place as often as it was compiled; these may differ in where fields are.
    places: Vec<Point>,
    pub(super) moment: Moments,
    /// What the text begins with that is written to ftrace's marker; none for other marks.
    text: Option<String>,
}

/// Where the programs of a kind of mark are: those of points, and of texts.
pub(super) type Programs = (&'static str, &'static str);

impl Mark {
    /// Looks it up, as the process sees files if there is one. `field` is what is to be read there, which may be a member of what an
    /// argument points to.
    pub(super) fn find(host: &Host, text: &str, process: Option<u32>, field: Option<&str>) -> Result<Self, PointError> {
        let (kind, name) = text.split_once('=').unwrap_or(("function", text));
        let mut text = None;
        let functions = || {
            let members = grammar::members("", field.unwrap_or_default(), "");
            points::functions_with_members(host, name, process, &members)
        };
        let (found, moment) = match kind {
            "function" => (functions()?, Moments::Entry),
            "return" => (functions()?, Moments::Return),
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
        let places = found.clone();
        let point = one(found).ok_or_else(|| wrong(format!("{name:?} is {} points; a mark is one", places.len())))?;
        Ok(Self { point, places, moment, text })
    }

    pub(super) fn attach(
        &self,
        object: &mut Object,
        host: &Host,
        pids: &[u32],
        (of_points, of_texts): Programs,
    ) -> Result<(), Unavailable> {
        let programs = if self.text.is_some() { of_texts } else { of_points };
        object.attach_point_to(host, programs, &self.point, self.moment, pids)
    }

    /// Its text with room behind it, and the text's length; a length of 0 for other marks.
    pub(super) fn padded(&self) -> (Vec<u8>, u32) {
        let mut text = self.text.clone().unwrap_or_default().into_bytes();
        let length = text.len() as u32;
        text.resize(MARK_TEXT, 0);
        (text, length)
    }

    /// How a field is read there that distinguishes requests; none for what follows the mark's own text.
    pub(super) fn read(&self, field: &str) -> Result<Option<Read>, PointError> {
        match (&self.text, field) {
            (None, field) => read(field, &self.places, self.moment).map(Some),
            (Some(_), REST) => Ok(None),
            (Some(_), field) => Err(wrong(format!(
                "{field:?} is nothing that a text has; write {REST}, for what follows the mark's own text"
            ))),
        }
    }
}

fn read(field: &str, places: &[Point], moment: Moments) -> Result<Read, PointError> {
    let operand = grammar::operand(field).map_err(wrong)?;
    let read = |point: &Point| Reads::of(point.clone(), "")?.read_any(0, &operand);
    let reads: Vec<Read> = places.iter().map(read).collect::<Result<_, _>>()?;
    let Some((first, others)) = reads.split_first() else { return Err(wrong("there is nothing to look at".into())) };
    let name = &operand.name;
    if others.iter().any(|other| other != first) {
        return Err(wrong(format!("{name} is kept in another way by each of the places that the mark stands for")));
    }
    match (first.source, moment) {
        (Source::Entry | Source::Memory | Source::Constant, Moments::Entry) | (Source::Return, Moments::Return) => {}
        (Source::Entry, _) => {
            return Err(wrong(format!("{name} is known where the function is entered, not where it returns")));
        }
        (Source::Return, _) => {
            let message = format!("{name} is known where the function returns, not where it is entered");
            return Err(wrong(format!("{message}; write to=return")));
        }
        _ => return Err(wrong(format!("{name} does not distinguish requests"))),
    }
    if first.is_code {
        return Err(wrong(format!("{name} as a function of the kernel can be a key of count and hist only")));
    }
    Ok(*first)
}

/// The point, if it is one. A place that developers have marked may have been compiled into several, which differ in how they keep
/// their arguments.
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
    use rdiag_kernel::mechanism::points::{Field, Place, Shape, When};

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
        let told = |text: &str| Mark::find(&host, text, None, None).unwrap_err().message;
        assert!(told("uprobe=x").contains("write function=FILE:NAME"), "{}", told("uprobe=x"));
        assert!(told("function=/no/such/file:main").contains("/no/such/file"));
        assert!(told("marker=").contains("1 to 63 bytes"));
        assert!(told(&format!("marker={}", "x".repeat(64))).contains("1 to 63 bytes"));
    }

    fn function() -> Point {
        let field = |name: &str, when, offset| Field {
            name: name.into(),
            declared: String::new(),
            when,
            place: Place::Context(offset),
            shape: Shape::Number { bytes: 8, is_signed: when == When::Return, is_address: false },
        };
        let target = Target::Kernel("f".into());
        let fields =
            vec![field("arg1", When::Entry, 112), field("arg2", When::Entry, 104), field("return", When::Return, 80)];
        Point { name: "f".into(), declared: String::new(), target, fields, arguments: None }
    }

    #[test]
    fn arguments_are_read_at_an_entry_and_results_at_a_return() {
        let of = |field: &str, moment| read(field, &[function()], moment);
        assert!(of("arg1", Moments::Entry).is_ok());
        assert!(of("return:s32", Moments::Return).is_ok());
        for (field, moment, says) in [
            ("arg1", Moments::Return, "where the function is entered"),
            ("return", Moments::Entry, "write to=return"),
            ("latency", Moments::Entry, "does not distinguish requests"),
            ("pid", Moments::Entry, "does not distinguish requests"),
            ("arg9", Moments::Entry, "no field"),
            ("arg1:ksym", Moments::Entry, "count and hist only"),
        ] {
            let error = of(field, moment).unwrap_err().message;
            assert!(error.contains(says), "{field}: {error}");
        }
        let mut other = function();
        other.fields.iter_mut().for_each(|field| field.place = Place::Context(8));
        let error = read("arg1", &[function(), other], Moments::Entry).unwrap_err();
        assert!(error.message.contains("kept in another way"), "{}", error.message);
    }

    #[test]
    fn of_a_text_only_what_follows_can_be_read() {
        let text =
            Mark { point: function(), places: vec![function()], moment: Moments::Entry, text: Some("request".into()) };
        assert_eq!(text.read("text"), Ok(None));
        assert!(text.read("arg1").unwrap_err().message.contains("write text"));
        assert_eq!((text.padded().0.len(), text.padded().1), (64, 7));
    }
}
