//! Which line of the kernel log belongs to which class, and which subject it names. The first pattern that fits decides.
//!
//! Patterns are as narrow as the kernel's formats allow: lines hold names that users choose, and healthy machines log
//! many lines that merely contain words such as "error" or "EDAC".

/// How a kind of line is recognised.
#[derive(Debug)]
pub(super) struct Pattern {
    /// One of the classes.
    pub(super) class: &'static str,
    /// All of these occur; `^` in front means: at the beginning of the line, `$` behind: at its end.
    pub(super) all: &'static [&'static str],
    /// None of these occurs.
    pub(super) none: &'static [&'static str],
    /// Where the line names its subject.
    subject: Subject,
}

/// Where in a line its subject is.
#[derive(Debug, Clone, Copy)]
enum Subject {
    /// Nowhere.
    Nobody,
    /// Between two pieces of text; "" means the line's beginning or end.
    Between(&'static str, &'static str),
    /// The same, and it is a task as `name:pid` or `name[pid]`.
    Task(&'static str, &'static str),
    /// The last word before a piece of text.
    Before(&'static str),
    /// `Killed process 12 (name)`.
    Victim,
    /// `swap-device (254:0:1234)`, a device and a sector: the device.
    SwapDevice,
}

use Subject::{Before, Between, Nobody, SwapDevice, Task, Victim};

const fn line(class: &'static str, all: &'static [&'static str], subject: Subject) -> Pattern {
    Pattern { class, all, none: &[], subject }
}

const fn except(
    class: &'static str,
    all: &'static [&'static str],
    none: &'static [&'static str],
    subject: Subject,
) -> Pattern {
    Pattern { class, all, none, subject }
}

/// What the kernel says of tasks behind other words: their names are any text of fifteen characters.
const OF_TASKS: &[&str] = &[" Comm: ", "^["];

/// Removable drives without a medium answer every probe with an error, which says nothing about the host's storage.
const NO_REAL_DISK: &[&str] = &["dev fd", "dev sr", "operation not supported error"];

