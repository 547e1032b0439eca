//! The recorder: everything that the USE method collects, every few seconds, into a folder of bounded size. Blocks and tail are
//! `src/history/`; what is due when, `governor.rs`; the files, `keeper.rs` and `files.rs`; which processes stay in a block, `thin.rs`; what
//! is read seldom, `seldom.rs`; old blocks with fewer samples, `tiers.rs`; how the host is set up, `settings.rs`; what is an incident,
//! `pressure.rs` and `verdict.rs`, and what is done about it, `incidents.rs` and `pins.rs`; when a block ends early, `clocks.rs`.
//!
//! Collectors are begun anew with each block, so none of them grows without bounds, and a block stands for itself. Nothing waits for the
//! disk that the folder lies on: what is written goes through a thread of its own.

mod clocks;
mod files;
mod governor;
mod incidents;
mod keeper;
mod pins;
mod pressure;
mod seldom;
mod settings;
mod thin;
mod tiers;
mod verdict;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use self::clocks::Clocks;
pub use self::files::{TAIL, begins};
use self::governor::Governor;
use self::incidents::Incidents;
pub use self::incidents::in_words;
use self::keeper::Keeper;
use self::settings::Settings;
pub use self::verdict::critical_only;
use self::verdict::{InMaking, MinuteJudge};
use super::record::Recorder;
use rdiag_collectors::{CollectorDef, PROCESS_CHANGES};
use rdiag_history::{Block, Cost, FORMAT_VERSION, Header, Sample, Tail, write_block};
use rdiag_kernel::host::files::Folder;
use rdiag_kernel::host::rights::{self, Phase, Work};
use rdiag_kernel::host::{SharedHost, own_usage};
use rdiag_kernel::host::{boot_id, release_memory};
use rdiag_model::recording::Tool;
use rdiag_playbook::Plan;

/// Seconds after which it is asked again between samples whether there is an incident.
const LOOK: f64 = 1.0;

/// What to record, and where.
#[derive(Debug, Clone)]
pub struct Watch {
    /// Ids of the collectors.
    pub collectors: Vec<&'static CollectorDef>,
    /// Folder of the files.
    pub folder: PathBuf,
    /// Limit of its size, in bytes.
    pub keep: u64,
    /// Seconds from sample to sample.
    pub interval: f64,
    /// Seconds of a block.
    pub block: f64,
    /// Seconds from sample to sample in old blocks, where space is short.
    pub tier: f64,
    /// Share of one CPU that the recorder may use.
    pub budget: f64,
    /// Seconds after which the cost is looked at, and that rules judge at a time.
    pub look: f64,
    /// The rules that judge ([`critical_only`]).
    pub plan: Arc<Plan>,
    /// Seconds after which it ends by itself; none: when it is stopped.
    pub duration: Option<f64>,
    /// What is done about an incident.
    pub trigger: Trigger,
}

/// What is done about an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// Nothing: none is looked for.
    Off,
    /// The blocks around it are kept before others.
    Pin,
    /// That, and rdiag is run once with this command line, which writes a recording to stdout.
    Run(Vec<OsString>),
}

