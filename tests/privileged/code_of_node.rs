//! In which functions the time of a program in JavaScript went.

use std::process::Command;

use super::code::{NEEDS, Shown, all, costs_its_own_names, profile, seconds, stacks};
use crate::support::{Need, alone, has, skip};

/// Sleeps for 20 ms, 5 ms and 10 ms in turn, below a method, a function without a name, and one in another script whose names are long; a
/// worker has memory of its own; and a function of functions computes.
const PROGRAM: &str = r#"
const { Worker, isMainThread } = require('worker_threads');
const vm = require('vm');
const end = Date.now() + SECONDS * 1000;
const cell = new Int32Array(new SharedArrayBuffer(4));
function nap(ms) { Atomics.wait(cell, 0, 0, ms); }
function slow() { nap(20); }
class Server { handle() { this.query(); } query() { nap(5); } }
function geh\u00fctet() { nap(10); }
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
// Of two texts in memory, of which the second is shown.
const file = '/srv/' + 'long_'.repeat(20) + 'name.js';
const long = vm.runInThisContext('(function ' + 'far_'.repeat(30) + 'off(nap) { nap(10); })', { filename: file });
function of_worker() { nap(10); }
function turn() {
  if (!isMainThread) of_worker();
  else { slow(); new Server().handle(); [1].forEach(() => nap(10)); geh\u00fctet(); long(nap); fib(30); }
  if (Date.now() < end) setTimeout(turn, 1);
}
if (isMainThread) new Worker(__filename);
turn();
"#;

/// Without inlining: what V8 inlines into another function counts as that one's.
#[test]
#[ignore = "needs: root, eBPF, node"]
fn time_of_a_node_program_is_that_of_its_functions() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("node")]) {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return skip("functions of JavaScript are known on x86-64");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.js"), PROGRAM.replace("SECONDS", "4")).unwrap();
    let stacks = stacks(&profile(folder.path(), &["node", "--no-turbo-inlining", "shop.js"]));
    let naps = |functions: &[&str]| seconds(&stacks, "wait.futex", functions);
    let turn = "turn shop.js";
    let slow = naps(&["listOnTimeout node:internal/timers", turn, "slow shop.js", "nap shop.js"]);
    let query = naps(&[turn, "handle shop.js", "query shop.js", "nap shop.js"]);
    assert!(slow > 0.3 && (2.5..6.0).contains(&(slow / query)), "{slow} {query}\n{}", all(&stacks));
    let far = format!("{}off name.js", "far_".repeat(15));
    for functions in [
        [turn, "forEach JavaScript", "(anonymous) shop.js", "nap shop.js"].as_slice(),
        &[turn, "geh\u{fc}tet shop.js", "nap shop.js"],
        &[turn, &far, "nap shop.js"],
    ] {
        let own = naps(functions);
        assert!((1.2..3.5).contains(&(slow / own)), "{slow} {own} {functions:?}\n{}", all(&stacks));
    }
    let of_worker = naps(&[turn, "of_worker shop.js", "nap shop.js"]);
    assert!(of_worker > 0.3, "{of_worker}\n{}", all(&stacks));
    let computed = seconds(&stacks, "cpu.user", &["fib shop.js", "fib shop.js"]);
    let user: f64 = stacks.iter().filter(|stack| stack.component == "cpu.user").map(|stack| stack.seconds).sum();
    assert!(computed > 0.2 * user, "{computed} of {user}\n{}", all(&stacks));
}

