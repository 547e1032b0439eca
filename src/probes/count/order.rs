//! From a query to the configuration of the kernel's own tables, or why they cannot follow it.

use super::Kind;
use super::query::Query;
use crate::grammar::Operator;
use crate::value_read::{Read, Source};
use rdiag_kernel::mechanism::points::{Point, Shape, Target};
use rdiag_kernel::mechanism::tracefs::probe_events::Moment;
use rdiag_kernel::mechanism::tracefs::sums::{CPU, CPU_IN_FILTER, THREAD, Wanted};

/// A function of the kernel at which an event must be defined first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) moment: Moment,
    /// What the event holds, in the kernel's words.
    pub(super) fields: Vec<String>,
}

/// The configuration for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    /// Of a function, the event is not known yet.
    pub(super) wanted: Wanted,
    pub(super) function: Option<Function>,
    /// What the reader must know of the figures.
    pub(super) notes: Vec<&'static str>,
}

impl Order {
    /// What the kernel is to sum up for a query, of the events that pass `limits`.
    pub(super) fn new(query: &Query, kind: Kind, limits: &[String]) -> Result<Self, String> {
        let point = &query.reads.point;
        let (event, function) = match &point.target {
            Target::Tracepoint { group, event } => ((group.clone(), event.clone()), None),
            Target::Kernel(name) => ((String::new(), String::new()), Some(name)),
            _ => return Err(format!("{} is not in the kernel", point.name)),
        };
        if query.user_stack && !query.kernel_stack {
            return Err("stacks of programs are not kept".into());
        }
        let mut fields = Fields { query, defined: Vec::new() };
        let mut notes = Vec::new();
        let mut keys = Vec::new();
        for (name, read) in &query.keys {
            // The kernel's tables have the thread, whose process is looked up.
            keys.push(if read.source == Source::Tgid { THREAD.into() } else { fields.word(name, *read)? });
        }
        let mut filter = limits.to_vec();
        for (test, read) in query.reads.comparisons() {
            let sign = match test.operator {
                Operator::Equal => "==",
                Operator::Unequal => "!=",
                Operator::Less => "<",
                Operator::LessEqual => "<=",
                Operator::Greater => ">",
                Operator::GreaterEqual => ">=",
                Operator::SharesBits => "&",
            };
            let word = fields.word(&test.operand.name, read)?;
            let word = if read.source == Source::Cpu { CPU_IN_FILTER } else { &word };
            filter.push(format!("{word} {sign} {}", test.number));
        }
        let value = match &query.value {
            Some(value) => Some((fields.word(&value.name, query.reads.first())?, query.reads.first())),
            None => None,
        };
        let mut power = None;
        if let Some((field, read)) = value.as_ref().filter(|_| kind == Kind::Distribution) {
            // The kernel would count them with 0 and 1.
            if read.is_signed {
                filter.push(format!("{field} >= 0"));
                notes.push("negative values are not in the distribution");
            } else if read.bytes == 8 {
                filter.push(format!("{field} <= {}", i64::MAX));
                notes.push("values of 2⁶³ and more are not in the distribution");
            }
            notes.push("values are known by power of two: percentiles and the largest may be up to twice too high");
            power = Some(field.clone());
        }
        if query.has_stack() {
            notes.push("of stacks only the kernel's part is kept, up to 16 functions");
        }
        if keys.is_empty() && !query.by_comm && !query.has_stack() && power.is_none() {
            // There is no table without a key.
            keys.push(CPU.into());
        }
        let wanted = Wanted {
            group: event.0,
            event: event.1,
            by_stack: query.has_stack(),
            power,
            keys,
            by_name: query.by_comm,
            value: value.map(|(field, _)| field),
            filter: filter.join(" && "),
        };
        if wanted.has_too_many_keys() {
            return Err("at most 3 keys are possible, a distribution and stacks being one each".into());
        }
        let function = function.map(|name| fields.function(name)).transpose()?;
        Ok(Self { wanted, function, notes })
    }
}

/// What is read of an event.
struct Fields<'a> {
    query: &'a Query,
    /// Of a function: in the kernel's words, `f0=$arg3:u64`.
    defined: Vec<String>,
}

impl Fields<'_> {
    /// What the kernel calls a number that is read.
    fn word(&mut self, name: &str, read: Read) -> Result<String, String> {
        match read.source {
            Source::Tid => Ok(THREAD.into()),
            Source::Cpu => Ok(CPU.into()),
            Source::Tgid => Err("processes cannot be compared by number; choose them with --pid".into()),
            Source::Group => Err("control groups cannot be distinguished".into()),
            Source::Latency => Err("how long calls take is not available".into()),
            _ if read.text.is_some() => Err(format!("{name} is text, which is not kept")),
            _ if !read.is_plain_number() => Err(format!("{name} cannot be read, only what the event itself holds")),
            Source::Entry | Source::Return if matches!(self.query.reads.point.target, Target::Kernel(_)) => {
                self.register(name, read)
            }
            Source::Entry if self.is_as_declared(name, read) => Ok(name.to_owned()),
            _ => Err(format!("{name} cannot be read as anything but what it is declared as")),
        }
    }

    fn is_as_declared(&self, name: &str, read: Read) -> bool {
        let field = self.query.reads.point.fields.iter().find(|field| field.name == name);
        field.is_some_and(|field| {
            matches!(field.shape, Shape::Number { bytes, is_signed, .. } if (bytes, is_signed) == (read.bytes, read.is_signed))
        })
    }

    /// An argument or the result of a function; the same one has one field, however often it is asked for.
    fn register(&mut self, name: &str, read: Read) -> Result<String, String> {
        let from = match read.source {
            Source::Return => "$retval".to_owned(),
            _ => match Point::argument(read.offset) {
                Some(at) => format!("$arg{at}"),
                None => return Err(format!("{name} is in no register")),
            },
        };
        let what = format!("={from}:{}{}", if read.is_signed { 's' } else { 'u' }, read.bytes * 8);
        let known = self.defined.iter().position(|field| field.ends_with(&what));
        let at = known.unwrap_or(self.defined.len());
        if known.is_none() {
            self.defined.push(format!("f{at}{what}"));
        }
        Ok(format!("f{at}"))
    }

    fn function(self, name: &str) -> Result<Function, String> {
        let of = |what: &str| self.defined.iter().any(|field| field.contains(what));
        let moment = match (of("=$arg"), of("=$retval")) {
            (true, true) => return Err("arguments are not kept until the function returns".into()),
            (false, true) => Moment::Return,
            (_, false) => Moment::Entry,
        };
        Ok(Function { name: name.to_owned(), moment, fields: self.defined })
    }
}
