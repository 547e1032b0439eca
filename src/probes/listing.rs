//! What there is to look at under a name: kernel functions, tracepoints, functions and marked places of programs, with what can be
//! read there, and whether this kernel allows it.

use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::Kernel;
use rdiag_kernel::mechanism::perf::dynamic::{self, Spot};
use rdiag_kernel::mechanism::points::{self, Field, Point, PointError, Shape, Target, When, is_pattern};
use rdiag_model::{Reason, Unavailable};

/// More are listed by their names alone: trying one changes code of the kernel for a moment.
const FEW: usize = 8;
/// Names that are given at most.
const MOST: usize = 2000;

/// What fits a name.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Listing {
    /// Sorted by kind and name.
    pub points: Vec<Listed>,
    /// As many more were found.
    pub others: usize,
}

/// A point that fits.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Listed {
    /// As it is given to probes.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// More about it, where few fit.
    pub details: Option<Details>,
}

/// What a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A function of the kernel.
    KernelFunction,
    /// A tracepoint of the kernel.
    Tracepoint,
    /// A function of a program or library.
    UserFunction,
    /// A place that the developers of a program or library have marked.
    Marker,
}

impl Kind {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::KernelFunction => "function of the kernel",
            Self::Tracepoint => "tracepoint of the kernel",
            Self::UserFunction => "function of a program or library",
            Self::Marker => "place that developers have marked (USDT)",
        }
    }

    /// The parameter of `count`, `hist` and `log` that takes it.
    #[must_use]
    pub fn param(self) -> &'static str {
        match self {
            Self::KernelFunction | Self::UserFunction => "function",
            Self::Tracepoint => "tracepoint",
            Self::Marker => super::params::MARKER,
        }
    }
}

/// What can be read at a point, and by which way.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Details {
    /// Its declaration in C, where the kernel tells it; else "".
    pub declared: String,
    /// What can be read, in the order in which it is declared.
    pub fields: Vec<Readable>,
    /// The way by which it is reached.
    pub back_end: &'static str,
    /// Why it cannot be probed here, found by trying; none if it can.
    pub unavailable: Option<Unavailable>,
}

/// Something that can be read at a point.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Readable {
    /// Its names, any of which will do.
    pub names: Vec<String>,
    /// Its type; "" if it is not known.
    pub declared: String,
    /// Whether it is known when the function returns, and not before.
    pub at_return: bool,
    /// What it can be used as.
    pub usable: &'static str,
}

/// Everything that fits `tcp_sendmsg`, `vfs_*`, `kmem:kmalloc`, `libc:mem*` or `python3:python:*`.
pub fn list(host: &Host, text: &str) -> Result<Listing, PointError> {
    let (mut named, points) = match text.matches(':').count() {
        0 => (of_kernel(host, text)?, Vec::new()),
        1 => (of_group_or_file(host, text)?, Vec::new()),
        _ => (Vec::new(), points::markers(host, text, None)?),
    };
    let others = named.len().saturating_sub(MOST);
    named.truncate(MOST);
    let with_details = named.len() <= FEW;
    let mut listed = Vec::new();
    for (kind, name) in named {
        let details = if with_details { Some(details(host, point(host, kind, &name)?)) } else { None };
        listed.push(Listed { name, kind, details });
    }
    // With the file as it was given, so that the name can be typed.
    let file = text.rsplitn(3, ':').nth(2).unwrap_or_default();
    for point in points {
        let rest = point.name.split_once(':').map_or("", |(_, rest)| rest);
        let name = format!("{file}:{rest}");
        listed.push(Listed { name, kind: Kind::Marker, details: Some(details(host, point)) });
    }
    Ok(Listing { points: listed, others })
}

fn of_kind(kind: Kind, names: Vec<String>) -> Vec<(Kind, String)> {
    names.into_iter().map(|name| (kind, name)).collect()
}

/// Functions and tracepoints of the kernel. A name that is neither is reported as a function, unless tracepoints may not be looked at.
fn of_kernel(host: &Host, text: &str) -> Result<Vec<(Kind, String)>, PointError> {
    let events = points::tracepoint_names(host, &format!("*:{text}"));
    match (functions(host, text), events) {
        (Ok(names), events) => {
            let events = of_kind(Kind::Tracepoint, events.unwrap_or_default());
            Ok(of_kind(Kind::KernelFunction, names).into_iter().chain(events).collect())
        }
        (Err(_), Ok(events)) => Ok(of_kind(Kind::Tracepoint, events)),
        (Err(error), Err(denied)) if denied.reason == Reason::Denied && error.near.is_none() => Err(denied),
        (Err(error), _) => Err(error),
    }
}

