//! Names of tasks at the time of an event. Any user chooses the names of their tasks, with line breaks if they like, so names are taken
//! from where they have a place of their own: `/proc/TID/comm`, and the records of births and renamings in a small instance beside the
//! one that is read.

use std::collections::{BTreeMap, HashMap};

use super::format::{Field, Format, text};
use super::instance::Instance;
use super::merged::Merged;
use crate::host::Host;
use rdiag_model::Unavailable;

/// Memory for births and renamings that are not yet read, for each CPU.
const BUFFER_KB: &str = "512";
/// As many processes are looked up before anything happens.
const MOST_AT_FIRST: usize = 4096;
/// As many threads are remembered.
const MOST: usize = 1 << 16;
/// Characters of a name at most.
const LONGEST: usize = 15;
/// The task that runs where none does.
const IDLE: &str = "<idle>";

/// What is known of names.
#[derive(Debug, Default)]
pub struct Names {
    changes: Option<Changes>,
    /// By thread: since when it has which name, in the order of time.
    known: HashMap<u32, Vec<(u64, String)>>,
}

/// Where births and renamings are recorded.
#[derive(Debug)]
struct Changes {
    // The buffers are closed before the instance is removed: fields are dropped in this order.
    records: Merged,
    instance: Instance,
    born: Change,
    renamed: Change,
    /// Records that were lost before they were read.
    lost: u64,
}

/// Where a record has its thread and the name, and the one before.
#[derive(Debug)]
struct Change {
    id: u64,
    kind: Field,
    tid: Field,
    name: Field,
    before: Option<Field>,
}

impl Names {
    /// Begins to follow names, by a clock of the kernel's tracing. Where that is refused, those of living tasks are still known.
    #[must_use]
    pub fn follow(host: &Host, clock: &str) -> Self {
        let changes = Changes::begin(host, clock).ok();
        let mut names = Self { changes, ..Self::default() };
        let processes = host.subdirectories("proc").unwrap_or_default();
        for tid in processes.iter().filter_map(|name| name.parse().ok()).take(MOST_AT_FIRST) {
            names.learn(host, tid);
        }
        names
    }

    /// Takes over what has changed since the last time.
    pub fn poll(&mut self, host: &Host) {
        let Self { changes: Some(changes), known } = self else { return };
        let done = changes.records.poll(u64::MAX, |time, _, record| {
            for change in [&changes.born, &changes.renamed] {
                change.take(known, time, record);
            }
        });
        let lost = changes.instance.tally(host).lost;
        // No name is better than one that is no longer true.
        if done.is_err() || std::mem::replace(&mut changes.lost, lost) != lost || known.len() > MOST {
            known.clear();
        }
    }

    /// Looks up a thread that lives and is not known yet.
    pub fn learn(&mut self, host: &Host, tid: u32) {
        if tid != 0
            && !self.known.contains_key(&tid)
            && let Some(name) = living(host, tid)
        {
            self.known.insert(tid, vec![(0, name)]);
        }
    }

    /// The name that a thread had at a time; none if it is not known.
    #[must_use]
    pub fn name(&self, tid: u32, time: u64) -> Option<&str> {
        if tid == 0 {
            return Some(IDLE);
        }
        let known = self.known.get(&tid)?;
        known.iter().rev().find(|(since, _)| *since <= time).map(|(_, name)| name.as_str())
    }

    /// Forgets names that were no longer in force at a time: nothing from before that will be asked for.
    pub fn settle(&mut self, time: u64) {
        for names in self.known.values_mut() {
            let past = names.partition_point(|(since, _)| *since <= time);
            names.drain(..past.saturating_sub(1));
        }
    }
}

impl Changes {
    fn begin(host: &Host, clock: &str) -> Result<Self, Unavailable> {
        let instance = Instance::beside(host)?;
        instance.set_clock(host, clock)?;
        instance.set("buffer_size_kb", BUFFER_KB)?;
        let format = |event: &str| -> Result<Format, Unavailable> {
            Ok(Format::parse(&instance.get(host, &format!("events/task/{event}/format"))?))
        };
        let odd = || super::raw::not_understood("events/task");
        let born = Change::of(&format("task_newtask")?, "comm", None).ok_or_else(odd)?;
        let renamed = Change::of(&format("task_rename")?, "newcomm", Some("oldcomm")).ok_or_else(odd)?;
        let records = Merged::open(&instance, host)?;
        for event in ["task_newtask", "task_rename"] {
            instance.set(&format!("events/task/{event}/enable"), "1")?;
        }
        let lost = instance.tally(host).lost;
        instance.set("tracing_on", "1")?;
        Ok(Self { records, instance, born, renamed, lost })
    }
}

impl Change {
    fn of(format: &Format, name: &str, before: Option<&str>) -> Option<Self> {
        Some(Self {
            id: u64::from(format.id?),
            kind: format.field("common_type")?.clone(),
            // Newer kernels do not say who is renamed, where that is nearly always the one on the CPU.
            tid: format.field("pid").or_else(|| format.field("common_pid"))?.clone(),
            name: format.field(name)?.clone(),
            before: before.and_then(|before| format.field(before)).cloned(),
        })
    }

