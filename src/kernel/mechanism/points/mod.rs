//! Points at which something can be counted: tracepoints, functions of the kernel, functions of programs and libraries, and the
//! places that their developers have marked; and what can be read there: fields of a record, arguments, the value returned.
//! Names are looked up, nothing is attached.

mod binaries;
mod bounds;
mod btf;
mod error;
mod format;
mod functions;
mod go;
mod markers;
mod members;
mod program;
mod registers;
pub mod returns;
pub mod trap;

use std::collections::{BTreeMap, BTreeSet};

use crate::host::{Host, SourceError};
use crate::mechanism::btf::Types;
use crate::mechanism::perf::select::tracing;
use crate::mechanism::tracefs::select::fits;
use rdiag_model::Reason;

pub use error::PointError;
pub use go::{SECTIONS as GO_SECTIONS, Scheduler};
pub use program::Program;
pub use registers::{CALLER, Caller};

/// As many points as one name may stand for: each has a program of its own, and the kernel takes its time to switch each on and off
/// (0.1 s for a tracepoint on two CPUs with much else to do).
pub const MOST: usize = 200;

/// A point, and what can be read there.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// As it is shown: `kmem:kmalloc`, `vfs_read`, `libc.so.6:malloc`.
    pub name: String,
    /// How it is declared in C, where that is known; else "".
    pub declared: String,
    /// Where it is.
    pub target: Target,
    /// What can be read there, in the order in which it is declared.
    pub fields: Vec<Field>,
    /// How many arguments a function of the kernel has, where its type is known and each has a register of its own.
    pub arguments: Option<u32>,
}

impl Point {
    /// Which argument a function that is just entered finds at this offset of the registers, the first is 1.
    #[must_use]
    pub fn argument(offset: u32) -> Option<u32> {
        registers::argument(offset).map(|at| at + 1)
    }

    /// Where a program that is called at this function with its arguments one after the other, and the result behind them (fentry,
    /// fexit), finds what else lies at an offset of the registers.
    #[must_use]
    pub fn among_arguments(&self, when: When, offset: u32) -> Option<u32> {
        let count = self.arguments?;
        let at = if when == When::Return { Some(count) } else { registers::argument(offset).filter(|at| *at < count) };
        at.map(|at| at * 8)
    }
}

/// Where a point is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A tracepoint of tracefs.
    Tracepoint {
        /// Its group (`kmem`).
        group: String,
        /// Its name (`kmalloc`).
        event: String,
    },
    /// A function of the kernel, by name.
    Kernel(String),
    /// Functions of a program or library that have the same name.
    User {
        /// The file.
        path: Program,
        /// Where they begin: offsets in the file.
        offsets: Vec<u64>,
    },
    /// Places in a program or library that its developers have marked (USDT).
    Marker {
        /// The file.
        path: Program,
        /// Where they are: offsets in the file.
        offsets: Vec<u64>,
        /// Where the program checks whether it is traced: the offset in the file of a counter of 16 bits.
        semaphore: Option<u64>,
    },
}

/// Something that can be read at a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name: `bytes_req`, `arg1`, `return`.
    pub name: String,
    /// Its type in C, where that is known; else "".
    pub declared: String,
    /// When it can be read.
    pub when: When,
    /// Where it is.
    pub place: Place,
    /// What is there.
    pub shape: Shape,
}

/// When something can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// When the event happens, or a function is entered.
    Entry,
    /// When a function returns.
    Return,
}

/// Where a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At this offset of the context that a program in the kernel is given, in bytes.
    Context(u32),
    /// In the memory of the program: so many bytes from where a register points to, which is at that offset of the context.
    Memory(u32, i64),
    /// Nowhere: it always has this value.
    Constant(i64),
    /// In the memory of the kernel: where the pointer at that offset of the context leads.
    Behind(u32, Path),
}

/// Pointers of the kernel that one follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// So many.
    pub hops: usize,
    /// How far behind the place to which each leads the next one lies, or at last what is looked for, in bytes.
    pub offsets: [u32; Path::LONGEST],
}

impl Path {
    /// As many can be followed.
    pub const LONGEST: usize = 4;
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A whole number.
    Number {
        /// 1, 2, 4 or 8.
        bytes: u32,
        /// Whether it may be negative.
        is_signed: bool,
        /// Whether it is the address of something.
        is_address: bool,
    },
    /// Text that ends with a NUL.
    Text(Text),
    /// Several numbers, or text that is not understood.
    Other,
}

