//! The text of a trace: one event after the other, each with the task, the CPU, the state of the CPU and the time.
//!
//! The name of the task comes first, and any user may choose it, with line breaks or what looks like the rest of a line. It
//! always takes 16 bytes, so what follows is found by its place and not by its look.

/// The name of a task in its 16 bytes.
const NAME: usize = 16;
/// Longest text of an event that is kept, in characters.
const FIELDS: usize = 1000;
/// No event is longer in bytes, so what has no end by then is given up.
const LONGEST: usize = 64 << 10;

/// When an event happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stamp {
    /// Seconds of the clock in force.
    Seconds(f64),
    /// What a clock says that does not count seconds: `counter`, `x86-tsc`.
    Ticks(u64),
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name of the task; none where the kernel no longer knew it.
    pub task: Option<String>,
    /// Id of the thread.
    pub tid: u32,
    /// The CPU.
    pub cpu: u32,
    /// What the CPU was in the middle of, in the kernel's letters (`d.h1.`).
    pub flags: String,
    /// When.
    pub stamp: Stamp,
    /// The name within its group (`sched_switch`).
    pub event: String,
    /// What it says of itself, cut at 1000 characters.
    pub fields: String,
}

/// Text that comes in pieces.
#[derive(Debug, Default)]
pub struct Lines {
    pending: Vec<u8>,
    current: Option<Line>,
}

impl Lines {
    /// Takes over a piece; every event that is known to be whole goes to `each`.
    pub fn feed(&mut self, piece: &[u8], each: &mut impl FnMut(Line)) {
        self.pending.extend_from_slice(piece);
        self.take_lines(false, each);
        if self.pending.len() >= LONGEST {
            self.pending.clear();
        }
    }

    /// Nothing more is there just now, and the kernel hands events on as a whole: so the last one is.
    pub fn flush(&mut self, each: &mut impl FnMut(Line)) {
        self.take_lines(true, each);
        self.current.take().into_iter().for_each(each);
    }

    fn take_lines(&mut self, is_all: bool, each: &mut impl FnMut(Line)) {
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        while let Some((text, after)) = first_line(rest, is_all) {
            self.take(text, each);
            rest = after;
        }
        self.pending = rest.to_vec();
    }

    fn take(&mut self, text: &[u8], each: &mut impl FnMut(Line)) {
        match (parse(text), &mut self.current) {
            (Some(line), current) => current.replace(line).into_iter().for_each(each),
            // How many were lost, the buffers themselves tell better.
            (None, _) if is_loss(text) => {}
            // The value of a field had a line break.
            (None, Some(line)) => {
                let room = FIELDS.saturating_sub(line.fields.chars().count());
                let more = format!("\n{}", String::from_utf8_lossy(text));
                line.fields.extend(more.chars().take(room));
            }
            (None, None) => {}
        }
    }
}

/// The first line and what comes after it; none while its end is not there. A line break in the name of a task ends no line.
fn first_line(text: &[u8], is_all: bool) -> Option<(&[u8], &[u8])> {
    let line_break = |from: usize| text.iter().skip(from).position(|byte| *byte == b'\n').map(|at| from + at);
    let first = line_break(0)?;
    let end = match line_break(NAME + 1) {
        Some(second) if first <= NAME && header(text).is_some() => second,
        // Whether the line break is one of a name, only the text behind it tells.
        None if first <= NAME && !is_all => return None,
        _ => first,
    };
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// `CPU:1 [LOST 13 EVENTS]`.
fn is_loss(text: &[u8]) -> bool {
    text.starts_with(b"CPU:") && text.ends_with(b"EVENTS]")
}

/// What stands before the event's own text: `NAME-TID [CPU] FLAGS STAMP: `, and the bytes that it takes.
struct Header<'t> {
    tid: u32,
    cpu: u32,
    flags: &'t str,
    stamp: Stamp,
    rest: &'t [u8],
}

