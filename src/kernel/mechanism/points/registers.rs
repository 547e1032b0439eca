//! Where a function finds its arguments, its result and its caller in the registers that a program in the kernel is given
//! (`struct pt_regs`), by the calling convention of C. Offsets are part of the kernel's interface to debuggers.

use super::btf::{Argument, Prototype};
use super::{Field, Place, PointError, Shape, When};
use rdiag_model::Reason;

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

/// Which argument a function that is just entered finds at this offset, the first is 0.
pub(super) fn argument(offset: u32) -> Option<u32> {
    ARGUMENTS.iter().position(|at| *at == offset).and_then(|at| u32::try_from(at).ok())
}

/// How many arguments a function has, if each has a register of its own.
pub(super) fn each_in_one(prototype: &Prototype) -> Option<u32> {
    let known = prototype.arguments.iter().all(|argument| argument.shape != Shape::Other);
    u32::try_from(prototype.arguments.len()).ok().filter(|count| known && *count as usize <= ARGUMENTS.len())
}

/// `arg1`, `arg2` … and `return`. Where the types are not known, arguments are taken for unsigned numbers and results for signed
/// ones; where they are, arguments have their own names too.
pub(super) fn fields(prototype: Option<Prototype>) -> Result<Vec<Field>, PointError> {
    if ARGUMENTS.is_empty() {
        let message = "rdiag does not know where functions have their arguments on this architecture".to_owned();
        return Err(PointError::plain(Reason::NotApplicable, message));
    }
    let number = |is_signed| Shape::Number { bytes: 8, is_signed, is_address: false };
    let field = |name: &str, declared: &str, when, offset: u32, shape| Field {
        name: name.to_owned(),
        declared: declared.to_owned(),
        when,
        place: Place::Context(offset),
        shape,
    };
    let numbered = (1..).map(|at: usize| format!("arg{at}"));
    let Some(Prototype { arguments, result: returned, .. }) = prototype else {
        let fields = numbered.zip(ARGUMENTS).map(|(name, at)| field(&name, "", When::Entry, *at, number(false)));
        return Ok(fields.chain([field("return", "", When::Return, RESULT, number(true))]).collect());
    };
    let mut fields = Vec::new();
    for ((number, offset), Argument { name, declared, shape, .. }) in numbered.zip(ARGUMENTS).zip(arguments) {
        // A structure may take one register, two or none: nothing behind it has a place that is known.
        if shape == Shape::Other {
            break;
        }
        if !name.is_empty() {
            fields.push(field(&name, &declared, When::Entry, *offset, shape));
        }
        fields.push(field(&number, &declared, When::Entry, *offset, shape));
    }
    fields.extend(
        returned.map(|Argument { declared, shape, .. }| field("return", &declared, When::Return, RESULT, shape)),
    );
    Ok(fields)
}
