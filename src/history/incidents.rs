//! The list of incidents: times that the recorder found worth keeping, a line of JSON each, after a line with the version.
//!
//! Any user may have written it, like all of the folder: what is no incident is named and left out, and names of files are made from times,
//! never read.

use serde::{Deserialize, Serialize};

use super::Damage;

/// Name of the list.
pub const INCIDENTS: &str = "incidents";
/// Version of the list; raised when an old reader could misunderstand a new one.
const VERSION: u32 = 1;
/// The newest so many are kept.
pub const MOST_INCIDENTS: usize = 200;
/// Bytes of the list, at most.
pub const MAX_INCIDENTS: u64 = 768 << 10;
/// Characters of a note, and of the sentence of a rule.
const LONGEST_NOTE: usize = 200;
/// Bytes of the id of a rule.
const LONGEST_ID: usize = 80;
/// Microseconds that are pinned before an incident, and after it.
const BEFORE: i64 = 600_000_000;
const AFTER: i64 = 300_000_000;
const PREFIX: &str = "incident-";
const ENDING: &str = ".json.gz";

/// What an incident is about: what tasks stalled for, or the resource of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum Resource {
    Cpu,
    Memory,
    /// I/O to disks.
    Io,
    Filesystem,
    Network,
    Cgroup,
    Fd,
    Tasks,
    Locks,
    Interrupts,
    Kernel,
    Hardware,
    Power,
}

impl Resource {
    /// The name of its file in /proc/pressure, where it has one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Filesystem => "filesystem",
            Self::Network => "network",
            Self::Cgroup => "cgroup",
            Self::Fd => "fd",
            Self::Tasks => "tasks",
            Self::Locks => "locks",
            Self::Interrupts => "interrupts",
            Self::Kernel => "kernel",
            Self::Hardware => "hardware",
            Self::Power => "power",
        }
    }

    /// The line of that file that an incident is about: `full` of the CPUs is always 0 for the whole host.
    #[must_use]
    pub fn line(self) -> &'static str {
        if self == Self::Cpu { "some" } else { "full" }
    }
}

impl From<rdiag_model::Resource> for Resource {
    fn from(of_rule: rdiag_model::Resource) -> Self {
        use rdiag_model::Resource as Of;
        match of_rule {
            Of::Cpu => Self::Cpu,
            Of::Memory => Self::Memory,
            Of::Disk => Self::Io,
            Of::Filesystem => Self::Filesystem,
            Of::Network => Self::Network,
            Of::Cgroup => Self::Cgroup,
            Of::Fd => Self::Fd,
            Of::Tasks => Self::Tasks,
            Of::Locks => Self::Locks,
            Of::Interrupts => Self::Interrupts,
            Of::Kernel => Self::Kernel,
            Of::Hardware => Self::Hardware,
            Of::Power => Self::Power,
        }
    }
}

/// A rule that was critical, with its sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriticalRule {
    /// Its id.
    pub id: String,
    /// What it said.
    pub says: String,
}

impl CriticalRule {
    /// Of which no more is kept than a line shows.
    #[must_use]
    pub fn new(id: &str, says: &str) -> Self {
        let says = says.trim().trim_end_matches('.').chars().take(LONGEST_NOTE).collect();
        Self { id: id.to_owned(), says }
    }

    fn is_sound(&self) -> bool {
        self.id.len() <= LONGEST_ID && self.says.chars().count() <= LONGEST_NOTE
    }
}