fn header(text: &[u8]) -> Option<Header<'_>> {
    let after = text.get(NAME..)?.strip_prefix(b"-")?;
    let (tid, after) = word(after)?;
    // With the option record-tgid the process stands in between: `( 1234)`, or dashes where it is not known.
    let after = match after.strip_prefix(b"(") {
        Some(process) => {
            let end = process.iter().take(12).position(|byte| *byte == b')')?;
            process.get(end + 1..)?.trim_ascii_start()
        }
        None => after,
    };
    let (cpu, after) = word(after)?;
    let cpu = cpu.strip_prefix('[')?.strip_suffix(']')?;
    let (flags, after) = word(after)?;
    let (stamp, _) = word(after)?;
    let end = stamp.len() + 1;
    let rest = after.get(end..).unwrap_or_default();
    Some(Header {
        tid: tid.parse().ok()?,
        cpu: cpu.parse().ok()?,
        flags: Some(flags).filter(|flags| (4..=8).contains(&flags.len()))?,
        stamp: stamp_of(stamp.strip_suffix(':')?)?,
        rest,
    })
}

/// The first word, and what comes after the blanks behind it.
fn word(text: &[u8]) -> Option<(&str, &[u8])> {
    let end = text.iter().take(40).position(|byte| *byte == b' ' || *byte == b'\n')?;
    let (word, after) = text.split_at_checked(end)?;
    let blanks = after.iter().take_while(|byte| **byte == b' ').count();
    Some((std::str::from_utf8(word).ok().filter(|word| !word.is_empty())?, after.get(blanks..)?))
}

fn stamp_of(text: &str) -> Option<Stamp> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, part)) if digits(whole) && digits(part) => text.parse().ok().map(Stamp::Seconds),
        None if digits(text) => text.parse().ok().map(Stamp::Ticks),
        _ => None,
    }
}

fn parse(text: &[u8]) -> Option<Line> {
    let Header { tid, cpu, flags, stamp, rest } = header(text)?;
    let name = String::from_utf8_lossy(text.get(..NAME)?).trim_start_matches(' ').to_owned();
    let rest = String::from_utf8_lossy(rest);
    let rest = rest.trim_start_matches(' ');
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (word, fields) = rest.split_at_checked(end)?;
    // System calls have a form of their own: `sys_openat(dfd: …)` when they begin, `sys_openat -> 0x3` when they return.
    let call = word.strip_prefix("sys_");
    let (event, fields) = match call {
        Some(call) if fields.starts_with('(') => (format!("sys_enter_{call}"), fields),
        Some(call) if fields.starts_with(" -> ") => (format!("sys_exit_{call}"), fields),
        _ => (word.to_owned(), fields.strip_prefix(':').unwrap_or(fields)),
    };
    Some(Line {
        task: Some(name).filter(|name| name != "<...>"),
        tid,
        cpu,
        flags: flags.to_owned(),
        stamp,
        event,
        fields: fields.trim_start_matches(' ').chars().take(FIELDS).collect(),
    })
}