    /// Adds what a record says, if it is of this kind.
    fn take(&self, known: &mut HashMap<u32, Vec<(u64, String)>>, time: u64, record: &[u8]) {
        let said = |field: &Field| Some(text(field.bytes(record)?).into_owned());
        let tid = self.tid.value(record).and_then(|tid| u32::try_from(tid).ok());
        let (Some(tid), Some(name)) = (tid, said(&self.name)) else { return };
        if self.kind.value(record) != Some(self.id) {
            return;
        }
        let names = known.entry(tid).or_default();
        if names.is_empty()
            && let Some(before) = self.before.as_ref().and_then(said)
        {
            names.push((0, before));
        }
        names.push((time, name));
    }
}

/// The name of a thread that lives.
fn living(host: &Host, tid: u32) -> Option<String> {
    let name = host.read(&format!("proc/{tid}/comm")).ok()?;
    Some(name.strip_suffix('\n').unwrap_or(&name).to_owned())
}

/// Names by thread from the kernel's list of them, `TID NAME` on each line. A name may hold line breaks, and what follows one looks like
/// the name of another thread: so a line that fits into the name before it counts only if that name is known to have ended, and
/// of threads that live the name is that of /proc.
pub(super) fn saved(host: &Host, list: &str) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    // Characters of the name that may not have ended.
    let mut open: Option<usize> = None;
    for line in list.split('\n').take(MOST) {
        let length = line.chars().count();
        let joined = open.map(|open| open + 1 + length);
        let is_doubtful = joined.is_some_and(|length| length <= LONGEST);
        let parsed = line.split_once(' ').and_then(|(tid, name)| Some((tid.parse::<u32>().ok()?, name)));
        let alive = parsed.and_then(|(tid, _)| living(host, tid));
        let is_whole = alive.as_deref().is_some_and(|alive| parsed.is_some_and(|(_, name)| name == alive));
        match (parsed, alive) {
            (Some((tid, _)), Some(alive)) => drop(names.insert(tid, alive)),
            (Some((tid, name)), None) if !is_doubtful => drop(names.entry(tid).or_insert_with(|| name.to_owned())),
            _ => {}
        }
        open = match parsed {
            Some(_) if is_whole => None,
            Some((_, name)) => Some(name.chars().count()),
            None => joined,
        };
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                          \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

    fn names(known: &[(u32, &[(u64, &str)])]) -> Names {
        let names = |all: &[(u64, &str)]| all.iter().map(|(since, name)| (*since, (*name).to_owned())).collect();
        Names { changes: None, known: known.iter().map(|(tid, all)| (*tid, names(all))).collect() }
    }

    #[test]
    fn a_thread_has_the_name_of_the_time_in_question() {
        let mut names = names(&[(7, &[(10, "sh"), (20, "true")])]);
        let at = |names: &Names, time| names.name(7, time).map(str::to_owned);
        assert_eq!(
            [5, 10, 19, 20].map(|time| at(&names, time)),
            [None, Some("sh"), Some("sh"), Some("true")].map(|n| n.map(str::to_owned))
        );
        names.settle(15);
        assert_eq!((at(&names, 15), at(&names, 99)), (Some("sh".into()), Some("true".into())));
        names.settle(u64::MAX);
        assert_eq!((at(&names, 15), at(&names, 99)), (None, Some("true".into())));
        assert_eq!((names.name(0, 1), names.name(8, 1)), (Some(IDLE), None));
    }

    #[test]
    fn a_renaming_tells_both_names_and_whose_they_are() {
        let format = format!(
            "ID: 9\n{COMMON}\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:char oldcomm[16];\toffset:12;\tsize:16;\tsigned:0;\n\tfield:char newcomm[16];\toffset:28;\tsize:16;\tsigned:0;\n"
        );
        let change = Change::of(&Format::parse(&format), "newcomm", Some("oldcomm")).unwrap();
        let mut record = vec![9, 0, 0, 0, 1, 0, 0, 0, 77, 0, 0, 0];
        record.extend(b"old\0............a\n1 bash\0.......");
        let mut known = HashMap::new();
        for cut in 0..record.len() {
            change.take(&mut known, 50, &record[..cut]);
        }
        assert!(known.is_empty());
        change.take(&mut known, 50, &record);
        assert_eq!(known, HashMap::from([(77, vec![(0, "old".to_owned()), (50, "a\n1 bash".to_owned())])]));
        record[0] = 8;
        change.take(&mut known, 60, &record);
        assert_eq!(known[&77].len(), 2, "a record of another kind");
        let without = format.replace("pid_t pid", "pid_t other");
        assert_eq!(Change::of(&Format::parse(&without), "newcomm", None).unwrap().tid.name(), "common_pid");
        assert!(Change::of(&Format::parse("ID: 1\n"), "newcomm", None).is_none());
    }

    #[test]
    fn no_line_break_in_a_name_names_another_thread() {
        let (_folder, host) = tree(&[("proc/1/comm", "systemd\n"), ("proc/40/comm", "sh\n")]);
        let list = "40 sh\n41 cat\n99 a\n1 bash\n98 x\n50 evil\n60 a-longer-name\n61 top\n";
        let found = saved(&host, list);
        let name = |tid: u32| found.get(&tid).map(String::as_str);
        assert_eq!((name(1), name(40)), (Some("systemd"), Some("sh")));
        // The name before is known to have ended, or leaves no room.
        assert_eq!((name(41), name(99), name(61)), (Some("cat"), None, Some("top")));
        assert_eq!((name(50), name(98)), (None, None), "they may be part of the name of 99");
    }
}
