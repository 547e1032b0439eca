//! What `below dump -O json` prints, read as a stream: a list for each table, one behind the other. A list has for each sample a row, or a
//! list of rows. Of a row those columns are kept that are read, whatever else stands beside them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::figures::LARGEST;
use super::super::texts::Texts;
use super::columns::{Kind, Table, column, of};

/// Values that are read: about 300 MB.
const MAX_VALUES: usize = 8_000_000;
/// Characters of a value that is not understood.
const SHOWN: usize = 40;
/// Of no CPU alone.
const HOST: u32 = u32::MAX;
/// What below prints for a figure that it does not have.
const NONE: &str = "?";
/// A column that no other table has says which table a row is of, whether it has a figure or not.
const TOLD_BY: [(&str, Table); 6] = [
    ("children", Table::Group),
    ("Pid", Table::Process),
    ("RX Bytes", Table::Interface),
    ("Read Completed", Table::Disk),
    ("TcpRetransSegs", Table::Transport),
    ("Context Switches", Table::System),
];

#[derive(Debug, Clone, Copy)]
enum Value {
    Number(f64),
    Text(u32),
}

#[derive(Debug)]
struct Cell {
    column: u8,
    cpu: u32,
    value: Value,
}

/// What is known of a host, process or device at a time.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// A cell of each title at most: each of them is looked for among all.
    cells: Vec<Cell>,
    /// Of single CPUs.
    cores: Vec<Cell>,
}

impl Row {
    /// Adds a cell. Of a title that is there twice the first one stands.
    fn put(&mut self, cell: Cell) {
        if cell.cpu != HOST {
            self.cores.push(cell);
        } else if !self.cells.iter().any(|known| known.column == cell.column) {
            self.cells.push(cell);
        }
    }

    fn value(&self, title: &str) -> Option<Value> {
        let column = column(title)?;
        self.cells.iter().find(|cell| cell.column == column).map(|cell| cell.value)
    }

    pub(super) fn number(&self, title: &str) -> Option<f64> {
        match self.value(title)? {
            Value::Number(number) => Some(number),
            Value::Text(_) => None,
        }
    }

    /// A number that is whole and not below zero.
    pub(super) fn whole(&self, title: &str) -> Option<u64> {
        self.number(title).map(|number| number as u64)
    }

    pub(super) fn text<'t>(&self, title: &str, texts: &'t Texts) -> Option<&'t str> {
        match self.value(title)? {
            Value::Text(text) => Some(texts.get(text)),
            Value::Number(_) => None,
        }
    }

    /// The figures of a table: what each becomes, the CPU that it is of alone, the figure.
    pub(super) fn figures(&self, table: Table) -> impl Iterator<Item = (&'static str, Kind, Option<u32>, f64)> {
        self.cells.iter().chain(&self.cores).filter_map(move |cell| {
            let (_, title, kind) = of(cell.column).filter(|(whose, ..)| *whose == table)?;
            let Value::Number(number) = cell.value else { return None };
            Some((*title, *kind, Some(cell.cpu).filter(|cpu| *cpu != HOST), number))
        })
    }

    /// How many CPUs have figures of their own.
    pub(super) fn cpus(&self) -> usize {
        let mut cpus: Vec<u32> = self.cores.iter().map(|cell| cell.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.len()
    }
}

/// All tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    rows: BTreeMap<(Table, i64), Vec<Row>>,
    pub(super) texts: Texts,
    /// A figure with a unit: title and value.
    pub(super) with_unit: Option<(&'static str, String)>,
    /// Whether rows have no time.
    pub(super) is_timeless: bool,
    /// Whether there are tables that are not read.
    pub(super) has_others: bool,
    values: usize,
}

