//! `--at TIME`: a time that is over, judged from what the recorder kept.
//!
//! Blocks may have come from another host, so they are read like anything that was sent: by a confined copy of this process.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use super::confined::confined;
use super::fail_on::{FailOn, exit};
use super::history_folder;
use super::incidents::Found;
use super::input::Input;
use super::output::OutputArgs;
use super::screen::ScreenArgs;
use super::ui::{Text, Ui};
use super::unpacked::{self, Meant};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::files::Folder;
use rdiag_kernel::host::{Clock, Zone};
use rdiag_lab::library::reproducing;
use rdiag_model::report::{Around, Changes, Usual};
use rdiag_model::{Metrics, Recording};
use rdiag_playbook::{self as playbook, Method, Plan};
use rdiag_report::shown;
use rdiag_session as session;
use rdiag_session::{Given, HistoryFile, NamedPlaybook, Past, Side, Span};

/// How much is looked at when nothing is said, and at most and at least, in seconds.
const LAST: f64 = 600.0;
const LONGEST: f64 = 6.0 * 3600.0;
const SHORTEST: f64 = 1.0;

/// What a time is judged by when nothing is said: what it was recorded for.
pub(super) const PLAYBOOK: &str = "use-method";

/// A time that is over.
#[derive(Debug, clap::Args)]
pub(super) struct AtArgs {
    /// Judge a time that is over, from what `rdiag watch` recorded: 03:12, "yesterday 23:50", 2026-01-31T03:12, -2h, now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) at: Option<String>,
    /// How much of the time up to --at.
    #[arg(long, value_name = "TIME", requires = "at")]
    last: Option<String>,
    /// Folder of what was recorded [default: that of `rdiag watch`].
    #[arg(long, value_name = "DIR", requires = "at")]
    history: Option<PathBuf>,
    /// Judge what sysstat, atop, PCP or below recorded instead, as `sadf -j /var/log/sysstat/saDD -- -A` (or `-x`), `atop -r FILE -J ALL`,
    /// `pcp2json -r` or `below dump` (see docs/history.md) prints it; `-` for stdin. Of an sosreport, its folder or the archive (.tar.xz,
    /// .tar.gz). Alone or beside one of these: the kernel log of that time, as `journalctl _TRANSPORT=kernel -o json` prints it of the
    /// journal.
    #[arg(long, visible_alias = "sysstat", value_name = "FILE", requires = "at", conflicts_with = "history")]
    from: Vec<PathBuf>,
}

/// Of a larger file, only the time that is judged is read: it takes seconds.
const MAX_AROUND: u64 = 64 << 20;

/// The same time of an earlier day.
struct Earlier {
    name: &'static str,
    span: Span,
    files: Vec<HistoryFile>,
}

/// Which days those are, and how many microseconds they are back.
const EARLIER: [(&str, i64); 2] = [("the day before", 86_400_000_000), ("a week before", 7 * 86_400_000_000)];

/// The time that is meant, and what may cover it.
pub(super) struct Asked {
    pub(super) span: Span,
    pub(super) zone: Zone,
    files: Vec<HistoryFile>,
    /// Files of the time around it, where that is looked at.
    beside: Vec<HistoryFile>,
    /// The same time of earlier days.
    earlier: Vec<Earlier>,
    /// What other programs printed.
    elsewhere: Vec<Printed>,
    /// The recorder's folder, and its incidents.
    incidents: Option<(PathBuf, Found)>,
}

/// What one program printed.
struct Printed {
    /// The file; of a folder that has several, the best first.
    files: Vec<Input>,
    /// What to try where they tell nothing.
    hint: Option<String>,
}

impl Printed {
    /// Opens what was given with one `--from`.
    fn open(file: &Path, span: Span, zone: &Zone) -> Result<Self, Failure> {
        let Meant { files, hint } = unpacked::meant(file, span, zone)?;
        Ok(Self { files, hint })
    }

    /// What the first of the files tells that tells anything.
    fn first<T>(&self, read: impl Fn(&Input) -> Result<T, String>) -> Result<T, Failure> {
        let mut refused = None;
        for input in &self.files {
            match read(input) {
                Ok(told) => return Ok(told),
                Err(why) => refused = refused.or(Some(format!("reading {}: {why}", input.name))),
            }
        }
        Err(Failure::usage(refused.unwrap_or_default(), self.hint.as_deref()))
    }
}

