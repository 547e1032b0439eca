//! Entries of the journal: the kernel's lines with their times, and the boots that they are of.

use std::collections::HashMap;

use super::{COMMAND, NOTHING, TIME};

/// More of them, or more of their text, is not read.
const MAX_ENTRIES: usize = 1_000_000;
const MAX_TEXT: usize = 128 << 20;
const MAX_BOOTS: usize = 10_000;
/// A line of the kernel has no more bytes, nor has an id or a name of a host.
const MAX_LINE: usize = 1024;
const MAX_NAME: usize = 64;
/// journald reads a line at once. One that is so much older, in microseconds, was written while journald did not run.
const LATE: i64 = 60_000_000;
/// syslog facilities: what is not said to be the kernel's is not.
const USER: u8 = 1;
const HIGHEST_FACILITY: u8 = 31;
const NOTICE: u8 = 5;

/// A line of the kernel's buffer.
#[derive(Debug)]
pub(super) struct Entry {
    /// When it was written, in microseconds since 1970.
    pub(super) wall: i64,
    /// The number of its boot.
    pub(super) boot: usize,
    /// Facility and level in one, as /dev/kmsg has them.
    pub(super) priority: u8,
    /// The text as /dev/kmsg has it: one line of ASCII.
    pub(super) text: Box<str>,
}

/// A boot of the host.
#[derive(Debug)]
pub(super) struct Boot {
    /// When it began, in microseconds since 1970.
    pub(super) start: i64,
    /// When its first entry came.
    pub(super) first: i64,
    /// Its kernel and how many CPUs it found, if the lines that say so are there.
    pub(super) kernel: Option<String>,
    pub(super) cpus: Option<u32>,
}

/// The kernel's lines in the journal, in the order of their times.
#[derive(Debug, Default)]
pub struct Journal {
    pub(super) entries: Vec<Entry>,
    pub(super) boots: Vec<Boot>,
    numbers: HashMap<Box<[u8]>, usize>,
    /// The name of the host.
    pub(super) host: Option<String>,
    /// When the first and the last entry were written, of whatever kind.
    pub(super) reach: Option<(i64, i64)>,
    /// Lines that are no entries.
    pub(super) unreadable: usize,
    /// Whether the last entry is incomplete.
    pub(super) is_cut_off: bool,
    is_of_unknown_kind: bool,
    bytes: usize,
}

/// The fields of an entry that are needed; the first one of a name counts.
#[derive(Debug, Default)]
pub(super) struct Fields {
    realtime: Option<i64>,
    monotonic: Option<i64>,
    written: Option<i64>,
    boot: Option<Box<[u8]>>,
    transport: Option<Box<[u8]>>,
    facility: Option<i64>,
    priority: Option<i64>,
    host: Option<Box<[u8]>>,
    message: Option<Box<[u8]>>,
}

/// Which those are.
pub(super) const NEEDED: [&str; 9] = [
    TIME,
    "__MONOTONIC_TIMESTAMP",
    "_SOURCE_MONOTONIC_TIMESTAMP",
    "SYSLOG_FACILITY",
    "PRIORITY",
    "_BOOT_ID",
    "_TRANSPORT",
    "_HOSTNAME",
    "MESSAGE",
];

fn number(slot: &mut Option<i64>, value: &[u8]) {
    let read = || std::str::from_utf8(value).ok()?.trim().parse().ok().filter(|number: &i64| *number >= 0);
    *slot = slot.or_else(read);
}

fn text(slot: &mut Option<Box<[u8]>>, value: &[u8], most: usize) {
    slot.get_or_insert_with(|| Box::from(value.get(..most).unwrap_or(value)));
}

impl Fields {
    /// Takes a field, if it is one of those that are needed.
    pub(super) fn put(&mut self, name: &str, value: &[u8]) {
        match name {
            TIME => number(&mut self.realtime, value),
            "__MONOTONIC_TIMESTAMP" => number(&mut self.monotonic, value),
            "_SOURCE_MONOTONIC_TIMESTAMP" => number(&mut self.written, value),
            "SYSLOG_FACILITY" => number(&mut self.facility, value),
            "PRIORITY" => number(&mut self.priority, value),
            "_BOOT_ID" => text(&mut self.boot, value, MAX_NAME),
            "_TRANSPORT" => text(&mut self.transport, value, MAX_NAME),
            "_HOSTNAME" => text(&mut self.host, value, MAX_NAME),
            "MESSAGE" => text(&mut self.message, value, MAX_LINE),
            _ => {}
        }
    }
}

