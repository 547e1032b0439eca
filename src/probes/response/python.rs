//! Functions of programs in Python, for which the programs in the kernel ask the interpreter's own memory (`python.h`).

use std::collections::{HashMap, HashSet};

use super::running;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Kernel, Object, words};
use rdiag_kernel::mechanism::symbols::{CUT, INTERPRETED, Interpreter, Layout, Process, Symbols};
use rdiag_model::Unavailable;
use rdiag_model::probe::Frame;

/// `struct python` of the programs.
type PythonWords = [u64; 16];
/// Words of a text in `struct python_name`.
const TEXT: usize = 8;
/// The name of a function whose own is not in ASCII.
const NAMELESS: &str = "(a name that is not ASCII)";
/// How long an interpreter is waited for, in seconds.
const PATIENCE: f64 = 5.0;
/// That of one whose name could not be read, or found no room.
const UNKNOWN: &str = "(unknown function)";

/// Processes whose interpreters are known, or were looked for, and functions that have their names.
#[derive(Debug, Default)]
pub(super) struct Pythons {
    /// How often each was looked at, and none where the programs know it.
    looks: HashMap<Process, Option<u32>>,
    named: HashSet<(Process, u64)>,
    functions: HashSet<Frame>,
    /// What asks the interpreters is at work, or why it is not.
    attached: Option<Result<(), String>>,
    /// Until when an interpreter may be found in which processes.
    expected: HashMap<Process, f64>,
}

impl Pythons {
    /// Has the interpreter of a process looked for. It need not have mapped it when it is first seen, and may become another program; but
    /// the longer it has none, the less often it is asked.
    pub(super) fn ask(&mut self, object: &Object, host: &Host, symbols: &mut Symbols, process: Process) {
        let look = self.looks.entry(process).or_insert(Some(0));
        let is_known = || object.hash_value::<u32, PythonWords>("pythons", &process.pid).is_some();
        let looks = match look {
            None if is_known() => return,
            None => look.insert(0),
            Some(looks) => looks,
        };
        *looks += 1;
        if looks.is_power_of_two() && symbols.learn_interpreter(host, process) {
            self.expected.entry(process).or_insert(host.now() + PATIENCE);
        }
    }

    /// Whether an interpreter is being looked for in a process, so that it is not worth while to walk its own stacks yet.
    pub(super) fn is_expected(&self, host: &Host, process: Process) -> bool {
        self.expected.get(&process).is_some_and(|until| host.now() < *until)
    }

    /// Tells the programs of the interpreters that were found meanwhile.
    pub(super) fn take(&mut self, object: &mut Object, host: &Host, symbols: &mut Symbols) {
        for (process, interpreter) in symbols.interpreters() {
            let attached = self.attached.get_or_insert_with(|| attach(object, host).map_err(|gap| gap.why));
            if attached.is_ok() && object.set_hash_value("pythons", &process.pid, told(&interpreter)).is_ok() {
                self.looks.insert(process, None);
                self.expected.insert(process, 0.0);
            }
        }
    }

    /// Why functions of Python have no names, if that is known.
    pub(super) fn why_not(&self) -> Option<String> {
        let why = self.attached.as_ref()?.as_ref().err()?;
        Some(format!("functions of Python have no names: {why}"))
    }

    /// Whether this is one of their functions.
    pub(super) fn has(&self, function: &Frame) -> bool {
        self.functions.contains(function)
    }

    /// Gives the functions on a stack their names.
    pub(super) fn name(&mut self, object: &Object, symbols: &mut Symbols, process: Process, stack: &[u64]) {
        for word in stack.iter().filter(|word| **word & INTERPRETED != 0) {
            if self.named.contains(&(process, *word)) {
                continue;
            }
            // Frames of the interpreter's own are none of the program.
            let is_function = *word != INTERPRETED && *word != CUT;
            let names = object.hash_value::<[u64; 2], [u64; 2 * TEXT]>("python_names", &[process.pid.into(), *word]);
            let function = is_function.then(|| names.as_ref().map_or_else(|| of_python(UNKNOWN, ""), frame));
            if names.is_some() || !is_function {
                self.named.insert((process, *word));
            }
            self.functions.extend(function.clone());
            symbols.name_interpreted(process, *word, function);
        }
    }
}

/// `Server.handle`, and the name of its file.
fn frame(names: &[u64; 2 * TEXT]) -> Frame {
    let (name, file) = names.split_at(TEXT);
    let (name, file) = (words::text_of_words(name), words::text_of_words(file));
    of_python(if name.is_empty() { NAMELESS } else { &name }, file.rsplit('/').next().unwrap_or_default())
}

fn of_python(name: &str, file: &str) -> Frame {
    let object = if file.is_empty() { "Python" } else { file };
    Frame { name: name.to_owned(), object: Some(object.to_owned()), ..Frame::default() }
}

/// The programs that ask them take time to be verified, which only those pay for who have programs in Python.
fn attach(object: &mut Object, host: &Host) -> Result<(), Unavailable> {
    let hook = Hook::TracepointBy { event: "sched_switch", program: "sched_switch_python" };
    let kernel = Kernel::shared(host)?;
    object.attach(&kernel, hook)?;
    // Without a clock for them they have waits all the same.
    let _ = running::attach(object, host, true);
    Ok(())
}

/// An interpreter as the programs have it.
fn told(interpreter: &Interpreter) -> PythonWords {
    let Interpreter { state, layout } = interpreter;
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
            let frame = frame(&words.try_into().unwrap());
            (frame.name, frame.object.unwrap())
        };
        assert_eq!(texts("Server.handle", "/srv/app/server.py"), ("Server.handle".to_owned(), "server.py".to_owned()));
        assert_eq!(texts("", ""), (NAMELESS.to_owned(), "Python".to_owned()));
    }
}