#[rustfmt::skip]
pub(super) const PATTERNS: &[Pattern] = &[
    // First what carries the names of processes, so that a name cannot pass for something else.
    line("oom", &["Killed process ", "total-vm:"], Victim),
    line("crash", &["]: segfault at "], Task("", ": segfault at ")),
    line("crash", &["]: segfault ("], Task("", ": segfault (")),
    line("crash", &["]: unhandled exception"], Task("", ": unhandled")),
    line("crash", &["]: unhandled signal "], Task("", ": unhandled")),
    line("crash", &["] bad frame in "], Task("", " bad frame in ")),
    line("crash", &["^traps: ", "] general protection"], Task("traps: ", " general protection")),
    line("crash", &["^traps: ", "] trap "], Task("traps: ", " trap ")),

    line("swap", &["^Read-error on swap-device ("], SwapDevice),
    line("swap", &["^Write-error on swap-device ("], SwapDevice),
    line("swap", &["Bad swap file entry "], Nobody),
    line("swap", &["Bad swap offset entry "], Nobody),

    except("disk", &[" error, dev ", " sector "], NO_REAL_DISK, Between(" error, dev ", ",")),
    except("disk", &["Buffer I/O error on dev"], &["dev fd", "dev sr", "device fd", "device sr"], Between(" on dev ", ",")),
    line("disk", &["^ata", ": exception Emask "], Between("", ":")),
    line("disk", &["^ata", ": failed command: "], Between("", ":")),
    line("disk", &["^nvme ", " timeout, aborting"], Between("nvme ", ":")),
    line("disk", &["^nvme ", " timeout, reset controller"], Between("nvme ", ":")),
    line("disk", &["^nvme ", " timeout, completion polled"], Between("nvme ", ":")),
    line("disk", &["^nvme ", ": controller is down; will reset"], Between("nvme ", ":")),
    line("disk", &["^nvme ", ": Device not ready;"], Between("nvme ", ":")),
    line("disk", &["^nvme ", ": Removing after probe failure"], Between("nvme ", ":")),
    line("disk", &["rejecting I/O to offline device"], Between("[", "]")),
    line("disk", &["rejecting I/O to dead device"], Between("[", "]")),
    line("disk", &["Device offlined - not ready after error recovery"], Nobody),
    line("disk", &["^md/", "Disk failure on "], Between("Disk failure on ", ",")),
    line("disk", &["device-mapper: multipath:", "Failing path "], Between("Failing path ", ".")),
    line("disk", &["^mmcblk", ": error -"], Between("", ":")),

    line("filesystem", &["^EXT4-fs error (device "], Between("(device ", ")")),
    line("filesystem", &["^EXT3-fs error (device "], Between("(device ", ")")),
    line("filesystem", &["^EXT2-fs error (device "], Between("(device ", ")")),
    line("filesystem", &["^EXT4-fs (", "Remounting filesystem read-only"], Between("EXT4-fs (", ")")),
    line("filesystem", &["^EXT4-fs (", "Delayed block allocation failed"], Between("EXT4-fs (", ")")),
    line("filesystem", &["^EXT4-fs (", "failed to convert unwritten extents"], Between("EXT4-fs (", ")")),
    line("filesystem", &["^Aborting journal on device "], Between("on device ", ".")),
    line("filesystem", &["^JBD2: ", "rror", " file data on "], Between(" file data on ", "")),
    line("filesystem", &["^JBD2: ", "rror", " journal superblock for "], Between(" superblock for ", ".")),
    line("filesystem", &["^JBD2: ", "rror"], Nobody),
    line("filesystem", &["^XFS (", "orruption"], Between("XFS (", ")")),
    line("filesystem", &["^XFS (", "CRC error detected"], Between("XFS (", ")")),
    line("filesystem", &["^XFS (", "I/O error"], Between("XFS (", ")")),
    line("filesystem", &["^XFS (", "Internal error "], Between("XFS (", ")")),
    line("filesystem", &["^XFS (", "has been shut down"], Between("XFS (", ")")),
    line("filesystem", &["^BTRFS error (device "], Between("(device ", ")")),
    line("filesystem", &["^BTRFS: error (device "], Between("(device ", ")")),
    line("filesystem", &["^BTRFS critical (device "], Between("(device ", ")")),
    line("filesystem", &["^BTRFS warning (device ", "csum failed"], Between("(device ", ")")),
    line("filesystem", &["^BTRFS ", "forced readonly"], Between("(device ", ")")),
    line("filesystem", &["^F2FS-fs (", "inconsistent"], Between("F2FS-fs (", ")")),
    line("filesystem", &["^F2FS-fs (", "Stopped filesystem"], Between("F2FS-fs (", ")")),
    line("filesystem", &["^bcachefs (", "error"], Between("bcachefs (", ")")),
    line("filesystem", &["^FAT-fs (", "): error, "], Between("FAT-fs (", ")")),
    line("filesystem", &["^SQUASHFS error: "], Nobody),

    line("nfs", &["^nfs: server ", "not responding"], Between("server ", " ")),
    line("nfs", &["^CIFS: VFS: ", "has not responded in "], Between("VFS: ", " ")),

    line("lockup", &["BUG: soft lockup - CPU#"], Task("s! [", "]")),
    line("lockup", &["Watchdog detected hard LOCKUP on cpu"], Between("LOCKUP on ", "")),
    line("lockup", &["CPU", ": Watchdog detected hard LOCKUP"], Nobody),
    line("lockup", &["^rcu: INFO: ", "stall"], Nobody),
    line("lockup", &["^INFO: rcu_", "stall"], Nobody),
    line("lockup", &["BUG: workqueue lockup"], Nobody),
    line("hung_task", &["^INFO: task ", " blocked ", " for more than "], Task("INFO: task ", " blocked ")),

    line("hardware_fatal", &["PCIe Bus Error: severity=Uncorrect"], Between("", ": ")),
    line("hardware_fatal", &["^EDAC ", " UE "], Between("EDAC ", ":")),
    line("hardware_fatal", &["[Hardware Error]", "event severity: fatal"], Nobody),
    line("hardware_fatal", &["[Hardware Error]", "event severity: recoverable"], Nobody),
    line("hardware_fatal", &["[Hardware Error]", "Uncorrected"], Nobody),
    line("hardware_fatal", &["[Hardware Error]", "Processor context corrupt"], Nobody),
    line("hardware_fatal", &["^Memory failure: 0x"], Nobody),
    line("hardware", &["PCIe Bus Error: severity=Correct"], Between("", ": ")),
    line("hardware", &["^EDAC ", " CE "], Between("EDAC ", ":")),
    line("hardware", &["[Hardware Error]"], Nobody),

    line("bug", &["^BUG: "], Nobody),
    line("bug", &["^kernel BUG at "], Between("kernel BUG at ", "!")),
    line("bug", &["^Oops: "], Nobody),
    line("bug", &["^Internal error: Oops"], Nobody),
    line("bug", &["^Kernel panic - "], Nobody),
    line("bug", &["^general protection fault"], Nobody),
    line("bug", &["^Unable to handle kernel "], Nobody),
    line("bug", &["^list_add corruption"], Nobody),
    line("bug", &["^list_del corruption"], Nobody),
    line("bug", &["^refcount_t: ", "use-after-free"], Nobody),
    line("kernel_warning", &["^UBSAN: ", " in "], Between(" in ", "")),
    line("kernel_warning", &["^WARNING: CPU: ", " at "], Between(" at ", " ")),
    line("kernel_warning", &["^WARNING: ", " at ", " CPU#"], Between("WARNING: ", " at ")),

    // What may not wait is mostly asked for by an interrupt: the task that ran is not behind it.
    line("page_allocation", &[": page allocation failure: order:", "(GFP_ATOMIC"], Nobody),
    line("page_allocation", &[": page allocation failure: order:"], Between("", ": page")),
    line("page_allocation", &["SLUB: Unable to allocate memory on "], Nobody),
    line("page_allocation", &[": vmalloc error: "], Between("", ": vmalloc")),
    // Before Linux 5.13.
    line("page_allocation", &[": vmalloc: allocation failure: "], Between("", ": vmalloc")),

    line("nic", &["NETDEV WATCHDOG: CPU:"], Before(": NETDEV WATCHDOG")),
    line("nic", &["^NETDEV WATCHDOG: "], Between("WATCHDOG: ", " (")),
    // Some are no longer than the name of a task, behind which the kernel says what the task did: these end the line.
    except("nic", &["NIC Link is Down$"], OF_TASKS, Before("NIC Link is")),
    except("nic", &[": Link is Down$"], OF_TASKS, Before(": Link is")),
    except("nic", &[": Link is down$"], OF_TASKS, Before(": Link is")),
    except("nic", &[": link down$"], OF_TASKS, Before(": link down")),
    except("nic", &[": Link down$"], OF_TASKS, Before(": Link down")),
    line("nic", &["link status definitely down"], Between("(slave ", ")")),
    except("nic", &[": Detected Hardware Unit Hang"], OF_TASKS, Before(": Detected Hardware")),

    // Since Linux 6.16 it says `table full in netns 4026532281, dropping packet` where that is not the first one.
    line("conntrack", &["conntrack: table full", ", dropping packet"], Nobody),
    line("neighbour", &["eighbo", " table overflow"], Between("neighbour: ", ":")),
    line("syn_flood", &["ossible SYN flooding on port "], Between("on port ", ". ")),
    line("tcp_memory", &["^TCP: out of memory"], Nobody),
    line("tcp_memory", &["^TCP: too many orphaned sockets"], Nobody),
    line("file_max", &["^VFS: file-max limit "], Nobody),
    line("pids", &["fork rejected by pids controller in "], Between("controller in ", "")),

    line("thermal", &["temperature above threshold, cpu clock throttled"], Between("", ":")),
    line("thermal", &["temperature is above threshold, cpu clock is throttled"], Between("", ":")),
    line("thermal", &["critical temperature reached"], Nobody),
    line("clocksource", &["Marking clocksource ", " as unstable"], Between("clocksource '", "'")),
    line("clocksource", &["Marking TSC unstable"], Nobody),
    line("clocksource", &["^Clocksource ", " unstable (delta"], Between("Clocksource ", " ")),
    line("rt_throttling", &["RT throttling activated"], Nobody),
    line("interrupts", &["^hrtimer: interrupt took "], Nobody),
    line("interrupts", &["^irq ", ": nobody cared"], Between("", ":")),
];