/// What the letters say, in words: `interrupts off, hard interrupt, preemption off`; empty where nothing is special.
#[must_use]
pub fn context(flags: &str) -> String {
    let mut letters = flags.chars();
    let mut words: Vec<String> = Vec::new();
    let mut say = |text: &str| words.push(text.to_owned());
    match letters.next() {
        Some('d') => say("interrupts off"),
        Some('b') => say("softirqs off"),
        Some('D') => say("interrupts and softirqs off"),
        _ => {}
    }
    // Which of the several ways of asking a task to give up the CPU is a matter of the scheduler.
    if letters.next().is_some_and(|letter| letter.is_ascii_alphabetic()) {
        say("reschedule wanted");
    }
    match letters.next() {
        Some('z') => say("NMI"),
        Some('Z') => say("NMI in hard interrupt"),
        Some('h') => say("hard interrupt"),
        Some('H') => say("hard interrupt in softirq"),
        Some('s') => say("softirq"),
        _ => {}
    }
    let depth = |letter: Option<char>| letter.and_then(|letter| letter.to_digit(16)).filter(|depth| *depth > 0);
    if let Some(depth) = depth(letters.next()) {
        words.push(format!("preemption off ({depth})"));
    }
    if let Some(depth) = depth(letters.next()) {
        words.push(format!("migration off ({depth})"));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Line> {
        let (mut lines, mut all) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.feed(piece, &mut |line| all.push(line));
        }
        lines.flush(&mut |line| all.push(line));
        all
    }

    const SWITCH: &[u8] =
        b" qemu-system-x86-3814    [001] d.h2. 37823.134557: sched_switch: prev_comm=a ==> next_pid=48\n";

    #[test]
    fn an_event_has_task_cpu_flags_time_name_and_fields() {
        let [line] = lines(&[SWITCH]).try_into().unwrap();
        assert_eq!((line.task.as_deref(), line.tid, line.cpu), (Some("qemu-system-x86"), 3814, 1));
        assert_eq!((line.flags.as_str(), line.stamp), ("d.h2.", Stamp::Seconds(37823.134557)));
        assert_eq!((line.event.as_str(), line.fields.as_str()), ("sched_switch", "prev_comm=a ==> next_pid=48"));
    }

    #[test]
    fn calls_are_named_as_the_events_that_they_are() {
        let text = b"             cat-4849    [000] .... 3.5: sys_openat(dfd: 1, mode: 0)\n           <...>-4849    [000] .... 7: sys_openat -> 0x3\n";
        let [enter, exit] = lines(&[text]).try_into().unwrap();
        assert_eq!((enter.event.as_str(), enter.fields.as_str()), ("sys_enter_openat", "(dfd: 1, mode: 0)"));
        assert_eq!((exit.event.as_str(), exit.fields.as_str()), ("sys_exit_openat", "-> 0x3"));
        assert_eq!((exit.task, exit.stamp), (None, Stamp::Ticks(7)));
    }

    #[test]
    fn a_process_id_between_task_and_cpu_is_passed_over() {
        for process in ["(  4849)", "(-------)"] {
            let text = format!("             cat-4849    {process} [000] .... 3.5: a: b\n");
            assert_eq!(lines(&[text.as_bytes()])[0].event, "a");
        }
    }

    #[test]
    fn the_name_of_a_task_may_hold_anything() {
        for name in
            ["    a\nb-1 [0] x]", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", "x-1 [000] .... 1", "\u{1b}[31m\u{202e}xxxxxxxx"]
        {
            let name = format!("{name:>16}");
            let name: Vec<u8> = name.bytes().rev().take(16).collect::<Vec<_>>().into_iter().rev().collect();
            let text = [name.as_slice(), b"-48      [002] ..... 9.1: made_up: x=1\n"].concat();
            let found = lines(&[SWITCH, &text, SWITCH]);
            assert_eq!(found.len(), 3, "{name:?} {found:#?}");
            assert_eq!((found[1].tid, found[1].event.as_str()), (48, "made_up"), "{name:?}");
            assert_eq!(found[2].fields, "prev_comm=a ==> next_pid=48");
        }
    }

    #[test]
    fn a_line_break_in_a_field_belongs_to_the_field_and_losses_are_no_events() {
        let text = b"             cat-48      [000] ..... 9.1: exec: filename=a\nb pid=1\nCPU:1 [LOST 13 EVENTS]\n";
        let found = lines(&[text, SWITCH]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].fields, "filename=a\nb pid=1");
    }

    #[test]
    fn an_endless_line_takes_no_endless_memory() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            lines.feed(&[b'x'; 4096], &mut |_| {});
        }
        assert!(lines.pending.len() <= LONGEST);
    }

    #[test]
    fn letters_are_told_in_words() {
        assert_eq!(context("....."), "");
        assert_eq!(context("d.h2."), "interrupts off, hard interrupt, preemption off (2)");
        assert_eq!(context("DNs.1"), "interrupts and softirqs off, reschedule wanted, softirq, migration off (1)");
        assert_eq!(context("..Z"), "NMI in hard interrupt");
        assert_eq!(context(""), "");
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in proptest::collection::vec(any::<u8>(), 0..300), cut in 0_usize..300) {
            let (first, second) = text.split_at(cut.min(text.len()));
            let _ = lines(&[first, second]);
        }

        #[test]
        fn events_are_the_same_however_the_text_is_cut(cut in 0_usize..400) {
            let text = [SWITCH, b"    a\nb-1 [0] x]-4850    [000] d..2. 1.5: x: y\nz\n", SWITCH].concat();
            let (first, second) = text.split_at(cut.min(text.len()));
            prop_assert_eq!(lines(&[first, second]), lines(&[&text]));
        }
    }
}
