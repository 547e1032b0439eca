//! Registers by the numbers that unwind tables have for them, which each architecture's ABI lays down.

/// As many are kept: those of arm64, of which x86-64 has half.
pub const COUNT: usize = 33;
/// Whether stacks can be walked on this architecture.
pub const SUPPORTED: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// The machine that files must be made for, as ELF numbers it.
#[cfg(target_arch = "aarch64")]
pub(in crate::mechanism::symbols) const MACHINE: u16 = 183;
#[cfg(not(target_arch = "aarch64"))]
pub(in crate::mechanism::symbols) const MACHINE: u16 = 62;

/// Words that the kernel saves of a thread's registers (`struct pt_regs`, whose beginning is that of ptrace(2)).
#[cfg(target_arch = "aarch64")]
pub const WORDS: usize = 34;
/// Words that the kernel saves of a thread's registers (`struct pt_regs`, whose beginning is that of ptrace(2)).
#[cfg(not(target_arch = "aarch64"))]
pub const WORDS: usize = 21;

#[cfg(target_arch = "aarch64")]
pub(in crate::mechanism::symbols) const SP: u16 = 31;
#[cfg(not(target_arch = "aarch64"))]
pub(in crate::mechanism::symbols) const SP: u16 = 7;
#[cfg(target_arch = "aarch64")]
pub(in crate::mechanism::symbols) const PC: u16 = 32;
/// The frame pointer.
#[cfg(target_arch = "aarch64")]
pub(super) const POINTER: u16 = 29;
/// The frame pointer.
#[cfg(not(target_arch = "aarch64"))]
pub(super) const POINTER: u16 = 6;
/// Where a call leaves the address to return to, if that is a register.
#[cfg(target_arch = "aarch64")]
const LINK: Option<u16> = Some(30);
/// Where a call leaves the address to return to, if that is a register.
#[cfg(not(target_arch = "aarch64"))]
const LINK: Option<u16> = None;
#[cfg(not(target_arch = "aarch64"))]
pub(in crate::mechanism::symbols) const PC: u16 = 16;

/// Where the tables' registers stand in what the kernel saves: x19 is 19th on arm64; on x86-64 the order is another.
#[cfg(not(target_arch = "aarch64"))]
const SAVED_AT: [usize; 17] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];

/// Registers that a function gives back as it found them; the others a caller cannot rely on.
#[cfg(target_arch = "aarch64")]
pub(super) const KEPT: &[u16] = &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29];
#[cfg(not(target_arch = "aarch64"))]
pub(super) const KEPT: &[u16] = &[3, 6, 12, 13, 14, 15];

/// Bits of an address; arm64 may sign what it returns to in those above.
#[cfg(target_arch = "aarch64")]
pub(super) const ADDRESS: u64 = (1 << 48) - 1;
#[cfg(not(target_arch = "aarch64"))]
pub(super) const ADDRESS: u64 = u64::MAX;

/// Whether a function that calls none may keep the address to return to in its register, and need no stack.
pub(super) const HAS_LINK: bool = cfg!(target_arch = "aarch64");

/// What registers hold, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers([Option<u64>; COUNT]);

impl Registers {
    /// Those that the kernel saved when a thread left its own code; none if that is code of 32 bits, or the kernel's.
    #[must_use]
    pub fn of_saved(words: &[u64]) -> Option<Self> {
        let mut registers = [None; COUNT];
        #[cfg(target_arch = "aarch64")]
        {
            // The mode in `pstate`: user code of 64 bits.
            words.get(33).filter(|state| **state & 0x1f == 0)?;
            registers.iter_mut().zip(words).for_each(|(register, word)| *register = Some(*word));
        }
        #[cfg(not(target_arch = "aarch64"))]
        {
            // The code segment of 64 bits; Xen's guests have another.
            words.get(17).filter(|segment| matches!(**segment, 0x33 | 0xe033))?;
            for (register, at) in registers.iter_mut().zip(SAVED_AT) {
                *register = words.get(at).copied();
            }
        }
        let registers = Self(registers);
        (registers.pc() != 0 && registers.pc() >> 56 == 0).then_some(registers)
    }

    /// Those that a frame is found by; the others are not known.
    #[must_use]
    pub fn of_frame(pc: u64, sp: u64, pointer: u64, link: u64) -> Self {
        let mut registers = Self([None; COUNT]);
        [(PC, pc), (SP, sp), (POINTER, pointer)].into_iter().for_each(|(at, value)| registers.set(at, Some(value)));
        LINK.into_iter().for_each(|at| registers.set(at, Some(link)));
        registers
    }

    /// None of them.
    #[cfg(test)]
    pub(super) fn unknown() -> Self {
        Self([None; COUNT])
    }

    pub(super) fn get(&self, register: u16) -> Option<u64> {
        self.0.get(usize::from(register)).copied().flatten()
    }

    pub(super) fn set(&mut self, register: u16, value: Option<u64>) {
        self.0.get_mut(usize::from(register)).into_iter().for_each(|known| *known = value);
    }

    /// The place that is executed, or returned to; 0 if it is not known.
    #[must_use]
    pub fn pc(&self) -> u64 {
        self.get(PC).unwrap_or_default()
    }

    /// Those that a caller can rely on.
    pub(super) fn kept(&self) -> Self {
        let mut kept = [None; COUNT];
        for (at, known) in kept.iter_mut().enumerate() {
            let is_kept = KEPT.iter().any(|register| usize::from(*register) == at);
            *known = if is_kept { self.0.get(at).copied().flatten() } else { None };
        }
        Self(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_the_kernel_saved_is_put_in_the_order_of_tables_and_code_of_32_bits_is_left_out() {
        let mut words: Vec<u64> = (100..121).collect();
        words[17] = 0x33;
        let registers = Registers::of_saved(&words).unwrap();
        // rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip.
        let order = [110, 112, 111, 105, 113, 114, 104, 119, 109, 108, 107, 106, 103, 102, 101, 100, 116];
        assert_eq!((0..17).map(|at| registers.get(at).unwrap()).collect::<Vec<_>>(), order);
        assert_eq!((registers.pc(), registers.get(17), registers.get(u16::MAX)), (116, None, None));
        let kept: Vec<u16> = (0..17).filter(|at| registers.kept().get(*at).is_some()).collect();
        assert_eq!(kept, [3, 6, 12, 13, 14, 15]);
        words[17] = 0x23;
        assert_eq!(Registers::of_saved(&words), None);
        words[17] = 0x33;
        words[16] = 0xffff_ffff_8100_0000;
        assert_eq!(Registers::of_saved(&words), None, "the kernel's own");
        assert_eq!(Registers::of_saved(&words[..10]), None);
    }
}