/// `group:event` where there is such a group, else `file:function`.
fn of_group_or_file(host: &Host, text: &str) -> Result<Vec<(Kind, String)>, PointError> {
    let group = text.split(':').next().unwrap_or_default();
    let refused = match points::tracepoint_names(host, &format!("{group}:*")) {
        Ok(_) => return Ok(of_kind(Kind::Tracepoint, tracepoints(host, text)?)),
        Err(error) => error,
    };
    functions(host, text).map(|names| of_kind(Kind::UserFunction, names)).map_err(|error| {
        let hides_it = refused.reason == Reason::Denied && error.reason == Reason::Absent && !group.contains('/');
        if hides_it { refused } else { error }
    })
}

fn tracepoints(host: &Host, text: &str) -> Result<Vec<String>, PointError> {
    if is_pattern(text) { points::tracepoint_names(host, text) } else { Ok(vec![text.to_owned()]) }
}

fn functions(host: &Host, text: &str) -> Result<Vec<String>, PointError> {
    if is_pattern(text) {
        return points::function_names(host, text);
    }
    points::functions(host, text, None).map(|_| vec![text.to_owned()])
}

fn point(host: &Host, kind: Kind, name: &str) -> Result<Point, PointError> {
    let found =
        if kind == Kind::Tracepoint { points::tracepoints(host, name) } else { points::functions(host, name, None) };
    let none = || PointError { message: format!("there is no {name:?}"), near: None, reason: Reason::Absent };
    found?.into_iter().next().ok_or_else(none)
}

fn details(host: &Host, point: Point) -> Details {
    let (back_end, tried) = attempt(host, &point.target);
    let is_kernel = matches!(point.target, Target::Kernel(_));
    // Without programs in the kernel nothing is read there, whatever the kernel can stop at.
    let unavailable = tried.and_then(|()| Kernel::shared(host).map(drop)).err();
    Details { fields: readable(&point.fields, is_kernel), declared: point.declared, back_end, unavailable }
}

/// A field with several names is one. Pointers of the kernel's own functions can be followed, since their types are known.
fn readable(fields: &[Field], is_kernel: bool) -> Vec<Readable> {
    let mut found: Vec<(&Field, Readable)> = Vec::new();
    for field in fields {
        match found.last_mut().filter(|(last, _)| last.place == field.place && last.shape == field.shape) {
            Some((_, known)) if field.when == When::Entry && !known.at_return => known.names.push(field.name.clone()),
            _ => found.push((
                field,
                Readable {
                    names: vec![field.name.clone()],
                    declared: field.declared.clone(),
                    at_return: field.when == When::Return,
                    usable: match field.shape {
                        Shape::Number { is_address: true, .. }
                            if is_kernel && field.declared.starts_with("struct ") =>
                        {
                            "address; its members too: NAME.member"
                        }
                        Shape::Number { is_address: true, .. } => "address",
                        Shape::Number { .. } => "number",
                        Shape::Text(_) => "text, for log and as a key",
                        Shape::Other => "cannot be read",
                    },
                },
            )),
        }
    }
    found.into_iter().map(|(_, readable)| readable).collect()
}

/// Opens the event as a probe would, and closes it again: of programs for rdiag's own process, so that no other is interrupted.
fn attempt(host: &Host, target: &Target) -> (&'static str, Result<(), Unavailable>) {
    let own = Some(host.facts().pid);
    let open = |spot, whom| dynamic::open(host, spot, whom).map(drop);
    let first = |offsets: &[u64]| offsets.first().copied().unwrap_or_default();
    let (back_end, opened) = match target {
        Target::Tracepoint { group, event } => {
            let opened = points::tracepoint_id(host, group, event)
                .map_err(std::io::Error::other)
                .and_then(|id| open(Spot::Tracepoint(id), own));
            ("tracepoint", opened)
        }
        Target::Kernel(name) => ("kprobe", open(Spot::Kernel(name), None)),
        Target::User { path, offsets } => {
            ("uprobe", open(Spot::User { path, offset: first(offsets), semaphore: None }, own))
        }
        Target::Marker { path, offsets, semaphore } => {
            ("uprobe", open(Spot::User { path, offset: first(offsets), semaphore: *semaphore }, own))
        }
    };
    let gap = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Unavailable::new(Reason::Denied, "this user may not look at it").with_remedy("run rdiag as root")
        }
        std::io::ErrorKind::NotFound if error.raw_os_error().is_none() => {
            Unavailable::new(Reason::Absent, error.to_string())
        }
        _ => Unavailable::new(Reason::NotApplicable, format!("the kernel refuses to stop there: {error}")),
    };
    (back_end, opened.map_err(gap))
}
