//! The points that one name stands for, and what is to be done at each.

use super::point_reads::Reads;
use super::{count, grammar, log};
use crate::def::{ParamKind, Params, ProbeDef};
use crate::params::MARKER;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::points::{self, Point, PointError};
use rdiag_model::Reason;

/// What is wrong with the point, the fields or the comparisons that the parameters of a probe of any point name, on this machine.
/// Other probes have nothing that could be wrong.
pub fn check_point(host: &Host, def: &ProbeDef, params: &Params, pids: &[u32]) -> Result<(), PointError> {
    if !def.params.iter().any(|param| param.kind == ParamKind::Function) {
        return Ok(());
    }
    let points = named(host, params, pids)?;
    if def.id == log::PROBE.id { log::check(points, params) } else { count::check(points, def.id, params) }
}

/// What is to be done at each of the points that one name stands for.
#[derive(Debug)]
pub(super) struct PerPoint<P> {
    /// At least one.
    pub(super) each: Vec<P>,
    /// Why there are not more, for people.
    pub(super) notes: Vec<String>,
}

/// The points that the parameters name: several where the name is a pattern, or where one marked place was compiled in several ways.
pub(super) fn named(host: &Host, params: &Params, pids: &[u32]) -> Result<Vec<Point>, PointError> {
    let process = if let [pid] = pids { Some(*pid) } else { None };
    match (params.text("tracepoint"), params.text(MARKER), params.text("function")) {
        (Some(tracepoint), ..) => points::tracepoints(host, tracepoint),
        (_, Some(marker), _) => points::markers(host, marker, process),
        (.., function) => {
            let text = |name| params.text(name).unwrap_or_default();
            let members = grammar::members(text("value"), text("key"), text("filter"));
            points::functions_with_members(host, function.unwrap_or_default(), process, &members)
        }
    }
}

/// Makes what is to be done at each point. Of several, those that have not what is asked for are left out; that all lack it is an error.
pub(super) fn per_point<P>(
    points: Vec<Point>,
    params: &Params,
    make: impl Fn(Reads) -> Result<P, PointError>,
) -> Result<PerPoint<P>, PointError> {
    let (mut each, mut left_out) = (Vec::new(), Vec::new());
    let count = points.len();
    for point in points {
        match Reads::of(point, params.text("filter").unwrap_or_default()).and_then(&make) {
            Ok(made) => each.push(made),
            Err(error) => left_out.push(error),
        }
    }
    let others = left_out.len();
    match left_out.into_iter().next() {
        Some(error) if each.is_empty() => Err(error),
        None if each.is_empty() => Err(wrong("there is nothing to look at".into())),
        None => Ok(PerPoint { each, notes: Vec::new() }),
        Some(error) => {
            let note = format!("{others} of {count} points are left out; {}", error.message);
            Ok(PerPoint { each, notes: vec![note] })
        }
    }
}

/// A message about what was written.
pub(super) fn wrong(message: String) -> PointError {
    PointError { message, near: None, reason: Reason::Malformed }
}
