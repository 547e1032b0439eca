//! The innermost part of user stacks: whether a thread of a Java machine waits for a monitor.

use std::collections::{HashMap, HashSet};

use rdiag_kernel::classify::user::{Slot, wants_monitor};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_kernel::mechanism::symbols::{Process, Symbols};
use rdiag_model::Unavailable;

/// Words of `struct top`: the stack pointer, and what stands from there on.
const WORDS: usize = 97;
/// Places of `with_tops`.
const PLACES: u32 = 64;
/// The library whose functions keep their frames linked.
const LIBRARY: &str = "libjvm.so";

/// Tops by name, with the process in which their functions were looked up.
#[derive(Debug, Default)]
pub(super) struct Tops {
    asked: HashSet<Process>,
    known: HashMap<u64, (Process, Vec<u64>)>,
}

impl Tops {
    /// Has them taken of a process that waits on futexes, if they tell anything there.
    pub(super) fn ask(
        &mut self,
        object: &mut Object,
        host: &Host,
        symbols: &mut Symbols,
        process: Process,
    ) -> Result<(), Unavailable> {
        if self.asked.contains(&process) || !symbols.has_mapped(host, process, LIBRARY) {
            return Ok(());
        }
        self.asked.insert(process);
        object.set_element("with_tops", process.pid % PLACES, process.pid)
    }

    /// Reads those that are new, and asks for the functions in them.
    pub(super) fn learn(
        &mut self,
        object: &Object,
        host: &Host,
        symbols: &mut Symbols,
        process: Process,
        names: impl IntoIterator<Item = u64>,
    ) {
        for name in names {
            if name == 0 || self.known.contains_key(&name) {
                continue;
            }
            let Some(words) = object.hash_value::<u64, [u64; WORDS]>("tops", &name) else { continue };
            let code = words.iter().skip(1).filter(|word| **word != 0).map(|word| word.saturating_sub(1));
            symbols.learn_code(host, process, code);
            self.known.insert(name, (process, words.to_vec()));
        }
    }

    /// Whether the stack of this name is one of a thread that wants a monitor; none if it is not known.
    pub(super) fn wants_monitor(&self, symbols: &Symbols, name: u64) -> Option<bool> {
        let (process, words) = self.known.get(&name)?;
        let (sp, words) = words.split_first()?;
        let slot = |word: &u64| Slot { word: *word, function: symbols.name(Some(*process), word.saturating_sub(1)) };
        let slots: Vec<Slot<'_>> = words.iter().map(slot).collect();
        Some(wants_monitor(*sp, &slots))
    }
}
