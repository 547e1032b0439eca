//! The running kernel's types, cut down to what a program needs. They lie in one file of 5 to 10 MB, of which a probe needs a hundredth; a
//! reader that takes all of them needs some 15 ms and 30 MB. So the file is walked where it lies, once for all probes of a window.
//!
//! For each object a description is made of what its relocations can be about: the types that have the name of one of its own, and what
//! these consist of. A test (`tests/relocation.rs`) relocates every object against this and against the whole file, and compares the
//! instructions. A program names the function that it attaches to by the id of a type: for that, a description is made in which all before
//! it is filler.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use aya::{Btf, Endianness};
use object::{Object as _, ObjectSection as _};

use crate::host::Host;
use crate::mechanism::btf::{self, Types, Word};
use rdiag_model::{Reason, Unavailable};

const FILE: &str = "sys/kernel/btf/vmlinux";
/// Kinds of types that a relocation can be about.
const RELOCATABLE: [u32; 8] =
    [btf::INT, btf::STRUCT, btf::UNION, btf::ENUM, btf::FWD, btf::TYPEDEF, btf::FLOAT, btf::ENUM64];

/// What the names of the types of BTF tracepoints, and of the functions of iterators, begin with.
pub(super) const TRACEPOINTS: &str = "btf_trace_";
const ITERATORS: &str = "bpf_iter_";
/// `void *`, as long as each of the types that it stands before.
const FILLER: [u32; 3] = [0, btf::PTR << 24, 0];

/// The running kernel's types, and the description of tracepoints and iterators once it was made of them.
#[derive(Debug)]
pub struct KernelTypes(Types, OnceLock<Arc<Btf>>);

impl KernelTypes {
    /// Reads them.
    pub fn read(host: &Host) -> Result<Self, Unavailable> {
        let bytes = host.read_bytes(FILE)?;
        let types = Types::parse(bytes).ok_or_else(|| {
            Unavailable::new(Reason::Malformed, format!("/{FILE} is not written as it is known to rdiag"))
        })?;
        Ok(Self(types, OnceLock::new()))
    }

    /// Those that the relocations of an object can be about, as BTF with numbers of its own: all that have the name of one
    /// of the object's types, flavours aside, and what these consist of.
    ///
    /// Pointers to other types lead to `void`. No relocation looks behind one, but for a question whether the kernel has a type
    /// that is itself a pointer, and one for the kernel's number of a type; none of the objects asks these.
    #[must_use]
    pub fn for_object(&self, object: &[u8]) -> Vec<u8> {
        let own = own_types(object);
        let names: HashSet<&[u8]> = own
            .iter()
            .flat_map(|own| own.numbers().filter_map(|number| own.name(number)))
            .map(flavourless)
            .filter(|name| !name.is_empty())
            .collect();
        // The first two bytes distinguish most of the kernel's types from these, at a fraction of the cost.
        let leads: BTreeSet<[u8; 2]> = names.iter().filter_map(|name| name.first_chunk().copied()).collect();
        let short = names.iter().any(|name| name.len() < 2);
        let is_wanted = |number: &u32| {
            self.0.kind(*number).is_some_and(|kind| RELOCATABLE.contains(&kind))
                && (short || self.0.lead(*number).is_some_and(|lead| leads.contains(&lead)))
                && self.0.name(*number).is_some_and(|name| names.contains(flavourless(name)))
        };
        part(&self.0, self.0.numbers().filter(is_wanted).collect())
    }

