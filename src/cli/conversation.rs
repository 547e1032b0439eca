//! Method R begins with questions: which task, what hurts, who is affected, how long it takes and may take. Each has a line; `?`, back and
//! quit work in every one of them, and what was answered stays answered.

use std::collections::BTreeMap;

use super::task::lives;
use super::ui::{Text, Ui};
use crate::cli::exit::Failure;
use rdiag_kernel::host::SharedHost;
use rdiag_model::Target;
use rdiag_model::quantity::percent;
use rdiag_report::shown;
use rdiag_session as session;

/// How long candidates are looked at, in seconds.
const LOOK_SECONDS: f64 = 1.0;
/// Wrong answers to one question before rdiag goes on without.
const TRIES: usize = 3;
/// Longest name or answer that is shown.
const SHOWN: usize = 60;

/// A line that a person typed.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// What a question asks for; empty to leave it open.
    Answer(String),
    Back,
    /// The end of the input: no more answers.
    End,
}

/// A question.
struct Question {
    /// The parameter that the answer becomes.
    name: &'static str,
    asks: &'static str,
    /// What `?` says of it.
    help: &'static str,
    is_time: bool,
}

const QUESTIONS: [Question; 4] = [
    Question {
        name: "task",
        asks: "What hurts, in your words? (Enter: skip) ",
        help: "The report repeats it in your words; nothing is judged by it.",
        is_time: false,
    },
    Question {
        name: "for",
        asks: "Who is affected? (Enter: skip) ",
        help: "The report repeats it in your words; nothing is judged by it.",
        is_time: false,
    },
    Question {
        name: "now",
        asks: "How long does it take now? (1.2s; Enter: not known) ",
        help: "The time of one execution: 200ms, 1.2s, 2m. The report compares it with how long it may take.",
        is_time: true,
    },
    Question {
        name: "goal",
        asks: "How long may it take? (200ms; Enter: not known) ",
        help: "The time that one execution may take: 200ms, 1.2s, 2m. The report says how much must be saved.",
        is_time: true,
    },
];

/// Asks the person at the terminal for what the options leave open. No answer leaves it open.
pub(super) fn converse(
    host: &SharedHost,
    ui: &Ui,
    target: &mut Target,
    params: &mut BTreeMap<String, String>,
    has_command: bool,
) -> Result<(), Failure> {
    let names_task = has_command || !target.is_everything();
    let given = |name: &str| params.get(name).is_some_and(|known| !known.is_empty());
    let measures_now = has_command || target.each;
    let open = |of: &&Question| !(given(of.name) || of.name == "now" && measures_now);
    let questions: Vec<&Question> = QUESTIONS.iter().filter(open).collect();
    if !(names_task && questions.is_empty()) {
        ui.note("b goes back, q quits, ? explains a question.");
    }
    if !names_task && !which(host, ui, target)? {
        return Ok(());
    }
    let mut at = 0;
    while let Some(question) = questions.get(at) {
        match answer(ui, question)? {
            Line::End => return Ok(()),
            Line::Answer(answer) => {
                // A question that is skipped on the way back keeps its answer.
                if !answer.is_empty() {
                    params.insert(question.name.to_owned(), answer);
                }
                at += 1;
            }
            Line::Back if at > 0 => at -= 1,
            Line::Back if names_task => ui.note("  This is the first question."),
            Line::Back => {
                let before = (std::mem::take(&mut target.pids), target.comm.take());
                if !which(host, ui, target)? {
                    return Ok(());
                }
                if target.is_everything() {
                    (target.pids, target.comm) = before;
                }
            }
        }
    }
    Ok(())
}

/// The answer to a question; a time that is none is asked for again.
fn answer(ui: &Ui, question: &Question) -> Result<Line, Failure> {
    for _ in 0..TRIES {
        let line = ask(ui, question.asks, question.help)?;
        match &line {
            Line::Answer(text) if question.is_time && !text.is_empty() && !is_time(question.name, text) => {
                ui.note("  not a duration; examples: 200ms, 1.2s, 2m");
            }
            _ => return Ok(line),
        }
    }
    Ok(Line::Answer(String::new()))
}

/// Whether an answer is a time, as the question takes it.
fn is_time(name: &str, text: &str) -> bool {
    session::conversation(&[(name.to_owned(), text.to_owned())].into()).is_ok()
}

/// Asks until the answer is not a request for help.
fn ask(ui: &Ui, asks: &'static str, help: &'static str) -> Result<Line, Failure> {
    loop {
        let Some(line) = ui.line(asks) else { return Ok(Line::End) };
        match line.as_str() {
            "?" => {
                ui.note(shown!("  {}", help));
                ui.note("  b: back to the question before; q: quit, nothing is measured; Ctrl-C: the same");
            }
            "q" | "quit" => return Err(Failure::Quit),
            "b" | "back" => return Ok(Line::Back),
            _ => return Ok(Line::Answer(line)),
        }
    }
}

/// Shows who uses the CPUs or waits for them, and asks who is meant; whether there was an answer.
fn which(host: &SharedHost, ui: &Ui, target: &mut Target) -> Result<bool, Failure> {
    ui.note("Which task is slow? The busiest processes of the last second:");
    let candidates = session::candidates(host, LOOK_SECONDS);
    for candidate in &candidates {
        let name = Text::seen_within(&candidate.comm, SHOWN);
        let [cpu, waiting] = [candidate.cpu, candidate.waiting].map(|share| Text::seen(percent(share)));
        ui.note(shown!("  {:>8}  {:<16}  {:>6} of a CPU, {:>6} waiting for one", candidate.pid, name, cpu, waiting));
    }
    for _ in 0..TRIES {
        let help = "A process id, of this list or any other, or the name of a program: all processes of that name are looked at.";
        match ask(ui, "Its process id, or its name: ", help)? {
            Line::Back => ui.note("  This is the first question."),
            Line::End => return Ok(false),
            Line::Answer(answer) if answer.is_empty() => return Ok(true),
            Line::Answer(answer) => match answer.parse::<u32>() {
                Ok(pid) => match lives(host, &[pid]) {
                    Ok(()) => {
                        target.pids = vec![pid];
                        return Ok(true);
                    }
                    Err(problem) => ui.note(shown!("  {}", problem.shown())),
                },
                Err(_) => {
                    target.comm = Some(answer);
                    return Ok(true);
                }
            },
        }
    }
    Ok(true)
}
