//! The part of `rdiag history list` about incidents.

use std::collections::BTreeSet;
use std::path::Path;

use super::ui::Text;
use rdiag_history::{INCIDENTS, Incident, MAX_INCIDENTS, incident_second, read_incidents};
use rdiag_kernel::host::files::Folder;
use rdiag_kernel::host::{StoredFile, Zone};
use rdiag_report::shown;
use rdiag_session as session;
use rdiag_session::Span;

/// The list as it lies in the folder, and which recordings of drill-downs are there.
pub(super) struct Found {
    list: Option<Result<Vec<u8>, String>>,
    recorded: BTreeSet<i64>,
}

impl Found {
    pub(super) fn read(folder: &Folder, all: &[StoredFile]) -> Self {
        let list = match folder.read(INCIDENTS, MAX_INCIDENTS) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            read => Some(read.map_err(|error| error.to_string())),
        };
        Self { list, recorded: all.iter().filter_map(|file| incident_second(&file.name)).collect() }
    }

    /// A line for each incident, and one for what is wrong with their list.
    pub(super) fn lines(&self, folder: &Path, zone: &Zone) -> Text {
        let mut text = Text::new();
        let read = match &self.list {
            None => return text,
            Some(Ok(bytes)) => read_incidents(bytes),
            Some(Err(why)) => Err(why.clone()),
        };
        let (incidents, damage) = read.unwrap_or_else(|why| (Vec::new(), vec![why]));
        for why in damage {
            text.push(&shown!("{}: {}\n", INCIDENTS, Text::seen(why)));
        }
        for incident in &incidents {
            text.push(self.line(incident, folder, zone));
        }
        text
    }

    /// Where a time was looked into closer, a line for each drill-down that is there.
    pub(super) fn within(&self, span: Span, folder: &Path, zone: &Zone) -> Vec<String> {
        let Some(Ok(bytes)) = &self.list else { return Vec::new() };
        let (incidents, _) = read_incidents(bytes).unwrap_or_default();
        let is_meant = |incident: &&Incident| {
            let has_own = incident.drilled && incident.note.is_none() && self.recorded.contains(&incident.second());
            has_own && (span.from..=span.to).contains(&incident.wall_micros)
        };
        let told = |incident: &Incident| {
            let file = folder.join(incident.file());
            let (at, seen) = (zone.shown(incident.wall_micros), session::incident_in_words(incident));
            format!("An incident within it, {at}: {seen}. It was looked into closer: rdiag analyze {}", file.display())
        };
        incidents.iter().filter(is_meant).map(told).collect()
    }

    fn line(&self, incident: &Incident, folder: &Path, zone: &Zone) -> Text {
        let [at, seen] = [zone.shown(incident.wall_micros), session::incident_in_words(incident)].map(Text::seen);
        // Of two incidents in one second the other one's recording has that name.
        let has_own = incident.drilled && incident.note.is_none();
        let drill = if has_own && self.recorded.contains(&incident.second()) {
            Text::seen(folder.join(incident.file()).display().to_string())
        } else {
            let why = incident.note.as_deref().unwrap_or(if incident.drilled {
                "it is gone, or did not end"
            } else {
                "none"
            });
            shown!("no drill-down: {}", Text::seen(why))
        };
        shown!("{}  incident: {}  {}  {}\n", at, seen, if incident.pinned { "pinned" } else { "not pinned" }, drill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_history::{Resource, write_incidents};

    #[test]
    fn each_incident_has_its_line_and_a_hostile_list_says_nothing_that_it_should_not() {
        let incident = Incident {
            wall_micros: 1_700_000_000_000_000,
            resource: Resource::Memory,
            rule: None,
            share: 0.114,
            at_least: true,
            seconds: 4.0,
            pinned: true,
            drilled: true,
            note: None,
        };
        let later = Incident { wall_micros: 1_700_000_100_000_000, pinned: false, drilled: false, ..incident.clone() };
        let list = [incident, later.noted("\u{1b}[2Jgone")];
        let found = |bytes: Vec<u8>| Found { list: Some(Ok(bytes)), recorded: BTreeSet::from([1_700_000_000]) };
        let lines = |found: Found| found.lines(Path::new("/h"), &Zone::utc()).to_string();
        assert_eq!(
            lines(found(write_incidents(&list))),
            "2023-11-14 22:13:20 UTC  incident: PSI memory full at least 11 % of 4 s  pinned  /h/incident-1700000000.json.gz\n\
             2023-11-14 22:15:00 UTC  incident: PSI memory full at least 11 % of 4 s  not pinned  no drill-down: \\x1b[2Jgone\n"
        );
        let within = |from, to| found(write_incidents(&list)).within(Span { from, to }, Path::new("/h"), &Zone::utc());
        let told = within(1_699_999_999_000_000, 1_700_000_200_000_000);
        assert_eq!(
            told,
            [
                "An incident within it, 2023-11-14 22:13:20 UTC: PSI memory full at least 11 % of 4 s. It was looked into closer: \
              rdiag analyze /h/incident-1700000000.json.gz"
            ]
        );
        assert!(within(1_700_000_001_000_000, 1_700_000_200_000_000).is_empty(), "none of it was looked into");
        assert_eq!(lines(found(b"garbage".to_vec())), "incidents: it is no list of incidents\n");
        assert_eq!(lines(Found { list: None, recorded: BTreeSet::new() }), "");
    }
}