    /// Types in which the loader finds the numbers of all BTF tracepoints and iterators by their names: one description for the programs of
    /// them all, which takes as long to read as each one's.
    pub(super) fn points(&self) -> Arc<Btf> {
        let is_point = |number: &u32| {
            let starts = |with: &[u8]| self.0.name(*number).is_some_and(|name| name.starts_with(with));
            match self.0.kind(*number) {
                Some(btf::TYPEDEF) => starts(TRACEPOINTS.as_bytes()),
                Some(btf::FUNC) => starts(ITERATORS.as_bytes()),
                _ => false,
            }
        };
        let made = || {
            let points = self.0.numbers().filter(is_point);
            Arc::new(description(points.filter_map(|at| Some((at, self.0.kind(at)?, self.0.name(at)?)))))
        };
        Arc::clone(self.1.get_or_init(made))
    }

    /// A type of this kind and name, as something to attach to.
    pub(super) fn point(&self, kind: u32, name: &str) -> AttachPoint {
        AttachPoint { kind, name: name.to_owned(), number: self.0.find(kind, name) }
    }
}

/// The function that a program attaches to, which the kernel wants as the id of a type.
#[derive(Debug)]
pub(super) struct AttachPoint {
    kind: u32,
    name: String,
    number: Option<u32>,
}

impl AttachPoint {
    /// Whether the kernel has it.
    pub(super) fn exists(&self) -> bool {
        self.number.is_some()
    }

    /// Types in which the loader finds the number by the name: all before it are `void *`. None if the kernel has no such type.
    pub(super) fn types(&self) -> Btf {
        description(self.number.map(|number| (number, self.kind, self.name.as_bytes())).into_iter())
    }
}

/// Types with these numbers, kinds and names, in ascending order; all others before the last of them are `void *`.
fn description<'n>(points: impl Iterator<Item = (u32, u32, &'n [u8])>) -> Btf {
    let (mut words, mut strings) = (Vec::new(), vec![0]);
    for (number, kind, name) in points {
        let before = (number.saturating_sub(1) as usize).saturating_sub(words.len() / FILLER.len());
        words.extend(FILLER.repeat(before));
        words.extend([u32::try_from(strings.len()).unwrap_or(0), kind << 24, 0]);
        strings.extend(name);
        strings.push(0);
    }
    if words.is_empty() {
        return Btf::new();
    }
    Btf::parse(&btf::encode(&words, &strings), Endianness::default()).unwrap_or_default()
}

/// The types that an object describes.
fn own_types(object: &[u8]) -> Option<Types> {
    let elf = object::File::parse(object).ok()?;
    Types::parse(elf.section_by_name(".BTF")?.data().ok()?.to_vec())
}

/// The name without the suffix that distinguishes several shapes of one type: `task_struct` of `task_struct___before_5_14`.
fn flavourless(name: &[u8]) -> &[u8] {
    let end = name.windows(3).position(|three| three == b"___").unwrap_or(name.len());
    name.get(..end).unwrap_or(name)
}

/// BTF of these types and what they consist of.
fn part(types: &Types, mut kept: Vec<u32>) -> Vec<u8> {
    let mut numbers: HashMap<u32, u32> = kept.iter().copied().zip(1..).collect();
    let mut next = 0;
    while let Some(number) = kept.get(next).copied() {
        next += 1;
        if types.kind(number) == Some(btf::PTR) {
            continue;
        }
        for (_, target) in types.words(number).filter(|(word, _)| *word == Word::Type) {
            if types.kind(target).is_some() && !numbers.contains_key(&target) {
                kept.push(target);
                numbers.insert(target, u32::try_from(kept.len()).unwrap_or(0));
            }
        }
    }
    let mut words = Vec::new();
    let mut strings = vec![0];
    for number in kept {
        for (word, value) in types.words(number) {
            words.push(match word {
                Word::Plain => value,
                Word::Type => numbers.get(&value).copied().unwrap_or(0),
                Word::Name => match types.string(value) {
                    None | Some([]) => 0,
                    Some(name) => {
                        let place = u32::try_from(strings.len()).unwrap_or(0);
                        strings.extend(name);
                        strings.push(0);
                        place
                    }
                },
            });
        }
    }
    btf::encode(&words, &strings)
}

#[cfg(test)]
mod tests;
