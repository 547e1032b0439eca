//! Profiles of programs without frame pointers, as those of distributions are: their stacks are walked by unwind tables.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::hostile_symbols::sections;
use super::splitter::*;
use crate::support::{Load, Need, alone, has};

/// Six functions above `main`, with a function of the C library in the middle, half in their own code and half in the kernel's.
const C: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
unsigned long sink;
static int zeros;
static char buffer[1 << 16];
#define PART __attribute__((noinline, noclone))
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")
PART void chain_six(void) {
	unsigned long x = sink;
	for (int i = 0; i < 20000; i++) x = x * 6364136223846793005UL + i;
	for (int i = 0; i < 8; i++) sink += pread(zeros, buffer, sizeof(buffer), 0);
	sink += x;
}
PART void chain_five(void) { chain_six(); NO_TAIL_CALL; }
PART int chain_four(const void *a, const void *b) { chain_five(); NO_TAIL_CALL; return *(const int *)a - *(const int *)b; }
PART void chain_three(void) { int n[2] = {3, 1}; qsort(n, 2, sizeof(int), chain_four); sink += n[0]; }
PART void chain_two(void) { chain_three(); NO_TAIL_CALL; }
PART void chain_one(void) { chain_two(); NO_TAIL_CALL; }
int main(void) { zeros = open("/dev/zero", O_RDONLY); for (;;) chain_one(); }
"#;
const CHAIN: [&str; 7] = ["main", "chain_one", "chain_two", "chain_three", "chain_four", "chain_five", "chain_six"];
const BUILD: &[&str] = &["cc", "-O2", "-fomit-frame-pointer"];

/// Two seconds of some processes, by unwind tables.
fn by_tables(pids: &str, hz: u32) -> Value {
    let hz = format!("hz={hz}");
    profile(&["--pid", pids, "--param", &hz, "--param", "unwind=tables", "--duration", "2s"])
}

struct Stack {
    /// Name, object, and whether it is the kernel's; outermost first.
    frames: Vec<(String, String, bool)>,
    value: f64,
    pid: u64,
}

/// The stacks of a profile, and what of it does not reach the start.
fn stacks(result: &Value) -> (Vec<Stack>, f64) {
    let all = result["outputs"].as_array().unwrap().iter().find_map(|output| output.get("stacks")).unwrap();
    let frame = |at: &Value| {
        let frame = &all["frames"][at.as_u64().unwrap() as usize];
        let text = |key: &str| frame[key].as_str().unwrap_or_default().to_owned();
        (text("name"), text("object"), frame["kernel"].as_bool().unwrap_or(false))
    };
    let stack = |stack: &Value| Stack {
        frames: stack["frames"].as_array().unwrap().iter().map(frame).collect(),
        value: stack["value"].as_f64().unwrap(),
        pid: stack["pid"].as_u64().unwrap(),
    };
    (all["stacks"].as_array().unwrap().iter().map(stack).collect(), all["truncated"].as_f64().unwrap())
}

/// The share of what was sampled whose stacks hold.
fn share_of(stacks: &[Stack], holds: impl Fn(&Stack) -> bool) -> f64 {
    let sum = |holds: &dyn Fn(&Stack) -> bool| {
        stacks.iter().filter(|stack| holds(stack)).map(|stack| stack.value).sum::<f64>()
    };
    sum(&holds) / sum(&|_| true)
}

/// Whether the program's own functions are all there, in order, with the C library's before and between them.
fn is_right(stack: &Stack) -> bool {
    let own: Vec<&str> =
        stack.frames.iter().filter(|frame| frame.1 == "splitter").map(|frame| frame.0.as_str()).collect();
    let at = |name: &str| stack.frames.iter().position(|frame| frame.0 == name);
    let (Some(three), Some(four)) = (at("chain_three"), at("chain_four")) else { return false };
    own.first() == Some(&"_start")
        && own[1..] == CHAIN
        && four > three + 1
        && stack.frames[three + 1..four].iter().all(|frame| frame.1.starts_with("libc"))
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_program_without_frame_pointers_has_whole_stacks_in_its_own_code_and_in_the_kernel() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = compiled(C, "chain.c", BUILD);
    let load = Load::start(1, &text_of(&binary), &[]);
    let result = by_tables(&load.pids()[0].to_string(), 997);
    let (whole, truncated) = stacks(&result);
    let right = share_of(&whole, is_right);
    assert!(right > 0.97, "{right}: {:?}", whole.iter().find(|stack| !is_right(stack)).map(|stack| &stack.frames));
    let seconds: f64 = whole.iter().map(|stack| stack.value).sum();
    assert!(truncated < 0.03 * seconds, "{truncated} of {seconds}");
    let in_kernel = share_of(&whole, |stack| stack.frames.iter().any(|frame| frame.2) && is_right(stack));
    assert!((0.05..0.95).contains(&in_kernel), "both are sampled: {in_kernel} in the kernel");
    assert!(notes(&result).contains("user stacks by unwind tables: "), "{}", notes(&result));
    // By frame pointers, which is the default, there is nothing of this.
    let pid = load.pids()[0].to_string();
    let cut = profile(&["--pid", &pid, "--param", "hz=997", "--duration", "1s"]);
    assert!(share_of(&stacks(&cut).0, is_right) < 0.1, "the program has frame pointers");
    assert!(notes(&cut).contains("do not reach the start of their thread"), "{}", notes(&cut));
    assert!(!notes(&cut).contains("unwind tables: "), "{}", notes(&cut));
}

