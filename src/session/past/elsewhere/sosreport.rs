//! Which files of an sosreport are about a day, whether it is a folder or an archive; or of a folder in which sysstat keeps its files.

use std::collections::BTreeSet;

use super::pcp::PCP2JSON;
use crate::past::time::Span;
use rdiag_kernel::host::Zone;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What sadf printed: it is read.
    Printed,
    /// What sysstat keeps, which its own sadf reads.
    Sysstat,
    /// What atop keeps, which atop itself reads.
    Atop,
    /// What sar printed for people.
    Text,
}

/// A file of a day: what it is, and its path below the root of the report.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub path: String,
}

/// Where they are, the best first: folder, and what stands before and after the day. The folder itself may be that of sysstat. Of what a
/// command prints, sos keeps the last 25 MB: what is longer it cuts off at its beginning, and puts into sos_strings.
const PLACES: [(Kind, &str, &str, &str); 23] = [
    (Kind::Printed, "", "sa", ".json"),
    (Kind::Printed, "var/log/sa", "sa", ".json"),
    (Kind::Printed, "var/log/sysstat", "sa", ".json"),
    (Kind::Printed, "sos_commands/sar", "sa", ".json"),
    (Kind::Printed, "", "sa", ".xml"),
    (Kind::Printed, "var/log/sa", "sa", ".xml"),
    (Kind::Printed, "var/log/sysstat", "sa", ".xml"),
    (Kind::Printed, "sos_commands/sar", "sa", ".xml"),
    (Kind::Printed, "sos_strings/sar", "sa", ".xml.tailed"),
    (Kind::Sysstat, "", "sa", ""),
    (Kind::Sysstat, "var/log/sa", "sa", ""),
    (Kind::Sysstat, "var/log/sysstat", "sa", ""),
    (Kind::Sysstat, "var/log/sa", "sa", ".xz"),
    (Kind::Sysstat, "var/log/sysstat", "sa", ".xz"),
    (Kind::Sysstat, "var/log/sa", "sa", ".gz"),
    (Kind::Sysstat, "var/log/sysstat", "sa", ".gz"),
    (Kind::Sysstat, "var/log/sa", "sa", ".bz2"),
    (Kind::Sysstat, "var/log/sysstat", "sa", ".bz2"),
    (Kind::Atop, "var/log/atop", "atop_", ""),
    (Kind::Atop, "", "atop_", ""),
    (Kind::Text, "sos_commands/sar", "sar", ""),
    (Kind::Text, "var/log/sa", "sar", ""),
    (Kind::Text, "var/log/sysstat", "sar", ""),
];

/// Where sysstat keeps its files.
const SYSSTAT: [&str; 3] = ["", "var/log/sa", "var/log/sysstat"];
/// Where PCP keeps its archives, below the root of a report.
pub const PCP_ARCHIVES: &str = "var/log/pcp/pmlogger";
/// What unpacks a single file.
const PACKERS: [(&str, &str); 3] = [(".xz", "xz"), (".gz", "gzip"), (".bz2", "bzip2")];
const DAY: i64 = 86_400_000_000;

/// A day, in the zone of the reader.
#[derive(Debug)]
pub struct Day {
    date: String,
    /// Its files, the best first.
    pub places: Vec<Place>,
}

impl Day {
    /// The day on which a time ends, and its neighbours: that of the host may be another one.
    #[must_use]
    pub fn around(span: Span, zone: &Zone) -> [Self; 3] {
        let end = span.to.saturating_sub(1);
        [0, DAY, -DAY].map(|more| Self::of(zone.shown(end.saturating_add(more)).chars().take(10).collect()))
    }

    fn of(date: String) -> Self {
        let whole: String = date.chars().filter(char::is_ascii_digit).collect();
        // sysstat names them by the day of the month; with `sadc -D` by the date.
        let days = [whole.get(6..).unwrap_or_default(), whole.as_str()];
        let places = PLACES.iter().flat_map(|(kind, folder, begin, end)| {
            let path = |day: &str| format!("{}{begin}{day}{end}", slashed(folder));
            days.map(|day| Place { kind: *kind, path: path(day) })
        });
        Self { places: places.collect(), date }
    }

    /// What a path of an archive is, below any folder.
    pub(super) fn place(&self, path: &str) -> Option<&Place> {
        self.places.iter().find(|place| is_below(path, &place.path))
    }
}

/// Whether it is that file below a folder. One without a folder of its own is at most in one.
fn is_below(path: &str, place: &str) -> bool {
    let Some(before) = path.strip_suffix(place) else { return false };
    let before = before.strip_prefix("./").unwrap_or(before);
    before.is_empty() || before.strip_suffix('/').is_some_and(|lead| place.contains('/') || !lead.contains('/'))
}

fn slashed(folder: &str) -> String {
    if folder.is_empty() { String::new() } else { format!("{folder}/") }
}

/// Names of the files of other days that sysstat may have in a folder.
#[must_use]
pub fn other_days() -> Vec<String> {
    (1..=31).flat_map(|day| SYSSTAT.map(|folder| format!("{}sa{day:02}", slashed(folder)))).collect()
}

