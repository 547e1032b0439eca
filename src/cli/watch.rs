//! `rdiag watch`: the recorder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;

use super::at::PLAYBOOK;
use super::history_folder::place;
use super::root::open_host;
use super::signals::stop_on_signal;
use super::size::{Size, size};
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_collectors as collectors;
use rdiag_model::quantity;
use rdiag_playbook::{self as playbook, Plan};
use rdiag_report::shown;
use rdiag_session as session;
use rdiag_session::{Trigger, Watch, WatchError};

/// Record what use-method looks at, every few seconds, so that `rdiag run use-method --at 03:12` can judge a time that is over.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It runs in the foreground until SIGTERM or Ctrl-C; packages have a unit for systemd, rdiag-watch.service, that is \
off until it is enabled. What is recorded is not synced to the disk: a crash of the kernel costs the last half minute, a kill nothing. \
Old blocks that are written again are synced before the former ones go.

Space: when the folder has reached its limit, blocks as they were recorded may take half of what incidents leave. The oldest beyond that \
are written \
again with a sample a minute: counters stay true, levels become means of a minute, shorter peaks are lost. Then the oldest go, those of \
incidents last.

Incidents: PSI cpu some above 60 % of 10 s, memory full above 10 % of 4 s, io full above 40 % of 4 s, where the last minute was below that \
share; \
or a rule of use-method that is critical over the last minute and was not in the minute before. \
At most one in 30 minutes for each resource, and ten drill-downs a day. Pinned blocks take at most half of --keep; then the oldest \
incident is \
pinned no longer. `rdiag history list` shows them.

Exit codes: 0 ended by SIGTERM, Ctrl-C or --duration; 2 wrong usage; 4 another recorder has the folder, it cannot be written to, or \
another failure."
)]
pub(super) struct Args {
    /// Folder for what is recorded [default: /var/lib/rdiag/history; without root ~/.local/state/rdiag/history].
    #[arg(long, value_name = "DIR")]
    history: Option<PathBuf>,
    /// Limit of the folder's size; never more than 1 % of the free space there. Where it is short, old blocks are thinned to a sample a
    /// minute, then the oldest go (see below).
    #[arg(long, value_name = "SIZE", default_value = "256MB", value_parser = size)]
    keep: Size,
    /// Distance of two samples.
    #[arg(long, short, value_name = "TIME", default_value = "5s")]
    interval: String,
    /// Share of one CPU that recording may use. Beyond it, rules do not judge, and the most expensive collector is read less often.
    #[arg(long, value_name = "PERCENT", default_value = "0.5%")]
    budget: String,
    /// What is done about an incident (see below).
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnIncident::Run)]
    trigger: OnIncident,
    /// End after this time [default: when it is stopped].
    #[arg(long, short, value_name = "TIME")]
    duration: Option<String>,
    /// Length of a block.
    #[arg(long, value_name = "TIME", default_value = "10m", hide = true)]
    block: String,
    /// Distance of two samples in old blocks, where space is short.
    #[arg(long, value_name = "TIME", default_value = "1m", hide = true)]
    tier: String,
    /// Time after which the cost is looked at, and that rules judge.
    #[arg(long, value_name = "TIME", default_value = "1m", hide = true)]
    look: String,
    /// Length of a drill-down.
    #[arg(long, value_name = "TIME", default_value = "10s", hide = true)]
    drill_down: String,
    /// Look at this tree instead of the machine.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// What is done about an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnIncident {
    /// Keep the ten minutes before and the five after, and run use-method once, for 10 s with its drill-downs.
    Run,
    /// Keep the ten minutes before and the five after.
    Pin,
    /// Look for none.
    Off,
}

impl Args {
    fn trigger(&self) -> Trigger {
        match self.trigger {
            OnIncident::Off => Trigger::Off,
            OnIncident::Pin => Trigger::Pin,
            OnIncident::Run => {
                let mut words: Vec<OsString> =
                    ["record", PLAYBOOK, "--quiet", "--out", "-", "--duration"].map(OsString::from).into();
                words.push(OsString::from(&self.drill_down));
                if self.root != Path::new("/") {
                    words.extend([OsString::from("--root"), OsString::from(&self.root)]);
                }
                Trigger::Run(words)
            }
        }
    }
}