#[test]
#[ignore = "needs: root, eBPF, cc, strip"]
fn a_stripped_program_without_frame_pointers_has_whole_stacks() {
    let _alone = alone();
    if !has(&CC) || !has(&[Need::Tool("strip")]) {
        return;
    }
    let (_folder, binary) = compiled(C, "chain.c", BUILD);
    assert!(Command::new("strip").arg(&binary).status().unwrap().success());
    let load = Load::start(1, &text_of(&binary), &[]);
    let (whole, truncated) = stacks(&by_tables(&load.pids()[0].to_string(), 997));
    // `_start` and the chain, though none has a name.
    let own = |stack: &Stack| stack.frames.iter().filter(|frame| frame.1 == "splitter").count();
    let right = share_of(&whole, |stack| own(stack) == CHAIN.len() + 1);
    assert!(right > 0.97, "{right}: {:?}", whole.iter().map(own).collect::<Vec<_>>());
    let seconds: f64 = whole.iter().map(|stack| stack.value).sum();
    assert!(truncated < 0.03 * seconds, "a table says where each begins: {truncated} of {seconds}");
}

/// The program with other unwind tables.
fn with_tables(binary: &Path, name: &str, change: impl Fn(&mut [u8], usize, usize)) {
    let mut elf = std::fs::read(binary).unwrap();
    let at = sections(&elf).into_iter().find(|(section, _)| section == name).unwrap().1;
    let number = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap()) as usize;
    let (from, size) = (number(at + 24), number(at + 32));
    change(&mut elf, from, size);
    // The file is executed no more, and has no other name.
    std::fs::remove_file(binary).unwrap();
    std::fs::write(binary, elf).unwrap();
    std::fs::set_permissions(binary, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// Where the header of the part that leads to the tables is.
fn unwind_header(elf: &[u8]) -> usize {
    let from = u64::from_le_bytes(elf[32..40].try_into().unwrap()) as usize;
    (from..).step_by(56).find(|at| elf[*at..*at + 4] == 0x6474_e550_u32.to_le_bytes()).unwrap()
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn hostile_unwind_tables_cost_their_own_program_its_callers_and_no_other() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_innocent_folder, innocent) = compiled(C, "chain.c", BUILD);
    type Change = fn(&mut [u8], usize, usize);
    let hostile: [(&str, &str, Change); 5] = [
        ("garbage", ".eh_frame", |elf, from, size| elf[from..from + size].fill(0xff)),
        ("no tables", ".eh_frame", |elf, from, size| elf[from..from + size].fill(0)),
        // Each entry belongs to itself.
        ("circles", ".eh_frame", |elf, from, size| {
            let mut at = from;
            while at + 8 < from + size {
                let length = u32::from_le_bytes(elf[at..at + 4].try_into().unwrap()) as usize;
                elf[at + 4..at + 8].copy_from_slice(&4_u32.to_le_bytes());
                at += 4 + length.max(4);
            }
        }),
        // A search among four milliards of entries.
        ("many", ".eh_frame_hdr", |elf, from, _| elf[from + 8..from + 12].fill(0xff)),
        ("huge", ".eh_frame_hdr", |elf, _, _| {
            let at = unwind_header(elf);
            elf[at + 32..at + 48].copy_from_slice(&[(1_u64 << 62).to_le_bytes(), (1_u64 << 62).to_le_bytes()].concat());
        }),
    ];
    for (what, section, change) in hostile {
        let (_folder, program) = compiled(C, "chain.c", BUILD);
        with_tables(&program, section, change);
        let (good, bad) = (Load::start(1, &text_of(&innocent), &[]), Load::start(1, &text_of(&program), &[]));
        let (good_pid, bad_pid) = (good.pids()[0], bad.pids()[0]);
        let pids = format!("{good_pid},{bad_pid}");
        let result = by_tables(&pids, 499);
        let (mut good, mut bad) = (stacks(&result).0, stacks(&result).0);
        good.retain(|stack| stack.pid == u64::from(good_pid));
        bad.retain(|stack| stack.pid == u64::from(bad_pid));
        let right = share_of(&good, is_right);
        assert!(right > 0.95, "{what}: {right}");
        // The innermost function has its name, and where there are callers all the same, they are the right ones.
        let is_innermost = |stack: &Stack| {
            stack.frames.iter().rev().find(|frame| frame.1 == "splitter").is_some_and(|frame| frame.0 == "chain_six")
        };
        assert!(
            share_of(&bad, is_innermost) > 0.5,
            "{what}: {:?}",
            bad.iter().map(|stack| &stack.frames).collect::<Vec<_>>()
        );
    }
}
