//! The reports of single hosts, one click from the page: those of the odd hosts first, then of the worst.
//!
//! Which hosts these are is known when all were judged. So each of them is judged once more, by a process of its own without rights: a
//! report that cannot be made costs no other, and memory for one at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rdiag_fleet::Fleet;

use super::files::{Sent, stem};
use super::judging::{self, By, Opened};
use crate::cli::confined::confined;
use crate::cli::exit::{Exit, Failure};
use crate::cli::ui::{Text, Ui};
use rdiag_kernel::host::files::Folder;
use rdiag_report as report;
use rdiag_report::shown;

/// The folder of the reports, beside the page.
const FOLDER: &str = "reports";
/// Reports are written of so many hosts, and by default of so many.
pub(super) const MOST: u16 = 1000;
pub(super) const DEFAULT: u16 = 100;
/// Characters of a file's name that are a host's.
const LONGEST: usize = 100;

/// Of each recording, the file that its host's report would go to.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<(PathBuf, String)>);

impl Names {
    /// Each name once, of signs that need no escape in a link and differ on every file system.
    pub(super) fn of(sent: &[Sent]) -> Self {
        let mut taken = BTreeSet::new();
        let mut name = |path: &Path| {
            let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '.');
            let stem = stem(&path.display().to_string());
            let plain = |sign| if is_plain(sign) { sign } else { '_' };
            let plain: String = stem.chars().take(LONGEST).map(plain).collect();
            let plain = plain.trim_start_matches(['.', '-']);
            let mut free = plain.to_owned();
            let mut number = 1;
            while free.is_empty() || !taken.insert(free.to_ascii_lowercase()) {
                number += 1;
                free = format!("{plain}_{number}");
            }
            free + ".html"
        };
        Self(sent.iter().map(|sent| (sent.path.clone(), name(&sent.path))).collect())
    }

    /// Links at most so many hosts of the page with the report that they will have, and tells which these are.
    pub(super) fn link(&self, fleet: &mut Fleet, most: u16, mut chosen: &PipeWriter) -> io::Result<()> {
        let at: BTreeMap<String, usize> =
            self.0.iter().enumerate().map(|(at, (path, _))| (path.display().to_string(), at)).collect();
        let mut rows: Vec<_> = fleet.hosts.iter_mut().filter(|row| row.report.is_none()).collect();
        rows.sort_by_key(|row| Reverse((row.is_odd, row.verdict)));
        for row in rows.into_iter().take(most.into()) {
            let Some(&at) = at.get(&row.file) else { continue };
            let Some((_, name)) = self.0.get(at) else { continue };
            row.report = Some(format!("./{FOLDER}/{name}"));
            writeln!(chosen, "{at}")?;
        }
        Ok(())
    }

    /// Writes the reports of those that were chosen into a folder beside the page: `exit`, if nothing is wrong.
    pub(super) fn write(
        &self,
        chosen: PipeReader,
        page: &Folder,
        by: By<'_>,
        ui: &Ui,
        exit: Exit,
    ) -> Result<Exit, Failure> {
        let mut said = String::new();
        // A line for each of at most `MOST`.
        let read = chosen.take(u64::from(MOST) * 8).read_to_string(&mut said);
        read.map_err(Failure::io("reading which hosts get a report of their own"))?;
        let chosen: Vec<&(PathBuf, String)> =
            said.lines().filter_map(|line| self.0.get(line.parse::<usize>().ok()?)).collect();
        if chosen.is_empty() {
            return Ok(exit);
        }
        let path = page.path().join(FOLDER);
        let attempt = format!("preparing the folder {}", path.display());
        let folder = Folder::prepare(&path).map_err(Failure::io(attempt))?;
        for (file, name) in chosen {
            let opened = Opened::of(Sent { path: file.clone(), report: None });
            let mut is_copy = false;
            let outcome = confined(&ui.hushed(), Some(&folder), |desk| {
                is_copy = true;
                let cannot = |why: String| Failure::Ended { message: why, hint: None };
                let report = judging::report(&opened, by).map_err(cannot)?;
                let attempt = Failure::io(format!("writing {}", path.join(name).display()));
                desk.write(name, &report::html(&report)?).map_err(attempt)?;
                Ok(Exit::Done)
            });
            if is_copy {
                return outcome;
            }
            if let Err(why) = outcome {
                let file = Text::seen(file.display().to_string());
                ui.warn(shown!("{} has no report of its own: {}", file, Text::lines(why.to_string())));
            }
        }
        Ok(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_name_of_its_own_that_means_nothing_to_a_browser_or_a_file_system() {
        let path = |name: &str| Sent { path: name.into(), report: None };
        let sent = ["a/web-1.json.gz", "b/web-1.json.gz", "WEB-1.json", "../\"x y.json", "..json", "web-1_2.json"];
        let Names(all) = Names::of(&sent.map(path));
        let names: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
        let long = Names::of(&[path(&"x".repeat(300))]);
        assert_eq!(names, ["web-1.html", "web-1_2.html", "WEB-1_3.html", "_x_y.html", "_2.html", "web-1_2_2.html"]);
        assert!(long.0[0].1.len() < 120, "{long:?}");
    }
}
