//! What memory JSON takes once it is a recording or a report, estimated from its text before any is taken.
//!
//! Numbers of parts alone bound it badly: an entry of `collectors` takes a hundred times what one of `values` does, and four bytes of text
//! may be either. So each part is weighed by the name of the list or map in which it stands.

use super::StoreError;
use rdiag_model::call_trace::Call;
use rdiag_model::probe::{Attachment, Column, Frame, HistogramRow, Output, Stack};
use rdiag_model::report::{Cell, Gap, MatrixRow, MetricNote, Plot, StepOutcome, TopRow};
use rdiag_model::schedule::{CpuSchedule, RunSlice, ScheduledTask};
use rdiag_model::setup::Container;
use rdiag_model::{
    CollectorRecord, Evidence, Finding, Ledger, LogLine, ProbeResult, Process, ProcessPoint, Series, Unavailable,
    Window,
};

/// What a minute of 20,000 processes takes of which each one runs all the time, or ten hours of 1000 disks.
const MOST: usize = 256 << 20;
/// Bytes of a text, of which its list or map holds the place, and the allocator what it says.
const TEXT: usize = size_of::<String>();
const ALLOCATED: usize = 32;
/// Entries of a node of a map, of which one is there for the first, and half are empty in those of a large map.
const NODE: usize = 11;
/// Places that a list has at least.
const LEAST: usize = 4;
/// Fields of a mapping that is none of these maps. More are none of its own, and may be collected before they are left out.
const FIELDS: usize = 40;
const FIELD: usize = 96;
/// A mapping in a list that is not named here, and a number in any.
const OTHER: usize = 320;
const NUMBER: usize = 16;
/// Deeper JSON is no recording: its reader refuses it.
const DEEPEST: usize = 200;

/// Maps, and the size of what they hold; those of labels twice with their keys, as judging has a copy.
const MAPS: [(&str, usize); 16] = [
    ("by_status", 8),
    ("collectors", size_of::<CollectorRecord>()),
    ("conditions", TEXT),
    ("containers", size_of::<Container>()),
    ("errors", 8),
    ("facts", TEXT),
    ("gaps", size_of::<Unavailable>()),
    ("group", TEXT),
    ("labels", 3 * TEXT),
    ("ledgers", size_of::<Result<Ledger, Unavailable>>()),
    ("lost", 8),
    ("metrics", size_of::<MetricNote>()),
    ("others_sum", 8),
    ("params", TEXT),
    ("probes", size_of::<Result<ProbeResult, Unavailable>>()),
    ("roles", TEXT),
];

/// Lists, and the size of what they hold, with the copies that judging makes; of columns, also those of their two texts.
const LISTS: [(&str, usize); 24] = [
    ("attached", size_of::<Attachment>()),
    ("calls", size_of::<Call>()),
    ("cells", size_of::<Cell>()),
    ("columns", 4 * size_of::<Column>()),
    ("cpus", size_of::<CpuSchedule>()),
    ("evidence", size_of::<Evidence>()),
    ("findings", size_of::<Finding>()),
    ("frames", size_of::<Frame>()),
    ("log", 3 * size_of::<LogLine>()),
    ("matrix", size_of::<MatrixRow>()),
    ("not_applicable", size_of::<Gap>()),
    ("outputs", size_of::<Output>()),
    ("plots", size_of::<Plot>()),
    ("points", size_of::<ProcessPoint>()),
    ("probes", size_of::<ProbeResult>()),
    ("processes", size_of::<Process>()),
    (
        "rows",
        if size_of::<HistogramRow>() > size_of::<TopRow>() { size_of::<HistogramRow>() } else { size_of::<TopRow>() },
    ),
    ("series", size_of::<Series>()),
    ("slices", size_of::<RunSlice>()),
    ("stacks", size_of::<Stack>()),
    ("steps", size_of::<StepOutcome>()),
    ("tasks", size_of::<ScheduledTask>()),
    ("unavailable", size_of::<Gap>()),
    ("windows", size_of::<Window>()),
];

/// Refuses JSON that would take more than a recording of a very large host.
pub(super) fn bounded(json: &[u8]) -> Result<(), StoreError> {
    if weight(json) > MOST { Err(StoreError::TooHeavy { mib: MOST >> 20 }) } else { Ok(()) }
}

#[derive(Clone, Copy)]
enum Kind {
    List { item: usize },
    Map { entry: usize },
    Fields,
}

/// A list or mapping that has begun.
#[derive(Clone, Copy)]
struct Open<'j> {
    name: &'j [u8],
    kind: Kind,
    parts: usize,
}

impl<'j> Open<'j> {
    /// What begins with this sign in another, behind a key if that one has keys.
    fn within(parent: Option<&Self>, key: &'j [u8], sign: u8) -> Self {
        // What stands in a list or a map is called like it.
        let (name, is_field) = match parent {
            Some(Open { kind: Kind::List { .. } | Kind::Map { .. }, name, .. }) => (*name, false),
            _ => (key, true),
        };
        let of_maps =
            matches!(parent, Some(Open { kind: Kind::Map { .. }, .. })) && matches!(name, b"labels" | b"roles");
        let kind = match size_in(&MAPS, name) {
            _ if sign == b'[' => Kind::List { item: size_in(&LISTS, name).unwrap_or(OTHER) },
            Some(held) if is_field || of_maps => Kind::Map { entry: TEXT + held },
            _ => Kind::Fields,
        };
        Self { name, kind, parts: 0 }
    }

