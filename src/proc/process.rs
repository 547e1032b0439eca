//! The files of one process or thread beside what [`TaskStat`] says.

use crate::{Field, Membership, TaskStat, memberships, number, words};

/// The numbers of /proc/PID/stat that most of its readers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Field 3.
    pub state: char,
    /// Field 4.
    pub ppid: u32,
    /// Field 10.
    pub minor_faults: u64,
    /// Field 12.
    pub major_faults: u64,
    /// Field 14, ticks.
    pub utime: u64,
    /// Field 15, ticks.
    pub stime: u64,
    /// Field 19: above 0 the task gives way to others.
    pub nice: i32,
    /// Field 20.
    pub threads: u32,
    /// Field 22, ticks since boot.
    pub start_ticks: u64,
    /// Field 23, bytes.
    pub virtual_bytes: u64,
    /// Field 24, pages.
    pub resident_pages: u64,
}

/// Name and numbers of a stat file that is whole as far as these.
#[must_use]
pub fn stat(bytes: &[u8]) -> Option<(&[u8], Stat)> {
    let task = TaskStat::parse(bytes)?;
    let mut fields = task.fields();
    let numbers = Stat {
        state: task.state,
        ppid: u32::try_from(fields.number(Field::Parent)?).ok()?,
        minor_faults: fields.number(Field::MinorFaults)?,
        major_faults: fields.number(Field::MajorFaults)?,
        utime: fields.number(Field::User)?,
        stime: fields.number(Field::System)?,
        nice: fields.signed(Field::Nice)?,
        threads: u32::try_from(fields.number(Field::Threads)?).ok()?,
        start_ticks: fields.number(Field::Start)?,
        virtual_bytes: fields.number(Field::VirtualBytes)?,
        resident_pages: fields.number(Field::ResidentPages)?,
    };
    Some((task.name, numbers))
}

/// /proc/PID/schedstat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Field 1: ns on a CPU, brought up to date at ticks and switches.
    pub run: u64,
    /// Field 2: ns waiting for one, added when the thread gets it.
    pub wait: u64,
    /// Field 3: how often it got one.
    pub turns: u64,
}

/// The three numbers of a schedstat file.
#[must_use]
pub fn schedstat(bytes: &[u8]) -> Option<Schedstat> {
    let mut fields = words(bytes);
    let mut next = || number(fields.next()?);
    Some(Schedstat { run: next()?, wait: next()?, turns: next()? })
}

/// What rdiag takes from /proc/PID/status. Kernel threads have no memory, so no swap either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// `Uid:`, the real one, which limits go by.
    pub real_uid: Option<u32>,
    /// `Uid:`, the effective one.
    pub uid: Option<u32>,
    /// `VmSwap:`, kB.
    pub swap_kb: Option<u64>,
    /// `voluntary_ctxt_switches:`.
    pub voluntary: Option<u64>,
    /// `nonvoluntary_ctxt_switches:`.
    pub involuntary: Option<u64>,
}

/// What a status file says.
#[must_use]
pub fn status(bytes: &[u8]) -> Status {
    let mut status = Status::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        // Of some sixty lines four are wanted: the first letter sorts out most of the others.
        match line.first() {
            Some(b'U') => {
                if let Some(rest) = line.strip_prefix(b"Uid:") {
                    status.real_uid = word(rest, 0).and_then(|uid| u32::try_from(uid).ok());
                    status.uid = word(rest, 1).and_then(|uid| u32::try_from(uid).ok());
                }
            }
            Some(b'V') => {
                if let Some(rest) = line.strip_prefix(b"VmSwap:") {
                    status.swap_kb = word(rest, 0);
                }
            }
            Some(b'v') => {
                if let Some(rest) = line.strip_prefix(b"voluntary_ctxt_switches:") {
                    status.voluntary = word(rest, 0);
                }
            }
            Some(b'n') => {
                if let Some(rest) = line.strip_prefix(b"nonvoluntary_ctxt_switches:") {
                    status.involuntary = word(rest, 0);
                }
            }
            _ => {}
        }
    }
    status
}

/// `read_bytes` and `write_bytes` of /proc/PID/io.
#[must_use]
pub fn io(bytes: &[u8]) -> (Option<u64>, Option<u64>) {
    let (mut read, mut written) = (None, None);
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(rest) = line.strip_prefix(b"read_bytes:") {
            read = word(rest, 0);
        } else if let Some(rest) = line.strip_prefix(b"write_bytes:") {
            written = word(rest, 0);
        }
    }
    (read, written)
}

/// The soft limit of this name in /proc/PID/limits; `u64::MAX` where there is none.
#[must_use]
pub fn soft_limit(bytes: &[u8], name: &str) -> Option<u64> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let rest = lines.find_map(|line| line.strip_prefix(name.as_bytes()))?;
    if rest.trim_ascii_start().starts_with(b"unlimited") {
        return Some(u64::MAX);
    }
    word(rest, 0)
}

/// The control group of /proc/PID/cgroup: that of the one hierarchy (v2), unless the process is in its root there and
/// a v1 hierarchy that limits something knows better. Then its groups of other names in the hierarchies that limit
/// something.
#[must_use]
pub fn cgroups(text: &str) -> (Option<String>, Vec<String>) {
    let mut unified = None;
    let mut others: Vec<&str> = Vec::new();
    for Membership { hierarchy, controllers, path } in memberships(text) {
        if hierarchy == "0" && controllers.is_empty() {
            unified = Some(path);
        } else if path != "/"
            && !others.contains(&path)
            && controllers.split(',').any(|name| ["cpu", "memory", "pids", "blkio"].contains(&name))
        {
            others.push(path);
        }
    }
    let main = unified.filter(|path| *path != "/").or(others.first().copied()).or(unified);
    others.retain(|path| Some(*path) != main);
    (main.map(str::to_owned), others.into_iter().map(str::to_owned).collect())
}

