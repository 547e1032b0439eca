//! Functions of programs in Python and JavaScript, for which the programs in the kernel ask the interpreter's own memory
//! (`interpreted.h`).

use std::collections::{HashMap, HashSet};

use super::java::Machines;
use super::running;
use super::steps::Whose;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Kernel, Object};
use rdiag_kernel::mechanism::symbols::{
    CPython, CUT, INTERPRETED, Interpreter, Language, Layout, Process, Symbols, V8,
};
use rdiag_model::Unavailable;
use rdiag_model::probe::Frame;

/// `struct python` of the programs.
type PythonWords = [u64; 16];
/// `struct v8` of them.
type V8Words = [u64; 10];
/// Words of a text in `struct function_name`.
pub(super) const TEXT: usize = 8;
/// The name of a function whose own is in letters that are not read: of Python all but ASCII, of JavaScript all but Latin-1.
const NAMELESS: &str = "(a name that is not ASCII)";
/// What the files begin with that node has in itself.
const OF_NODE: &str = "node:";
/// What stands in place of the file of functions that have none: those of V8 itself.
const JAVASCRIPT: &str = "JavaScript";
/// How long an interpreter is waited for, in seconds.
const PATIENCE: f64 = 5.0;
/// The same of a look, in seconds.
const SOON: f64 = 0.03;
/// That of one whose name could not be read, or found no room.
const UNKNOWN: &str = "(unknown function)";

/// Processes whose interpreters are known, or were looked for, and functions that have their names.
#[derive(Debug, Default)]
pub(super) struct Interpreters {
    /// How often each was looked at, and none where the programs know it.
    looks: HashMap<Process, Option<u32>>,
    of_v8: HashSet<Process>,
    named: HashSet<(Process, u64)>,
    functions: HashSet<Frame>,
    /// What asks the interpreters is at work, or why it is not.
    attached: Option<Result<(), String>>,
    /// Machines of Java.
    pub(super) machines: Machines,
    /// Some are looked for since answers were taken last.
    is_asking: bool,
    /// Until when an interpreter may be found in which processes.
    expected: HashMap<Process, (f64, Whose)>,
}

impl Interpreters {
    /// Has the interpreter of a process looked for. It need not have mapped it when it is first seen, and may become another program; but
    /// the longer it has none, the less often it is asked.
    pub(super) fn ask(&mut self, object: &Object, host: &Host, symbols: &mut Symbols, process: Process) {
        let look = self.looks.entry(process).or_insert(Some(0));
        let is_known = || {
            object.hash_value::<u32, PythonWords>("pythons", &process.pid).is_some()
                || object.hash_value::<u32, V8Words>("v8s", &process.pid).is_some()
                || Machines::has_told(object, process.pid)
        };
        let looks = match look {
            None if is_known() => return,
            None => {
                // It has become another program.
                self.of_v8.remove(&process);
                look.insert(0)
            }
            Some(looks) => looks,
        };
        *looks += 1;
        if !looks.is_power_of_two() {
            return;
        }
        let expected = match symbols.learn_interpreter(host, process) {
            Some(Language::JavaScript) => Whose::JavaScript,
            Some(Language::Python(_)) => Whose::Python,
            // Functions of Java are not known by it.
            Some(Language::Java) => return self.is_asking = true,
            None => return,
        };
        self.is_asking = true;
        self.expected.entry(process).or_insert((host.now() + PATIENCE, expected));
    }

    /// Whose code without tables is in a process. While an interpreter of Python is being looked for, it is not worth while to walk that
    /// one's own stacks.
    pub(super) fn whose(&self, host: &Host, process: Process) -> Whose {
        if self.of_v8.contains(&process) {
            return Whose::JavaScript;
        }
        let expected = self.expected.get(&process).filter(|(until, _)| host.now() < *until);
        expected.map_or(Whose::Own, |(_, whose)| *whose)
    }

    /// Tells the programs of the interpreters that were found meanwhile. One that is new is waited for: until the next look nothing would
    /// be known.
    pub(super) fn take(&mut self, object: &mut Object, host: &Host, symbols: &mut Symbols) {
        let seconds = if std::mem::take(&mut self.is_asking) { SOON } else { 0.0 };
        for (process, interpreter) in symbols.interpreters_within(host, seconds) {
            let is_told = match interpreter {
                Interpreter::Python(python) => {
                    let attached = self.attached.get_or_insert_with(|| attach(object, host).map_err(|gap| gap.why));
                    attached.is_ok() && object.set_hash_value("pythons", &process.pid, python_words(&python)).is_ok()
                }
                Interpreter::JavaScript(v8) => object.set_hash_value("v8s", &process.pid, v8_words(&v8)).is_ok(),
                Interpreter::Java(java) => self.machines.tell(object, process, java),
            };
            if is_told {
                self.looks.insert(process, None);
                self.expected.remove(&process);
            }
            if matches!(interpreter, Interpreter::JavaScript(_)) {
                self.of_v8.insert(process);
            }
        }
    }

    /// Why functions of Python have no names, or waits of Java, if that is known.
    pub(super) fn notes(&self) -> Vec<String> {
        let why_not = self.attached.as_ref().and_then(|attached| attached.as_ref().err());
        let python = why_not.map(|why| format!("functions of Python have no names: {why}"));
        python.into_iter().chain(self.machines.note()).collect()
    }