/// What was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// A folder.
    Folder,
    /// An archive, from which a file is to be taken first.
    Archive,
}

/// What is there that is not read, each with its path.
#[derive(Debug, Default)]
pub struct Found {
    /// What sysstat kept of that day.
    pub sysstat: Option<String>,
    /// What atop kept of it.
    pub atop: Option<String>,
    /// The folder of archives of PCP.
    pub pcp: Option<String>,
    /// What sar printed of it.
    pub text: Option<String>,
    /// An sosreport in what is a collection of such.
    pub report: Option<String>,
    /// Names of files of other days.
    pub other_days: BTreeSet<String>,
}

impl Found {
    /// Notes what a file of an archive is.
    pub(super) fn note(&mut self, path: &str, day: &Day) {
        let put = |slot: &mut Option<String>| {
            slot.get_or_insert_with(|| path.to_owned());
        };
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        match day.place(path).map(|place| place.kind) {
            Some(Kind::Sysstat) => return put(&mut self.sysstat),
            Some(Kind::Atop) => return put(&mut self.atop),
            Some(Kind::Text) => return put(&mut self.text),
            Some(Kind::Printed) => return,
            None => {}
        }
        if let Some(at) =
            path.find(PCP_ARCHIVES).filter(|at| *at == 0 || path.get(..*at).is_some_and(|lead| lead.ends_with('/')))
        {
            self.pcp.get_or_insert_with(|| path.get(..at + PCP_ARCHIVES.len()).unwrap_or_default().to_owned());
        }
        let is_day =
            name.strip_prefix("sa").is_some_and(|day| day.len() == 2 && day.bytes().all(|b| b.is_ascii_digit()));
        if is_day && SYSSTAT.iter().any(|of| !of.is_empty() && (folder == *of || folder.ends_with(&format!("/{of}")))) {
            self.other_days.insert(name.to_owned());
        }
        if name.starts_with("sosreport-") && (name.ends_with(".tar.xz") || name.ends_with(".tar.gz")) {
            put(&mut self.report);
        }
    }

    /// Why nothing of it is read, and what to do.
    #[must_use]
    pub fn refusal(&self, day: &Day, given: Given) -> (String, String) {
        let date = &day.date;
        let of_day: String = date.chars().skip(8).collect();
        if let Some(kept) = &self.sysstat {
            let (mut path, mut before) = taken(kept, given);
            let packer = PACKERS.iter().find_map(|(end, packer)| Some((path.strip_suffix(end)?.to_owned(), packer)));
            if let Some((unpacked, packer)) = packer {
                before += &format!("{packer} -dk {path}, then ");
                path = unpacked;
            }
            let command = format!(
                "{before}sadf -j {path} -- -A > sa{of_day}.json, then --from sa{of_day}.json (of an older sysstat: `sadf -c {path} > \
                 NEWFILE` first)"
            );
            return (format!("what sysstat recorded on {date} is in {kept}, which its own sadf reads"), command);
        }
        if let Some(kept) = &self.atop {
            let (path, before) = taken(kept, given);
            let command = format!("{before}atop -r {path} -J ALL > atop.json, then --from atop.json");
            return (format!("what atop recorded on {date} is in {kept}, which atop itself reads"), command);
        }
        if let Some(kept) = &self.pcp {
            let (path, before) = taken(kept, given);
            let command = PCP2JSON.replace("ARCHIVE", &format!("{path}/HOST"));
            return (format!("{kept} holds archives of PCP, which its own pcp2json prints"), before + &command);
        }
        if self.text.is_some() {
            return (
                format!("of {date} it has only what sar printed, which rdiag does not read"),
                "ask for the file of that day in /var/log/sa or /var/log/sysstat: sadf -j FILE -- -A prints it"
                    .to_owned(),
            );
        }
        if let Some(report) = &self.report {
            let (path, before) = taken(report, given);
            return (format!("it holds other reports, such as {report}"), format!("{before}--from {path}"));
        }
        let days: Vec<&str> = self.other_days.iter().take(31).map(String::as_str).collect();
        let others = if days.is_empty() { String::new() } else { format!("; it has {}", days.join(", ")) };
        let given = if given == Given::Folder { "folder" } else { "archive" };
        (
            format!("the {given} has nothing of {date} that sysstat, atop or PCP recorded{others}"),
            "give a file, or an sosreport: its folder, or the archive".to_owned(),
        )
    }
}

/// A path as it is typed, and what is typed before it. A name of an archive that a shell would take for more than a name is not repeated.
fn taken(path: &str, given: Given) -> (String, String) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/+-".contains(c);
    match given {
        Given::Folder => (path.to_owned(), String::new()),
        Given::Archive if path.chars().all(is_plain) && !path.starts_with(['-', '/']) && !path.contains("..") => {
            (path.to_owned(), format!("tar xf FILE {path}, then "))
        }
        Given::Archive => {
            let name = path.rsplit('/').next().unwrap_or_default();
            let name = if name.chars().all(is_plain) { name } else { "NAME" };
            (format!("FOLDER/{name}"), "tar xf FILE, then ".to_owned())
        }
    }
}