    /// What one more part takes, of which this is the first sign.
    fn part(&mut self, sign: u8) -> usize {
        self.parts += 1;
        match self.kind {
            Kind::List { item } => {
                let size = match sign {
                    b'{' => item,
                    b'"' | b'[' => TEXT,
                    _ => NUMBER,
                };
                size * if self.parts == 1 { LEAST } else { usize::from(self.parts > LEAST) }
            }
            Kind::Map { entry } if self.parts == 1 => NODE * entry,
            Kind::Map { entry } if self.parts > NODE => 2 * entry,
            Kind::Fields if self.parts > FIELDS => FIELD,
            _ => 0,
        }
    }
}

fn size_in(all: &[(&str, usize)], name: &[u8]) -> Option<usize> {
    all.iter().find(|(one, _)| one.as_bytes() == name).map(|(_, size)| *size)
}

fn weight(json: &[u8]) -> usize {
    let (mut sum, mut open) = (0_usize, Vec::<Open<'_>>::new());
    let (mut key, mut text): (&[u8], &[u8]) = (b"", b"");
    // Where a text began, and whether a part may begin, or a value that has a key.
    let (mut began, mut escaped, mut is_due, mut has_key) = (None, false, true, false);
    for (at, byte) in json.iter().enumerate() {
        if let Some(start) = began {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    text = json.get(start..at).unwrap_or_default();
                    began = None;
                    let is_field = !has_key && matches!(open.last(), Some(Open { kind: Kind::Fields, .. }));
                    sum = sum.saturating_add(if is_field || text.is_empty() { 0 } else { ALLOCATED + text.len() });
                }
                _ => {}
            }
            continue;
        }
        if is_due && !byte.is_ascii_whitespace() && !matches!(byte, b']' | b'}') {
            sum = sum.saturating_add(open.last_mut().map_or(0, |open| open.part(*byte)));
            is_due = false;
        }
        match byte {
            b'"' => began = Some(at + 1),
            b':' => (key, has_key) = (text, true),
            b',' => (is_due, has_key) = (true, false),
            b'{' | b'[' if open.len() >= DEEPEST => return sum,
            b'{' | b'[' => {
                let inner = Open::within(open.last(), key, *byte);
                open.push(inner);
                (is_due, has_key) = (true, false);
            }
            b'}' | b']' => {
                open.pop();
                (is_due, has_key) = (false, false);
            }
            _ => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> usize {
        weight(json.as_bytes())
    }

    #[test]
    fn each_part_weighs_what_it_takes_where_it_stands() {
        assert_eq!(of("1"), 0);
        assert_eq!(of("{\"times\": [0, 1, 2, 3, 4, 5]}"), 6 * NUMBER);
        assert_eq!(of("{\"times\": [ ], \"a\": \"\", \"b\": null}"), 0);
        assert_eq!(of("{\"notes\": [\"a\\\"[\", \"\"]}"), LEAST * TEXT + ALLOCATED + 4);
        let record = TEXT + size_of::<CollectorRecord>();
        assert_eq!(of("{\"collectors\": {\"a\": {\"times\": []}, \"b\": {}}}"), NODE * record + 2 * (ALLOCATED + 1));
        let named = 2 * (ALLOCATED + 1) + 2 * NODE * 4 * TEXT;
        assert_eq!(of("{\"labels\": {\"a\": {\"b\": \"\"}}, \"c\": \"\"}"), named);
        assert_eq!(of("{\"points\": [{\"at\": 1}, {\"at\": 2}]}"), LEAST * size_of::<ProcessPoint>());
        assert_eq!(of("{\"series\": [{\"name\": \"x\"}]}"), LEAST * size_of::<Series>() + ALLOCATED + 1);
    }

    #[test]
    fn a_large_map_weighs_more_than_one_of_its_nodes_and_fields_that_are_none_are_weighed() {
        let entries = |count: usize| (0..count).map(|at| format!("\"{:02}\":0", at)).collect::<Vec<_>>().join(",");
        let lost = |count: usize| of(&format!("{{\"lost\":{{{}}}}}", entries(count)));
        assert_eq!(lost(NODE), NODE * (TEXT + 8 + ALLOCATED + 2));
        assert_eq!(lost(NODE + 1) - lost(NODE), 2 * (TEXT + 8) + ALLOCATED + 2);
        assert_eq!(of(&format!("{{{}}}", entries(FIELDS))), 0);
        assert_eq!(of(&format!("{{{}}}", entries(FIELDS + 2))), 2 * FIELD);
    }

    #[test]
    fn what_is_too_deep_or_no_json_is_left_to_its_reader() {
        assert!(of(&"[".repeat(1_000_000)) <= LEAST * TEXT * DEEPEST);
        for json in ["", "}", "]]", ",", "{\"a", "{\"a\\", "\u{e9}{[", "{:{:["] {
            assert!(of(json) < 10_000, "{json}");
        }
    }
}