impl Tables {
    /// Reads them all.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut tables = Self::default();
        let mut stream = serde_json::Deserializer::from_slice(bytes);
        let mut read = 0_usize;
        // At the end of all that was printed there is nothing but space.
        while stream.end().is_err() {
            read += 1;
            Elements(&mut tables)
                .deserialize(&mut stream)
                .map_err(|error| format!("table {read} of it is nothing that `below dump -O json` prints: {error}"))?;
        }
        Ok(tables)
    }

    /// Whether there were more values than are read.
    pub(super) fn is_crowded(&self) -> bool {
        self.values > MAX_VALUES
    }

    /// The rows of a table at a time, in seconds since 1970.
    pub(super) fn rows(&self, table: Table, at: i64) -> &[Row] {
        self.rows.get(&(table, at)).map_or(&[], Vec::as_slice)
    }

    /// When a table was printed.
    pub(super) fn times(&self, table: Table) -> impl Iterator<Item = i64> {
        self.rows.range((table, i64::MIN)..=(table, i64::MAX)).map(|((_, at), _)| *at)
    }

    fn add(&mut self, row: Row, table: Option<Table>) {
        let Some(table) = table else {
            self.has_others |= !row.cells.is_empty() || !row.cores.is_empty();
            return;
        };
        match row.number("Timestamp") {
            Some(at) if at > 0.0 => self.rows.entry((table, at as i64)).or_default().push(row),
            _ => self.is_timeless = true,
        }
    }

    fn cell(&mut self, title: &str, printed: &str) -> Option<Cell> {
        let alone = title.strip_prefix("CPU ").and_then(|rest| rest.split_once(' '));
        let alone = alone.and_then(|(cpu, title)| Some((cpu.parse().ok()?, title)));
        let (cpu, title) = alone.unwrap_or((HOST, title));
        let column = column(title)?;
        let (_, title, kind) = of(column)?;
        self.values += 1;
        let value = match kind {
            _ if printed == NONE || self.is_crowded() => return None,
            Kind::Text => Value::Text(self.texts.number(printed)),
            _ => match printed.parse::<f64>() {
                Ok(number) => Value::Number(Some(number).filter(|number| (0.0..=LARGEST).contains(number))?),
                Err(_) => {
                    self.with_unit.get_or_insert_with(|| (*title, printed.chars().take(SHOWN).collect()));
                    return None;
                }
            },
        };
        (cpu == HOST || matches!(kind, Kind::Share(..))).then_some(Cell { column, cpu, value })
    }
}

/// A list of a table: a row for each sample, or a list of rows.
struct Elements<'t>(&'t mut Tables);

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list of samples")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut samples: A) -> Result<(), A::Error> {
        while samples.next_element_seed(Element { tables: &mut *self.0, may_be_list: true })?.is_some() {}
        Ok(())
    }
}

struct Element<'t> {
    tables: &'t mut Tables,
    may_be_list: bool,
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(if self.may_be_list { "a row or a list of rows" } else { "a row" })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        if !self.may_be_list {
            return Err(serde::de::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        while rows.next_element_seed(Element { tables: &mut *self.tables, may_be_list: false })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut row, mut table) = (Row::default(), None);
        while let Some(title) = map.next_key::<Cow<'de, str>>()? {
            let Printed(printed) = map.next_value()?;
            table = table.or(TOLD_BY.iter().find(|(told_by, _)| *told_by == title).map(|(_, table)| *table));
            if let Some(cell) = printed.and_then(|printed| self.tables.cell(&title, &printed)) {
                row.put(cell);
            }
        }
        self.tables.add(row, table);
        Ok(())
    }
}

/// A value, which is a text in all that below prints; a number is as good. Of anything else nothing is kept.
struct Printed<'de>(Option<Cow<'de, str>>);

impl<'de> Deserialize<'de> for Printed<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfAny;
        impl<'de> Visitor<'de> for OfAny {
            type Value = Printed<'de>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Printed(Some(text.into())))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Printed(Some(text.to_owned().into())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Printed(Some(number.to_string().into())))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Printed(Some(number.to_string().into())))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Printed(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Printed(None))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Printed(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Printed(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Printed(None))
            }
        }
        deserializer.deserialize_any(OfAny)
    }
}
