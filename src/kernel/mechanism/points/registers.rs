//! Where a function finds its arguments, its result and its caller in the registers that a program in the kernel is given
//! (`struct pt_regs`), by the calling convention of C or of Go. Offsets are part of the kernel's interface to debuggers.

use super::btf::{Argument, Prototype};
use super::go::{Convention, Scheduler};
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
/// Go's own: rax, rbx, rcx, rdi, rsi, r8, r9, r10, r11.
#[cfg(target_arch = "x86_64")]
const GO_ARGUMENTS: &[u32] = &[80, 40, 88, 112, 104, 72, 64, 56, 48];
/// The goroutine that runs: r14.
#[cfg(target_arch = "x86_64")]
const GOROUTINE: u32 = 8;
#[cfg(target_arch = "x86_64")]
const RESULT: u32 = 80;
/// On top of the stack.
#[cfg(target_arch = "x86_64")]
pub const CALLER: Caller = Caller { how: 2, offset: 152 };

#[cfg(target_arch = "aarch64")]
const ARGUMENTS: &[u32] = &[0, 8, 16, 24, 32, 40, 48, 56];
/// Go's own: x0 to x15.
#[cfg(target_arch = "aarch64")]
const GO_ARGUMENTS: &[u32] = &[0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120];
/// The goroutine that runs: x28.
#[cfg(target_arch = "aarch64")]
const GOROUTINE: u32 = 224;
#[cfg(target_arch = "aarch64")]
const RESULT: u32 = 0;
/// In the link register.
#[cfg(target_arch = "aarch64")]
pub const CALLER: Caller = Caller { how: 1, offset: 240 };

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARGUMENTS: &[u32] = &[];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const GO_ARGUMENTS: &[u32] = &[];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const GOROUTINE: u32 = 0;
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

/// `arg1`, `arg2` … and `return` of a function of a program: arguments are taken for unsigned numbers and results for signed ones.
/// Those on the stack cannot be read.
pub(super) fn of_program(convention: Convention) -> Result<Vec<Field>, PointError> {
    is_known()?;
    let arguments = match convention {
        Convention::C => ARGUMENTS,
        Convention::Go => GO_ARGUMENTS,
        Convention::Stack => &[],
    };
    let numbered = (1..).map(|at: usize| format!("arg{at}"));
    let fields = numbered.zip(arguments).map(|(name, at)| field(&name, "", When::Entry, *at, NUMBER));
    let result = Shape::Number { bytes: 8, is_signed: true, is_address: false };
    let address = Shape::Number { bytes: 8, is_signed: false, is_address: true };
    let running = field(Scheduler::GOROUTINE, "", When::Entry, GOROUTINE, address);
    let running = (convention == Convention::Go).then_some(running);
    Ok(fields.chain([field("return", "", When::Return, RESULT, result)]).chain(running).collect())
}

const NUMBER: Shape = Shape::Number { bytes: 8, is_signed: false, is_address: false };

fn field(name: &str, declared: &str, when: When, offset: u32, shape: Shape) -> Field {
    let place = Place::Context(offset);
    Field { name: name.to_owned(), declared: declared.to_owned(), when, place, shape }
}

fn is_known() -> Result<(), PointError> {
    if ARGUMENTS.is_empty() {
        let message = "rdiag does not know where functions have their arguments on this architecture".to_owned();
        return Err(PointError::plain(Reason::NotApplicable, message));
    }
    Ok(())
}

/// The same of a function of the kernel; where its type is known, arguments have their own names too.
pub(super) fn fields(prototype: Option<Prototype>) -> Result<Vec<Field>, PointError> {
    let Some(Prototype { arguments, result: returned, .. }) = prototype else { return of_program(Convention::C) };
    is_known()?;
    let numbered = (1..).map(|at: usize| format!("arg{at}"));
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
