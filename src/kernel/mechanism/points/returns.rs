//! Which functions of programs must not have a return probe, since it could end the program.
//!
//! A return probe (uretprobe) replaces the return address on the stack by one of the kernel's. Code that reads that address before the
//! function returns meets unknown code. A Go runtime that grows a stack stops the program ("unknown caller pc"), an exception finds
//! no handler, `longjmp` jumps to where the kernel no longer expects a return (SIGILL). Names of sections and symbols
//! show what a file is made of, and for Go its tables, which no `strip` removes.
//!
//! The kernel keeps the addresses that it replaced in the order of the calls of a thread, and drops those that lie below the stack pointer.
//! Coroutines with stacks of their own return in another order, or to one that was dropped: the program jumps astray, or gets SIGILL.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolFlags};

use super::{Program, Target, binaries, go};
use crate::host::Host;
use rdiag_model::{Reason, Unavailable};

/// What to do instead.
const REMEDY: &str = "watch entries only, without return values and latency (rdiag probe count --param function=FILE:NAME); for requests \
    give two functions, of which one is entered at the beginning and one at the end (--each-from function=… --each-to function=…)";

/// Functions that look at the address to which they return, or return twice; without the underscores before their names.
const SPECIAL: &[&str] = &[
    "setjmp",
    "sigsetjmp",
    "savectx",
    "getcontext",
    "swapcontext",
    "vfork",
    "dlopen",
    "dlmopen",
    "dlsym",
    "dlvsym",
    "backtrace",
    "morestack",
    "mcount",
    "fentry",
];

/// Sections that only such files have.
const SECTIONS: &[(&str, &str)] = &[
    (".gopclntab", GO),
    (".data.rel.ro.gopclntab", GO),
    (".go.buildinfo", GO),
    (".note.go.buildid", GO),
    (".gosymtab", GO),
    (".svm_heap", "GraalVM, whose collector of garbage walks stacks"),
    ("__managedcode", ".NET, whose collector of garbage walks stacks"),
    (".debug-ghc-link-info", GHC),
];

/// Symbols that only such files have: a whole name, or how it begins if there is a `*`. A file defines them.
const DEFINED: &[(&str, &str)] = &[
    ("runtime.morestack", GO),
    ("runtime.goexit", GO),
    ("_ZN2v8*", "V8, whose collector of garbage walks stacks"),
    ("_ZN2js3jit*", "SpiderMonkey, whose collector of garbage walks stacks"),
    ("JNI_CreateJavaVM", "a Java virtual machine, which walks stacks"),
    ("graal_create_isolate", "GraalVM, whose collector of garbage walks stacks"),
    ("coreclr_initialize", ".NET, whose collector of garbage walks stacks"),
    ("mono_jit_init", ".NET, whose collector of garbage walks stacks"),
    ("Dart_Initialize", "Dart, whose collector of garbage walks stacks"),
    ("caml_startup", "OCaml, whose collector of garbage walks stacks"),
    ("caml_frametable", "OCaml, whose collector of garbage walks stacks"),
    ("stg_upd_frame_info", GHC),
    ("PyEval_EvalCode", "CPython, whose extensions may switch stacks (greenlet)"),
    ("rb_fiber_resume", "Ruby, whose fibers switch stacks"),
    ("zend_fiber_init_context", "PHP, whose fibers switch stacks"),
    ("__morestack", "a compiler that splits stacks, which moves return addresses"),
];

/// Symbols of files that exceptions pass through, defined or not.
const EXCEPTIONS: &[&str] = &[
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_begin_catch",
    "__gxx_personality_v0",
    "__gnu_objc_personality_v0",
    "__gnat_personality_v0",
    "__gdc_personality_v0",
    "_d_eh_personality",
    "rust_eh_personality",
];

/// Functions that switch stacks, defined or not; the C library has them for others.
const SWITCHES: &[&str] =
    &["swapcontext", "setcontext", "makecontext", "jump_fcontext", "ontop_fcontext", "co_switch", "coroutine_transfer"];

/// The same, where a file takes it from another one. A program that is linked statically may have it without need.
const RAISE: &str = "_Unwind_RaiseException";

/// Functions through which no exception passes and within which no stack is switched, whatever their file does: what calls them has no
/// handler (C declares them so, and the server's loop ends with an exception in any case).
const NOTHROW: &[&str] = &[
    "main",
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "_Z16dispatch_command19enum_server_commandP3THDPcjb",
];

const GO: &str = "Go, whose runtime walks and moves stacks";
const GHC: &str = "Haskell (GHC), whose functions have no return address on the stack";