impl Asked {
    /// Reads the files of a time.
    pub(super) fn new(at: &str, last: Option<&str>, history: Option<&PathBuf>, ui: &Ui) -> Result<Self, Failure> {
        let (zone, span) = Self::time(at, last)?;
        Self::of_span(span, zone, history, ui)
    }

    /// The same, and those of the time around it.
    fn with_around(at: &str, last: Option<&str>, history: Option<&PathBuf>, ui: &Ui) -> Result<Self, Failure> {
        let (zone, span) = Self::time(at, last)?;
        let folder = history_folder::open(&history_folder::place(history)?)?;
        let (files, beside) = history_folder::files(&folder, span, Some(around(span)), ui)?;
        let incidents = Some(incidents(&folder)?);
        let mut earlier = Vec::new();
        for (name, back) in EARLIER {
            let span = Span { from: span.from.saturating_sub(back), to: span.to.saturating_sub(back) };
            let (files, _) = history_folder::files(&folder, span, None, ui)?;
            if files.iter().any(|file| file.name != session::TAIL) {
                earlier.push(Earlier { name, span, files });
            }
        }
        Ok(Self { span, zone, files, beside, earlier, elsewhere: Vec::new(), incidents })
    }

    /// The same from what other programs printed.
    fn from_elsewhere(at: &str, last: Option<&str>, files: &[PathBuf]) -> Result<Self, Failure> {
        let (zone, span) = Self::time(at, last)?;
        Self::of_span_from_elsewhere(span, zone, files)
    }

