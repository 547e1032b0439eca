//! What `sadf -x` prints, read into what `sadf -j` gives: the names are the same, but for two, and what is a list there are elements of one
//! name here. An sosreport has it, of a long day without its beginning.
//!
//! Only intervals that are asked for are kept, and of them the tables that are judged. A document type is passed over, and no entity is
//! known but the five of XML. sysstat does not escape names: what is no reference stands for itself.

use std::borrow::Cow;
use std::collections::BTreeSet;

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use serde_json::{Map, Value};

use super::super::intervals::MAX_INTERVALS;
use super::document::{HostPart, Sample, Stamp};

/// sysstat goes down to 7.
const DEEPEST: usize = 64;
/// Values of all intervals together. A second of a host with 1000 disks has 15,000.
const MAX_VALUES: usize = 5_000_000;
/// How far is looked for a sign that it is of sysstat: an interval has a line for each interrupt and CPU.
const BEGIN: usize = 4 << 20;

/// What was read.
pub(super) struct Printed {
    pub(super) host: HostPart,
    /// What is missing of it.
    pub(super) notes: Vec<String>,
}

/// Whether it is of sysstat. Of what is cut off at its beginning, the intervals say so.
pub(super) fn is(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let begin = text.get(..BEGIN).unwrap_or(text);
    begin.starts_with(b"<") && (contains(begin, b"<sysstat") || contains(begin, b"<timestamp date=\""))
}

