//! Sorting records of the kernel log: counts by class, and the few lines that are kept as evidence.

use std::collections::{BTreeMap, VecDeque};

use super::classes::CLASSES;
use super::patterns::{between, recognise};
use rdiag_model::LogLine;

/// Lines of the time before the window that are kept of each class: the newest, those of devices that are there before others.
const KEPT_OF_BOOT: usize = 3;
/// Until it is known which are there, so many are kept of one class: the newest, and of each device the newest [`KEPT_OF_BOOT`].
const KEPT_MEANWHILE: usize = 4 * KEPT_OF_BOOT;
/// Lines of the window that are kept of each class: the first, since they are nearest to the cause.
const KEPT_OF_WINDOW: usize = 12;
/// Longer lines are cut.
const MAX_CHARS: usize = 300;
/// syslog facilities: 0 is the kernel, 1 is what root wrote into /dev/kmsg. Services log there too, under their own.
const KERNEL: u64 = 0;

/// Devices that were set up anew, at most: a host has no more than some dozens.
const MAX_RENEWED: usize = 1000;

/// A record of the kernel log.
#[derive(Debug, PartialEq)]
pub(super) struct Record<'t> {
    facility: u64,
    sequence: u64,
    seconds: f64,
    text: &'t str,
}

/// Parses `priority,sequence,microseconds,flags[,…];text`; what follows on further lines is not needed.
pub(super) fn parse(record: &str) -> Option<Record<'_>> {
    let line = record.split('\n').next()?;
    let (head, text) = line.split_once(';')?;
    let mut fields = head.split(',');
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (priority, sequence, microseconds) = (number()?, number()?, number()?);
    Some(Record { facility: priority >> 3, sequence, seconds: microseconds as f64 * 1e-6, text })
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Recognised lines by class.
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// Kills within a memory cgroup.
    pub(super) cgroup_kills: u64,
    /// All records.
    pub(super) records: u64,
    /// Records that were overwritten before they were read.
    pub(super) missed: u64,
    /// Sequence number of the oldest record.
    pub(super) oldest: Option<u64>,
    newest: Option<u64>,
    old_lines: BTreeMap<&'static str, VecDeque<LogLine>>,
    new_lines: BTreeMap<&'static str, Vec<LogLine>>,
    /// Devices that were given other content, as `losetup` and a reset of zram do, and when that was the last time.
    pub(super) renewed: BTreeMap<String, f64>,
    /// Why the kernel is about to kill, as the lines before the kill told.
    constraint: Option<Constraint>,
}

/// Who ran out of memory.
#[derive(Debug)]
struct Constraint {
    in_cgroup: bool,
    words: String,
}

impl Scan {
    /// Takes a record; one that was seen before (a recorded file holds them all at every instant) is passed over.
    pub(super) fn take(&mut self, record: &Record<'_>, in_window: bool) {
        if self.newest.is_some_and(|newest| record.sequence <= newest) {
            return;
        }
        if let Some(newest) = self.newest {
            self.missed += record.sequence - newest - 1;
        }
        self.oldest.get_or_insert(record.sequence);
        self.newest = Some(record.sequence);
        self.records += 1;
        // What a program wrote into the log is its word, however it reads: no failure of the kernel.
        if record.facility != KERNEL {
            return;
        }
        if let Some(constraint) = constraint(record.text) {
            self.constraint = Some(constraint);
            return;
        }
        if let Some(device) = renewed(record.text)
            && (self.renewed.len() < MAX_RENEWED || self.renewed.contains_key(device))
        {
            self.renewed.insert(device.to_owned(), record.seconds);
        }
        let Some(pattern) = recognise(record.text) else { return };
        *self.counts.entry(pattern.class).or_default() += 1;
        let mut text: String = record.text.chars().take(MAX_CHARS).collect();
        if pattern.class == "oom" {
            text = self.kill(&text);
        }
        let line = LogLine {
            gone: false,
            class: pattern.class.to_owned(),
            seconds_since_boot: record.seconds,
            in_window,
            subject: pattern.subject(record.text),
            text,
        };
        self.keep(pattern.class, line);
    }

