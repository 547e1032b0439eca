//! Programs made with Go: their table of functions (pclntab) tells what they are, and by which convention their functions are called; their
//! scheduler, which thread runs a goroutine and why none does.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionFlags, SectionKind};

use super::{Point, PointError, Program, Target, binaries, registers};
use rdiag_model::Reason;

/// Names of the table's section; a linker may also put it among other data.
pub const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// The table's version since Go 1.18 and since Go 1.20, in its first byte. From 1.18 on arguments are in registers on both processors
/// (internal/abi).
const IN_REGISTERS: [u8; 2] = [0xf0, 0xf1];

/// Where a function of a program finds its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Convention {
    /// In the registers of the C calling convention.
    C,
    /// In those of Go's own: one word after the other, of which text takes two (where it is, and its length) and an interface two.
    Go,
    /// On the stack, as in Go before 1.18 and in functions that are written in assembly.
    Stack,
}

/// Where a thread takes a goroutine up, and where it lays it down other than by parking: for another one, before its time is over, or
/// since a system call took long (two names: before and since Go 1.26). All have it as their first argument, as the next ones do.
const TAKES: &str = "runtime.execute";
const LAYS_DOWN: [&str; 5] = [
    "runtime.goschedImpl",
    "runtime.goyield_m",
    "runtime.preemptPark",
    "runtime.exitsyscall0",
    "runtime.exitsyscallNoP",
];
/// Of these all but one must be there, or a goroutine could leave its thread unseen.
const AT_LEAST: usize = LAYS_DOWN.len() - 1;
/// Where one that is parked may go on.
const READIES: &str = "runtime.ready";
/// Where one ends, or goes on as another one (`iter.Pull`, Go 1.23), which is not followed.
const ENDS: [&str; 3] = ["runtime.goexit0", "runtime.gdestroy", "runtime.coroswitch_m"];
/// Where a goroutine parks itself, with the reason as the third argument.
const PARKS: &str = "runtime.gopark";
/// The reasons by number: an array of Go's texts.
const REASONS: &str = "runtime.waitReasonStrings";
/// More reasons, or longer ones, are none.
const MOST_REASONS: usize = 250;
const LONGEST_REASON: usize = 64;

/// Where a Go program tells which thread has a goroutine.
#[derive(Debug, Clone, PartialEq)]
pub struct Scheduler {
    /// Where the thread that runs takes one up.
    pub takes: Vec<Point>,
    /// Where it lays one down.
    pub lays_down: Vec<Point>,
    /// Where the goroutine that runs parks itself.
    pub parks: Point,
    /// Where a parked one may go on.
    pub readies: Vec<Point>,
    /// Where one is no more, or not to be followed.
    pub ends: Vec<Point>,
    /// What parked goroutines wait for, by number; empty if the program does not tell.
    pub reasons: Vec<String>,
}

impl Scheduler {
    /// The field of a function of Go that is the goroutine which runs.
    pub const GOROUTINE: &str = "goroutine";
    /// The field of [`Scheduler::takes`] and [`Scheduler::lays_down`] that is the goroutine in question.
    pub const ITS_GOROUTINE: &str = "arg1";
    /// The field of [`Scheduler::parks`] that is the number of the reason, a byte.
    pub const REASON: &str = "arg3";

    /// That of the program which both points are functions of; none where neither is one of Go. A goroutine that is not followed would
    /// leave a thread with time of others, so that a program of Go which does not tell enough is an error.
    pub fn of(from: &Point, to: &Point) -> Result<Option<Self>, PointError> {
        let field = |point: &Point, name: &str| point.fields.iter().any(|field| field.name == name);
        let is_of_go = |point: &Point| field(point, Self::GOROUTINE);
        let is_user = |point: &Point| matches!(point.target, Target::User { .. });
        // Functions of C have arguments wherever a probe can be.
        let is_older = |point: &Point| is_user(point) && !field(point, Self::ITS_GOROUTINE) && !is_of_go(point);
        let cannot = |why: &str| {
            let message = format!("requests of {} cannot be followed from thread to thread: {why}", from.name);
            Err(PointError::plain(Reason::NotApplicable, message))
        };
        if is_older(from) || is_older(to) {
            return cannot("such functions of Go have their arguments on the stack (Go before 1.18, and assembly)");
        }
        let (Target::User { path, .. }, Target::User { path: other, .. }) = (&from.target, &to.target) else {
            return if is_of_go(from) || is_of_go(to) {
                cannot("a goroutine is known in functions of its program only, so both marks must be such")
            } else {
                Ok(None)
            };
        };
        if !is_of_go(from) && !is_of_go(to) {
            return Ok(None);
        }
        if path.path() != other.path() || !is_of_go(from) || !is_of_go(to) {
            return cannot("the marks are functions of two programs, or one is not written in Go");
        }
        let names: Vec<&str> = LAYS_DOWN.into_iter().chain(ENDS).chain([TAKES, PARKS, READIES]).collect();
        let mut found = binaries::known(path, &names)?;
        let mut point = |name: &str| {
            let target = Target::User { path: path.clone(), offsets: found.remove(name)? };
            let fields = registers::of_program(Convention::Go).ok()?;
            Some(Point { name: name.to_owned(), declared: String::new(), target, fields, arguments: None })
        };
        let lays_down: Vec<Point> = LAYS_DOWN.into_iter().filter_map(&mut point).collect();
        let (takes, parks, readies) = (point(TAKES), point(PARKS), point(READIES));
        let ends: Vec<Point> = ENDS.into_iter().filter_map(point).collect();
        match (takes, parks) {
            (Some(takes), Some(parks)) if lays_down.len() >= AT_LEAST && !ends.is_empty() => Ok(Some(Self {
                takes: vec![takes],
                lays_down,
                parks,
                readies: readies.into_iter().collect(),
                ends,
                reasons: reasons_of(path).unwrap_or_default(),
            })),
            _ => cannot("its scheduler has other functions than that of Go 1.18 to 1.26, or their names are stripped"),
        }
    }
}

