//! Where a function finds its arguments, its result and its caller in the registers that a program in the kernel is given
//! (`struct pt_regs`), by the calling convention of C. Offsets are part of the kernel's interface to debuggers.

use super::btf::{Argument, Prototype};
use super::{Field, Shape, When};

/// Where a function that is just entered finds the address to which it will return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// 1: in a register; 2: where a register points to.
    pub how: u32,
    /// The register's offset.
    pub offset: u32,
}

#[cfg(target_arch = "x86_64")]
const ARGUMENTS: &[u32] = &[112, 104, 96, 88, 72, 64];
#[cfg(target_arch = "x86_64")]
const RESULT: u32 = 80;
/// On top of the stack.
#[cfg(target_arch = "x86_64")]
pub const CALLER: Caller = Caller { how: 2, offset: 152 };

#[cfg(target_arch = "aarch64")]
const ARGUMENTS: &[u32] = &[0, 8, 16, 24, 32, 40, 48, 56];
#[cfg(target_arch = "aarch64")]
const RESULT: u32 = 0;
/// In the link register.
#[cfg(target_arch = "aarch64")]
pub const CALLER: Caller = Caller { how: 1, offset: 240 };

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARGUMENTS: &[u32] = &[];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const RESULT: u32 = 0;
/// Not known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const CALLER: Caller = Caller { how: 0, offset: 0 };

/// `arg1`, `arg2` … and `return`; none where the registers are not known. Where the types are not known either, arguments are taken
/// for unsigned numbers and results for signed ones; where they are, arguments have their own names too.
pub(super) fn fields(prototype: Option<Prototype>) -> Option<Vec<Field>> {
    if ARGUMENTS.is_empty() {
        return None;
    }
    let number = |is_signed| Shape::Number { bytes: 8, is_signed, is_address: false };
    let result = |shape| Field { name: "return".into(), when: When::Return, offset: RESULT, shape };
    let argument = |name: String, offset: u32, shape: Shape| Field { name, when: When::Entry, offset, shape };
    let numbered = (1..).map(|at: usize| format!("arg{at}"));
    let Some(Prototype { arguments, result: returned }) = prototype else {
        let fields = numbered.zip(ARGUMENTS).map(|(name, offset)| argument(name, *offset, number(false)));
        return Some(fields.chain([result(number(true))]).collect());
    };
    let mut fields = Vec::new();
    for ((number, offset), Argument { name, shape }) in numbered.zip(ARGUMENTS).zip(arguments) {
        // A structure may take one register, two or none: nothing behind it has a place that is known.
        if shape == Shape::Other {
            break;
        }
        if !name.is_empty() {
            fields.push(argument(name, *offset, shape));
        }
        fields.push(argument(number, *offset, shape));
    }
    fields.extend(returned.map(result));
    Some(fields)
}