/// A time that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// When it was seen, in microseconds since 1970.
    pub wall_micros: i64,
    /// What it is about.
    pub resource: Resource,
    /// The rule that was critical; none where tasks stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<CriticalRule>,
    /// Share of the time they stalled, 0 to 1; of a rule 0.
    #[serde(default)]
    pub share: f64,
    /// Whether the share may have been larger: the kernel said that it exceeds the threshold, and no more.
    #[serde(default)]
    pub at_least: bool,
    /// Seconds over which it was seen.
    pub seconds: f64,
    /// Whether its blocks are kept before others.
    pub pinned: bool,
    /// Whether a drill-down was begun.
    #[serde(default)]
    pub drilled: bool,
    /// Why there is no drill-down, or none that ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Incident {
    /// The second since 1970 by which its file is named.
    #[must_use]
    pub fn second(&self) -> i64 {
        self.wall_micros.div_euclid(1_000_000)
    }

    /// What is pinned of it, in microseconds since 1970: ten minutes before, five after.
    #[must_use]
    pub fn span(&self) -> (i64, i64) {
        (self.wall_micros.saturating_sub(BEFORE), self.wall_micros.saturating_add(AFTER))
    }

    /// Name of the recording of its drill-down.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{PREFIX}{}{ENDING}", self.second())
    }

    /// The same with a note, of which no more is kept than a line shows.
    #[must_use]
    pub fn noted(mut self, why: &str) -> Self {
        self.note = Some(why.chars().take(LONGEST_NOTE).collect());
        self
    }

    fn is_sound(&self) -> bool {
        let note = self.note.as_ref().is_none_or(|note| note.chars().count() <= LONGEST_NOTE);
        let rule = self.rule.as_ref().is_none_or(CriticalRule::is_sound);
        note && rule && (0.0..=1.0).contains(&self.share) && (0.0..=1e6).contains(&self.seconds)
    }
}

/// The second since 1970 of the incident whose drill-down this file holds; none if it is another file.
#[must_use]
pub fn incident_second(name: &str) -> Option<i64> {
    name.strip_prefix(PREFIX)?.strip_suffix(ENDING)?.parse().ok()
}

#[derive(Serialize, Deserialize)]
struct Head {
    format_version: u32,
}

/// The bytes of a list; of the newest [`MOST_INCIDENTS`].
#[must_use]
pub fn write_incidents(incidents: &[Incident]) -> Vec<u8> {
    let newest = incidents.get(incidents.len().saturating_sub(MOST_INCIDENTS)..).unwrap_or_default();
    let head = serde_json::to_string(&Head { format_version: VERSION });
    let lines = newest.iter().map(serde_json::to_string);
    let mut text = String::new();
    // Numbers and short texts: there is nothing in them that could not be written.
    for line in std::iter::once(head).chain(lines).flatten() {
        text.push_str(&line);
        text.push('\n');
    }
    text.into_bytes()
}