/// Why a function of this file must not have a return probe, if so. `shown` is `FILE:FUNCTION`.
pub fn obstacle(program: &Program, shown: &str) -> Result<(), Unavailable> {
    let function = shown.rsplit(':').next().unwrap_or(shown);
    let because = |why: String| {
        let why = format!(
            "the return of {shown} cannot be watched without danger for the program: {why}; a return probe replaces the return address \
             on the stack, which can end the program"
        );
        Unavailable::new(Reason::NotApplicable, why).with_remedy(REMEDY)
    };
    if is_special(function) {
        return Err(because(format!("{function} looks at the address to which it returns, or returns twice")));
    }
    let bytes = binaries::read(program).map_err(super::PointError::gap)?;
    match binaries::parsed(&bytes, program.path()).map(|elf| harmed(&elf, function)) {
        Err(error) => Err(because(error.message)),
        Ok(Some(why)) => Err(because(format!("{} {why}", program.path()))),
        Ok(None) => Ok(()),
    }
}

/// The same of all functions that a text means (`libc:malloc`, `FILE:PATTERN`); what is wrong with the text is reported elsewhere.
pub fn obstacle_of(host: &Host, text: &str, process: Option<u32>) -> Result<(), Unavailable> {
    let found = super::functions(host, text, process).unwrap_or_default();
    found.iter().try_for_each(|point| match &point.target {
        Target::User { path, .. } => obstacle(path, &point.name),
        _ => Ok(()),
    })
}

fn is_special(function: &str) -> bool {
    let plain = function.trim_start_matches('_');
    plain.starts_with("Unwind_") || SPECIAL.contains(&plain)
}

/// What of the file would be harmed, in words that follow its name.
fn harmed(elf: &object::File<'_>, function: &str) -> Option<String> {
    for section in elf.sections() {
        let known = SECTIONS.iter().find(|(name, _)| section.name_bytes().is_ok_and(|own| own == name.as_bytes()));
        if let Some((name, runtime)) = known {
            return Some(format!("is made with {runtime} (it has a section {name})"));
        }
        let is_table = |data: &[u8]| go::version_in(data).is_some();
        if section.kind() != object::SectionKind::Text && go::is_loaded(&section) && section.data().is_ok_and(is_table)
        {
            return Some(format!("is made with {GO} (it has its table of functions)"));
        }
    }
    let is_nothrow = NOTHROW.contains(&function);
    let is_library = elf.dynamic_symbols().any(|symbol| !symbol.is_undefined() && symbol.name() == Ok("swapcontext"));
    let (mut throws, mut switches) = (None, None);
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let Ok(name) = symbol.name() else { continue };
        // Compilers may add a version or a part.
        let name = name.split('@').next().unwrap_or(name);
        let is_defined = !symbol.is_undefined() && matches!(symbol.flags(), SymbolFlags::Elf { .. });
        if let Some((known, runtime)) = DEFINED.iter().find(|(known, _)| is_defined && fits(known, name)) {
            return Some(format!("is made with {runtime} (it has {})", known.trim_end_matches('*')));
        }
        if !is_nothrow && !is_library && SWITCHES.contains(&name) {
            switches.get_or_insert_with(|| format!("has coroutines, which switch stacks (it uses {name})"));
        }
        if !is_nothrow && (EXCEPTIONS.contains(&name) || (name == RAISE && !is_defined)) {
            throws.get_or_insert_with(|| {
                format!("has exceptions or panics, for which stacks are walked (it uses {name})")
            });
        }
    }
    switches.or(throws)
}