    /// The same of a time whose span is known.
    pub(super) fn of_span_from_elsewhere(span: Span, zone: Zone, files: &[PathBuf]) -> Result<Self, Failure> {
        let elsewhere = files.iter().map(|file| Printed::open(file, span, &zone)).collect::<Result<_, _>>()?;
        let (files, beside, earlier) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { span, zone, files, beside, earlier, elsewhere, incidents: None })
    }

    /// Whether it comes from another program than the recorder.
    pub(super) fn is_from_elsewhere(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// Reads the files of a time whose span is known.
    pub(super) fn of_span(span: Span, zone: Zone, history: Option<&PathBuf>, ui: &Ui) -> Result<Self, Failure> {
        let folder = history_folder::open(&history_folder::place(history)?)?;
        let (files, _) = history_folder::files(&folder, span, None, ui)?;
        let (beside, earlier, elsewhere) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { span, zone, files, beside, earlier, elsewhere, incidents: Some(incidents(&folder)?) })
    }

    /// Where a part of it was looked into closer.
    pub(super) fn looked_into(&self) -> Vec<String> {
        let told = |(folder, found): &(PathBuf, Found)| found.within(self.span, folder, &self.zone);
        self.incidents.iter().flat_map(told).collect()
    }

    fn time(at: &str, last: Option<&str>) -> Result<(Zone, Span), Failure> {
        let zone = Zone::local();
        let to = zone.end_of(at, Clock::live().wall_micros()).map_err(|why| Failure::usage(why, None))?;
        Ok((zone, span(to, last)?))
    }

    /// What changed around a recording of it, and the course of the time around it; none where nothing tells.
    fn around(&self, judged: &Past, longer: Option<&Past>) -> (Option<Changes>, Option<Around>) {
        let spans = (around(self.span), Span { from: judged.began, to: ends(&judged.recording, judged.began) });
        if let Some(longer) = longer {
            return (None, session::around_elsewhere(longer, spans, &self.zone));
        }
        let mut files: Vec<&HistoryFile> = self.beside.iter().chain(&self.files).collect();
        files.sort_by(|a, b| history_folder::order(&a.name).cmp(&history_folder::order(&b.name)));
        session::around(files.into_iter(), spans, &self.zone)
    }

    /// How a recording of it compares with the same time of earlier days, as far as these were recorded; and why one is not compared.
    fn usual(&self, recording: &Recording, metrics: &[Metrics], plan: &Plan) -> (Vec<Usual>, Vec<String>) {
        let (mut usual, mut not) = (Vec::new(), BTreeMap::<String, Vec<&str>>::new());
        for earlier in &self.earlier {
            match self.compared(earlier, recording, metrics, plan) {
                Some(Ok(one)) => usual.push(one),
                Some(Err(why)) => not.entry(why).or_default().push(earlier.name),
                None => {}
            }
        }
        let note = |(why, days): (String, Vec<&str>)| format!("Not compared with {}: {why}", days.join(" and "));
        (usual, not.into_iter().map(note).collect())
    }

    /// None where nothing of that day can be read.
    fn compared(
        &self,
        earlier: &Earlier,
        recording: &Recording,
        metrics: &[Metrics],
        plan: &Plan,
    ) -> Option<Result<Usual, String>> {
        let (window, metrics) = (recording.windows.first()?, metrics.first()?);
        let then = session::past(&earlier.files, earlier.span, plan, &self.zone).ok()?;
        let analysis = session::analyze(&then.recording, plan);
        let (old, old_metrics) = (then.recording.windows.first()?, analysis.metrics.first()?);
        let span = judged(&then.recording, then.began, &self.zone);
        let then = Side { facts: &then.recording.host, window: old, metrics: old_metrics };
        // Blocks of that day may have been thinned: then both are compared by the minute.
        if old.interval_seconds > window.interval_seconds {
            let thinned = self.past_every(plan, old.interval_seconds).ok()?;
            let analysis = session::analyze(&thinned.recording, plan);
            let (window, metrics) = (thinned.recording.windows.first()?, analysis.metrics.first()?);
            return Some(session::usual(earlier.name, span, Side { facts: &recording.host, window, metrics }, then));
        }
        Some(session::usual(earlier.name, span, Side { facts: &recording.host, window, metrics }, then))
    }

    /// The recording of it, by a playbook.
    pub(super) fn past(&self, plan: &Plan) -> Result<Past, Failure> {
        self.past_every(plan, 0.0)
    }

    /// The same with at least so many seconds from sample to sample; those of other programs are as they are.
    pub(super) fn past_every(&self, plan: &Plan, at_least: f64) -> Result<Past, Failure> {
        if self.is_from_elsewhere() {
            let read = |input: &Input| session::given(input.reader(), self.span, plan, &self.zone);
            return self.joined(self.elsewhere.iter().map(|printed| printed.first(read)), plan);
        }
        session::past_every(&self.files, self.span, plan, &self.zone, at_least)
            .map_err(|why| Failure::usage(why, Some(&history_folder::not_recorded(self.span, &self.zone))))
    }

    /// The same, and of what another program printed also that of the time around it, as far as it is there.
    fn past_and_longer(&self, plan: &Plan) -> Result<(Past, Option<Past>), Failure> {
        if !self.is_from_elsewhere() {
            return Ok((self.past(plan)?, None));
        }
        let mut longer = None;
        let mut read = |printed: &Printed| -> Result<Given, Failure> {
            let (told, more) = printed.first(|input| self.with_longer(input, plan))?;
            longer = longer.take().or(more);
            Ok(told)
        };
        let past = self.joined(self.elsewhere.iter().map(&mut read), plan)?;
        Ok((past, longer))
    }

    /// The recording of it from what was printed.
    fn joined(&self, printed: impl Iterator<Item = Result<Given, Failure>>, plan: &Plan) -> Result<Past, Failure> {
        let given = printed.collect::<Result<Vec<_>, _>>()?;
        session::joined(given, self.span, plan, &self.zone).map_err(|why| {
            let names: Vec<&str> =
                self.elsewhere.iter().flat_map(|printed| &printed.files).map(|file| file.name.as_str()).collect();
            Failure::usage(format!("reading {}: {why}", names.join(" and ")), None)
        })
    }

    /// What was printed is read a second time for the time around: a mean over ten minutes belongs to the time of which it tells most.
    fn with_longer(&self, input: &Input, plan: &Plan) -> Result<(Given, Option<Past>), String> {
        let (mut reader, mut bytes) = (input.reader(), Vec::new());
        let read = reader.by_ref().take(MAX_AROUND + 1).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        if bytes.len() as u64 > MAX_AROUND {
            let all = std::io::Cursor::new(bytes).chain(reader);
            let mut told = session::given(all, self.span, plan, &self.zone)?;
            if let Given::Recorded(past) = &mut told {
                past.notes.push("The time around it is not shown: the file is larger than 64 MB".to_owned());
            }
            return Ok((told, None));
        }
        let told = session::given(bytes.as_slice(), self.span, plan, &self.zone)?;
        let longer = match &told {
            Given::Recorded(_) => session::elsewhere(bytes.as_slice(), around(self.span), plan, &self.zone).ok(),
            Given::Journal(_) => None,
        };
        Ok((told, longer))
    }
}

/// The incidents of a folder, unread.
fn incidents(folder: &Folder) -> Result<(PathBuf, Found), Failure> {
    let listing = format!("listing the history in {}", folder.path().display());
    let all = folder.list().map_err(Failure::io(listing))?;
    Ok((folder.path().to_owned(), Found::read(folder, &all)))
}

