//! Records of chosen events, distinguished by their ids: of which event each is, on behalf of which task and in what state of the CPU it
//! happened, and what it says. The kernel describes the offsets of all that, so no text within a record can be taken for
//! another record.

use std::collections::HashMap;

use super::format::{Field, Format, text};
use super::instance::Instance;
use super::print::{Constants, Functions, Print, constants};
use super::raw::not_understood;
use super::select::TraceEvent;
use crate::host::Host;
use rdiag_model::Unavailable;

/// What programs write into trace_marker.
const MARK: &str = "mark";
/// What rdiag did not ask for.
const OTHER: &str = "other";
/// Longest text of a mark, in characters.
const LONGEST: usize = 1000;

/// Bits of `common_flags`.
const INTERRUPTS_OFF: u8 = 0x01;
/// Asked for in one of three ways.
const RESCHEDULE: u8 = 0x02 | 0x04 | 0x20;
const HARD: u8 = 0x08;
const SOFT: u8 = 0x10;
const NMI: u8 = 0x40;
const SOFTIRQS_OFF: u8 = 0x80;

/// The kinds of records that an instance may hold.
#[derive(Debug)]
pub struct Kinds {
    common: Common,
    all: HashMap<u16, Kind>,
}

/// Fields that every record has.
#[derive(Debug, Clone)]
struct Common {
    kind: Field,
    flags: Field,
    preempt: Field,
    tid: Field,
}

#[derive(Debug)]
struct Kind {
    /// With its group.
    name: String,
    says: Says,
}

#[derive(Debug)]
enum Says {
    Fields(Box<Print>),
    /// A text that goes on to the end of the record.
    Mark(Field),
}

/// What every record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of its kind.
    pub kind: u16,
    /// The thread on the CPU.
    pub tid: u32,
    flags: u8,
    preempt: u8,
}

impl Kinds {
    /// Reads how the kernel describes these events.
    pub fn read(instance: &Instance, host: &Host, events: &[&TraceEvent]) -> Result<Self, Unavailable> {
        const FILE: &str = "events/ftrace/print/format";
        let mark = Format::parse(&instance.get(host, FILE)?);
        let formats = events.iter().map(|event| {
            let file = format!("events/{}/{}/format", event.group, event.name);
            Ok((*event, Format::parse(&instance.get(host, &file)?)))
        });
        let formats = formats.collect::<Result<Vec<_>, Unavailable>>()?;
        let constants = constants(host, formats.iter().map(|(_, format)| format));
        Self::of(&mark, &formats, &constants).ok_or_else(|| not_understood(FILE))
    }

    /// From these descriptions: of marks, of events, and of the constants that those name. None if the kernel describes in another way what
    /// every record has.
    #[must_use]
    pub fn of(mark: &Format, formats: &[(&TraceEvent, Format)], constants: &Constants) -> Option<Self> {
        let field = |name| mark.field(name).cloned();
        let common = Common {
            kind: field("common_type")?,
            flags: field("common_flags")?,
            preempt: field("common_preempt_count")?,
            tid: field("common_pid")?,
        };
        let mut all: HashMap<u16, Kind> = formats
            .iter()
            .filter_map(|(event, format)| {
                let says = Says::Fields(Box::new(Print::new(&event.group, &event.name, format, constants)));
                Some((format.id?, Kind { name: format!("{}:{}", event.group, event.name), says }))
            })
            .collect();
        all.insert(mark.id?, Kind { name: MARK.to_owned(), says: Says::Mark(field("buf")?) });
        Some(Self { common, all })
    }

    /// What every record says; none if this is too short to be one.
    #[must_use]
    pub fn head(&self, record: &[u8]) -> Option<Head> {
        let Common { kind, flags, preempt, tid } = &self.common;
        let byte = |field: &Field| field.value(record).and_then(|value| u8::try_from(value).ok());
        Some(Head {
            kind: u16::try_from(kind.value(record)?).ok()?,
            tid: u32::try_from(tid.value(record)?).ok()?,
            flags: byte(flags)?,
            preempt: byte(preempt)?,
        })
    }

    /// The name of a kind.
    #[must_use]
    pub fn name(&self, kind: u16) -> &str {
        self.all.get(&kind).map_or(OTHER, |kind| &kind.name)
    }

    /// Whether the text of a record names functions of the kernel.
    #[must_use]
    pub fn names_functions(&self, kind: u16) -> bool {
        matches!(self.all.get(&kind), Some(Kind { says: Says::Fields(print), .. }) if print.names_functions())
    }

    /// What a record says beyond that.
    #[must_use]
    pub fn text(&self, kind: u16, record: &[u8], functions: Functions<'_>) -> String {
        match self.all.get(&kind).map(|kind| &kind.says) {
            Some(Says::Fields(print)) => print.text(record, functions),
            Some(Says::Mark(field)) => {
                let said = text(field.bytes(record).unwrap_or_default());
                said.trim_end_matches('\n').chars().take(LONGEST).collect()
            }
            None => String::new(),
        }
    }
}

