//! /proc, /sys and the kernel log: a collector over a made-up tree, as over a recorded one. Names in these files are chosen by any user.
//!
//! An input is text. Its first line is the id of a collector and, if a task is observed, its process id; then come the files:
//!
//! ```text
//! diskstats
//! @ t0/proc/diskstats
//!    8       0 sda 1 2 3
//! @ t1/proc/diskstats
//!    8       0 sda 2 3 4
//! @@ t0/proc/1/fd/3 /tmp/x (deleted)
//! ```

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rdiag_collectors::{self as collectors, Cadence, CollectorDef, Shared, Sink};
use rdiag_kernel::host::{Host, HostSpec};
use rdiag_model::recording::{Overhead, Tool};
use rdiag_model::{Recording, Target, Window};

/// Files and links of one input.
const MOST_FILES: usize = 64;
/// Instants of a tree.
const INSTANTS: usize = 3;

/// A collector over the files of an input.
pub fn files(data: &[u8]) -> bool {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let head = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let mut words = head.split_whitespace();
    let Some(collector) = words.next().and_then(collectors::find) else { return false };
    let target = Target { pids: words.filter_map(|word| word.parse().ok()).collect(), ..Target::default() };
    let Some(tree) = tree(parts.next().unwrap_or_default()) else { return false };
    collected(collector, tree.path(), target)
}

/// The kernel log at two instants; the first ends where a line begins with `@`.
pub fn kernel_log(data: &[u8]) -> bool {
    let folder = folder();
    let at = data.windows(2).position(|pair| pair == b"\n@").map_or(data.len(), |at| at + 1);
    let (before, _) = data.split_at(at);
    write(&folder.path().join("t0/dev/kmsg"), before);
    write(&folder.path().join("t1/dev/kmsg"), data);
    let collector = collectors::find("kernel_log").expect("a collector");
    collected(collector, folder.path(), Target::default())
}

/// What a collector records, which must be fit to be written and judged; whether that was anything.
fn collected(collector: &'static CollectorDef, root: &Path, target: Target) -> bool {
    let times: Vec<f64> = (0..INSTANTS).map(|instant| instant as f64 * 5.0).collect();
    let spec = HostSpec { times: times.clone(), ..HostSpec::default() };
    let host = Host::recorded(root, spec);
    let out = Sink::beside(collector.series, &Arc::new(Shared::new(target.clone())));
    let mut work = (collector.start)(&host);
    work.prepare(&host, &out);
    for (instant, time) in times.iter().enumerate() {
        if collector.cadence == Cadence::Ends && instant != 0 && instant + 1 != INSTANTS {
            continue;
        }
        host.wait(*time, instant, &AtomicBool::new(false));
        if let Err(gap) = work.sample(&host, &out) {
            out.with_record(|record| record.unavailable = Some(gap));
            break;
        }
        out.end_sample(*time, false);
    }
    work.finish(&host, &out);
    let probes = out.take_probe().map(|result| (collector.id.to_owned(), result)).into_iter().collect();
    let ledgers = out.take_ledger().map(|ledger| (collector.id.to_owned(), ledger)).into_iter().collect();
    let window = Window {
        steps: Vec::new(),
        begins: 0.0,
        seconds: 10.0,
        interval_seconds: 5.0,
        suspended_seconds: 0.0,
        collectors: [(collector.id.to_owned(), out.into_record())].into(),
        probes,
        ledgers,
    };
    let catalogue: Vec<_> = collector.metrics.iter().map(|metric| (collector.id, metric)).collect();
    let metrics = rdiag_judge::metrics::evaluate(&window, host.facts(), &catalogue);
    serde_json::to_string(&metrics).expect("metrics have a JSON form");
    let recording = Recording {
        format_version: rdiag_model::recording::FORMAT_VERSION,
        tool: Tool { name: "rdiag".into(), version: "0".into() },
        playbook: "use-method".into(),
        params: BTreeMap::new(),
        target,
        host: host.facts().clone(),
        setup: rdiag_kernel::host::setup::read_all(&host),
        started: String::new(),
        exercise: None,
        windows: vec![window],
        interrupted: false,
        overhead: Overhead::default(),
    };
    let mut written = Vec::new();
    rdiag_session::write_recording(&recording, &mut written).expect("what was collected can be written");
    let again = rdiag_session::read_recording(&written).expect("what was collected can be read again");
    assert!(again == recording, "what was collected is something else after it was written and read");
    recording.windows.iter().flat_map(|window| window.collectors.values()).any(|record| record.unavailable.is_none())
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("rdiag-tree-").tempdir_in("/dev/shm").expect("a folder in memory")
}