/// Calls itself node, and has what node has beside its frame pointers. If it lies, texts, scopes and frames without an end, and a name that
/// would ring a bell and clear the screen.
const PRETENDS: &str = r#"
#include <stdint.h>
#include <string.h>
#include <time.h>
#define SAYS(name, value) int v8dbg_##name = value;
SAYS(TaggedSize, 8) SAYS(HeapObjectTag, 1) SAYS(HeapObjectTagMask, 3) SAYS(SmiTag, 0) SAYS(SmiTagMask, 1)
SAYS(SmiShiftSize, 31) SAYS(SmiValueShift, 1) SAYS(StringTag, 0) SAYS(StringRepresentationMask, 7) SAYS(SeqStringTag, 0)
SAYS(ConsStringTag, 1) SAYS(SlicedStringTag, 3) SAYS(ThinStringTag, 5) SAYS(StringEncodingMask, 8) SAYS(OneByteStringTag, 8)
SAYS(class_HeapObject__map__Map, 0) SAYS(class_Map__instance_type__uint16_t, 12) SAYS(class_String__length__int32_t, 12)
SAYS(class_SeqOneByteString__chars__char, 16) SAYS(class_ConsString__first__String, 16)
SAYS(class_ConsString__second__String, 24) SAYS(class_SlicedString__parent__String, 16)
SAYS(class_SlicedString__offset__SMI, 24) SAYS(class_ThinString__actual__String, 16) SAYS(class_Script__name__Object, 16)
SAYS(off_fp_context, -8) SAYS(off_fp_function, -16) SAYS(class_JSFunction__shared__SharedFunctionInfo, 24)
SAYS(class_SharedFunctionInfo__name_or_scope_info__Object, 16) SAYS(class_SharedFunctionInfo__script_or_debug_info__Object, 32)
SAYS(scopeinfo_idx_ncontextlocals, 2) SAYS(scopeinfo_idx_first_vars, 3) SAYS(IsNotStringMask, -128)
SAYS(type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE, 262) SAYS(type_ScopeInfo__SCOPE_INFO_TYPE, 261)
SAYS(type_Script__SCRIPT_TYPE, 167) SAYS(type_DebugInfo__DEBUG_INFO_TYPE, 153)
struct object { uint64_t words[24]; };
static struct object maps[6], function, shared, scope, script, loop, part, name, file;
#define TAGGED(object) ((uint64_t)&(object) + 1)
static void is(struct object *object, int at, uint64_t type)
{
	maps[at].words[0] = TAGGED(maps[at]);
	maps[at].words[1] = type << 32;
	object->words[0] = TAGGED(maps[at]);
}
static void text(struct object *object, uint64_t length, const char *letters)
{
	object->words[1] = length << 32;
	strcpy((char *)&object->words[2], letters);
}
void nap(void) { nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, 0); }
#ifdef SPINS
/* Each of eight hundred functions computes once, for 5 ms. */
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
#define SPIN(n) __attribute__((noipa)) static unsigned spin_##n(unsigned x) \
	{ double until = now() + 0.005; do for (int i = 0; i < 200000; i++) x = x * 3 + n; while (now() < until); return x; }