impl Head {
    /// What the CPU was in the middle of, in words: `interrupts off, hard interrupt, preemption off (1)`; empty where nothing is special.
    #[must_use]
    pub fn context(&self) -> String {
        let is = |bit: u8| self.flags & bit != 0;
        let mut words: Vec<String> = Vec::new();
        let mut say = |text: &str| words.push(text.to_owned());
        match (is(INTERRUPTS_OFF), is(SOFTIRQS_OFF)) {
            (true, true) => say("interrupts and softirqs off"),
            (true, false) => say("interrupts off"),
            (false, true) => say("softirqs off"),
            (false, false) => {}
        }
        // Which of the several ways of asking a task to give up the CPU is a matter of the scheduler.
        if is(RESCHEDULE) {
            say("reschedule wanted");
        }
        match (is(NMI), is(HARD), is(SOFT)) {
            (true, true, _) => say("NMI in hard interrupt"),
            (true, false, _) => say("NMI"),
            (false, true, true) => say("hard interrupt in softirq"),
            (false, true, false) => say("hard interrupt"),
            (false, false, true) => say("softirq"),
            (false, false, false) => {}
        }
        for (what, depth) in [("preemption off", self.preempt & 15), ("migration off", self.preempt >> 4)] {
            if depth > 0 {
                words.push(format!("{what} ({depth})"));
            }
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                          \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
                          \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
                          \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

    fn kinds() -> Kinds {
        let mark = format!("ID: 5\n{COMMON}\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n");
        let exec = format!(
            "ID: 365\n{COMMON}\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
             print fmt: \"filename=%s pid=%d\", __get_str(filename), REC->pid\n"
        );
        let event = TraceEvent { group: "sched".into(), name: "sched_process_exec".into() };
        Kinds::of(&Format::parse(&mark), &[(&event, Format::parse(&exec))], &Constants::new()).unwrap()
    }

    fn record(kind: u16, tid: u32, rest: &[u8]) -> Vec<u8> {
        [&kind.to_ne_bytes()[..], &[0x89, 0x12], &tid.to_ne_bytes(), rest].concat()
    }

    fn exec(name: &str) -> Vec<u8> {
        let place = (name.len() as u32 + 1) << 16 | 16;
        record(365, 48, &[&place.to_ne_bytes()[..], &48_u32.to_ne_bytes(), name.as_bytes(), b"\0"].concat())
    }

    fn no_names(_: u64) -> Option<String> {
        None
    }

    #[test]
    fn a_name_that_looks_like_another_event_stays_a_name() {
        let (kinds, name) = (kinds(), "x\n            bash-1       [000] ..... 1.0: sched_process_exec: filename=y");
        let record = exec(name);
        let head = kinds.head(&record).unwrap();
        assert_eq!((kinds.name(head.kind), head.tid), ("sched:sched_process_exec", 48));
        assert_eq!(kinds.text(head.kind, &record, &no_names), format!("filename={name} pid=48"));
        assert_eq!(
            head.context(),
            "interrupts and softirqs off, hard interrupt, preemption off (2), migration off (1)"
        );
    }

    #[test]
    fn marks_end_where_their_text_ends_and_other_kinds_say_nothing() {
        let kinds = kinds();
        let mark = record(5, 7, b"ipipipipbegin\nhere\n\0rest");
        assert_eq!((kinds.name(5), kinds.text(5, &mark, &no_names)), ("mark", "begin\nhere".to_owned()));
        assert_eq!((kinds.name(9), kinds.text(9, &mark, &no_names)), ("other", String::new()));
        assert_eq!(kinds.head(&mark[..7]), None);
    }

    #[test]
    fn states_of_the_cpu_are_told_in_words() {
        let context = |flags, preempt| Head { kind: 1, tid: 1, flags, preempt }.context();
        assert_eq!(context(0, 0), "");
        assert_eq!(context(INTERRUPTS_OFF | HARD, 2), "interrupts off, hard interrupt, preemption off (2)");
        assert_eq!(context(RESCHEDULE | SOFT, 0x10), "reschedule wanted, softirq, migration off (1)");
        assert_eq!(context(NMI | HARD | SOFTIRQS_OFF, 0), "softirqs off, NMI in hard interrupt");
    }

    proptest! {
        #[test]
        fn no_record_is_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..64), at in 0_usize..40, byte: u8) {
            let kinds = kinds();
            let mut changed = exec("some/name");
            changed[at % 26] = byte;
            for record in [&bytes, &changed, &changed[..at % 26].to_vec()] {
                let _ = kinds.head(record).map(|head| head.context());
                for kind in [5, 365, 9] {
                    let _ = kinds.text(kind, record, &no_names);
                }
            }
        }
    }
}
