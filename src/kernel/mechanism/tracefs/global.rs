//! The kernel's global tracing, which all users share: taken only while it is unused, and given back as it was.
//!
//! What it was stands as a mark in an instance that is made for it (`rdiag-PID-START-NUMBER-global`), so a killed rdiag's use is known by
//! its dead owner, lives as long as the tracing itself, and the next start gives it back.

use std::io;

use crate::host::Control;
use rdiag_model::{Reason, Unavailable};

/// How the names of such instances end.
pub(super) const SUFFIX: &str = "-global";
/// What the mark begins with.
const MARK: &str = "rdiag took the global tracing:";
/// The tracer that it is taken for.
const TRACER: &str = "function_graph";
/// Files whose content is changed and put back, in this order. The buffers keep the size that their first use has given them.
const KEPT: [&str; 4] = ["options/function-fork", "trace_clock", "buffer_size_kb", "tracing_on"];
/// What each of these files holds while the tracing is unused; lines that begin with `#` say that nothing is chosen.
const UNUSED: [(&str, &str); 7] = [
    ("current_tracer", "nop"),
    ("set_event", ""),
    ("set_ftrace_pid", "no pid"),
    ("set_ftrace_notrace_pid", "no pid"),
    ("set_ftrace_filter", ""),
    ("set_graph_function", ""),
    ("set_graph_notrace", ""),
];

/// The tracing while it is taken.
#[derive(Debug)]
pub(super) struct Taken {
    place: String,
    /// The instance that holds the mark.
    record: String,
    /// File and content.
    kept: Vec<(String, String)>,
}

impl Taken {
    /// Takes it, if it is unused. From here on it must be given back.
    pub(super) fn new(control: &Control, place: &str, record: &str) -> Result<Self, Unavailable> {
        let wrong = |attempt: &str, error: &io::Error| {
            Unavailable::new(Reason::Malformed, format!("{attempt} the kernel's global tracing failed: {error}"))
        };
        let user = user(control, place).map_err(|error| wrong("looking at", &error))?;
        if let Some(user) = user {
            let why = format!("the kernel's global tracing is in use: {user}");
            return Err(Unavailable::new(Reason::NotApplicable, why)
                .with_remedy("try again when it is free; what has been left behind is removed by: trace-cmd reset"));
        }
        let mut kept = Vec::new();
        for file in KEPT {
            let content = control.read(&format!("{place}/{file}")).map_err(|error| wrong("reading", &error))?;
            let value = value(file, &content).ok_or_else(|| {
                Unavailable::new(
                    Reason::NotApplicable,
                    format!("/{place}/{file} cannot be put back: {:?}", content.trim()),
                )
            })?;
            kept.push((file.to_owned(), value));
        }
        control.make_directory(record).map_err(|error| wrong("making a record for", &error))?;
        let taken = Self { place: place.to_owned(), record: record.to_owned(), kept };
        let noted = control.write(&format!("{record}/trace_marker"), &taken.mark());
        let read_back = noted.and_then(|()| control.read(&format!("{record}/trace")));
        match read_back.map(|text| parse(&text)) {
            Ok(Some(kept)) if kept == taken.kept => Ok(taken),
            refused => {
                let _ = control.remove_directory(record);
                let error = refused.err().unwrap_or_else(|| io::Error::other("the record was not kept"));
                Err(wrong("making a record for", &error))
            }
        }
    }

    fn mark(&self) -> String {
        let kept: Vec<String> = self.kept.iter().map(|(file, value)| format!("{file}={value}")).collect();
        format!("{MARK} {}", kept.join(" "))
    }

    /// Gives it back. Another user's tracer is left alone.
    pub(super) fn give_back(&self, control: &Control) {
        let Self { place, record, kept } = self;
        let tracer = control.read(&format!("{place}/current_tracer")).unwrap_or_default();
        if [TRACER, "nop"].contains(&tracer.trim()) {
            let _ = control.write(&format!("{place}/tracing_on"), "0");
            let _ = control.write(&format!("{place}/current_tracer"), "nop");
            let _ = control.clear(&format!("{place}/set_ftrace_pid"));
            let _ = control.clear(&format!("{place}/trace"));
            for (file, value) in kept {
                let _ = control.write(&format!("{place}/{file}"), value);
            }
        }
        // The record goes last: whatever ends rdiag before, the next start goes on with it.
        let _ = control.remove_directory(record);
    }
}

/// Gives back what a killed rdiag has taken, by its record. One without a whole mark was made by an rdiag that changed nothing yet.
pub(super) fn repair(control: &Control, place: &str, record: &str) {
    match control.read(&format!("{record}/trace")).ok().as_deref().and_then(parse) {
        Some(kept) => Taken { place: place.to_owned(), record: record.to_owned(), kept }.give_back(control),
        None => drop(control.remove_directory(record)),
    }
}

/// What shows that it is in use; none if it is not.
fn user(control: &Control, place: &str) -> io::Result<Option<String>> {
    for (file, unused) in UNUSED {
        let content = match control.read(&format!("{place}/{file}")) {
            // A kernel that lacks it cannot use it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            content => content?,
        };
        let chosen =
            content.lines().map(str::trim).find(|line| *line != unused && !line.is_empty() && !line.starts_with('#'));
        if let Some(chosen) = chosen {
            return Ok(Some(format!("{file} holds {chosen}")));
        }
    }
    let recorded = control.read(&format!("{place}/trace"))?;
    let is_empty = recorded.lines().all(|line| line.trim().is_empty() || line.starts_with('#'));
    Ok((!is_empty).then(|| "its buffers hold what was traced".to_owned()))
}