/// Why nothing is recorded.
#[derive(Debug, Error)]
pub enum WatchError {
    /// The folder cannot be used.
    #[error("recording into {folder}: {source}")]
    Folder {
        /// Its path.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// Another one records there.
    #[error("recording into {folder}: another recorder does so already")]
    InUse {
        /// Its path.
        folder: String,
    },
    /// The system failed.
    #[error("recording: {0}")]
    Io(#[from] io::Error),
}

/// Records until `stop` is set or its time is over; `say` hears what a person should know.
///
/// # Errors
/// When it cannot begin, or no thread can be started.
pub fn watch(
    host: &SharedHost,
    order: &Watch,
    stop: &AtomicBool,
    say: &mut dyn FnMut(String),
) -> Result<(), WatchError> {
    let named = || order.folder.display().to_string();
    let wrong = |source| WatchError::Folder { folder: named(), source };
    let folder = Folder::keeping(&order.folder).map_err(wrong)?;
    let lock = folder.lock("lock").map_err(wrong)?.ok_or_else(|| WatchError::InUse { folder: named() })?;
    let (known, damage) = incidents::known(&folder);
    damage.into_iter().for_each(&mut *say);
    let verdict = || MinuteJudge::new(Arc::clone(&order.plan), order.look, order.interval);
    let mut incidents = match &order.trigger {
        Trigger::Off => None,
        Trigger::Pin => Some(Incidents::watch(host, &known, verdict(), None)),
        Trigger::Run(words) => Some(Incidents::watch(host, &known, verdict(), Some(words))),
    };
    rights::narrow(Phase::Measuring(Work::default()));
    incidents.iter().filter_map(|incidents| incidents.missing(host)).for_each(&mut *say);
    let mut keeper = Keeper::start(folder, (order.keep, order.tier), known)?;
    // Reading playbooks took most of it.
    release_memory();
    let mut governor = Governor::new(order.budget, order.interval, order.look);
    let mut settings = Settings::default();
    // A source that hangs keeps its thread; begun anew with each block it would take another one each time.
    let mut hung: BTreeMap<&'static str, u32> = BTreeMap::new();
    let end = order.duration.map(|seconds| host.now() + seconds);
    let mut goes_on = true;
    while goes_on && !stop.load(Ordering::Relaxed) {
        hung.values_mut().for_each(|blocks| *blocks -= 1);
        hung.retain(|_, blocks| *blocks > 0);
        let mut collectors: Vec<&'static CollectorDef> =
            order.collectors.iter().copied().filter(|def| !hung.contains_key(def.id)).collect();
        for def in &mut collectors {
            if def.id == PROCESS_CHANGES.id {
                *def = &PROCESS_CHANGES;
            }
        }
        settings.read(host);
        let ongoing = Ongoing {
            keeper: &mut keeper,
            governor: &mut governor,
            hung: &mut hung,
            settings: &mut settings,
            incidents: &mut incidents,
        };
        goes_on = block(host, order, &collectors, ongoing, (stop, end), say)?;
    }
    drop(incidents);
    keeper.end().into_iter().for_each(say);
    drop(lock);
    Ok(())
}

/// How many blocks a source is left alone that hung.
const LEFT_ALONE: u32 = 7;

/// What goes on from block to block.
struct Ongoing<'k> {
    keeper: &'k mut Keeper,
    governor: &'k mut Governor,
    hung: &'k mut BTreeMap<&'static str, u32>,
    settings: &'k mut Settings,
    incidents: &'k mut Option<Incidents>,
}

/// Waits until a monotonic time, and looks about for incidents meanwhile; `false` when `stop` was set before.
fn wait(
    host: &SharedHost,
    ongoing: &mut Ongoing<'_>,
    (until, stop): (f64, &AtomicBool),
    say: &mut dyn FnMut(String),
) -> bool {
    loop {
        let next = until.min(host.now() + LOOK);
        if !host.rest(next, stop) {
            return false;
        }
        if next >= until {
            return true;
        }
        let Some(incidents) = ongoing.incidents.as_mut() else { continue };
        incidents.look(host, ongoing.keeper).into_iter().for_each(&mut *say);
    }
}

/// Records one block; whether another one follows before the end.
fn block(
    host: &SharedHost,
    order: &Watch,
    collectors: &[&'static CollectorDef],
    mut ongoing: Ongoing<'_>,
    (stop, end): (&AtomicBool, Option<f64>),
    say: &mut dyn FnMut(String),
) -> Result<bool, WatchError> {
    let (cpu_before, _) = own_usage();
    let mut recorder = Recorder::of(host, collectors, order.interval)?;
    let began = recorder.began();
    let clocks = Clocks::now(host);
    let mut header = header(host, order, &clocks, began);
    header.settings = ongoing.settings.known();
    header.stretched = ongoing.governor.stretched();
    let (mut tail, bytes) = Tail::begin(&header);
    ongoing.keeper.begin(bytes);
    let samples = (order.block / order.interval).round().max(1.0) as usize;
    let mut number = 0;
    let mut goes_on;
    let mut lengths: BTreeMap<&'static str, usize> = BTreeMap::new();
    loop {
        seldom::ask_anew(&mut recorder, collectors, ongoing.governor, number);
        recorder.sample_some(|slot| seldom::is_due(slot, ongoing.governor, number))?;
        for slot in &recorder.slots {
            slot.sink.with_record(|record| {
                let length = lengths.entry(slot.id).or_default();
                if record.times.len() > *length {
                    *length = record.times.len();
                    let news = std::mem::take(&mut record.processes);
                    tail.add(&Sample { id: slot.id, record, processes: &news });
                }
            });
        }
        ongoing.keeper.append(tail.end(number));
        if let Some(incidents) = ongoing.incidents.as_mut() {
            incidents.sample(host, ongoing.keeper).into_iter().for_each(&mut *say);
        }
        ongoing.keeper.problems().into_iter().for_each(&mut *say);
        // Old blocks that are thinned must not cost samples of the present, which are no cheaper for it; and judging takes what samples
        // leave.
        let judging = ongoing.incidents.as_ref().map_or(0.0, Incidents::judging_cpu_seconds);
        let cpu = own_usage().0 - ongoing.keeper.thinning_cpu_seconds() - judging;
        ongoing.governor.settle(&recorder.slots, host.now(), cpu).into_iter().for_each(&mut *say);
        // What is overdue on a host too slow to keep up is left out.
        number = (number + 1).max(((host.now() - began) / order.interval).floor() as usize);
        if let Some(incidents) = ongoing.incidents.as_mut() {
            let block = InMaking { header: &header, slots: &recorder.slots, intervals: number };
            let spare = ongoing.governor.spare();
            incidents.judge(host, ongoing.keeper, (&block, spare)).into_iter().for_each(&mut *say);
        }
        let next = began + number as f64 * order.interval;
        goes_on = end.is_none_or(|end| next <= end);
        let is_last = !goes_on || number >= samples || Clocks::now(host).stepped_since(&clocks);
        if is_last || !wait(host, &mut ongoing, (next, stop), say) {
            break;
        }
    }
    ongoing.hung.extend(recorder.slots.iter().filter(|slot| slot.late).map(|slot| (slot.id, LEFT_ALONE)));
    let (mut collectors, costs) = recorder.end()?;
    // Parts of a block are judged, and who was in a group at its end is not who was in it then.
    for labels in collectors.values_mut().flat_map(|record| record.labels.values_mut()) {
        labels.remove(rdiag_model::CollectorRecord::MEMBERS);
    }
    let last = collectors.values().filter_map(|record| record.times.last().copied()).fold(0.0, f64::max);
    header.seconds = last;
    header.stretched = ongoing.governor.stretched();
    header.settings = ongoing.settings.known();
    let (cpu_after, resident_bytes) = own_usage();
    header.cost = Cost { cpu_seconds: cpu_after - cpu_before, resident_bytes, collectors: costs };
    let mut block = Block { header, collectors, idle: Vec::new() };
    thin::thin(&mut block);
    ongoing.keeper.block(block.header.wall_micros, write_block(&block));
    drop(block);
    release_memory();
    if goes_on && !stop.load(Ordering::Relaxed) {
        wait(host, &mut ongoing, (began + number as f64 * order.interval, stop), say);
    }
    Ok(goes_on)
}

fn header(host: &SharedHost, order: &Watch, clocks: &Clocks, began: f64) -> Header {
    let since = ((clocks.monotonic - began) * 1e6) as i64;
    Header {
        format_version: FORMAT_VERSION,
        tool: Tool { name: "rdiag".into(), version: env!("CARGO_PKG_VERSION").into() },
        host: host.facts().clone(),
        boot: boot_id(),
        wall_micros: clocks.wall_micros - since,
        monotonic: began,
        boottime: began + clocks.suspended.max(0.0),
        seconds: 0.0,
        interval_seconds: order.interval,
        recorded_every: None,
        stretched: BTreeMap::new(),
        settings: BTreeMap::new(),
        cost: Cost::default(),
    }
}
