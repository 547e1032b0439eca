//! Which recordings there are, and which group each belongs to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::cli::exit::Failure;
use rdiag_kernel::host::files;

/// A list of hosts is no larger.
const MAX_LIST: u64 = 16 << 20;
/// Facts that hosts can be grouped by.
const FACTS: [&str; 8] = ["cpus", "memory", "kernel", "os", "arch", "cgroup", "virtual", "container"];
/// How the file of a recording ends.
const ENDINGS: [&str; 3] = [".json.gz", ".json", ".gz"];
/// What `rdiag run` calls a recording, and what a host's folder has instead of a file with the host's name.
const RECORDING: &str = "recording.json.gz";

/// A recording from another host.
#[derive(Debug)]
pub(super) struct Sent {
    /// Where it is.
    pub(super) path: PathBuf,
    /// The host's own report beside it, as a link from the folder that the page goes to.
    pub(super) report: Option<String>,
}

/// The files that were named, and those in folders that were named; each once. A folder may be empty where hosts are expected: then all of
/// them are missing.
pub(super) fn find(named: &[PathBuf], page: Option<&Path>, expects: bool) -> Result<Vec<Sent>, Failure> {
    // One of many that is not there is a host that was not judged; where none is, the names are wrong.
    if let (Some(first), false) = (named.first(), named.iter().any(|path| path.exists())) {
        return Err(Failure::Missing { path: first.display().to_string() });
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for path in named {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let list = |extension| {
            files::list_named(path, extension).map_err(Failure::io(format!("reading the folder {}", path.display())))
        };
        let mut inside = list("gz")?;
        inside.extend(list("json")?.into_iter().filter(|path| !path.ends_with("report.json")));
        let folders =
            files::list_folders(path).map_err(Failure::io(format!("reading the folder {}", path.display())))?;
        inside.extend(folders.into_iter().map(|folder| folder.join(RECORDING)).filter(|path| path.is_file()));
        if inside.is_empty() && !expects {
            let message = format!("there is no recording in the folder {}", path.display());
            return Err(Failure::usage(message, Some("recordings end in .json.gz; `rdiag record` writes them")));
        }
        inside.sort();
        found.extend(inside);
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|path| seen.insert(path.clone()));
    Ok(found.into_iter().map(|path| Sent { report: page.and_then(|page| link(&path, page)), path }).collect())
}

/// `web-17` of `runs/web-17.json.gz` and of `runs/web-17/recording.json.gz`.
pub(super) fn stem(file: &str) -> String {
    let path = Path::new(file);
    let name = match path.file_name().and_then(|name| name.to_str()) {
        Some(RECORDING) => path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or(RECORDING),
        Some(name) => name,
        None => file,
    };
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name).to_owned()
}

/// The report of the host itself, if it lies beside the recording and below the page's folder.
fn link(recording: &Path, page: &Path) -> Option<String> {
    let name = recording.file_name()?.to_str()?;
    let own = match name {
        RECORDING => "report.html".to_owned(),
        _ => format!("{}.html", stem(name)),
    };
    let report = recording.with_file_name(own);
    if !report.is_file() {
        return None;
    }
    let page = if page.as_os_str().is_empty() { Path::new(".") } else { page };
    let (report, page) = (report.canonicalize().ok()?, page.canonicalize().ok()?);
    let below = report.strip_prefix(page).ok()?;
    let mut link = String::from("./");
    for byte in below.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => link.push(char::from(*byte)),
            // Writing to a string does not fail.
            byte => drop(write!(link, "%{byte:02X}")),
        }
    }
    Some(link)
}

/// Hosts that should be there.
#[derive(Debug)]
pub(super) struct Expected {
    /// Each with why there is no recording of it, if the tool that asked it knows.
    pub(super) hosts: Vec<(String, Option<String>)>,
}