    /// Whether this is one of their functions.
    pub(super) fn has(&self, function: &Frame) -> bool {
        self.functions.contains(function)
    }

    /// Has it looked what threads of a process are parked for that sleep all the time, if it has a machine of Java.
    pub(super) fn ask_parked(&mut self, symbols: &mut Symbols, process: Process) {
        self.is_asking |= self.machines.ask(symbols, process);
    }

    /// Gives the functions on a stack their names.
    pub(super) fn name(&mut self, object: &Object, symbols: &mut Symbols, process: Process, stack: &[u64]) {
        for word in stack.iter().filter(|word| **word & INTERPRETED != 0) {
            if self.named.contains(&(process, *word)) {
                continue;
            }
            // Frames of the interpreter's own are none of the program.
            let is_function = *word != INTERPRETED && *word != CUT;
            let names = object.hash_value::<[u64; 2], [u64; 2 * TEXT]>("function_names", &[process.pid.into(), *word]);
            let language = if self.of_v8.contains(&process) { JAVASCRIPT } else { "Python" };
            let named = |names: Option<&[u64; 2 * TEXT]>| {
                names.map_or_else(|| of(UNKNOWN, language), |names| frame(names, language))
            };
            let function = is_function.then(|| named(names.as_ref()));
            if names.is_some() || !is_function {
                self.named.insert((process, *word));
            }
            // Those that V8 and node have in themselves are called by the program's own.
            let is_own = |function: &Frame| {
                function.object.as_deref().is_some_and(|file| !file.starts_with(OF_NODE) && file != JAVASCRIPT)
            };
            self.functions.extend(function.clone().filter(is_own));
            symbols.name_interpreted(process, *word, function);
        }
    }
}

/// `Server.handle`, and the name of its file; without one it is the language.
fn frame(names: &[u64; 2 * TEXT], language: &str) -> Frame {
    let (name, file) = names.split_at(TEXT);
    let (name, file) = (text(name), text(file));
    // The last part of a name that V8 has made up.
    let name = name.trim_start_matches('.');
    let file = if file.starts_with(OF_NODE) { &file } else { file.rsplit('/').next().unwrap_or_default() };
    of(if name.is_empty() { NAMELESS } else { name }, if file.is_empty() { language } else { file })
}

fn of(name: &str, object: &str) -> Frame {
    Frame { name: name.to_owned(), object: Some(object.to_owned()), ..Frame::default() }
}

/// Text of one byte for each letter (Latin-1), which of Python is ASCII alone.
pub(super) fn text(words: &[u64]) -> String {
    words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).map(char::from).collect()
}

/// The programs that ask Python's take time to be verified, which only those pay for who have programs in Python.
fn attach(object: &mut Object, host: &Host) -> Result<(), Unavailable> {
    let hook = Hook::TracepointBy { event: "sched_switch", program: "sched_switch_python" };
    let kernel = Kernel::shared(host)?;
    object.attach(&kernel, hook)?;
    // Without a clock for them they have waits all the same.
    let _ = running::attach(object, host, true);
    Ok(())
}

/// `CPython` as the programs have it.
fn python_words(python: &CPython) -> PythonWords {
    let CPython { state, layout } = python;
    let Layout { first_interpreter, next_interpreter, first_thread, next_thread, thread_id, .. } = *layout;
    let Layout {
        native_id, frame, frame_within, code, previous, owner, file, name, length, state: of_text, text, ..
    } = *layout;
    let or_none = |offset: Option<u32>| offset.map_or(0, |offset| u64::from(offset) + 1);
    [
        state.wrapping_add(first_interpreter.into()),
        next_interpreter.into(),
        first_thread.into(),
        next_thread.into(),
        thread_id.into(),
        or_none(native_id),
        frame.into(),
        or_none(frame_within),
        code.into(),
        previous.into(),
        or_none(owner),
        file.into(),
        name.into(),
        length.into(),
        of_text.into(),
        text.into(),
    ]
}

/// V8 as the programs have it.
fn v8_words(v8: &V8) -> V8Words {
    let V8 { shared, name, script, locals, first_local, first_other, .. } = *v8;
    let [a, b, c, d, e, f] = [shared, name, script, locals, first_local, first_other].map(u64::from);
    let V8 { type_of_shared, type_of_scope, type_of_script, type_of_debug_info, .. } = *v8;
    [a, b, c, d, e, f, type_of_shared.into(), type_of_scope.into(), type_of_script.into(), type_of_debug_info.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_called_by_its_class_and_its_file() {
        let texts = |name: &str, file: &str| {
            let mut bytes = [0_u8; 16 * TEXT];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            bytes[8 * TEXT..8 * TEXT + file.len()].copy_from_slice(file.as_bytes());
            let words: Vec<u64> =
                bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
            let frame = frame(&words.try_into().unwrap(), "Python");
            (frame.name, frame.object.unwrap())
        };
        assert_eq!(texts("Server.handle", "/srv/app/server.py"), ("Server.handle".to_owned(), "server.py".to_owned()));
        assert_eq!(texts("", ""), (NAMELESS.to_owned(), "Python".to_owned()));
        assert_eq!(texts("then", "node:internal/timers"), ("then".to_owned(), "node:internal/timers".to_owned()));
        assert_eq!(texts("geh\u{c3}", "x.js").0, "geh\u{c3}\u{83}", "each byte is a letter");
    }
}
