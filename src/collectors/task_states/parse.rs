//! Parsers of the files of one thread. Each is total: what it cannot understand is none.

use rdiag_kernel::classify::Abi;
use rdiag_proc::{Field, TaskStat};

/// The numbers of /proc/PID/task/TID/stat that count here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat<'s> {
    /// Field 2: may hold anything.
    pub(super) comm: &'s [u8],
    /// Field 3.
    pub(super) state: char,
    /// Field 4.
    pub(super) parent: u32,
    /// Field 9 has PF_KTHREAD.
    pub(super) kernel: bool,
    /// Fields 14 and 15, ticks.
    pub(super) user: u64,
    /// See `user`.
    pub(super) system: u64,
    /// Field 22, ticks since boot.
    pub(super) start: u64,
}

/// None for a line that ends before these.
pub(super) fn stat(bytes: &[u8]) -> Option<Stat<'_>> {
    let task = TaskStat::parse(bytes)?;
    let mut fields = task.fields();
    Some(Stat {
        comm: task.name,
        state: task.state,
        parent: u32::try_from(fields.number(Field::Parent)?).ok()?,
        kernel: fields.is_kernel()?,
        user: fields.number(Field::User)?,
        system: fields.number(Field::System)?,
        start: fields.number(Field::Start)?,
    })
}

/// /proc/PID/task/TID/syscall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syscall {
    /// It was running while it was looked at.
    Running,
    /// Off the CPU, and not in a call.
    User,
    Call(Call),
}

/// A call, as the file shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
    pub(crate) stack_pointer: u64,
}

pub(crate) fn syscall(bytes: &[u8]) -> Option<Syscall> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    if text == "running" {
        return Some(Syscall::Running);
    }
    let mut words = text.split(' ');
    let number: i64 = words.next()?.parse().ok()?;
    if number < 0 {
        return Some(Syscall::User);
    }
    let mut argument = || words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let mut arguments = [0; 6];
    for each in &mut arguments {
        *each = argument()?;
    }
    Some(Syscall::Call(Call { number, arguments, stack_pointer: argument()? }))
}

/// The function in wchan; none where it is `0`: running, or not for this user to see.
pub(super) fn wchan(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    (!text.is_empty() && text != "0").then_some(text)
}

/// The functions of lines such as `[<0>] folio_wait_bit+0x11f/0x1c0`, innermost first.
pub(super) fn stack(text: &str) -> Vec<&str> {
    let name = |line| {
        let (_, symbol): (_, &str) = str::split_once(line, "] ")?;
        symbol.split(['+', ' ']).next().filter(|name| !name.is_empty() && !name.starts_with("0x"))
    };
    text.lines().take(64).filter_map(name).collect()
}

/// How a process numbers its calls, from /proc/PID/auxv: its words are as wide as the program's. Entry 6 is the page size.
pub(crate) fn abi(auxv: &[u8]) -> Abi {
    const PAGE_SIZE: u64 = 6;
    let plausible =
        |key: u64, value: u64| key == PAGE_SIZE && value.is_power_of_two() && (4096..=65536).contains(&value);
    let narrow = auxv.as_chunks::<8>().0.iter().any(|pair| {
        let word = |at: usize| pair.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes);
        plausible(word(0).into(), word(4).into())
    });
    let wide = auxv.as_chunks::<16>().0.iter().any(|pair| {
        let word =
            |at: usize| pair.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_ne_bytes);
        plausible(word(0), word(8))
    });
    if narrow && !wide { Abi::Compat } else { Abi::Native }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &[u8] =
        b"77 (a) b\n(c) D 12 77 77 0 -1 2129984 5 0 1 0 31 7 0 0 20 0 4 0 8812 1 2 18446744073709551615\n";

    #[test]
    fn numbers_begin_after_the_name_whatever_that_holds() {
        let stat = stat(STAT).unwrap();
        assert_eq!((stat.comm, stat.state, stat.parent), (&b"a) b\n(c"[..], 'D', 12));
        assert_eq!((stat.user, stat.system, stat.start, stat.kernel), (31, 7, 8812, true));
        let user = String::from_utf8_lossy(STAT).replace("2129984", "4194304");
        assert!(!super::stat(user.as_bytes()).unwrap().kernel);
        assert_eq!((super::stat(b"77 (x"), super::stat(b"77 (x) R 1")), (None, None));
    }

    #[test]
    fn a_call_is_told_from_user_mode_and_from_running() {
        assert_eq!(syscall(b"running\n"), Some(Syscall::Running));
        assert_eq!(syscall(b"-1 0x7ffc 0x7fd7\n"), Some(Syscall::User));
        assert_eq!(
            syscall(b"202 0x56 0x189 0x0 0x0 0x0 0xffffffff 0x7ff 0x7fe\n"),
            Some(Syscall::Call(Call {
                number: 202,
                arguments: [0x56, 0x189, 0, 0, 0, 0xffff_ffff],
                stack_pointer: 0x7ff
            }))
        );
        assert_eq!((syscall(b""), syscall(b"202 0x1"), syscall(b"x 1 2 3")), (None, None, None));
    }

    #[test]
    fn functions_are_found_and_zero_is_none() {
        assert_eq!(wchan(b"do_wait"), Some("do_wait"));
        assert_eq!((wchan(b"0"), wchan(b"")), (None, None));
        assert_eq!(stack("[<0>] schedule+0x1/0x2\n[<0>] do_wait+0x1/0x2\n[<0>] 0xffff\nx"), ["schedule", "do_wait"]);
    }

    #[test]
    fn the_width_of_a_program_is_that_of_its_auxiliary_vector() {
        let wide: Vec<u8> =
            [16_u64, 0x0f8b_fbff, 6, 4096, 17, 100, 0, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let narrow: Vec<u8> = [32_u32, 0xf7f0, 6, 4096, 17, 100, 0, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!((abi(&wide), abi(&narrow), abi(b"")), (Abi::Native, Abi::Compat, Abi::Native));
    }

    proptest! {
        #[test]
        fn no_text_can_stop_the_parsers(bytes: Vec<u8>) {
            let _ = (stat(&bytes), syscall(&bytes), wchan(&bytes), abi(&bytes));
            stack(&String::from_utf8_lossy(&bytes));
        }
    }
}
