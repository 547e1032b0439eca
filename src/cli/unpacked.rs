//! A folder given to `--from`: an unpacked sosreport, or one in which sysstat keeps its files. Which file is of that day, and what makes it
//! readable here: the files themselves are those of their program and its version.

use std::path::{Path, PathBuf};

use super::Failure;
use crate::session::{self, Span};
use rdiag_kernel::host::Zone;

/// Where sysstat keeps its files, below the root of a sosreport; or the folder itself is that.
const SYSSTAT: [&str; 3] = ["", "var/log/sa", "var/log/sysstat"];
/// Where a sosreport has what sar and `sadf -x` printed.
const PRINTED: &str = "sos_commands/sar";
const ATOP: &str = "var/log/atop";
const PCP: &str = "var/log/pcp/pmlogger";

/// The file that is meant: itself, or of a folder what sadf printed of the day on which that time ends (`sa10.json`).
pub(super) fn file(path: &Path, span: Span, zone: &Zone) -> Result<PathBuf, Failure> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let date: String = zone.shown(span.to.saturating_sub(1)).chars().take(10).collect();
    let whole: String = date.chars().filter(char::is_ascii_digit).collect();
    // sysstat names them by the day of the month; with `sadc -D` by the date.
    let days = [whole.get(6..).unwrap_or_default(), whole.as_str()];
    let find = |folders: &[&str], begin: &str, end: &str| {
        let names = days.iter().map(|day| format!("{begin}{day}{end}"));
        let paths = names.flat_map(|name| folders.iter().map(move |folder| path.join(folder).join(&name)));
        paths.into_iter().find(|path| path.is_file())
    };
    if let Some(printed) = find(&SYSSTAT, "sa", ".json").or_else(|| find(&[PRINTED], "sa", ".json")) {
        return Ok(printed);
    }
    let refused =
        |what: String, hint: &str| Err(Failure::usage(format!("reading {}: {what}", path.display()), Some(hint)));
    if let Some(kept) = find(&SYSSTAT, "sa", "") {
        let [day, _] = days;
        let kept = kept.display();
        let hint = format!(
            "sadf -j {kept} -- -A > sa{day}.json, then --from sa{day}.json (of an older sysstat: `sadf -c {kept} > NEWFILE` first)"
        );
        return refused(format!("what sysstat recorded on {date} is in {kept}, which its own sadf reads"), &hint);
    }
    if let Some(kept) = find(&[ATOP, ""], "atop_", "") {
        let kept = kept.display();
        let hint = format!("atop -r {kept} -J ALL > atop.json, then --from atop.json");
        return refused(format!("what atop recorded on {date} is in {kept}, which atop itself reads"), &hint);
    }
    let archives = path.join(PCP);
    if archives.is_dir() {
        let hint = session::PCP2JSON.replace("ARCHIVE", &archives.join("HOST").display().to_string());
        return refused(format!("{} holds archives of PCP, which its own pcp2json prints", archives.display()), &hint);
    }
    if find(&[PRINTED], "sa", ".xml").or_else(|| find(&[PRINTED, "var/log/sa", "var/log/sysstat"], "sar", "")).is_some()
    {
        let what = format!("of {date} it has only what sar and `sadf -x` printed, which rdiag does not read");
        return refused(
            what,
            "ask for the file of that day in /var/log/sa or /var/log/sysstat: sadf -j FILE -- -A prints it",
        );
    }
    let is_kept = |day: &u8| SYSSTAT.iter().any(|folder| path.join(folder).join(format!("sa{day:02}")).is_file());
    let others: Vec<String> = (1..=31).filter(is_kept).map(|day| format!("sa{day:02}")).collect();
    let others = if others.is_empty() { String::new() } else { format!("; it has {}", others.join(", ")) };
    refused(
        format!("the folder has nothing of {date} that sysstat, atop or PCP recorded{others}"),
        "give a file, or the folder of an unpacked sosreport",
    )
}
