//! What the tracer's records tell: calls and returns.

use super::tree::{Record, Step};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::tracefs::format::{Field, Format};
use rdiag_kernel::mechanism::tracefs::instance::Instance;
use rdiag_kernel::mechanism::tracefs::raw::not_understood;
use rdiag_model::Unavailable;

/// How the records are laid out.
#[derive(Debug)]
pub(super) struct Shape {
    kind: Field,
    entry: Call,
    exit: Call,
    /// When the function was called and when it returned, in nanoseconds.
    called: Field,
    returned: Field,
}

/// The record of a call.
#[derive(Debug)]
struct Call {
    id: u64,
    tid: Field,
    function: Field,
    depth: Field,
}

impl Shape {
    pub(super) fn read(instance: &Instance, host: &Host) -> Result<Self, Unavailable> {
        let format = |event: &str| -> Result<Format, Unavailable> {
            Ok(Format::parse(&instance.get(host, &format!("events/ftrace/{event}/format"))?))
        };
        Self::of(&format("funcgraph_entry")?, &format("funcgraph_exit")?)
            .ok_or_else(|| not_understood("events/ftrace/funcgraph_entry/format"))
    }

    fn of(entry: &Format, exit: &Format) -> Option<Self> {
        let call = |format: &Format| {
            let field = |name| format.field(name).cloned();
            let (tid, function, depth) = (field("common_pid")?, field("func")?, field("depth")?);
            Some(Call { id: u64::from(format.id?), tid, function, depth })
        };
        Some(Self {
            kind: entry.field("common_type")?.clone(),
            entry: call(entry)?,
            exit: call(exit)?,
            called: exit.field("calltime")?.clone(),
            returned: exit.field("rettime")?.clone(),
        })
    }

    /// What a record tells; none if it is of another kind.
    pub(super) fn record(&self, time: u64, cpu: u32, bytes: &[u8]) -> Option<Record> {
        let kind = self.kind.value(bytes)?;
        let (call, step) = if kind == self.entry.id {
            (&self.entry, Step::Entry)
        } else if kind == self.exit.id {
            let took = self.returned.value(bytes)?.saturating_sub(self.called.value(bytes)?);
            (&self.exit, Step::Exit(took))
        } else {
            return None;
        };
        let small = |field: &Field| field.value(bytes).and_then(|value| u32::try_from(value).ok());
        Some(Record {
            time,
            tid: small(&call.tid)?,
            cpu,
            function: call.function.value(bytes)?,
            depth: small(&call.depth)?,
            step,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                          \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                          \tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n\
                          \tfield:unsigned int depth;\toffset:16;\tsize:4;\tsigned:0;\n";
    const TIMES: &str = "\tfield:unsigned long long calltime;\toffset:24;\tsize:8;\tsigned:0;\n\
                         \tfield:unsigned long long rettime;\toffset:32;\tsize:8;\tsigned:0;\n";

    fn shape() -> Shape {
        let entry = Format::parse(&format!("ID: 11\n{COMMON}"));
        Shape::of(&entry, &Format::parse(&format!("ID: 10\n{COMMON}{TIMES}"))).unwrap()
    }

    fn record(kind: u64, words: &[u64]) -> Vec<u8> {
        [kind | 77 << 32, 0xffff_ffff_8100_0000, 3].iter().chain(words).flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn calls_and_returns_are_told_apart_and_other_records_are_left_out() {
        let shape = shape();
        let call = shape.record(5, 1, &record(11, &[])).unwrap();
        let expected =
            Record { time: 5, tid: 77, cpu: 1, function: 0xffff_ffff_8100_0000, depth: 3, step: Step::Entry };
        assert_eq!(call, expected);
        assert_eq!(shape.record(9, 1, &record(10, &[100, 350])).unwrap().step, Step::Exit(250));
        assert_eq!(shape.record(9, 1, &record(10, &[350, 100])).unwrap().step, Step::Exit(0));
        assert_eq!(shape.record(9, 1, &record(12, &[1, 2])), None);
        assert_eq!(shape.record(9, 1, &record(10, &[1])), None);
        assert_eq!(shape.record(9, 1, &[]), None);
    }

    #[test]
    fn a_description_without_a_field_is_not_guessed_at() {
        let entry = Format::parse(&format!("ID: 11\n{COMMON}"));
        assert!(Shape::of(&entry, &entry).is_none());
        assert!(Shape::of(&Format::default(), &entry).is_none());
    }
}