/// The host, with those intervals that are wanted by their time.
pub(super) fn host(text: &str, mut is_wanted: impl FnMut(&Sample) -> bool) -> Result<Printed, String> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    // What is cut off closes elements that it does not open.
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    config.allow_dangling_amp = true;
    let mut parser = Parser::default();
    let broken = loop {
        match reader.read_event() {
            Ok(Event::Start(element)) => parser.begin(&element, &mut is_wanted)?,
            Ok(Event::Empty(element)) => {
                parser.begin(&element, &mut is_wanted)?;
                parser.end(element.name().into_inner());
            }
            Ok(Event::End(element)) => parser.end(element.name().into_inner()),
            Ok(Event::Text(text)) => parser.text(&text)?,
            Ok(Event::Eof) => break None,
            Ok(_) => {}
            Err(error) => break Some(error),
        }
    };
    match broken {
        Some(error) if !parser.has_intervals => Err(format!("it is nothing that `sadf -x FILE -- -A` prints: {error}")),
        broken => Ok(parser.finish(broken.map(|error| (reader.error_position(), error.to_string())))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Cpu,
    Disk,
    Network,
    Memory,
    Pressure,
}

#[derive(Default)]
struct Parser {
    host: HostPart,
    has_host: bool,
    has_intervals: bool,
    is_whole: bool,
    depth: usize,
    values: usize,
    /// The interval that is being read, if it is wanted.
    sample: Option<Sample>,
    table: Option<Table>,
    /// The element whose text is a value.
    key: Option<String>,
}

impl Parser {
    fn begin(&mut self, element: &BytesStart<'_>, is_wanted: &mut impl FnMut(&Sample) -> bool) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("its elements are nested more than {DEEPEST} deep, and those of sysstat are not"));
        }
        let name = element.name();
        match name.into_inner() {
            "host" => {
                self.has_host = true;
                self.host.nodename = text_of(&self.attributes(element, None)?, "nodename");
            }
            "timestamp" => {
                self.has_intervals = true;
                let timestamp = Some(Stamp::of(&self.attributes(element, None)?));
                let sample = Sample { timestamp, ..Sample::default() };
                let is_more = self.host.statistics.len() < MAX_INTERVALS;
                (self.sample, self.table) = (Some(sample).filter(|sample| is_more && is_wanted(sample)), None);
            }
            name @ ("release" | "machine" | "number-of-cpus") if self.sample.is_none() => {
                self.key = Some(name.to_owned());
            }
            name => self.within(name, element)?,
        }
        Ok(())
    }

    /// An element of an interval.
    fn within(&mut self, name: &str, element: &BytesStart<'_>) -> Result<(), String> {
        let Some(mut sample) = self.sample.take() else { return Ok(()) };
        let table = match name {
            "cpu-load" | "cpu-load-all" => Some(Table::Cpu),
            "disk" => Some(Table::Disk),
            "network" => Some(Table::Network),
            "memory" => Some(Table::Memory),
            "psi" => Some(Table::Pressure),
            _ => None,
        };
        match (self.table, name) {
            _ if table.is_some() => self.table = table,
            (_, "process-and-context-switch") => sample.process_and_context_switch = self.attributes(element, None)?,
            (_, "swap-pages") => sample.swap_pages = self.attributes(element, None)?,
            (_, "paging") => sample.paging = self.attributes(element, None)?,
            (_, "queue") => sample.queue = self.attributes(element, None)?,
            (Some(Table::Cpu), "cpu" | "cpu-all") => {
                sample.cpu_load.push(self.attributes(element, Some(("number", "cpu")))?);
            }
            (Some(Table::Disk), "disk-device") => {
                sample.disk.push(self.attributes(element, Some(("dev", "disk-device")))?);
            }
            (Some(Table::Network), "net-dev" | "net-edev") => {
                let row = Value::Object(self.attributes(element, None)?);
                if let Value::Array(rows) = sample.network.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
                    rows.push(row);
                }
            }
            (Some(Table::Network), "net-tcp" | "net-etcp") => {
                sample.network.insert(name.to_owned(), Value::Object(self.attributes(element, None)?));
            }
            (Some(Table::Pressure), "psi-cpu" | "psi-io" | "psi-mem") => {
                sample.psi.insert(name.to_owned(), Value::Object(self.attributes(element, None)?));
            }
            (Some(Table::Memory), _) => self.key = Some(name.to_owned()),
            _ => {}
        }
        self.sample = Some(sample);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        let Some(key) = self.key.take() else { return Ok(()) };
        let text = text.trim();
        match (&mut self.sample, key.as_str()) {
            (Some(sample), _) => {
                self.values += 1;
                sample.memory.insert(key, Value::String(text.to_owned()));
            }
            (None, "release") => self.host.release = text.to_owned(),
            (None, "machine") => self.host.machine = text.to_owned(),
            (None, _) => self.host.cpus = text.parse().unwrap_or(0),
        }
        self.bounded()
    }

    fn bounded(&self) -> Result<(), String> {
        match self.values > MAX_VALUES {
            true => Err(format!("it has more than {MAX_VALUES} values of that time: give a shorter --last")),
            false => Ok(()),
        }
    }

    fn end(&mut self, name: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.key = None;
        match name {
            "timestamp" => self.host.statistics.extend(self.sample.take()),
            "sysstat" => self.is_whole = true,
            "cpu-load" | "cpu-load-all" | "disk" | "network" | "memory" | "psi" => self.table = None,
            _ => {}
        }
    }

    /// What stands in a tag; what is told which one it is goes by the name that it has as JSON.
    fn attributes(
        &mut self,
        element: &BytesStart<'_>,
        renamed: Option<(&str, &str)>,
    ) -> Result<Map<String, Value>, String> {
        let mut map = Map::new();
        let mut all = element.attributes();
        // The last of one name stands, as in JSON.
        all.with_checks(false);
        for attribute in all.filter_map(Result::ok) {
            let key = attribute.key.into_inner();
            let key = renamed.filter(|(from, _)| *from == key).map_or(key, |(_, to)| to);
            let value = unescape(&attribute.value).unwrap_or(Cow::Borrowed(&attribute.value));
            map.insert(key.to_owned(), Value::String(value.into_owned()));
            self.values += 1;
        }
        self.bounded()?;
        Ok(map)
    }

    fn finish(mut self, broken: Option<(u64, String)>) -> Printed {
        let mut notes = Vec::new();
        if !self.has_host {
            self.host.nodename = "unknown".to_owned();
            notes.push("The beginning of the file is missing: of the host, it has the number of CPUs alone".to_owned());
        }
        match broken {
            Some((at, why)) => notes.push(format!("The file cannot be read from byte {at} on: {why}")),
            None if !self.is_whole => notes.push("The end of the file is missing: it was cut off".to_owned()),
            None => {}
        }
        if self.host.cpus == 0 {
            let rows = self.host.statistics.iter().flat_map(Sample::cpus).filter_map(|row| row.get("cpu")?.as_str());
            let single: BTreeSet<&str> = rows.filter(|cpu| *cpu != "all").collect();
            self.host.cpus = u32::try_from(single.len()).unwrap_or(u32::MAX);
        }
        Printed { host: self.host, notes }
    }
}

fn text_of(map: &Map<String, Value>, key: &str) -> String {
    map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Stamp {
    fn of(attributes: &Map<String, Value>) -> Self {
        let of = |key| text_of(attributes, key);
        Self {
            date: of("date"),
            time: of("time"),
            utc: u8::from(of("utc") == "1"),
            tz: of("tz"),
            interval: of("interval").parse().unwrap_or(0.0),
        }
    }
}

/// Whether a text has another one in it.
fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted)
}