fn reasons_of(program: &Program) -> Option<Vec<String>> {
    let bytes = binaries::read(program).ok()?;
    reasons(&binaries::parsed(&bytes, program.path()).ok()?)
}

/// What an array of texts holds: each is where it is in memory, and its length.
fn reasons(elf: &object::File<'_>) -> Option<Vec<String>> {
    let array = elf.symbols().find(|symbol| symbol.name() == Ok(REASONS) && !symbol.is_undefined())?;
    let count = usize::try_from(array.size() / 16).ok()?.min(MOST_REASONS);
    // A program that may lie anywhere has its addresses among the relocations.
    let moved: BTreeMap<u64, u64> = elf
        .dynamic_relocations()
        .into_iter()
        .flatten()
        .filter(|(at, _)| at.wrapping_sub(array.address()) < 16 * MOST_REASONS as u64)
        .filter(|(_, relocation)| relocation.target() == RelocationTarget::Absolute)
        .map(|(at, relocation)| (at, relocation.addend().cast_unsigned()))
        .collect();
    let word = |at: u64| Some(u64::from_le_bytes(data_at(elf, at, 8)?.try_into().ok()?));
    let text = |number: usize| {
        let at = array.address().checked_add(number as u64 * 16)?;
        let length = usize::try_from(word(at.checked_add(8)?)?).ok().filter(|length| *length <= LONGEST_REASON)?;
        let place = match word(at)? {
            0 => moved.get(&at).copied().unwrap_or(0),
            place => place,
        };
        if length == 0 {
            return Some(String::new());
        }
        Some(String::from_utf8_lossy(data_at(elf, place, length)?).into_owned())
    };
    Some((0..count).map_while(text).collect())
}

/// Bytes of a program by their address in its memory.
fn data_at<'d>(elf: &object::File<'d>, address: u64, length: usize) -> Option<&'d [u8]> {
    elf.sections().filter(is_loaded).find_map(|section| {
        let start = usize::try_from(address.checked_sub(section.address())?).ok()?;
        section.data().ok()?.get(start..start.checked_add(length)?)
    })
}

/// The conventions by which these functions of a program are called.
pub(super) fn conventions(program: &Program, names: &[&str]) -> Vec<Convention> {
    // All functions of Go have the name of a package before theirs; those of C that have a point were split by a compiler.
    let is_own = |name: &str| name.contains('.');
    let version = names.iter().any(|name| is_own(name)).then(|| version_of(program)).flatten();
    let of = |name: &&str| match version {
        Some(version) if is_own(name) => convention(version, name),
        _ => Convention::C,
    };
    names.iter().map(of).collect()
}

fn convention(version: u8, name: &str) -> Convention {
    if IN_REGISTERS.contains(&version) && !name.ends_with(".abi0") { Convention::Go } else { Convention::Stack }
}

/// What cannot be read has no table.
fn version_of(program: &Program) -> Option<u8> {
    let bytes = binaries::read(program).ok()?;
    version(&binaries::parsed(&bytes, program.path()).ok()?)
}

/// The version of a program's table of functions, if it is made with Go.
fn version(elf: &object::File<'_>) -> Option<u8> {
    let named = SECTIONS.iter().filter_map(|name| elf.section_by_name(name));
    let others = elf.sections().filter(|section| section.kind() != SectionKind::Text && is_loaded(section));
    named.chain(others).find_map(|section| version_in(section.data().ok()?))
}

pub(super) fn is_loaded(section: &object::Section<'_, '_>) -> bool {
    matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & binaries::IN_MEMORY != 0)
}

/// The version of a table that these data have in them, of Go 1.2, 1.16, 1.18 or 1.20 and later: its first word, two zeros, the smallest
/// instruction of the processor and the size of its words.
pub(super) fn version_in(data: &[u8]) -> Option<u8> {
    data.chunks_exact(8).find_map(|head| match *head {
        [version, 0xff, 0xff, 0xff, 0, 0, instruction, word] => {
            let is_known = matches!(version, 0xf0 | 0xf1 | 0xfa | 0xfb);
            (is_known && matches!(instruction, 1 | 2 | 4) && matches!(word, 4 | 8)).then_some(version)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_functions_is_known_by_its_head_wherever_it_stands() {
        let table = |version: u8| [[0; 8], [version, 0xff, 0xff, 0xff, 0, 0, 1, 8]].concat();
        assert_eq!(version_in(&table(0xf1)), Some(0xf1));
        assert_eq!(version_in(&table(0xfa)), Some(0xfa));
        assert_eq!(version_in(&table(0xf5)), None);
        assert_eq!(version_in(&[0xf1, 0xff, 0xff, 0xff, 0, 1, 1, 8]), None);
        assert_eq!(version_in(&[]), None);
    }

    #[test]
    fn arguments_are_in_registers_since_go_1_18_and_of_assembly_on_the_stack() {
        for version in IN_REGISTERS {
            assert_eq!(convention(version, "main.handle"), Convention::Go);
            assert_eq!(convention(version, "runtime.memmove.abi0"), Convention::Stack);
        }
        assert_eq!(convention(0xfa, "main.handle"), Convention::Stack);
    }
}