/// Where text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// The field is its address in the memory of the program.
    OfProgram,
    /// The field is its address in the memory of the kernel.
    OfKernel,
    /// The field, of four bytes, tells where in the record it is.
    Located,
    /// It stands in the record itself.
    Inline,
    /// The field is its address in the memory of the program, and its length is at this offset of the context.
    Sized(u32),
}

/// Whether a name stands for all that fit.
#[must_use]
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Tracepoints, given as `group:event`, either of which may be a pattern.
pub fn tracepoints(host: &Host, text: &str) -> Result<Vec<Point>, PointError> {
    if !is_pattern(text) {
        return Ok(vec![tracepoint(host, text)?]);
    }
    let names = tracepoint_names(host, text)?;
    bounded(text, "tracepoints", names.len())?;
    names.iter().map(|name| tracepoint(host, name)).collect()
}

/// The names of the tracepoints that a pattern stands for.
pub fn tracepoint_names(host: &Host, pattern: &str) -> Result<Vec<String>, PointError> {
    let place = tracing(host);
    let (group, event) = pattern.split_once(':').unwrap_or((pattern, "*"));
    let mut names = Vec::new();
    for known in format::listed(host, place, pattern)?.into_iter().filter(|known| fits(group, known)) {
        let events = host.subdirectories(&format!("{place}/{known}")).unwrap_or_default();
        names.extend(events.into_iter().filter(|name| fits(event, name)).map(|name| format!("{known}:{name}")));
    }
    if names.is_empty() {
        return Err(PointError::plain(Reason::Absent, format!("no tracepoint fits {pattern:?}")));
    }
    Ok(names)
}

/// The number by which perf_event_open(2) knows a tracepoint.
pub fn tracepoint_id(host: &Host, group: &str, event: &str) -> Result<u64, SourceError> {
    host.read_u64(&format!("{}/{group}/{event}/id", tracing(host)))
}

/// A tracepoint, given as `group:event`.
fn tracepoint(host: &Host, text: &str) -> Result<Point, PointError> {
    let place = tracing(host);
    let (group, event) = text.split_once(':').unwrap_or((text, ""));
    let is_plain = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
    };
    let unknown = || {
        let names = |group: &str| host.list(&format!("{place}/{group}")).unwrap_or_default();
        let groups = if is_plain(group) && !names(group).is_empty() {
            vec![group.to_owned()]
        } else {
            host.list(place).unwrap_or_default()
        };
        let full = |group: &String| names(group).into_iter().map(|name| format!("{group}:{name}")).collect::<Vec<_>>();
        PointError::absent(format!("there is no tracepoint {text:?}"), text, groups.iter().flat_map(full).collect())
    };
    if !is_plain(group) || !is_plain(event) {
        return Err(unknown());
    }
    let described = match host.read(&format!("{place}/{group}/{event}/format")) {
        Ok(text) => text,
        Err(error) => {
            format::listed(host, place, text)?;
            return Err(if error.reason == Reason::Denied { format::denied(text, &error) } else { unknown() });
        }
    };
    let target = Target::Tracepoint { group: group.to_owned(), event: event.to_owned() };
    let fields = format::fields(group, &described);
    Ok(Point { name: text.to_owned(), declared: String::new(), target, fields, arguments: None })
}

/// Functions of the kernel, a program or a library, as [`functions_with_members`] finds them.
pub fn functions(host: &Host, text: &str, process: Option<u32>) -> Result<Vec<Point>, PointError> {
    functions_with_members(host, text, process, &BTreeSet::new())
}

