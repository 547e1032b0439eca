//! What a host can express: found by trials that no other process sees, or by asking the kernel; never concluded from a version. Nothing of
//! the host is changed, so a command that only lists exercises, or is killed meanwhile, leaves nothing behind.

use super::limit;
use super::load;
use super::module;
use super::place::Place;
use super::runner::disk;
use super::scenario::{Need, Variant};
use super::watch::while_watched;
use rdiag_kernel::host::{Host, files};
use rdiag_model::{Reason, Unavailable};
use rdiag_own as own;

/// With a lower factor the difference drowns in noise.
const LEAST_COST: f64 = 1.5;

/// The first thing that a variant needs and this host does not have.
#[must_use]
pub fn missing(host: &Host, place: &Place, variant: &Variant) -> Option<Unavailable> {
    let needs = variant.needs.iter().find_map(|need| try_need(host, place, *need).err());
    let limits = || variant.load.iter().filter_map(|job| job.limit);
    needs.or_else(|| limits().find_map(|limit| limit::may_be_set(host, limit).err()))
}

fn try_need(host: &Host, place: &Place, need: Need) -> Result<(), Unavailable> {
    match need {
        Need::TwoCpus if own::usable_cpus().len() >= 2 => Ok(()),
        Need::TwoCpus => Err(Unavailable::new(Reason::Absent, "it needs two CPUs, and this process may use only one")),
        Need::CostlyNeighbours => {
            let cost = load::cost_of_neighbours();
            if cost >= LEAST_COST {
                return Ok(());
            }
            let why = format!(
                "it needs two CPUs that get in each other's way at one cache line; here one shared line cost {cost:.1} times as much as \
                    two lines"
            );
            Err(Unavailable::new(Reason::Absent, why)
                .with_remedy("let it use two CPUs on different cores, on a quieter host"))
        }
        Need::RealTime => {
            // A thread of its own: this one keeps its priority.
            let tried = std::thread::scope(|scope| scope.spawn(|| own::busy_priority(1)).join());
            match tried {
                Ok(Ok(())) => Ok(()),
                _ => Err(Unavailable::new(Reason::Denied, "it needs real-time priority, which this user may not have")
                    .with_remedy("start it as root, or with CAP_SYS_NICE")),
            }
        }
        Need::HugePages => {
            let chosen = host.read("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
            if chosen.contains("[always]") || chosen.contains("[madvise]") {
                return Ok(());
            }
            let reason = if chosen.is_empty() { Reason::Absent } else { Reason::Disabled };
            let why = "it needs transparent huge pages, and this kernel provides none";
            Err(Unavailable::new(reason, why).with_remedy(
                "as root, write madvise to /sys/kernel/mm/transparent_hugepage/enabled, if the file is there",
            ))
        }
        Need::SmallFileSystem => {
            own::may_mount(place.folder()).map_err(|error| {
                Unavailable::new(Reason::Denied, format!("it needs to mount a small file system, but has no permission: {error}"))
                    .with_remedy("start it as root, outside of a container")
            })
        }
        Need::SwapSpace => {
            own::may_swap(place.folder()).map_err(|error| {
                Unavailable::new(Reason::Denied, format!("it needs to add swap space in a file, but has no permission: {error}"))
                    .with_remedy("start it as root, outside of a container, with XDG_STATE_HOME on a local disk that can hold swap files")
            })
        }
        Need::OwnNetwork => {
            // The network goes with the thread.
            let tried = std::thread::scope(|scope| scope.spawn(|| own::enter_own_network(0)).join());
            let error = match tried {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the trial ended".into(),
            };
            let why =
                format!("it needs a network namespace with packets steered to one CPU (RPS), but has no permission: {error}");
            Err(Unavailable::new(Reason::Denied, why).with_remedy("start it as root, outside of a container"))
        }
        Need::KernelModule => module::allowed(host),
        Need::SlowDisk => module::slow_disk_can_be_made(host),
        Need::Uprobes => while_watched(host.facts().pid, || ()),
        Need::DirectReads => {
            let reads = files::can_read_directly(place.folder());
            let counted = disk(place.folder())
                .is_some_and(|(major, minor)| host.exists(&format!("sys/dev/block/{major}:{minor}/stat")));
            if reads && counted {
                return Ok(());
            }
            let why =
                format!("it needs a disk that can be read past the page cache below {}", place.folder().display());
            Err(Unavailable::new(Reason::Absent, why).with_remedy("set XDG_STATE_HOME to a folder on a local disk"))
        }
    }
}
