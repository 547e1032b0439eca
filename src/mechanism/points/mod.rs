//! Points at which something can be counted: tracepoints, functions of the kernel, and functions of programs and libraries;
//! and what can be read there: fields of a record, arguments, the value returned. Names are looked up, nothing is attached.

mod binaries;
mod btf;
mod format;
mod functions;
mod registers;

use crate::host::Host;
use crate::mechanism::perf::select::tracing;
use crate::model::{Reason, Unavailable};

pub use registers::{CALLER, Caller};

/// A point, and what can be read there.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// As it is shown: `kmem:kmalloc`, `vfs_read`, `libc.so.6:malloc`.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// What can be read there, in the order in which it is declared.
    pub fields: Vec<Field>,
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
        /// The file, as rdiag opens it.
        path: String,
        /// Where they begin: offsets in the file.
        offsets: Vec<u64>,
    },
}

/// Something that can be read at a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name: `bytes_req`, `arg1`, `return`.
    pub name: String,
    /// When it can be read.
    pub when: When,
    /// Where in the context that the program is given, in bytes.
    pub offset: u32,
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
}

/// Why there is no such point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointError {
    /// A sentence.
    pub message: String,
    /// What was written, and what could have been meant.
    pub near: Option<(String, Vec<String>)>,
    /// The kind of reason.
    pub reason: Reason,
}

impl PointError {
    fn absent(message: String, written: &str, known: Vec<String>) -> Self {
        Self { message, near: Some((written.to_owned(), known)), reason: Reason::Absent }
    }

    fn plain(reason: Reason, message: String) -> Self {
        Self { message, near: None, reason }
    }

    /// As the reason why nothing was measured.
    #[must_use]
    pub fn gap(self) -> Unavailable {
        let gap = Unavailable::new(self.reason, self.message);
        if self.reason == Reason::Denied { gap.with_remedy("run rdiag as root") } else { gap }
    }
}

/// A tracepoint, given as `group:event`.
pub fn tracepoint(host: &Host, text: &str) -> Result<Point, PointError> {
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
        Err(error) if error.reason == Reason::Denied => {
            return Err(PointError::plain(
                Reason::Denied,
                format!("the tracepoint {text} cannot be looked up: {error}"),
            ));
        }
        Err(_) if !host.exists(place) => {
            let message =
                format!("the tracepoint {text} cannot be looked up: tracefs is not mounted at /sys/kernel/tracing");
            return Err(PointError::plain(Reason::Absent, message));
        }
        Err(_) => return Err(unknown()),
    };
    let target = Target::Tracepoint { group: group.to_owned(), event: event.to_owned() };
    Ok(Point { name: text.to_owned(), target, fields: format::fields(group, &described) })
}

/// A function, given as `vfs_read` (of the kernel), `libc:malloc` or `/path/to/file:main`. Libraries and programs without a path
/// are searched for in the usual places, as `process` sees them if one is given.
pub fn function(host: &Host, text: &str, process: Option<u32>) -> Result<Point, PointError> {
    let fields = |prototype| {
        registers::fields(prototype).ok_or_else(|| {
            let message = "rdiag does not know where functions have their arguments on this architecture".to_owned();
            PointError::plain(Reason::NotApplicable, message)
        })
    };
    let Some((file, name)) = text.rsplit_once(':') else {
        functions::must_exist(host, text)?;
        let types = host.read_bytes("sys/kernel/btf/vmlinux").unwrap_or_default();
        let fields = fields(btf::prototype(&types, text))?;
        return Ok(Point { name: text.to_owned(), target: Target::Kernel(text.to_owned()), fields });
    };
    let path = binaries::find(host, file, process)?;
    let offsets = binaries::offsets(host, &path, name)?;
    let shown = path.rsplit('/').next().unwrap_or(file);
    Ok(Point { name: format!("{shown}:{name}"), target: Target::User { path, offsets }, fields: fields(None)? })
}

#[cfg(test)]
mod tests;
