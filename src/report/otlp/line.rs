//! Lines: a request of OTLP each, in which records stand below who measured them and the program that made them.

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::value::{Attribute, attributes, text};
use crate::error::ReportError;
use crate::shown::{self, Json, Shown};

/// Bytes of a line. The collector takes no line of a file that is longer than 1 MiB unless it is told to (`max_log_size`).
const MAX_LINE: usize = 1_000_000;

/// What the records of a kind are called, and what they stand in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) resources: &'static str,
    pub(super) scopes: &'static str,
    pub(super) records: &'static str,
}

/// Who measured.
#[derive(Debug, serde::Serialize)]
pub(super) struct Resource {
    pub(super) attributes: Vec<Attribute>,
}

/// Which program made the records, and of what.
#[derive(Debug, serde::Serialize)]
pub(super) struct Scope {
    name: &'static str,
    version: &'static str,
    attributes: Vec<Attribute>,
}

/// What stands before the records of every line.
#[derive(Debug)]
pub(super) struct Head {
    resource: Resource,
    scope: Scope,
}

impl Head {
    /// The id of the document stands near the beginning of a line: the collector takes files for one that agree in their first 1000 bytes.
    pub(super) fn new(resource: Resource, document: &str) -> Self {
        let attributes = attributes([("rdiag.document", Some(text(document)))]);
        Self { resource, scope: Scope { name: "rdiag", version: env!("CARGO_PKG_VERSION"), attributes } }
    }
}

/// An object with one key.
struct Named<T>(&'static str, T);

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, &self.1)?;
        map.end()
    }
}

#[derive(serde::Serialize)]
struct OfResource<'l, R> {
    resource: &'l Resource,
    #[serde(flatten)]
    scopes: Named<[OfScope<'l, R>; 1]>,
}

#[derive(serde::Serialize)]
struct OfScope<'l, R> {
    scope: &'l Scope,
    #[serde(flatten)]
    records: Named<&'l [R]>,
}

/// Adds the records, in one line if it does not become too long; no line of none.
pub(super) fn push<R: Serialize>(
    lines: &mut Shown<Json>,
    kind: Kind,
    head: &Head,
    records: &[R],
) -> Result<(), ReportError> {
    if records.is_empty() {
        return Ok(());
    }
    let scope = OfScope { scope: &head.scope, records: Named(kind.records, records) };
    let resources = [OfResource { resource: &head.resource, scopes: Named(kind.scopes, [scope]) }];
    let line = shown::json_line(&Named(kind.resources, resources))?;
    if line.len() > MAX_LINE && records.len() > 1 {
        let (one, other) = records.split_at(records.len() / 2);
        push(lines, kind, head, one)?;
        return push(lines, kind, head, other);
    }
    lines.push(&line);
    Ok(())
}