    /// A kill, with the reason that was told before it.
    fn kill(&mut self, text: &str) -> String {
        let told = self.constraint.take();
        let in_cgroup = text.starts_with("Memory cgroup out of memory") || told.as_ref().is_some_and(|c| c.in_cgroup);
        self.cgroup_kills += u64::from(in_cgroup);
        match told {
            Some(constraint) => format!("{text} [{}]", constraint.words),
            None if in_cgroup => format!("{text} [{OF_SOME_GROUP}]"),
            None => text.to_owned(),
        }
    }

    fn keep(&mut self, class: &'static str, line: LogLine) {
        if line.in_window {
            let lines = self.new_lines.entry(class).or_default();
            if lines.len() < KEPT_OF_WINDOW {
                lines.push(line);
            }
            return;
        }
        let lines = self.old_lines.entry(class).or_default();
        let same = |kept: &LogLine| kept.subject == line.subject;
        if lines.iter().filter(|kept| same(kept)).count() == KEPT_OF_BOOT {
            lines.iter().position(same).and_then(|oldest| lines.remove(oldest));
        }
        lines.push_back(line);
        if lines.len() > KEPT_MEANWHILE {
            // A device keeps its only line as long as another one has several.
            let has_more = |line: &LogLine| lines.iter().filter(|kept| kept.subject == line.subject).count() > 1;
            let oldest = lines.iter().position(has_more).unwrap_or(0);
            lines.remove(oldest);
        }
    }

    /// The kept lines: those of the window first.
    pub(super) fn lines(self) -> impl Iterator<Item = LogLine> {
        self.new_lines.into_values().flatten().chain(self.old_lines.into_values().flatten())
    }

    /// The lines without those of the time before the window that are too many: of each class those of devices that are gone go first,
    /// then the oldest.
    pub(super) fn fewer(mut lines: Vec<LogLine>) -> Vec<LogLine> {
        for (class, _) in CLASSES {
            let is_old = |line: &LogLine| line.class == *class && !line.in_window;
            while lines.iter().filter(|line| is_old(line)).count() > KEPT_OF_BOOT {
                let gone = lines.iter().position(|line| is_old(line) && line.gone);
                let Some(at) = gone.or_else(|| lines.iter().position(is_old)) else { break };
                lines.remove(at);
            }
        }
        lines
    }

    /// How many lines of a class there were.
    pub(super) fn count(&self, class: &str) -> u64 {
        debug_assert!(CLASSES.iter().any(|(known, _)| *known == class), "{class} is no class");
        self.counts.get(class).copied().unwrap_or(0)
    }
}

/// The device that got a size where it had none: what a line before says is about what it held before. Disks do not count, which may lose
/// their medium and have it back.
fn renewed(text: &str) -> Option<&str> {
    let (device, _) = text.split_once(": detected capacity change from 0 to ")?;
    let number = device.strip_prefix("loop").or_else(|| device.strip_prefix("zram"))?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(device)
}

/// What the lines before a kill say about whose memory ran out. Kernels before 5.0 say it in other words than later ones. A control group
/// may be called whatever its owner likes, also like a part of such a line: where a part occurs twice, no group is named.
fn constraint(text: &str) -> Option<Constraint> {
    let is_once = |part: &str| text.matches(part).count() == 1;
    if text.starts_with("oom-kill:constraint=") {
        let field = |key| between(text, key, ",").unwrap_or("");
        let is_clear =
            [",cpuset=", ",oom_memcg=", ",task_memcg="].into_iter().all(|key| text.matches(key).count() <= 1);
        let kind = field("constraint=");
        let words = match kind {
            "CONSTRAINT_MEMCG" if !is_clear => OF_SOME_GROUP.to_owned(),
            "CONSTRAINT_CPUSET" if !is_clear => "the memory nodes of a cpuset were exhausted".to_owned(),
            "CONSTRAINT_MEMCG" => {
                let limit = field(",oom_memcg=");
                format!("limit of the memory cgroup {limit}; the victim was in {}", field(",task_memcg="))
            }
            "CONSTRAINT_CPUSET" => format!("the memory nodes of the cpuset {} were exhausted", field(",cpuset=")),
            "CONSTRAINT_MEMORY_POLICY" => "the memory nodes of a NUMA policy were exhausted".to_owned(),
            _ => "the whole host was out of memory".to_owned(),
        };
        return Some(Constraint { in_cgroup: kind == "CONSTRAINT_MEMCG", words });
    }
    if text.starts_with("Task in ") && text.contains(" killed as a result of limit of ") {
        let limit = between(text, " as a result of limit of ", "").unwrap_or("");
        let named = || format!("limit of the memory cgroup {limit}");
        let words = if is_once(" as a result of limit of ") { named() } else { OF_SOME_GROUP.to_owned() };
        return Some(Constraint { in_cgroup: true, words });
    }
    let old = ["Memory cgroup out of memory: Kill process ", "memory cgroup out of memory: Kill process "];
    let is_old = old.into_iter().any(|words| text.starts_with(words));
    is_old.then(|| Constraint { in_cgroup: true, words: OF_SOME_GROUP.to_owned() })
}