#define TEN(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9)
#define HUNDRED(m, n) TEN(m, n##0) TEN(m, n##1) TEN(m, n##2) TEN(m, n##3) TEN(m, n##4) TEN(m, n##5) TEN(m, n##6) TEN(m, n##7) \
	TEN(m, n##8) TEN(m, n##9)
#define ALL(m) HUNDRED(m, 1) HUNDRED(m, 2) HUNDRED(m, 3) HUNDRED(m, 4) HUNDRED(m, 5) HUNDRED(m, 6) HUNDRED(m, 7) HUNDRED(m, 8)
ALL(SPIN)
#define NAME(n) spin_##n,
static unsigned (*all[])(unsigned) = { ALL(NAME) };
static unsigned at, sum;
__attribute__((noinline)) void spin(void) { sum += all[at++ % 800](sum); }
#define DOES "spin"
#define TURNS 800
#else
#define DOES "nap"
#define TURNS (SECONDS * 90)
#endif
void in_frame(uint64_t function, uint64_t context);
__asm__(".text\nin_frame: push %rbp\nmov %rsp, %rbp\npush %rsi\npush %rdi\ncall " DOES "\nleave\nret\n");
int main(void)
{
	is(&shared, 0, 262);
	is(&scope, 1, 261);
	is(&script, 2, 167);
	is(&loop, 3, 1); /* a text of two, which are itself */
	is(&part, 4, 3); /* a part of itself, far behind its end */
	is(&name, 5, 8);
	is(&file, 5, 8);
	text(&loop, 1 << 30, "");
	loop.words[2] = loop.words[3] = TAGGED(loop);
	part.words[1] = 5ULL << 32;
	part.words[2] = TAGGED(part);
	part.words[3] = ~0ULL;
	text(&name, 100, "bell\a\033[2J");
	text(&file, 24, "/x/\033[2J\033]0;owned\a.js");
	function.words[0] = 1;
	function.words[3] = TAGGED(shared);
	shared.words[4] = TAGGED(script);
#ifndef LIES
	text(&name, 6, "handle");
	text(&file, 16, "/srv/app/shop.js");
	script.words[2] = TAGGED(file);
	/* A scope with two locals, of which each has a name and a word. */
	scope.words[3] = 2ULL << 32;
	scope.words[4] = scope.words[5] = TAGGED(file);
	scope.words[8] = TAGGED(name);
	shared.words[2] = TAGGED(scope);
	for (int i = 0; i < TURNS; i++)
		in_frame(TAGGED(function), TAGGED(script));
	return 0;
#endif
	for (int i = 0; i < 200; i++) {
		uint64_t names[] = { TAGGED(name), TAGGED(loop), TAGGED(part), TAGGED(scope), 1, ~0ULL & ~2ULL, 0, TAGGED(shared) };
		uint64_t locals[] = { 0, 1ULL << 34, ~0ULL, 74ULL << 32, 75ULL << 32 };
		shared.words[2] = names[i % 8];
		scope.words[3] = locals[i / 8 % 5];
		scope.words[4] = i & 1 ? TAGGED(loop) : TAGGED(name);
		script.words[2] = i % 3 ? TAGGED(file) : TAGGED(loop);
		in_frame(TAGGED(function), i % 7 ? TAGGED(script) : 0);
	}
}
"#;

const FLAGS: &[&str] = &["-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer", "-no-pie"];

/// Has it observed, and gives the stacks at which its time went; none if that cannot be.
fn pretending(define: &str) -> Option<Vec<Shown>> {
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return None;
    }
    if !cfg!(target_arch = "x86_64") {
        skip("functions of JavaScript are known on x86-64");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("node.c"), PRETENDS).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-o", "node", "node.c"]).args(FLAGS).arg(define);
    assert!(compiler.current_dir(folder.path()).status().unwrap().success());
    Some(stacks(&profile(folder.path(), &["./node"])))
}

fn a_function_has_its_name(takes: u32) {
    let _alone = alone();
    let Some(stacks) = pretending(&format!("-DSECONDS={takes}")) else { return };
    let own = seconds(&stacks, "wait.sleep", &["main node", "handle shop.js", "nap node"]);
    assert!(own > 0.4 * f64::from(takes), "{own}\n{}", all(&stacks));
}

#[test]
#[ignore = "needs: root, eBPF, cc, x86-64"]
fn function_is_named_that_calls_what_was_never_seen_before() {
    let _alone = alone();
    let Some(stacks) = pretending("-DSPINS") else { return };
    let own = seconds(&stacks, "cpu.user", &["main node", "handle shop.js"]);
    let user: f64 = stacks.iter().filter(|stack| stack.component == "cpu.user").map(|stack| stack.seconds).sum();
    assert!(user > 1.0 && own > 0.4 * user, "{own} of {user}\n{}", all(&stacks));
}

#[test]
#[ignore = "needs: root, eBPF, cc, x86-64"]
fn function_beside_a_frame_pointer_is_named() {
    a_function_has_its_name(3);
}

#[test]
#[ignore = "needs: root, eBPF, cc, x86-64"]
fn vm_function_beside_a_frame_pointer_is_named() {
    a_function_has_its_name(6);
}

#[test]
#[ignore = "needs: root, eBPF, cc, x86-64"]
fn a_program_that_lies_about_being_node_costs_its_own_names() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return skip("functions of JavaScript are known on x86-64");
    }
    costs_its_own_names("node", PRETENDS, &[FLAGS, &["-DLIES"]].concat());
}