fn fits(known: &str, name: &str) -> bool {
    known.strip_suffix('*').map_or(known == name, |begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: u32 = 3;

    /// A program for this processor with these sections, and symbols that it has itself or takes from elsewhere.
    fn program(sections: &[(&str, &[u8])], symbols: &[(&str, bool)]) -> Vec<u8> {
        let (mut names, mut table, mut body) = (vec![0], vec![0; 24], vec![0_u8; 64]);
        let mut name = |text: &str| {
            let at = names.len() as u32;
            names.extend(text.bytes().chain([0]));
            at
        };
        for (text, is_defined) in symbols {
            table.extend(name(text).to_le_bytes());
            // A global function in the first section, or in none.
            table.extend([0x12, 0, u8::from(*is_defined), 0]);
            table.extend([0; 16]);
        }
        let mut headers = vec![[0; 64]];
        let mut add = |at: u32, kind: u32, flags: u64, data: &[u8], link: u32, entry: u64| {
            let mut header = [kind.to_le_bytes(), [0; 4]].concat();
            header.splice(0..0, at.to_le_bytes());
            header.truncate(8);
            for word in [flags, 0, body.len() as u64, data.len() as u64] {
                header.extend(word.to_le_bytes());
            }
            header.extend([link.to_le_bytes(), [0; 4]].concat());
            header.extend([1_u64.to_le_bytes(), entry.to_le_bytes()].concat());
            headers.push(header.try_into().unwrap());
            body.extend(data);
            body.resize(body.len().next_multiple_of(8), 0);
        };
        add(name(".text"), 1, 6, &[0xc3; 8], 0, 0);
        let (symbols_are, names_are) = (name(".symtab"), name(".strtab"));
        let own: Vec<(u32, &[u8])> = sections.iter().map(|(text, data)| (name(text), *data)).collect();
        add(symbols_are, 2, 0, &table, NAMES, 24);
        add(names_are, 3, 0, &names, 0, 0);
        for (at, data) in own {
            add(at, 1, 2, data, 0, 0);
        }
        let start = body.len() as u64;
        let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(16, 0);
        head.extend([2_u16.to_le_bytes(), machine.to_le_bytes()].concat());
        head.extend(1_u32.to_le_bytes());
        head.extend([[0; 8], [0; 8], start.to_le_bytes()].concat());
        head.extend([0; 4]);
        for half in [64, 0, 0, 64, headers.len() as u16, NAMES as u16] {
            head.extend(half.to_le_bytes());
        }
        body.splice(0..64, head);
        body.extend(headers.concat());
        body
    }

    fn why(sections: &[(&str, &[u8])], symbols: &[(&str, bool)], function: &str) -> Option<String> {
        harmed(&object::File::parse(&*program(sections, symbols)).unwrap(), function)
    }

    #[test]
    fn programs_of_go_are_known_by_any_of_their_sections_and_stripped_ones_by_their_table() {
        for section in [".gopclntab", ".data.rel.ro.gopclntab", ".go.buildinfo", ".note.go.buildid"] {
            let told = why(&[(section, b"x")], &[("main.work", true)], "main.work").unwrap();
            assert!(told.contains("made with Go") && told.contains(section), "{told}");
        }
        for version in [0xfb, 0xfa, 0xf0, 0xf1] {
            let table = [[0; 8], [version, 0xff, 0xff, 0xff, 0, 0, 1, 8]].concat();
            assert!(why(&[(".renamed", &table)], &[], "main.work").unwrap().contains("table of functions"));
            // Elsewhere than at the beginning of a word, or without what follows, it is another number.
            let moved = [&[0; 4][..], &table].concat();
            assert_eq!(why(&[(".renamed", &moved)], &[], "main.work"), None);
            assert_eq!(why(&[(".renamed", &[version, 0xff, 0xff, 0xff, 0, 0, 0, 0])], &[], "main.work"), None);
        }
    }

    #[test]
    fn runtimes_and_exceptions_are_known_by_symbols() {
        assert_eq!(why(&[], &[("work", true), ("printf", false)], "work"), None);
        assert!(why(&[], &[("_ZN2v87Isolate3NewEv", true)], "work").unwrap().contains("V8"));
        // Who only uses it keeps its own stack.
        assert_eq!(why(&[], &[("_ZN2v87Isolate3NewEv", false)], "work"), None);
        for used in ["__cxa_throw", "__gxx_personality_v0", "_Unwind_RaiseException", "rust_eh_personality"] {
            assert!(why(&[], &[(used, false)], "work").unwrap().contains("exceptions or panics"), "{used}");
            for safe in ["malloc", "main"] {
                assert_eq!(why(&[], &[(used, false)], safe), None);
            }
        }
        assert!(why(&[(".gopclntab", b"x")], &[], "malloc").unwrap().contains("Go"));
    }

    #[test]
    fn files_whose_stacks_are_switched_are_known_by_what_switches_them() {
        for (used, is_defined) in
            [("swapcontext", false), ("swapcontext", true), ("makecontext", false), ("jump_fcontext", false)]
        {
            let told = why(&[], &[(used, is_defined)], "work").unwrap();
            assert!(told.contains("coroutines") && told.contains(used), "{told}");
            assert_eq!(why(&[], &[(used, is_defined)], "malloc"), None, "no stack is switched within it");
        }
        assert_eq!(why(&[], &[("getcontext", false)], "work"), None, "that alone switches none");
        for (own, of) in
            [("PyEval_EvalCode", "CPython"), ("rb_fiber_resume", "Ruby"), ("zend_fiber_init_context", "PHP")]
        {
            assert!(why(&[], &[(own, true)], "work").unwrap().contains(of));
            assert_eq!(why(&[], &[(own, false)], "work"), None, "who only calls it");
        }
    }

    #[test]
    fn functions_that_look_at_their_return_address_are_refused_in_any_file() {
        for function in ["_setjmp", "__sigsetjmp", "setjmp", "vfork", "dlsym", "_Unwind_RaiseException"] {
            assert!(is_special(function), "{function}");
        }
        assert!(!is_special("longjmp_counter") && !is_special("malloc"));
    }

    #[test]
    fn files_that_are_none_are_refused() {
        assert!(binaries::parsed(b"#!/bin/sh", "work").is_err());
    }
}