/// The time in which changes are looked for.
fn around(span: Span) -> Span {
    let more = (session::AROUND * 1e6) as i64;
    Span { from: span.from.saturating_sub(more), to: span.to.saturating_add(more) }
}

/// So much of the time up to `to` as `--last` says.
pub(super) fn span(to: i64, last: Option<&str>) -> Result<Span, Failure> {
    let last = last.map_or(Ok(LAST), |text| playbook::duration("--last", text))?;
    if !(SHORTEST..=LONGEST).contains(&last) {
        return Err(Failure::usage("--last takes 1s to 6h".into(), Some("a shorter time shows a short fault better")));
    }
    Ok(Span { from: to - (last * 1e6) as i64, to })
}

/// The plan by which a time that is over is judged.
pub(super) fn plan_of(named: &NamedPlaybook) -> Result<Plan, Failure> {
    if named.loaded.playbook.method == Method::MethodR {
        let message = format!("{} follows single tasks, which no recorder does", named.loaded.playbook.name);
        return Err(Failure::usage(message, Some("`rdiag run use-method --at …` judges the host as a whole")));
    }
    Ok(Plan::new(&named.loaded, &named.library, &BTreeMap::new())?)
}

/// What `run` and `report` need for it.
pub(super) struct Order<'a> {
    pub(super) playbook: &'a str,
    pub(super) at: &'a AtArgs,
    pub(super) output: &'a OutputArgs,
    /// Whether a folder of the run is written where nothing is said.
    pub(super) keeps: bool,
    pub(super) screen: ScreenArgs,
    pub(super) fail_on: Option<FailOn>,
}

/// Judges it.
pub(super) fn run(order: &Order<'_>, ui: &Ui) -> Result<Exit, Failure> {
    let named = session::resolve(order.playbook)?;
    named.notes.iter().for_each(|note| ui.warn(Text::seen(note)));
    let plan = plan_of(&named)?;
    let at = order.at.at.as_deref().unwrap_or("now");
    let last = order.at.last.as_deref();
    let asked = match order.at.from.as_slice() {
        [] => Asked::with_around(at, last, order.at.history.as_ref(), ui)?,
        files => Asked::from_elsewhere(at, last, files)?,
    };
    let stamp: String = asked.zone.instant(asked.span.to).chars().filter(char::is_ascii_alphanumeric).collect();
    let folder = format!("rdiag-{}-at-{stamp}", plan.playbook.name);
    let target = order.output.prepare(order.keeps.then_some(folder))?;
    let sources = session::sources_for(Some(order.playbook))?;
    confined(ui, target.folder().as_deref().map(Deref::deref), |desk| {
        let target = target.through(&desk);
        let (past, longer) = asked.past_and_longer(&plan)?;
        let (changes, around) = asked.around(&past, longer.as_ref());
        let Past { recording, began, mut notes, origin, .. } = past;
        notes.extend(asked.looked_into());
        let plan = session::resolve_among(order.playbook, &sources)?.plan_of(&recording)?;
        let mut analysis = session::analyze(&recording, &plan);
        session::temper(&mut analysis, &origin);
        let mut report = session::document(&recording, &analysis, &plan, &reproducing());
        let (usual, uncompared) = asked.usual(&recording, &analysis.metrics, &plan);
        notes.extend(uncompared);
        ui.note(shown!("Judged: {}", Text::seen(judged(&recording, began, &asked.zone))));
        notes.iter().for_each(|note| ui.note(Text::seen(note)));
        report.verdict.limits.splice(0..0, notes);
        (report.changes, report.around) = (changes, around);
        report.usual = usual;
        let mut written = target.write(&report, Some(&recording), order.screen.is_whole(), ui)?;
        written.extend(target.write_rows(session::rows(&recording, &analysis, &report, "", ""), ui)?);
        if !target.owns_stdout() {
            order.screen.show(&report, target.told(&written).as_ref(), ui)?;
        }
        Ok(exit(&report, &analysis, order.fail_on, false))
    })
}

/// From when to when a recording that began then (microseconds since 1970) was judged, in the reader's zone.
pub(super) fn judged(recording: &Recording, began: i64, zone: &Zone) -> String {
    format!("{} to {}", zone.shown(began), zone.shown(ends(recording, began)))
}

fn ends(recording: &Recording, began: i64) -> i64 {
    // The clock that a window is measured by stands still while the host sleeps.
    let seconds = recording.windows.first().map_or(0.0, |window| window.seconds + window.suspended_seconds);
    began.saturating_add((seconds * 1e6) as i64)
}