/// Reads a list, oldest first; what is no incident is named, once.
///
/// # Errors
/// In words, when it is no list, or one of another version.
pub fn read_incidents(bytes: &[u8]) -> Result<(Vec<Incident>, Vec<Damage>), Damage> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let head: Option<Head> = lines.next().and_then(|line| serde_json::from_str(line).ok());
    match head {
        None => return Err("it is no list of incidents".to_owned()),
        Some(Head { format_version: VERSION }) => {}
        Some(Head { format_version }) => {
            return Err(format!("its format version is {format_version}, and this rdiag reads {VERSION}"));
        }
    }
    let (mut incidents, mut wrong) = (Vec::new(), 0_usize);
    for line in lines {
        match serde_json::from_str::<Incident>(line) {
            Ok(incident) if incident.is_sound() && incidents.len() < MOST_INCIDENTS => incidents.push(incident),
            _ => wrong += 1,
        }
    }
    incidents.sort_by_key(|incident| incident.wall_micros);
    let damage = (wrong > 0).then(|| format!("{wrong} of its lines are no incidents"));
    Ok((incidents, damage.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incident(second: i64) -> Incident {
        Incident {
            wall_micros: second * 1_000_000,
            resource: Resource::Io,
            rule: None,
            share: 0.62,
            at_least: false,
            seconds: 5.0,
            pinned: true,
            drilled: true,
            note: None,
        }
    }

    #[test]
    fn a_list_comes_back_and_keeps_the_newest() {
        let some = vec![incident(-7), incident(1000), incident(2000).noted(&"é".repeat(1000))];
        assert_eq!(read_incidents(&write_incidents(&some)), Ok((some, Vec::new())));
        let many: Vec<Incident> = (0..500).map(incident).collect();
        let bytes = write_incidents(&many);
        assert!(bytes.len() as u64 <= MAX_INCIDENTS);
        let (read, damage) = read_incidents(&bytes).unwrap();
        assert!(damage.is_empty() && read == many[300..]);
        let rule = CriticalRule::new(&"r".repeat(LONGEST_ID), &"\u{1}".repeat(1000));
        let of_rule = |at| Incident { rule: Some(rule.clone()), resource: Resource::Interrupts, ..incident(at) };
        let longest: Vec<Incident> = (0..500).map(|at| of_rule(at).noted(&"\u{1}".repeat(1000))).collect();
        let bytes = write_incidents(&longest);
        assert!(bytes.len() as u64 <= MAX_INCIDENTS, "{}", bytes.len());
        assert_eq!(read_incidents(&bytes).unwrap().0, longest[300..]);
    }

    #[test]
    fn a_list_that_was_written_before_rules_made_incidents_is_read() {
        let line = "{\"wall_micros\":5000000,\"resource\":\"io\",\"share\":0.62,\"at_least\":false,\"seconds\":5.0,\
                    \"pinned\":true,\"drilled\":true}";
        let list = format!("{{\"format_version\":1}}\n{line}\n");
        assert_eq!(read_incidents(list.as_bytes()), Ok((vec![incident(5)], Vec::new())));
        let of_rules = rdiag_model::Resource::ALL.map(|resource| Resource::from(resource).name());
        let words = rdiag_model::Resource::ALL.map(|resource| resource.word().replace("disk", "io"));
        assert_eq!(of_rules.map(str::to_owned), words);
    }

    #[test]
    fn what_is_no_incident_is_named_and_left_out() {
        for (text, why) in [
            ("", "it is no list of incidents"),
            ("garbage\n", "it is no list of incidents"),
            ("{\"format_version\":2}\n", "its format version is 2, and this rdiag reads 1"),
            ("{\"format_version\":-1}\n", "it is no list of incidents"),
        ] {
            assert_eq!(read_incidents(text.as_bytes()), Err(why.to_owned()), "{text}");
        }
        let good = String::from_utf8(write_incidents(&[incident(5)])).unwrap();
        let line = good.lines().nth(1).unwrap();
        let wrong = [
            "{}",
            "[]",
            &line.replace("0.62", "62.0"),
            &line.replace("0.62", "-1.0"),
            &line.replace("0.62", "1e999"),
            &line.replace("\"io\"", "\"../io\""),
            &line.replace("\"pinned\":true", "\"pinned\":true,\"file\":\"/etc/shadow\""),
            &line.replace("5000000", "99999999999999999999999999"),
            &line.replace("\"share\"", "\"rule\":{\"id\":\"a.b\"},\"share\""),
            &line.replace("\"share\"", &format!("\"rule\":{{\"id\":\"{}\",\"says\":\"\"}},\"share\"", "r".repeat(81))),
            &line.replace(
                "\"share\"",
                &format!("\"rule\":{{\"id\":\"a.b\",\"says\":\"{}\"}},\"share\"", "s".repeat(201)),
            ),
            &"[".repeat(10_000),
        ];
        let text = format!("{good}{}\n\u{0}\u{0}\n", wrong.join("\n"));
        let (read, damage) = read_incidents(text.as_bytes()).unwrap();
        assert_eq!(read, [incident(5)]);
        assert_eq!(damage, [format!("{} of its lines are no incidents", wrong.len() + 1)]);
        let flood = format!("{{\"format_version\":1}}\n{}", format!("{line}\n").repeat(1000));
        assert_eq!(read_incidents(flood.as_bytes()).unwrap().0.len(), MOST_INCIDENTS);
        let edge =
            [Incident { wall_micros: i64::MIN, ..incident(0) }, Incident { wall_micros: i64::MAX, ..incident(0) }];
        let (read, _) = read_incidents(&write_incidents(&edge)).unwrap();
        assert_eq!(read.iter().map(Incident::span).map(|(from, to)| from < to).collect::<Vec<_>>(), [true, true]);
    }

    #[test]
    fn names_tell_whose_drill_down_a_file_holds() {
        assert_eq!(incident_second(&incident(1000).file()), Some(1000));
        assert_eq!(incident_second(&incident(-7).file()), Some(-7));
        for other in ["incident-.json.gz", "incident-1.json", "incident-x.json.gz", "incidents", "0000000001-5.rdh", ""]
        {
            assert_eq!(incident_second(other), None, "{other}");
        }
    }
}