/// Characters of a task's name, at most; the kernel writes what is no plain text as `\xNN`.
const LONGEST_NAME: usize = 15;

/// Whether what stands before a place in a line is the kernel's own words. Any user can have the kernel quote them (`tmpfs: Unknown
/// parameter
/// '…'` needs no more than a namespace), or name a control group: what follows a quote or a path may be a user's.
fn is_kernels_own(head: &str) -> bool {
    let quotes = head.contains(['\'', '"', '`']);
    let has_path = head.starts_with('/') || [" /", "=/"].iter().any(|path| head.contains(path));
    !quotes && !has_path
}

/// Whether it is no more than the name of a task, with its number behind it or not. It may hold quotes and slashes.
fn is_name(head: &str) -> bool {
    let name = head.rsplit_once('[').map_or(head, |(name, _)| name);
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    let escapes = name.split("\\x").skip(1).filter(|rest| is_escape(rest)).count();
    name.chars().count() - 3 * escapes <= LONGEST_NAME
}

impl Pattern {
    fn fits(&self, text: &str) -> bool {
        let occurs = |needle: &str| match (needle.strip_prefix('^'), needle.strip_suffix('$')) {
            (Some(start), _) => text.starts_with(start),
            (None, Some(end)) => text.trim_end_matches('.').ends_with(end),
            (None, None) => text.contains(needle),
        };
        // By what comes first in the kernel's format a line is known; names may stand between that and the rest. These begin with a name.
        let is_ours = if begins_with_name(self.class) { is_name } else { is_kernels_own };
        let begins = |needle: &&str| {
            let marker = needle.trim_end_matches('$');
            needle.starts_with('^') || text.split_once(marker).is_some_and(|(head, _)| is_ours(head))
        };
        // Whether they occur at all is asked first: that costs a tenth of looking where.
        self.all.iter().all(|needle| occurs(needle))
            && !self.none.iter().any(|needle| occurs(needle))
            && self.all.first().is_some_and(begins)
    }

