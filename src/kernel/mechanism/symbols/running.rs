//! Names of the running kernel's functions, from the kernel itself (`names.bpf.c`, Linux 5.10).
//!
//! It knows modules, programs and trampolines that came since a list was read, and is asked for some hundred names where the list
//! has 100 000 and more: /proc/kallsyms takes some 40 ms of CPU time.

use super::named::{MAX_NAME, Named, module_name};
use crate::mechanism::ebpf::{Kernel, Object, include_bytes_aligned};
use rdiag_model::Unavailable;

const PROGRAM: &str = "names";
/// Addresses that the program looks up at a time; what it writes about them must fit into 32 KiB.
const AT_A_TIME: usize = 128;
/// The kernel's half of the addresses.
const KERNEL: u64 = 1 << 63;

/// The program, ready to be asked.
#[derive(Debug)]
pub(super) struct Running(Object);

impl Running {
    /// Loads the program. The error says why the list has to do.
    pub(super) fn open(kernel: &Kernel) -> Result<Self, Unavailable> {
        let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/mechanism/symbols/names.bpf.o"));
        let mut object = kernel.load(bytes, Vec::new(), &[])?;
        object.load_iterator(kernel, PROGRAM, "bpf_map")?;
        Ok(Self(object))
    }

    /// The function at each address, none if it has no name; or none at all if the kernel does not answer.
    pub(super) fn names(&mut self, addresses: &[u64]) -> Option<Vec<Option<Named>>> {
        let mut names = Vec::with_capacity(addresses.len());
        // What is not of the kernel has no name in it, and 0 would end the question.
        let can_be = |address: &u64| (KERNEL..u64::MAX).contains(address);
        for some in addresses.chunks(AT_A_TIME) {
            let asked: Vec<u64> = some.iter().copied().filter(can_be).collect();
            let mut answers = self.ask(&asked)?.into_iter();
            names.extend(some.iter().map(|address| if can_be(address) { answers.next().flatten() } else { None }));
        }
        Some(names)
    }

    fn ask(&mut self, addresses: &[u64]) -> Option<Vec<Option<Named>>> {
        // It is for addresses to return to, and looks at the one before.
        let after = addresses.iter().map(|address| address + 1).chain([0]);
        for (at, address) in (0..).zip(after.take(AT_A_TIME)) {
            self.0.set_element("addresses", at, address).ok()?;
        }
        let mut text = Vec::new();
        self.0.iterate(PROGRAM, &mut text).ok()?;
        let names: Vec<_> = String::from_utf8_lossy(&text).lines().map(named).collect();
        (names.len() == addresses.len()).then_some(names)
    }
}

/// `ext4_file_read_iter+0x1c/0x90 [ext4]`; an address alone where there is no function.
fn named(line: &str) -> Option<Named> {
    let (name, rest) = line.split_once("+0x")?;
    let module = rest.split_once(" [").and_then(|(_, module)| module_name(module));
    (!name.is_empty()).then(|| Named { name: name.chars().take(MAX_NAME).collect(), module, line: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_a_function_and_its_module_or_an_address_alone() {
        let of = |line| named(line).map(|named| (named.name, named.module));
        assert_eq!(of("vfs_read+0x1c/0x90"), Some(("vfs_read".into(), None)));
        assert_eq!(of("ext4_read.part.0+0x1/0x9 [ext4]"), Some(("ext4_read.part.0".into(), Some("[ext4]".into()))));
        assert_eq!(of("0xffffffffc0000001"), None);
        for garbage in ["", "+0x1/0x2", "[", "\u{fffd}+0"] {
            assert_eq!(of(garbage), None, "{garbage}");
        }
    }
}