impl Expected {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let attempt = format!("reading {}", path.display());
        let bytes = files::read_named(path, MAX_LIST).map_err(Failure::io(attempt))?;
        let text = String::from_utf8_lossy(&bytes);
        let hosts = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let host = |line: &str| match line.split_once('\t') {
            Some((host, why)) => {
                (host.trim_end().to_owned(), Some(why.trim().to_owned()).filter(|why| !why.is_empty()))
            }
            None => (line.to_owned(), None),
        };
        Ok(Self { hosts: hosts.map(host).collect() })
    }
}

/// Which group a host belongs to.
#[derive(Debug)]
pub(super) enum Grouping {
    /// Name and pattern, in the order of the command line.
    Named(Vec<(String, String)>),
    /// By facts.
    Facts(Vec<String>),
}

impl Grouping {
    pub(super) fn of(named: &[String], facts: &[String]) -> Result<Self, Failure> {
        if let Some(fact) = facts.iter().find(|fact| !FACTS.contains(&fact.as_str())) {
            let hint = format!("there are {}", FACTS.join(", "));
            return Err(Failure::usage(format!("--group-by {fact:?}: there is no such fact"), Some(&hint)));
        }
        if !facts.is_empty() {
            return Ok(Self::Facts(facts.to_vec()));
        }
        let pair = |text: &String| match text.split_once('=') {
            Some((name, pattern)) if !name.is_empty() && !pattern.is_empty() => {
                Ok((name.to_owned(), pattern.to_owned()))
            }
            _ => Err(Failure::usage(format!("--group {text:?}: it is no NAME=PATTERN"), Some("--group 'web=web-*'"))),
        };
        Ok(Self::Named(named.iter().map(pair).collect::<Result<_, _>>()?))
    }

    /// The group of a host, by its name or its file; "" if it is in none.
    pub(super) fn group(&self, host: &str, file: &str, facts: &BTreeMap<String, String>) -> String {
        match self {
            Self::Named(groups) => {
                let own = [host, file, &stem(file)].map(str::to_owned);
                let is_in = |pattern: &str| own.iter().any(|text| is_like(text, pattern));
                let found = groups.iter().find(|(_, pattern)| is_in(pattern));
                found.map(|(name, _)| name.clone()).unwrap_or_default()
            }
            Self::Facts(names) => {
                let value = |name: &String| format!("{name}={}", facts.get(name).map_or("none", String::as_str));
                names.iter().map(value).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// Whether a text is what a pattern says, in which `*` stands for any text.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return text == pattern };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = text.split_once(part) else { return false };
        text = behind;
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (text, pattern) in [("web-1", "web-*"), ("web-1", "*"), ("a/web-1.gz", "*web*1*gz"), ("x", "x"), ("", "*")]
        {
            assert!(is_like(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("web-1", "db-*"), ("web-1", "web-"), ("ab", "ab*b"), ("abc", "a*d*c"), ("x", "")] {
            assert!(!is_like(text, pattern), "{text} {pattern}");
        }
    }

    #[test]
    fn the_name_of_a_host_is_that_of_its_file_or_of_its_folder() {
        for file in ["web-17.json.gz", "runs/web-17.json", "web-17", "/a/web-17/recording.json.gz"] {
            assert_eq!(stem(file), "web-17");
        }
        assert_eq!(stem("recording.json.gz"), "recording");
    }

    #[test]
    fn a_link_leads_to_a_report_beside_the_recording_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a b", "runs"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for name in ["a b/report.html", "runs/javascript:x\"y.html"] {
            files::write_atomically(&at(name), |_| Ok(())).unwrap();
        }
        let own = |name: &str, page: &str| link(&at(name), &at(page));
        assert_eq!(own("a b/recording.json.gz", "").as_deref(), Some("./a%20b/report.html"));
        assert_eq!(own("runs/javascript:x\"y.json.gz", "runs").as_deref(), Some("./javascript%3Ax%22y.html"));
        assert_eq!(own("runs/other.json.gz", ""), None);
        assert_eq!(own("a b/recording.json.gz", "runs"), None, "it is not below the page");
    }
}