/// The files of an input below a folder of their own; none if there is none.
fn tree(data: &[u8]) -> Option<tempfile::TempDir> {
    let root = folder();
    let mut place: Option<PathBuf> = None;
    let (mut body, mut count) = (Vec::new(), 0);
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        let begins = if let Some(link) = bare.strip_prefix(b"@@ ") {
            let at = link.iter().position(|byte| *byte == b' ').unwrap_or(link.len());
            let (path, goal) = link.split_at(at);
            let goal = goal.get(1..).unwrap_or_default();
            if let (Some(path), false) = (path_of(root.path(), path), goal.is_empty() || goal.contains(&0)) {
                link_to(&path, goal);
                count += 1;
            }
            true
        } else {
            bare.starts_with(b"@ ")
        };
        if begins || count > MOST_FILES {
            if let Some(place) = place.take() {
                write(&place, &body);
                count += 1;
            }
            body.clear();
            place = bare.strip_prefix(b"@ ").and_then(|path| path_of(root.path(), path));
            continue;
        }
        body.extend_from_slice(line);
    }
    place.into_iter().for_each(|place| write(&place, &body));
    (count > 0 || !body.is_empty()).then_some(root)
}

/// The place of a file: below the root, at an instant, and nowhere else.
fn path_of(root: &Path, path: &[u8]) -> Option<PathBuf> {
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let is_plain =
        |part: &&[u8]| !part.is_empty() && part.len() < 100 && *part != b"." && *part != b".." && !part.contains(&0);
    let instant = parts.first()?.strip_prefix(b"t")?;
    let is_instant = (0..INSTANTS).any(|at| at.to_string().as_bytes() == instant);
    let is_fit = is_instant && (2..=12).contains(&parts.len()) && parts.iter().all(is_plain);
    is_fit.then(|| root.join(std::ffi::OsStr::from_bytes(path)))
}

/// What lies in the way of a file, and what a link would lead out of, stays as it is: no link is written through.
fn write(place: &Path, bytes: &[u8]) {
    if make_folder(place) {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = std::fs::OpenOptions::new();
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        if let Ok(mut file) = options.write(true).create(true).truncate(true).custom_flags(flags).open(place) {
            let _ = std::io::Write::write_all(&mut file, bytes);
        }
    }
}

fn link_to(place: &Path, goal: &[u8]) {
    // A link of the tree is one for its text: it leads nowhere, so that nothing of this machine is read through it.
    let nowhere = [b"/nonexistent", goal].concat();
    let goal = if goal.starts_with(b"/") && !is_of_process(place) { nowhere.as_slice() } else { goal };
    if make_folder(place) {
        let _ = std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(goal), place);
    }
}

/// Links of a process are read as text and never followed.
fn is_of_process(place: &Path) -> bool {
    place.components().any(|part| ["fd", "ns", "exe", "cwd"].iter().any(|name| part.as_os_str() == *name))
}

/// Folders above a file; false if one of them is something else.
fn make_folder(place: &Path) -> bool {
    let Some(folder) = place.parent() else { return false };
    let mut at = PathBuf::new();
    for part in folder.components() {
        at.push(part);
        match at.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return false,
            Err(_) if std::fs::create_dir(&at).is_ok() => {}
            Err(_) => return false,
        }
    }
    true
}