/// Functions, given as `vfs_read` (of the kernel), `libc:malloc` or `/path/to/file:main`; their names may be patterns. Libraries and
/// programs without a path are searched for in the usual places, as `process` sees them if one is given. Functions of Go have their
/// arguments in registers of their own, word by word. Of functions of the kernel these members of what their arguments and results point
/// to can be read too: `sk.sk_family`.
pub fn functions_with_members(
    host: &Host,
    text: &str,
    process: Option<u32>,
    members: &BTreeSet<String>,
) -> Result<Vec<Point>, PointError> {
    let Some((file, name)) = text.rsplit_once(':') else { return kernel_functions(host, text, members) };
    let path = binaries::find(host, file, process)?;
    let found = if is_pattern(name) {
        binaries::matching(&path, name)?
    } else {
        vec![(name.to_owned(), binaries::offsets(&path, name)?)]
    };
    bounded(text, "functions", found.len())?;
    let shown = path.path().rsplit('/').next().unwrap_or(file);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let conventions = go::conventions(&path, &names);
    let point = |((name, offsets), convention): ((String, Vec<u64>), go::Convention)| {
        Ok(Point {
            name: format!("{shown}:{name}"),
            declared: String::new(),
            target: Target::User { path: path.clone(), offsets },
            fields: registers::of_program(convention)?,
            arguments: None,
        })
    };
    found.into_iter().zip(conventions).map(point).collect()
}

/// The names of the functions that a pattern stands for: of the kernel, or of a program or library as `FILE:PATTERN`.
pub fn function_names(host: &Host, pattern: &str) -> Result<Vec<String>, PointError> {
    let Some((file, name)) = pattern.rsplit_once(':') else { return functions::matching(host, pattern) };
    let found = binaries::matching(&binaries::find(host, file, None)?, name)?;
    Ok(found.into_iter().map(|(name, _)| format!("{file}:{name}")).collect())
}

fn kernel_functions(host: &Host, text: &str, wanted: &BTreeSet<String>) -> Result<Vec<Point>, PointError> {
    let names = if is_pattern(text) {
        functions::matching(host, text)?
    } else {
        functions::must_exist(host, text)?;
        vec![text.to_owned()]
    };
    bounded(text, "functions", names.len())?;
    let types = types(host);
    let (mut points, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        let prototype = types.as_ref().and_then(|types| btf::prototype(types, &name));
        let declared = prototype.as_ref().map(|prototype| prototype.declared.clone()).unwrap_or_default();
        let mut fields = registers::fields(prototype.clone())?;
        if let (Some(types), Some(prototype)) = (&types, &prototype) {
            for path in wanted {
                match members::behind(types, &name, prototype, &fields, path) {
                    Ok(field) => fields.push(field),
                    Err(error) => missing.push(error),
                }
            }
        }
        let arguments = prototype.as_ref().and_then(registers::each_in_one);
        points.push(Point { declared, target: Target::Kernel(name.clone()), fields, arguments, name });
    }
    // Of several functions, those that lack it are left out later.
    match (points.len(), missing.into_iter().next()) {
        (1, Some(error)) => Err(error),
        _ => Ok(points),
    }
}

/// Places that developers have marked, given as `FILE:PROVIDER:NAME`; provider and name may be patterns. Where one marker is in
/// several places that keep its arguments differently, there is a point for each way.
pub fn markers(host: &Host, text: &str, process: Option<u32>) -> Result<Vec<Point>, PointError> {
    let mut parts = text.rsplitn(3, ':');
    let (Some(name), Some(provider), Some(file)) = (parts.next(), parts.next(), parts.next()) else {
        let message =
            format!("{text:?} names no marked place; write FILE:PROVIDER:NAME, such as python3:python:gc__start");
        return Err(PointError::plain(Reason::Malformed, message));
    };
    let path = binaries::find(host, file, process)?;
    let points = markers::points(&binaries::read(&path)?, &path, provider, name)?;
    bounded(text, "marked places", points.len())?;
    Ok(points)
}

fn bounded(pattern: &str, what: &str, count: usize) -> Result<(), PointError> {
    if count <= MOST {
        return Ok(());
    }
    let message = format!(
        "{pattern:?} stands for {count} {what}, and at most {MOST} can be looked at at once; `rdiag probe list` shows them"
    );
    Err(PointError::plain(Reason::Malformed, message))
}

/// The names of an enumeration's values, from the types that the kernel describes itself with; empty if it has none of that name.
#[must_use]
pub fn enumerators(host: &Host, name: &str) -> BTreeMap<u32, String> {
    types(host).and_then(|types| btf::enumerators(&types, name)).unwrap_or_default().into_iter().collect()
}

/// What the kernel describes itself with; none if it does not, or in a way that is not known.
fn types(host: &Host) -> Option<Types> {
    Types::parse(host.read_bytes("sys/kernel/btf/vmlinux").ok()?)
}

#[cfg(test)]
mod tests;