impl Boot {
    /// Takes from a line what it says of the host.
    fn learn(&mut self, line: &str) {
        if let Some(version) = line.strip_prefix("Linux version ") {
            let version = version.split(' ').next().unwrap_or_default();
            self.kernel.get_or_insert_with(|| version.chars().take(MAX_NAME).collect());
        }
        // smp: Brought up 1 node, 8 CPUs
        let cpus = line.strip_prefix("smp: Brought up ").and_then(|rest| rest.split_once(", "));
        let cpus = cpus.and_then(|(_, rest)| rest.strip_suffix(" CPUs").or(rest.strip_suffix(" CPU"))?.parse().ok());
        self.cpus = self.cpus.or(cpus);
    }
}

impl Journal {
    /// Adds an entry; one without a time is none.
    pub(super) fn add(&mut self, fields: Fields) -> Result<(), String> {
        let Some(realtime) = fields.realtime else {
            self.unreadable += 1;
            return Ok(());
        };
        self.reaches(realtime);
        let Some(transport) = &fields.transport else {
            self.is_of_unknown_kind = true;
            return Ok(());
        };
        if **transport != *b"kernel" {
            return Ok(());
        }
        let text = fields.message.as_deref().map_or_else(String::new, escaped);
        self.bytes += text.len();
        if self.entries.len() >= MAX_ENTRIES || self.bytes > MAX_TEXT {
            return Err(format!(
                "it has more than {MAX_ENTRIES} lines of the kernel: `{COMMAND} --since … --until …` prints less"
            ));
        }
        let delay = fields.monotonic.zip(fields.written).map_or(0, |(read, written)| read.saturating_sub(written));
        let wall = realtime.saturating_sub(if delay > LATE { delay } else { 0 });
        self.reaches(wall);
        let boot = self.boot(&fields, realtime)?;
        let number = |value: Option<i64>, highest: u8| {
            value.and_then(|value| u8::try_from(value).ok()).filter(|value| *value <= highest)
        };
        let facility = number(fields.facility, HIGHEST_FACILITY).unwrap_or(USER);
        let priority = (facility << 3) | number(fields.priority, 7).unwrap_or(NOTICE);
        if let Some(boot) = self.boots.get_mut(boot).filter(|_| facility == 0) {
            boot.learn(&text);
        }
        if let (None, Some(host)) = (&self.host, &fields.host) {
            self.host = Some(String::from_utf8_lossy(host).into_owned());
        }
        self.entries.push(Entry { wall, boot, priority, text: text.into() });
        Ok(())
    }

    fn reaches(&mut self, at: i64) {
        let (first, last) = self.reach.unwrap_or((at, at));
        self.reach = Some((first.min(at), last.max(at)));
    }

    /// The number of an entry's boot.
    fn boot(&mut self, fields: &Fields, realtime: i64) -> Result<usize, String> {
        let start = realtime.saturating_sub(fields.monotonic.unwrap_or(0));
        let id = fields.boot.clone().unwrap_or_default();
        if let Some(number) = self.numbers.get(&id) {
            if let Some(boot) = self.boots.get_mut(*number).filter(|boot| realtime < boot.first) {
                (boot.start, boot.first) = (start, realtime);
            }
            return Ok(*number);
        }
        if self.boots.len() >= MAX_BOOTS {
            return Err(format!("it is of more than {MAX_BOOTS} boots: `{COMMAND} --since …` prints less"));
        }
        self.boots.push(Boot { start, first: realtime, kernel: None, cpus: None });
        self.numbers.insert(id, self.boots.len() - 1);
        Ok(self.boots.len() - 1)
    }

    /// All of it in order, if it has anything of the kernel.
    pub(super) fn readable(mut self) -> Result<Self, String> {
        if !self.entries.is_empty() {
            self.entries.sort_by_key(|entry| entry.wall);
            return Ok(self);
        }
        Err(match self.reach {
            Some(_) if self.is_of_unknown_kind => {
                format!(
                    "its entries do not say whether they are of the kernel (_TRANSPORT): `{COMMAND}` prints all that is needed"
                )
            }
            Some(_) => format!("it is a journal without a line of the kernel: {NOTHING}"),
            None => format!("it is a journal without an entry: {NOTHING}"),
        })
    }
}

/// A text as /dev/kmsg has it: journald has undone the kernel's escapes, without which a line would end within a name.
fn escaped(text: &[u8]) -> String {
    let mut line = String::with_capacity(text.len());
    for byte in text {
        match byte {
            b'\\' | 0..b' ' | 127.. => line.push_str(&format!("\\x{byte:02x}")),
            byte => line.push(char::from(*byte)),
        }
    }
    line
}