/// The command line for display: its arguments joined by spaces, bounded; none for kernel threads, which have none.
#[must_use]
pub fn command(bytes: &[u8], limit: usize) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\0');
    let joined: String = text.chars().take(limit).map(|c| if c == '\0' { ' ' } else { c }).collect();
    (!joined.trim().is_empty()).then_some(joined)
}

/// The `index`-th word of a line, as a number.
fn word(line: &[u8], index: usize) -> Option<u64> {
    number(words(line).nth(index)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &str =
        "42 (a) b) S 7 42 42 0 -1 4194304 100 5 3 1 11 22 0 0 15 -5 4 0 987 1000000 250 18446744073709551615 1 1 0 0\n";

    #[test]
    fn a_name_may_hold_parentheses_and_line_ends() {
        let (name, stat) = stat(LINE.as_bytes()).unwrap();
        assert_eq!(name, b"a) b");
        assert_eq!((stat.state, stat.ppid, stat.minor_faults, stat.major_faults), ('S', 7, 100, 3));
        assert_eq!((stat.utime, stat.stime, stat.threads, stat.start_ticks), (11, 22, 4, 987));
        assert_eq!((stat.nice, stat.virtual_bytes, stat.resident_pages), (-5, 1_000_000, 250));
        let odd = LINE.replace("(a) b)", "(x\n) R 1 1 1)");
        assert_eq!(super::stat(odd.as_bytes()).unwrap(), (&b"x\n) R 1 1 1"[..], stat));
    }

    #[test]
    fn a_line_that_breaks_off_or_holds_garbage_is_none() {
        assert_eq!(stat(b""), None);
        assert_eq!(stat(b"1 ()"), None);
        assert_eq!(stat(b") 1 ("), None);
        let end = LINE.find(" 250").unwrap();
        for length in 0..=end {
            assert_eq!(stat(&LINE.as_bytes()[..length]), None, "{length} bytes");
        }
        assert_eq!(stat(LINE.replace(" 987 ", " x987 ").as_bytes()), None);
        assert_eq!(stat(LINE.replace(" 987 ", " 99999999999999999999 ").as_bytes()), None);
    }

    #[test]
    fn status_and_io_survive_missing_and_additional_lines() {
        let text = b"Name:\tUid: 9\nUid:\t1000\t1001\t1000\t1000\nVmSwap:\t     12 kB\nNewThing:\t1\n\
            voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        let full = Status {
            real_uid: Some(1000),
            uid: Some(1001),
            swap_kb: Some(12),
            voluntary: Some(5),
            involuntary: Some(6),
        };
        assert_eq!(status(text), full);
        assert_eq!(
            status(b"Name:\tkthreadd\nUid:\t0\t0\n"),
            Status { real_uid: Some(0), uid: Some(0), ..Status::default() }
        );
        assert_eq!(status(b"VmSwap:\t-1 kB\nUid:\n"), Status::default());
        assert_eq!(
            io(b"rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n"),
            (Some(4096), Some(8192))
        );
        assert_eq!(io(b"read_bytes:\n"), (None, None));
    }

    #[test]
    fn the_control_group_is_the_one_that_says_something() {
        let main = |text: &str| cgroups(text).0;
        assert_eq!(main("0::/a.slice/b.scope\n").as_deref(), Some("/a.slice/b.scope"));
        assert_eq!(main("0::/\n").as_deref(), Some("/"));
        assert_eq!(main("5:cpu,cpuacct:/docker/1\n1:name=systemd:/x\n0::/\n").as_deref(), Some("/docker/1"));
        assert_eq!(main("4:memory:/\n0::/x:y\n").as_deref(), Some("/x:y"));
        assert_eq!(main("garbage"), None);
    }

    #[test]
    fn a_command_line_is_bounded_and_has_no_zero_bytes() {
        assert_eq!(command(b"a\0b c\0\0", 200).as_deref(), Some("a b c"));
        assert_eq!(command(b"", 200), None);
        assert_eq!(command(b"\0\0", 200), None);
        assert_eq!(command(&[0xff; 1000], 200).unwrap().chars().count(), 200);
    }

    #[test]
    fn the_soft_limit_is_the_first_of_the_two() {
        let text = b"Limit                     Soft Limit           Hard Limit           Units\n\
            Max processes             unlimited            unlimited            processes\n\
            Max open files            64                   1024                 files\n";
        assert_eq!(soft_limit(text, "Max open files"), Some(64));
        assert_eq!(soft_limit(text, "Max processes"), Some(u64::MAX));
        assert_eq!(soft_limit(text, "Max locked memory"), None);
        assert_eq!(soft_limit(b"Max open files\n", "Max open files"), None);
    }

    proptest! {
        #[test]
        fn no_input_makes_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = (stat(&bytes), schedstat(&bytes), status(&bytes), io(&bytes), command(&bytes, 20));
            let _ = (cgroups(&String::from_utf8_lossy(&bytes)), soft_limit(&bytes, ""));
        }

        #[test]
        fn any_name_is_given_back_whole(name in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut line = b"42 (".to_vec();
            line.extend_from_slice(&name);
            line.extend_from_slice(&LINE.as_bytes()[LINE.rfind(')').unwrap()..]);
            prop_assert_eq!(stat(&line).unwrap().0, name.as_slice());
        }
    }
}
