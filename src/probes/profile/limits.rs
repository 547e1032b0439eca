//! What a profile cannot see, and how much of it that concerns.

use super::functions::Hottest;
use rdiag_model::quantity::percent;

/// Functions that let interrupts in again, or run right after that: the clock's interrupt waits for them.
const INTERRUPTS_ON: &[&str] = &[
    "_raw_spin_unlock_irqrestore",
    "_raw_spin_unlock_irq",
    "_raw_read_unlock_irq",
    "_raw_write_unlock_irq",
    "finish_task_switch",
    "handle_softirqs",
    "__do_softirq",
    "exit_to_user_mode",
];
/// Less than this share is not worth a line.
const WORTH: f64 = 0.02;

/// What was sampled, as far as the limits depend on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of {
    /// By the CPU clock, which is an interrupt like any other.
    pub(super) cpu_clock: bool,
    /// The kernel too.
    pub(super) kernel: bool,
    /// Share of what was sampled whose user stack seems cut short.
    pub(super) truncated: f64,
    /// Unwind tables were asked for user stacks.
    pub(super) tables: bool,
}

/// Sentences for the reader.
pub(super) fn notes(hottest: &Hottest, of: Of) -> Vec<String> {
    let mut notes = Vec::new();
    let masked = hottest.in_functions(|name| INTERRUPTS_ON.iter().any(|known| name.starts_with(known)));
    if of.cpu_clock && of.kernel && masked >= WORTH {
        notes.push(format!(
            "{} stands at functions that let interrupts in again: the CPU clock cannot look into code that keeps them out, and \
             puts its time down to the end of it",
            percent(masked)
        ));
    }
    let (files, compiled) = hottest.nameless();
    let in_files: f64 = files.iter().map(|(_, share)| share).sum();
    if in_files >= WORTH {
        let named: Vec<String> =
            files.iter().take(3).map(|(file, share)| format!("{file} {}", percent(*share))).collect();
        notes.push(format!(
            "{} has no function names ({}): the file is stripped, was replaced, or its process ended too soon; install its \
             symbols (debug package) or build it with them",
            percent(in_files),
            named.join(", ")
        ));
    }
    if compiled >= WORTH {
        notes.push(format!(
            "{} was compiled at run time and has no names: have the program write /tmp/perf-PID.map (node \
             --perf-basic-prof, python3 -X perf; Java: --ask-runtime)",
            percent(compiled)
        ));
    }
    if of.truncated >= WORTH {
        notes.push(format!(
            "{} has stacks that do not reach the start of their thread: {}; the functions themselves are right, their callers may \
             be missing",
            percent(of.truncated),
            if of.tables {
                "where unwind tables were asked, they or the copy of the stack (16 KiB) end there; elsewhere the code has no frame \
                 pointers; or there are more frames than are kept"
            } else {
                "code without frame pointers (-fno-omit-frame-pointer)"
            }
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::functions::Executed;
    use super::*;
    use rdiag_kernel::mechanism::symbols::{COMPILED, Process};
    use rdiag_model::probe::Frame;

    fn hottest(all: &[(&str, &str, bool, f64)]) -> Hottest {
        let mut hottest = Hottest::default();
        for (name, object, named, value) in all {
            let kernel = *object == "[kernel]";
            let function = Frame { name: (*name).into(), object: Some((*object).into()), kernel, line: None };
            hottest.add(Executed {
                process: Process { pid: 1, born: 1 },
                task: "app".into(),
                in_kernel: kernel,
                function: Some(function),
                named: *named,
                inlined: None,
                line: None,
                value: *value,
            });
        }
        hottest
    }

    #[test]
    fn what_cannot_be_seen_is_told_with_its_share_and_nothing_is_told_where_all_is_seen() {
        let of = Of { cpu_clock: true, kernel: true, truncated: 0.3, tables: false };
        let blind = hottest(&[
            ("_raw_spin_unlock_irqrestore", "[kernel]", true, 2.0),
            ("app+0x1", "app", false, 1.0),
            ("0x1", COMPILED, false, 1.0),
        ]);
        let told = notes(&blind, of);
        assert_eq!(told.len(), 4);
        for (note, begins) in
            told.iter().zip(["50.0% stands", "25.0% has no", "25.0% was compiled", "30.0% has stacks"])
        {
            assert!(note.starts_with(begins), "{note}");
        }
        assert!(told[3].contains("code without frame pointers"), "{}", told[3]);
        let with_tables = notes(&blind, Of { tables: true, ..of });
        assert!(
            with_tables[3].contains("where unwind tables were asked, they or the copy of the stack"),
            "{}",
            with_tables[3]
        );
        let clear = hottest(&[("main", "app", true, 1.0)]);
        assert_eq!(notes(&clear, Of { truncated: 0.0, ..of }), Vec::<String>::new());
        assert_eq!(notes(&blind, Of { cpu_clock: false, truncated: 0.0, ..of }).len(), 2, "hardware events see it");
    }
}