/// What is to be written to have a file hold what it holds now.
fn value(file: &str, content: &str) -> Option<String> {
    let content = content.trim();
    let word = match file {
        // `[local] global counter`
        "trace_clock" => content.split_whitespace().find_map(|name| name.strip_prefix('[')?.strip_suffix(']'))?,
        // `7 (expanded: 1408)`: the size of the first use; `X`: the CPUs differ.
        "buffer_size_kb" => {
            let expanded = content.split_once("expanded: ").map(|(_, size)| size.trim_end_matches(')'));
            expanded.unwrap_or(content).split_whitespace().next().filter(|size| size.parse::<u64>().is_ok())?
        }
        _ => content,
    };
    (!word.is_empty() && !word.contains([' ', '='])).then(|| word.to_owned())
}

/// The mark in an instance's buffer.
fn parse(text: &str) -> Option<Vec<(String, String)>> {
    let line = text.lines().filter(|line| !line.starts_with('#')).find_map(|line| line.split_once(MARK))?.1;
    let pairs = line.split_whitespace().map(|pair| pair.split_once('='));
    let kept: Vec<(String, String)> =
        pairs.map(|pair| pair.map(|(file, value)| (file.to_owned(), value.to_owned()))).collect::<Option<_>>()?;
    let is_whole = kept.iter().map(|(file, _)| file.as_str()).eq(KEPT);
    is_whole.then_some(kept)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own tree")]
mod tests {
    use super::*;
    use crate::host::Host;

    const IDLE: [(&str, &str); 11] = [
        ("current_tracer", "nop\n"),
        ("set_event", ""),
        ("set_ftrace_pid", "no pid\n"),
        ("set_ftrace_filter", "#### all functions enabled ####\n"),
        ("set_graph_function", "#### all functions enabled ####\n"),
        ("trace", "# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n"),
        ("options/function-fork", "0\n"),
        ("trace_clock", "[local] global counter mono\n"),
        ("buffer_size_kb", "7 (expanded: 1408)\n"),
        ("tracing_on", "1\n"),
        (
            "instances/r/trace",
            "# tracer: nop\n 12-12 [000] .... 1.5: tracing_mark_write: rdiag took the global tracing: \
          options/function-fork=0 trace_clock=local buffer_size_kb=1408 tracing_on=1\n",
        ),
    ];

    fn tree(changed: &[(&str, &str)]) -> (tempfile::TempDir, Control) {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in IDLE.iter().chain(changed) {
            let path = folder.path().join("t").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let control = Host::live(folder.path()).control().unwrap();
        (folder, control)
    }

    #[test]
    fn whoever_uses_the_global_tracing_is_seen() {
        let (_folder, control) = tree(&[]);
        assert_eq!(user(&control, "t").unwrap(), None);
        for (file, content, says) in [
            ("current_tracer", "function\n", "current_tracer holds function"),
            ("set_event", "sched:sched_switch\n", "set_event holds sched:sched_switch"),
            ("set_ftrace_pid", "12\n", "set_ftrace_pid holds 12"),
            ("set_ftrace_filter", "vfs_read\n", "set_ftrace_filter holds vfs_read"),
            (
                "set_ftrace_filter",
                "#### all functions enabled ####\nvfs_read:traceoff:unlimited\n",
                "vfs_read:traceoff",
            ),
            ("trace", "# tracer: nop\n cat-1 [000] .... 1.5: sched_switch: x\n", "its buffers hold"),
        ] {
            let (_folder, control) = tree(&[(file, content)]);
            let told = user(&control, "t").unwrap();
            assert!(told.as_ref().is_some_and(|told| told.contains(says)), "{file}: {told:?}");
            let gap = Taken::new(&control, "t", "t/instances/mine").unwrap_err();
            assert!(gap.why.contains(says), "{}", gap.why);
        }
        let (folder, control) = tree(&[("buffer_size_kb", "X\n")]);
        let gap = Taken::new(&control, "t", "t/instances/mine").unwrap_err();
        assert!(gap.why.contains("cannot be put back"), "{}", gap.why);
        assert!(!folder.path().join("t/instances/mine").exists());
    }

    #[test]
    fn a_record_tells_what_to_put_back() {
        let (folder, control) =
            tree(&[("current_tracer", "function_graph\n"), ("set_ftrace_pid", "12\n"), ("tracing_on", "0")]);
        repair(&control, "t", "t/instances/r");
        let holds = |file: &str| std::fs::read_to_string(folder.path().join("t").join(file)).unwrap();
        assert!(holds("current_tracer").starts_with("nop"));
        assert_eq!((holds("set_ftrace_pid"), holds("tracing_on")), (String::new(), "1".into()));
        assert!(holds("trace_clock").starts_with("local") && holds("buffer_size_kb").starts_with("1408"));
        let (folder, control) = tree(&[("current_tracer", "function\n"), ("set_ftrace_pid", "12\n")]);
        repair(&control, "t", "t/instances/r");
        let holds = |file: &str| std::fs::read_to_string(folder.path().join("t").join(file)).unwrap();
        assert_eq!((holds("current_tracer"), holds("set_ftrace_pid")), ("function\n".into(), "12\n".into()));
    }

    #[test]
    fn a_record_that_is_not_whole_changes_nothing() {
        let whole = IDLE[10].1;
        assert_eq!(parse(whole).unwrap().len(), KEPT.len());
        for text in [
            "",
            MARK,
            &whole.replace("tracing_on=1", ""),
            &whole.replace("trace_clock=", "../x="),
            &whole.replace('=', " "),
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(value("trace_clock", "local global"), None);
        assert_eq!(value("buffer_size_kb", "4096\n").as_deref(), Some("4096"));
    }
}