const OF_SOME_GROUP: &str = "limit of a memory cgroup";

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(records: &[&str], in_window: bool) -> Scan {
        let mut scan = Scan::default();
        for record in records {
            scan.take(&parse(record).unwrap(), in_window);
        }
        scan
    }

    #[test]
    fn a_kill_is_told_with_its_victim_and_whose_limit_it_was() {
        let scan = scan(
            &[
                "4,10,5000000,-;python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
                "6,11,5000001,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
                 oom_memcg=/box,task_memcg=/box/in,task=a) b,pid=123,uid=0",
                "3,12,5000002,-;Memory cgroup out of memory: Killed process 123 (a) b) total-vm:70000kB, anon-rss:6kB",
            ],
            true,
        );
        assert_eq!((scan.count("oom"), scan.cgroup_kills), (1, 1));
        let line = scan.lines().next().unwrap();
        assert_eq!(line.subject.as_deref(), Some("a) b (pid 123)"));
        assert!(line.in_window && line.text.ends_with("[limit of the memory cgroup /box; the victim was in /box/in]"));
    }

    #[test]
    fn what_a_user_has_the_kernel_quote_or_calls_a_group_makes_no_limit_of_a_group() {
        let of_host = "6,1,1,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,task=x,pid=7,uid=0";
        let kill = "3,3,3,-;Out of memory: Killed process 7 (x) total-vm:1kB, anon-rss:1kB";
        let quoted = "4,2,2,-;tmpfs: Unknown parameter 'emory cgroup out of memory: Kill process '";
        let scan_of = |records: &[&str]| {
            let scan = scan(records, true);
            (scan.cgroup_kills, scan.lines().next().unwrap().text)
        };
        let (kills, text) = scan_of(&[of_host, quoted, kill]);
        assert!(kills == 0 && text.ends_with("[the whole host was out of memory]"), "{text}");
        for group in [
            "oom_memcg=/x,task_memcg=/system.slice/sshd.service,task_memcg=/x",
            "oom_memcg=/a,oom_memcg=/b,task_memcg=/c",
        ] {
            let told = format!(
                "6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,{group},task=x,pid=7,uid=0"
            );
            let (kills, text) = scan_of(&[&told, kill]);
            assert!(kills == 1 && text.ends_with("[limit of a memory cgroup]"), "{text}");
        }
    }

    #[test]
    fn a_kill_for_want_of_memory_on_the_whole_host_is_no_limit_of_a_cgroup() {
        let scan = scan(
            &[
                "6,1,1,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,task=x,pid=7,uid=0",
                "3,2,2,-;Out of memory: Killed process 7 (x) total-vm:1kB, anon-rss:1kB",
            ],
            false,
        );
        assert_eq!((scan.count("oom"), scan.cgroup_kills), (1, 0));
        let line = scan.lines().next().unwrap();
        assert!(line.text.contains("the whole host") && !line.in_window);
    }

    #[test]
    fn kernels_before_5_0_say_the_same_in_other_words_and_one_kill_counts_once() {
        let scan = scan(
            &[
                "6,1,1,-;Task in /docker/ab killed as a result of limit of /docker/ab",
                "3,2,2,-;Memory cgroup out of memory: Kill process 812 (java) score 990 or sacrifice child",
                "3,3,3,-;Killed process 812 (java), UID 1000, total-vm:9kB, anon-rss:1kB",
            ],
            true,
        );
        assert_eq!((scan.count("oom"), scan.cgroup_kills), (1, 1));
        assert_eq!(scan.lines().next().unwrap().subject.as_deref(), Some("java (pid 812)"));
    }

    #[test]
    fn records_are_seen_once_and_gaps_in_their_numbers_are_counted() {
        let mut scan = Scan::default();
        for record in ["6,5,1,-;a", "6,6,1,-;b", "6,5,1,-;a", "6,9,1,-;c"] {
            scan.take(&parse(record).unwrap(), true);
        }
        assert_eq!((scan.records, scan.missed, scan.oldest), (3, 2, Some(5)));
    }

    #[test]
    fn what_services_log_is_not_taken_for_the_kernels_word() {
        let line = "^I/O error, dev sda, sector 1".trim_start_matches('^');
        assert_eq!(scan(&[&format!("30,1,1,-;systemd[1]: {line}")], true).count("disk"), 0);
        let by_root = scan(&[&format!("12,1,1,-;{line}")], true);
        assert_eq!(by_root.count("disk"), 0, "what root writes to /dev/kmsg is no word of the kernel either");
        assert_eq!(by_root.lines().count(), 0);
        let kill = scan(
            &[
                "12,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/box",
                "3,2,1,-;Killed process 812 (java), UID 1000, total-vm:9kB, anon-rss:1kB",
            ],
            true,
        );
        assert!(!kill.lines().next().unwrap().text.contains("/box"), "nor does it explain a kill");
    }

    #[test]
    fn a_flood_of_lines_is_counted_in_full_and_kept_in_part() {
        let mut scan = Scan::default();
        for sequence in 0..1000 {
            let line = format!("3,{sequence},1,-;I/O error, dev sda, sector 1{}", "x".repeat(5000));
            scan.take(&parse(&line).unwrap(), sequence >= 500);
        }
        assert_eq!(scan.count("disk"), 1000);
        let lines = Scan::fewer(scan.lines().collect());
        assert_eq!(lines.len(), KEPT_OF_BOOT + KEPT_OF_WINDOW);
        assert!(lines.iter().all(|line| line.text.chars().count() <= MAX_CHARS));
    }

    #[test]
    fn lines_about_a_device_that_is_gone_hide_none_about_one_that_is_there() {
        let scan_of = |devices: &[&str]| {
            let mut scan = Scan::default();
            for (sequence, device) in devices.iter().enumerate() {
                let line = format!("3,{sequence},{sequence}000000,-;I/O error, dev {device}, sector 1");
                scan.take(&parse(&line).unwrap(), false);
            }
            let mut lines: Vec<_> = scan.lines().collect();
            lines.iter_mut().for_each(|line| line.gone = line.subject.as_deref() != Some("sda"));
            let at = |line: LogLine| format!("{} {}", line.subject.unwrap_or_default(), line.seconds_since_boot);
            Scan::fewer(lines).into_iter().map(at).collect::<Vec<_>>()
        };
        let flood = ["sda", "loop0", "loop0", "loop0", "loop0"];
        assert_eq!(scan_of(&flood), ["sda 0", "loop0 3", "loop0 4"]);
        assert_eq!(scan_of(&["sda", "sda", "loop0", "sda", "sda"]), ["sda 1", "sda 3", "sda 4"]);
        let names: Vec<String> = (0..30).map(|number| format!("loop{number}")).collect();
        let mut many: Vec<&str> = names.iter().map(String::as_str).collect();
        many.push("sda");
        assert_eq!(scan_of(&many), ["loop28 28", "loop29 29", "sda 30"]);
        let three_each = ["loop0", "loop1", "loop2", "loop3"].iter().flat_map(|device| [*device; 3]);
        let first: Vec<&str> = std::iter::once("sda").chain(three_each).collect();
        assert_eq!(scan_of(&first).first().unwrap(), "sda 0");
    }

    #[test]
    fn what_is_no_record_is_passed_over() {
        for broken in
            ["", ";", "a,b,c;text", "6,1;text", "6,1,2 text", " SUBSYSTEM=pci", "6,99999999999999999999,1,-;x"]
        {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_whatever_makes_it_panic(head in "[0-9]{1,3},[0-9]{1,20},[0-9]{1,20},-;", text in ".{0,400}") {
            let mut scan = Scan::default();
            let record = format!("{head}{text}");
            if let Some(record) = parse(&record) {
                scan.take(&record, true);
            }
            for pattern in super::super::patterns::PATTERNS {
                let _ = pattern.subject(&text);
            }
            let _ = constraint(&format!("oom-kill:constraint={text}"));
            let _ = parse(&text);
        }
    }
}
