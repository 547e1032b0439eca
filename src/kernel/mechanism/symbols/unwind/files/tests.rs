//! This program's own stack.
#![expect(unsafe_code, reason = "getcontext(3) has no safe form")]
#![expect(clippy::disallowed_methods, reason = "the memory of this process is no part of the host that is looked at")]

use std::os::unix::fs::FileExt as _;

use super::super::{Registers, Step, Way};
use super::*;
use crate::mechanism::symbols::worker::Detail;

/// The registers of this thread, and so many bytes of its stack.
fn dump(bytes: usize) -> Dump {
    let mut context = std::mem::MaybeUninit::<libc::ucontext_t>::zeroed();
    // SAFETY: the memory is large enough for what is written, and zeros are a valid value of it.
    let context = unsafe {
        libc::getcontext(context.as_mut_ptr());
        context.assume_init()
    };
    let of = |register: i32| context.uc_mcontext.gregs[register as usize].cast_unsigned();
    let mut saved = [0; 21];
    saved[17] = 0x33;
    use libc::{REG_R12, REG_R13, REG_R14, REG_R15, REG_RBP, REG_RBX, REG_RIP, REG_RSP};
    for (at, register) in [
        (0, REG_R15),
        (1, REG_R14),
        (2, REG_R13),
        (3, REG_R12),
        (4, REG_RBP),
        (5, REG_RBX),
        (16, REG_RIP),
        (19, REG_RSP),
    ] {
        saved[at] = of(register);
    }
    let base = of(REG_RSP);
    let mut stack = vec![0; bytes];
    std::fs::File::open("/proc/self/mem").unwrap().read_at(&mut stack, base).map(|read| stack.truncate(read)).unwrap();
    Dump {
        ticket: 7,
        registers: Registers::of_saved(&saved).unwrap(),
        is_called: false,
        is_asleep: false,
        follows_pointers: false,
        base,
        bytes: stack,
        pointers: Vec::new(),
        functions: BTreeMap::new(),
    }
}

#[inline(never)]
fn innermost(depth: u32, bytes: usize) -> Dump {
    if depth > 0 { std::hint::black_box(innermost(depth - 1, bytes)) } else { dump(bytes) }
}

fn walk(dump: Dump) -> (Vec<Walked>, Vec<String>) {
    let maps = Maps::parse(&std::fs::read_to_string("/proc/self/maps").unwrap());
    let of = Of::Process { pid: std::process::id(), by_link: false, by_path: true };
    let mut lookup = Lookup::default();
    let (walked, notes) = lookup.walk(&of, vec![dump], &maps);
    assert!(notes.is_empty(), "{notes:?}");
    let addresses: Vec<u64> =
        walked.iter().flat_map(|walked| &walked.stack).flat_map(|stack| stack.addresses.clone()).collect();
    let (names, _) = lookup.names(&of, &addresses.iter().map(|at| at - 1).collect::<Vec<_>>(), &maps, Detail::Name);
    (walked, names.into_iter().map(|named| named.first().map(|named| named.name.clone()).unwrap_or_default()).collect())
}

#[test]
fn a_stack_is_whole_up_to_the_start_of_its_thread_without_frame_pointers() {
    let (walked, names) = walk(std::thread::spawn(|| innermost(5, 1 << 16)).join().unwrap());
    assert_eq!(walked[0].ticket, 7);
    let stack = walked[0].stack.as_ref().unwrap();
    assert!(stack.is_whole, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.contains("innermost")).count(), 6, "{names:?}");
    let outer = &names[names.len() - 3..];
    assert!(outer.iter().any(|name| name.contains("start_thread") || name.contains("clone")), "{names:?}");
}

/// What a program in the kernel does with the steps of a walk.
fn follow(dump: &Dump, steps: &[Step]) -> Vec<u64> {
    let (mut sp, mut pointer) = (dump.registers.get(7).unwrap(), dump.registers.get(6).unwrap());
    let mut addresses = vec![dump.registers.pc()];
    let word = |at: u64| {
        let at = usize::try_from(at - dump.base).unwrap();
        u64::from_ne_bytes(dump.bytes[at..at + 8].try_into().unwrap())
    };
    for step in steps {
        let Way::Plain(plain) = step.way else { break };
        let base = if plain.by_pointer { pointer } else { sp };
        let mut frame = base.wrapping_add_signed(plain.frame);
        if let Some(offset) = plain.loaded {
            frame = word(frame).wrapping_add_signed(offset);
        }
        addresses.push(word(frame.wrapping_add_signed(plain.returns.unwrap())));
        pointer = plain.pointer.map_or(pointer, |offset| word(frame.wrapping_add_signed(offset)));
        sp = frame;
    }
    addresses
}

#[test]
fn the_steps_of_a_walk_lead_the_same_way_by_two_registers_alone() {
    let dump = std::thread::spawn(|| innermost(5, 1 << 16)).join().unwrap();
    let (walked, names) = walk(dump.clone());
    let Walked { stack: Some(stack), steps, .. } = &walked[0] else { panic!("{walked:?}") };
    assert!(stack.is_whole && steps.last().is_some_and(|step| step.way == Way::Outermost), "{names:?} {steps:?}");
    assert_eq!(follow(&dump, steps), stack.addresses);
    let places: Vec<u64> =
        stack.addresses.iter().enumerate().map(|(at, address)| address - u64::from(at > 0)).collect();
    assert_eq!(steps.iter().map(|step| step.place).collect::<Vec<_>>(), places);
}

#[test]
fn a_stack_of_which_too_little_was_copied_ends_there_and_is_not_whole() {
    let (walked, names) = walk(innermost(200, 8000));
    let stack = walked[0].stack.as_ref().unwrap();
    assert!(!stack.is_whole && names.iter().all(|name| !name.contains("main")), "{names:?}");
    assert!(stack.addresses.len() >= 2, "{names:?}");
    // What frame pointers lead to is taken where it is more.
    let code = dump as fn(usize) -> Dump as usize as u64;
    let (walked, _) = walk(Dump { pointers: vec![code; 100], ..innermost(200, 8000) });
    assert!(walked.iter().all(|walked| walked.ticket == 7 && walked.stack.is_none()) && walked.len() == 1);
}

#[test]
fn a_file_that_could_not_be_asked_is_asked_again() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no program").unwrap();
    let found = Located::File(std::sync::Arc::new(crate::mechanism::symbols::open::find_mapped(file.path()).unwrap()));
    let mut lookup = Lookup::default();
    assert!(lookup.learn_rows(&found, std::process::id(), &[16]).is_err());
    assert_eq!(lookup.rows.find(found.identity(), 16), None);
}
