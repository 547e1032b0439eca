//! The process that watches over a load: it starts the programs, ends them in time, and removes their files. If it is killed, the
//! kernel ends the programs, and the journal tells the next command what is left to remove.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};

use serde::{Deserialize, Serialize};

use super::clean;
use super::limit::Group;
use super::load::{self, Order};
use super::module;
use super::place::{Place, RunJob, Undo};
use super::runner::disk;
use rdiag_kernel::host::{Host, files};
use rdiag_own::{self as own, Identity};

/// The hidden first argument that makes rdiag the keeper.
pub const ARGUMENT: &str = "lab-keeper";

/// How often it looks whether it is still needed, in seconds.
const LOOK_SECONDS: f64 = 0.1;

/// What the keeper is handed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Charge {
    /// The lab's folder.
    pub folder: PathBuf,
    /// The run's folder.
    pub scratch: PathBuf,
    /// What chose names and numbers.
    pub seed: u64,
    /// When it ends, in monotonic seconds.
    pub until: f64,
    /// The largest file that a program may write.
    pub file_bytes: u64,
    /// The most writable memory that a program may have.
    pub memory_bytes: u64,
    /// What to start.
    pub jobs: Vec<RunJob>,
}

/// A program of the load that runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    /// Its role.
    pub role: String,
    /// The process; its number is that of its group too.
    pub process: Identity,
}

/// Where the keeper tells what it started.
#[must_use]
pub fn started_file(scratch: &std::path::Path) -> PathBuf {
    scratch.join("started.json")
}

/// The process itself.
#[must_use]
pub fn main() -> ExitCode {
    let charge = own::order().ok().and_then(|bytes| serde_json::from_slice::<Charge>(&bytes).ok());
    let Some(charge) = charge else { return ExitCode::from(2) };
    own::leave_session();
    own::set_name("rdiag:lab");
    // It is opened by its path, in which another folder may lie by now.
    let place = Place::existing(&charge.folder).ok().filter(Place::is_trusted);
    let Some(place) = place else { return ExitCode::from(2) };
    let mut children = Vec::new();
    if start_all(&charge, &place, &mut children).is_ok() {
        watch(&charge, &mut children);
    }
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    // A command of the lab may be cleaning up already; either does it.
    let _ = module::remove(&place);
    let _ = clean::remove_groups(&Host::live(Path::new("/")), &place);
    let _ = clean::remove_folders(&place);
    ExitCode::SUCCESS
}

fn start_all(charge: &Charge, place: &Place, children: &mut Vec<Child>) -> std::io::Result<()> {
    let noted = |undo: &Undo| place.note(undo).map_err(std::io::Error::other);
    let own = Identity::own().ok_or(std::io::ErrorKind::NotFound)?;
    noted(&Undo::Process(own.clone()))?;
    let mut started = Vec::new();
    for job in &charge.jobs {
        let link = charge.scratch.join(job.process_name());
        files::link_to(&own::program()?, &link)?;
        if let Some((mib, most)) = job.task.file_system() {
            let room = load::room(&charge.scratch);
            noted(&Undo::Mount(room.clone()))?;
            files::create_private_directory(&room)?;
            own::mount_small(&room, mib, most)?;
        }
        if let Some(mib) = job.task.swap_mib() {
            let space = load::swap_file(&charge.scratch);
            noted(&Undo::Swap(space.clone()))?;
            own::add_swap(&space, mib)?;
        }
        if let Some((wait, at_once)) = job.task.slow_disk() {
            module::make_slow_disk(place, &charge.scratch, wait, at_once)?;
        }
        let mut child = own::start(&link, load::ARGUMENT)?;
        let process = Identity::of(child.id()).ok_or(std::io::ErrorKind::NotFound)?;
        noted(&Undo::Process(process.clone()))?;
        if let Some(limit) = job.limit {
            let host = Host::live(Path::new("/"));
            let group =
                Group::new(&host, limit, charge.seed, &job.role).map_err(|gap| std::io::Error::other(gap.why))?;
            noted(&Undo::Group(group.directory().to_owned()))?;
            group.make(&host, disk(place.folder())).map_err(|gap| std::io::Error::other(gap.why))?;
            group.enter(&host, child.id())?;
        }
        // It has waited for its order until now, so nothing happened that the journal does not know.
        let handed = load::hand(&mut child, &order(charge, job, link, own.pid));
        children.push(child);
        handed?;
        started.push(Started { role: job.role.clone(), process });
    }
    files::write_atomically(&started_file(&charge.scratch), |out| Ok(serde_json::to_writer(out, &started)?))
}

fn order(charge: &Charge, job: &RunJob, link: PathBuf, parent: u32) -> Order {
    Order {
        parent,
        until: charge.until,
        place: link,
        scratch: charge.scratch.clone(),
        file_bytes: charge.file_bytes,
        memory_bytes: charge.memory_bytes,
        task: job.task.clone(),
    }
}

/// Until the time is over, or nothing is left to watch over.
fn watch(charge: &Charge, children: &mut [Child]) {
    let clock = rdiag_kernel::host::Clock::live();
    let never = std::sync::atomic::AtomicBool::new(false);
    while clock.now(0) < charge.until {
        if children.iter_mut().all(|child| matches!(child.try_wait(), Ok(Some(_)))) {
            return;
        }
        clock.wait_until((clock.now(0) + LOOK_SECONDS).min(charge.until), &never);
    }
}