/// Shortest and longest distance of samples, of the machine and of a tree in its place, and longest and shortest block, in seconds.
const SHORTEST_INTERVAL: f64 = 0.1;
const LONGEST_INTERVAL: f64 = 600.0;
const SHORTEST_OF_A_TREE: f64 = 0.001;
const BLOCK: std::ops::RangeInclusive<f64> = 0.5..=3600.0;
/// A block and its tail have room in so many bytes; less keeps nothing.
const LEAST: u64 = 10_000;

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let interval = playbook::duration("--interval", &args.interval)?;
    let block = playbook::duration("--block", &args.block)?;
    let tier = playbook::duration("--tier", &args.tier)?;
    let look = playbook::duration("--look", &args.look)?;
    let budget = playbook::budget(&args.budget)?;
    // What is wrong with it would be noticed at an incident.
    playbook::duration("--drill-down", &args.drill_down)?;
    let duration = args.duration.as_deref().map(|text| playbook::duration("--duration", text)).transpose()?;
    let shortest = if args.root == Path::new("/") { SHORTEST_INTERVAL } else { SHORTEST_OF_A_TREE };
    let is_interval = (shortest..=LONGEST_INTERVAL).contains(&interval);
    if !is_interval || !BLOCK.contains(&block) || block / interval > 3600.0 {
        let message = format!("samples every {} in blocks of {} are not recorded", args.interval, args.block);
        return Err(Failure::usage(
            message,
            Some("--interval takes 100ms to 10m, and a block has at most 3600 samples"),
        ));
    }
    if args.keep.0 < LEAST {
        let message =
            format!("--keep {}: nothing that could be judged fits into that", quantity::bytes(args.keep.0 as f64));
        return Err(Failure::usage(message, Some("ten minutes take some 100 kB: 256MB holds weeks")));
    }
    let folder = place(args.history.as_ref())?;
    let stop = stop_on_signal()?;
    let host = Arc::new(open_host(&args.root)?);
    let plan = {
        // All other playbooks and rules would lie in memory for as long as it records.
        let named = session::resolve(PLAYBOOK)?;
        named.notes.iter().for_each(|note| ui.warn(Text::seen(note)));
        Plan::new(&named.loaded, &named.library, &std::collections::BTreeMap::new())?
    };
    let first = || plan.windows.iter().take(1).flatten().flat_map(|planned| &planned.step.collect);
    let wanted = |id: &str| first().any(|measure| measure.id() == id);
    let collectors = collectors::ALL.iter().copied().filter(|def| wanted(def.id)).collect();
    let path = Text::seen(folder.display().to_string());
    let [every, most] = [session::interval(interval), quantity::bytes(args.keep.0 as f64)].map(Text::seen);
    ui.note(shown!("recording into {}, a sample every {}, at most {}", &path, every, most));
    let order = Watch {
        collectors,
        folder,
        keep: args.keep.0,
        interval,
        block,
        tier,
        budget,
        look,
        plan: Arc::new(session::critical_only(plan)),
        duration,
        trigger: args.trigger(),
    };
    session::watch(&host, &order, &stop, &mut |told| ui.warn(Text::seen(told))).map_err(failure)?;
    Ok(Exit::Done)
}

fn failure(error: WatchError) -> Failure {
    let hint = match &error {
        WatchError::InUse { .. } => "one recorder is enough; `--history DIR` records elsewhere",
        WatchError::Folder { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            "name a folder of your own with --history, or run rdiag as root"
        }
        WatchError::Folder { .. } => "name a folder with --history; it is made if it is not there",
        WatchError::Io(_) => return Failure::Ended { message: error.to_string(), hint: None },
    };
    Failure::Ended { message: error.to_string(), hint: Some(hint.to_owned()) }
}
