//! What `rdiag diff` compares: two files, two times that are over, or a file and a time. Of files the first is BEFORE; where a time is
//! among them, whichever is earlier.

use std::path::{Path, PathBuf};

use super::at::{self, Asked};
use super::input::Input;
use super::ui::Ui;
use crate::cli::exit::Failure;
use rdiag_kernel::host::{Clock, Zone};
use rdiag_session::Span;

/// One of the two, not read yet.
pub(super) enum Source {
    File(Input),
    Time(Asked),
}

/// Which two.
#[derive(Debug, clap::Args)]
pub(super) struct SidesArgs {
    /// The first: the folder of a run, report.json, recording.json.gz, perf.data or folded text.
    #[arg(value_name = "BEFORE", required_unless_present = "at")]
    before: Option<PathBuf>,
    /// The second.
    #[arg(value_name = "AFTER", required_unless_present = "at")]
    after: Option<PathBuf>,
    /// A time that `rdiag watch` recorded, in the place of a file: 03:12, "yesterday 03:12", now; -24h counts back from the other --at. May
    /// be given twice; the earlier one is BEFORE.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Vec<String>,
    /// How much of the time up to each --at [default: 10m].
    #[arg(long, value_name = "TIME", requires = "at")]
    last: Option<String>,
    /// Folder of what was recorded [default: that of `rdiag watch`].
    #[arg(long, value_name = "DIR", requires = "at")]
    history: Option<PathBuf>,
    /// Compare what sysstat, atop, PCP or below recorded instead, as `sadf -j /var/log/sysstat/saDD -- -A` (or `-x`), `atop -r FILE -J
    /// ALL`, `pcp2json -r` or `below dump` (see docs/history.md) prints it, an sosreport, or the kernel log of the journal. Given twice,
    /// the first has the earlier --at and the second the later one.
    #[arg(long, visible_alias = "sysstat", value_name = "FILE", requires = "at", conflicts_with = "history")]
    from: Vec<PathBuf>,
}

/// What to type for two times.
const TWO_TIMES: &str = "two times: `rdiag diff --at 03:12 --at -24h`; a file and a time: `rdiag diff FILE --at 03:12`";

impl SidesArgs {
    /// Opens both.
    pub(super) fn open(&self, ui: &Ui) -> Result<[Source; 2], Failure> {
        // A recording has more in it than the report that was made of it.
        let file = |path| Input::open(path, &["recording.json.gz", "report.json"]).map(Source::File);
        let files: Vec<&PathBuf> = self.before.iter().chain(&self.after).collect();
        let zone = Zone::local();
        let now = Clock::live().wall_micros();
        if self.from.len() > self.at.len() {
            let message = format!("--from was given {} times, --at {} times", self.from.len(), self.at.len());
            return Err(Failure::usage(message, Some("one FILE for each --at, or one for both")));
        }
        if self.at.len() > 1 && self.from.iter().any(|file| file == Path::new("-")) {
            let message = "--from - can be read once, and two times are compared".to_owned();
            return Err(Failure::usage(message, Some("sadf -j FILE -- -A > FILE.json, then --from FILE.json")));
        }
        let time = |span, file: Option<&PathBuf>| {
            let asked = match file {
                Some(file) => Asked::of_span_from_elsewhere(span, zone.clone(), std::slice::from_ref(file))?,
                None => Asked::of_span(span, zone.clone(), self.history.as_ref(), ui)?,
            };
            Ok::<_, Failure>(Source::Time(asked))
        };
        let (early, late) = (self.from.first(), self.from.last());
        match (files.as_slice(), self.at.as_slice()) {
            ([before, after], []) => Ok([file(before)?, file(after)?]),
            ([one], [at]) => {
                let to = zone.end_of(at, now).map_err(|why| Failure::usage(why, None))?;
                Ok([file(one)?, time(at::span(to, self.last.as_deref())?, early)?])
            }
            ([], [one, other]) => {
                let ends = ends([one, other], &zone, now).map_err(|why| Failure::usage(why, None))?;
                let [before, after] = apart(ends, self.last.as_deref(), &zone)?;
                Ok([time(before, early)?, time(after, late)?])
            }
            (files, times) => {
                let (files, times) = (files.len(), times.len());
                let message = format!("diff compares two measurements; given: {files} FILE, {times} --at");
                Err(Failure::usage(message, Some(TWO_TIMES)))
            }
        }
    }
}

/// The ends of two times (microseconds since 1970). "-24h" beside a time of day means a day before that, and not before now.
fn ends([one, other]: [&str; 2], zone: &Zone, now: i64) -> Result<[i64; 2], String> {
    let is_back = |text: &str| text.trim_start().starts_with('-');
    Ok(match (is_back(one), is_back(other)) {
        (true, false) => {
            let other = zone.end_of(other, now)?;
            [zone.end_of(one, other)?, other]
        }
        (false, true) => {
            let one = zone.end_of(one, now)?;
            [one, zone.end_of(other, one)?]
        }
        _ => [zone.end_of(one, now)?, zone.end_of(other, now)?],
    })
}

/// Two times in their order.
fn apart(mut ends: [i64; 2], last: Option<&str>, zone: &Zone) -> Result<[Span; 2], Failure> {
    ends.sort_unstable();
    let [before, after] = [at::span(ends[0], last)?, at::span(ends[1], last)?];
    if before.to > after.from {
        let shown = |span: Span| format!("{} to {}", zone.shown(span.from), zone.time_of_day(span.to));
        let message = format!("the two times overlap: {} and {}", shown(before), shown(after));
        return Err(Failure::usage(message, Some("take times further apart, or a shorter --last")));
    }
    Ok([before, after])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-07-10 08:00 UTC.
    const NOW: i64 = 1_783_670_400_000_000;
    const HOUR: i64 = 3_600_000_000;

    #[test]
    fn a_time_counted_back_counts_from_the_other_one() {
        let ends = |one, other| ends([one, other], &Zone::utc(), NOW).unwrap();
        let at = NOW - 8 * HOUR + 3 * HOUR + 13 * 60_000_000;
        assert_eq!(ends("03:12", "-24h"), [at, at - 24 * HOUR]);
        assert_eq!(ends("-24h", "03:12"), [at - 24 * HOUR, at]);
        assert_eq!(ends("now", "-24h"), [NOW, NOW - 24 * HOUR]);
        assert_eq!(ends("-1h", "-25h"), [NOW - HOUR, NOW - 25 * HOUR], "both from now");
    }

    #[test]
    fn the_earlier_time_is_before_and_times_that_overlap_are_refused() {
        let [before, after] = apart([NOW, NOW - HOUR], Some("10m"), &Zone::utc()).unwrap();
        assert_eq!((before.to, after.to), (NOW - HOUR, NOW));
        let Err(refused) = apart([NOW, NOW - HOUR], Some("2h"), &Zone::utc()) else { panic!("they overlap") };
        let said = refused.shown().to_string();
        assert!(said.contains("overlap: 2026-07-10 05:00:00 UTC to 07:00:00 and 2026-07-10 06:00:00 UTC"), "{said}");
    }
}
