//! What a process of rdiag could leave on a host, and whether its output is whole.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::super::tracefs::TRACING;
use crate::support::rdiag;

fn text_of(path: impl AsRef<Path>) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn listed(folder: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// All that is this rdiag's on this host, in words: processes of this very program, the command that it measured, what
/// they hold, and what needs no process: in tracefs by the number of the process that made it, elsewhere by the names that exercises give.
pub(super) fn of_rdiag(maker: u32) -> BTreeSet<String> {
    let program = fs::canonicalize(rdiag().get_program()).unwrap();
    let mut found = BTreeSet::new();
    for process in listed("/proc").filter(|path| path.join("exe").exists()) {
        // The command that it measures shares its process group.
        let stat = text_of(process.join("stat"));
        let group = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(2)?.parse().ok());
        if !fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program) && group != Some(maker) {
            continue;
        }
        let words = text_of(process.join("cmdline")).replace('\0', " ");
        found.insert(format!("process {} {words}", process.display()));
        for descriptor in listed(process.join("fdinfo")) {
            let (info, link) = (text_of(&descriptor), process.join("fd").join(descriptor.file_name().unwrap()));
            let link = fs::read_link(link).unwrap_or_default().display().to_string();
            let held = ["prog_id:", "map_id:", "link_id:"].into_iter().find(|what| info.contains(what));
            let held = held.or_else(|| link.contains("[perf_event]").then_some("performance event"));
            found.extend(held.map(|held| format!("{held} of process {}", process.display())));
        }
    }
    let instances = listed(format!("{TRACING}/instances")).map(|path| path.display().to_string());
    found.extend(instances.filter(|path| path.contains(&format!("/rdiag-{maker}-"))));
    let events = text_of(format!("{TRACING}/kprobe_events"));
    found.extend(events.lines().filter(|line| line.contains(&format!("rdiag_{maker}_"))).map(str::to_owned));
    let lines = ["/proc/swaps", "/proc/self/mounts"];
    let lines = lines.iter().flat_map(|file| text_of(file).lines().map(str::to_owned).collect::<Vec<_>>());
    found.extend(lines.filter(|line| line.contains("rdiag/lab") || line.contains("rdiag-lab")));
    found.extend(groups(Path::new("/sys/fs/cgroup"), 4));
    found
}

/// Control groups of rdiag's.
fn groups(folder: &Path, depth: usize) -> Vec<String> {
    let below = listed(folder).filter(|path| path.is_dir() && !path.is_symlink());
    let own = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("rdiag-lab"));
    below
        .flat_map(|path| {
            let mut found = if depth > 1 { groups(&path, depth - 1) } else { Vec::new() };
            found.extend(own(&path).then(|| path.display().to_string()));
            found
        })
        .collect()
}

/// What is wrong with the files below a folder: whatever is there is whole, and under its own name.
pub(super) fn broken(folder: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in listed(folder) {
        if path.is_dir() {
            wrong.extend(broken(&path));
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
        let is_whole = match name.as_str() {
            _ if name.starts_with('.') || name.ends_with(".tmp") => false,
            _ if name.ends_with(".json.gz") => {
                let mut text = String::new();
                let read = flate2::read::GzDecoder::new(fs::File::open(&path).unwrap()).read_to_string(&mut text);
                read.is_ok() && is_json(&text)
            }
            _ if name.ends_with(".json") => is_json(&text_of(&path)),
            _ if name.ends_with(".html") => text_of(&path).trim_end().ends_with("</html>"),
            _ => fs::metadata(&path).unwrap().len() > 0,
        };
        if !is_whole {
            wrong.push(path.display().to_string());
        }
    }
    wrong
}