    /// The subject of the line, in words for people: `name (pid 12)` for tasks.
    pub(super) fn subject(&self, text: &str) -> Option<String> {
        let found = match self.subject {
            Nobody => None,
            Between(before, after) => between(text, before, after).map(str::to_owned),
            Task(before, after) => between(text, before, after).and_then(task),
            Before(marker) => {
                let (head, _) = text.split_once(marker)?;
                head.trim_end_matches([' ', ':']).rsplit(' ').next().map(|word| word.trim_matches(':').to_owned())
            }
            Victim => victim(text),
            SwapDevice => {
                let place = between(text, "swap-device (", ")")?;
                place.rsplit_once(':').map(|(device, _)| device.to_owned())
            }
        };
        found.filter(|name| !name.is_empty())
    }
}

/// Commands that only tell a device which blocks are free or empty. Many reject them, and the kernel does without: nothing is lost.
const DISPENSABLE: [&str; 4] = [":(DISCARD)", ":(SECURE_ERASE)", ":(WRITE_SAME)", ":(WRITE_ZEROES)"];

/// Whether a device rejected such a command: `critical target error, dev sda, sector 2048 op 0x3:(DISCARD) flags 0x800`.
fn is_rejected(text: &str) -> bool {
    let error = text.strip_prefix("blk_update_request: ").unwrap_or(text);
    error.starts_with("critical target error, dev ") && DISPENSABLE.iter().any(|command| error.contains(command))
}

/// The pattern that fits a line. One that begins with the name of a task may hold that of its file as well, as long as a line and
/// unquoted: whatever else it looks like, it is about this task.
pub(super) fn recognise(text: &str) -> Option<&'static Pattern> {
    // Few lines fit anything, so whose they are is asked last.
    let mut fitting = PATTERNS.iter().filter(|pattern| pattern.fits(text)).peekable();
    fitting.peek().filter(|_| !is_rejected(text))?;
    let is_of_task = is_of_task(text);
    fitting.find(|pattern| !is_of_task || begins_with_name(pattern.class))
}

/// Classes of lines that begin with the name of a task.
fn begins_with_name(class: &str) -> bool {
    matches!(class, "crash" | "page_allocation")
}

/// What the kernel says behind the name of a task, where no number in brackets does.
const TOLD_OF_TASKS: &[&str] = &[
    " invoked oom-killer: ",
    ": page allocation failure: order:",
    ": vmalloc error: ",
    ": vmalloc: allocation failure: ",
    ": potentially unexpected fatal signal ",
    " used greatest stack depth: ",
];

/// Whether a line begins with the name of a task: `NAME[12]: segfault at …`, `NAME[12] bad frame in …`, `NAME invoked oom-killer: …`.
fn is_of_task(text: &str) -> bool {
    let has_number = |(at, _): (usize, &str)| {
        let behind = text.get(at + 1..).and_then(|rest| rest.split_once(']'));
        let is_number = |(number, rest): (&str, &str)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && rest.starts_with([':', ' '])
        };
        behind.is_some_and(is_number) && text.get(..at).is_some_and(is_name)
    };
    // `NAME/12` and `NAME (12)`.
    let without_number = |head: &str| {
        let digits = head.trim_end_matches(')').trim_end_matches(|sign: char| sign.is_ascii_digit());
        is_name(head) || is_name(digits.trim_end_matches(['/', '(', ' ']))
    };
    text.starts_with("traps: ")
        || text.match_indices('[').any(has_number)
        || TOLD_OF_TASKS.iter().any(|told| text.split_once(told).is_some_and(|(head, _)| without_number(head)))
}

/// The text between two markers; to the end of the line if the second one is not there.
pub(super) fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    let end = if after.is_empty() { None } else { rest.split_once(after) };
    Some(end.map_or(rest, |(found, _)| found).trim())
}

/// `name:12` or `name[12]` → `name (pid 12)`. Names may hold both characters, so the last one counts.
fn task(text: &str) -> Option<String> {
    let (name, pid) = match text.strip_suffix(']') {
        Some(rest) => rest.rsplit_once('[')?,
        None => text.rsplit_once(':')?,
    };
    let pid: u32 = pid.parse().ok()?;
    Some(format!("{name} (pid {pid})"))
}

/// `… Killed process 12 (name) total-vm:…` → `name (pid 12)`; older kernels put a comma after the name.
fn victim(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Killed process ")?;
    let (head, _) = rest.rsplit_once("total-vm:")?;
    let (pid, name) = head.split_once('(')?;
    let pid: u32 = pid.split([' ', ',']).next()?.parse().ok()?;
    let (name, _) = name.rsplit_once(')')?;
    Some(format!("{name} (pid {pid})"))
}
