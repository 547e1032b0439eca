//! Samples through rings: for kernels and users that cannot have programs in the kernel.
#![expect(unsafe_code, reason = "perf_event_open(2) and its ioctls have no safe form")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use perf_event_open_sys as perf;
use perf_event_open_sys::bindings as sys;

use super::event::{Event, Every};
use super::record::{self, SAMPLE_TYPE};
pub use super::record::{Record, Sample};
use super::refusal;
use super::ring::Ring;
use crate::host::Host;
use rdiag_model::{Reason, Unavailable};

/// Pages of a ring at first; half and half again where the limit of locked memory is lower.
const PAGES: usize = 64;

/// What is sampled.
#[derive(Debug)]
pub enum Target {
    /// Whatever runs.
    Host,
    /// Processes, and those that they start.
    Processes(Vec<u32>),
    /// What runs in a control group: its directory in the v2 tree, or in that of `perf_event`.
    Cgroup(File),
}

/// What is sampled.
#[derive(Debug)]
pub struct Sampling<'s> {
    /// The event.
    pub event: &'s Event,
    /// How often.
    pub every: Every,
    /// Whether what processes execute themselves is sampled, and their part of stacks is taken.
    pub user: bool,
    /// The same of the kernel.
    pub kernel: bool,
    /// What to sample.
    pub target: &'s Target,
}

/// Events at work, with one ring for each CPU.
#[derive(Debug)]
pub struct Sampler {
    rings: Vec<Ring>,
    /// They count for as long as they are open.
    _events: Vec<OwnedFd>,
    bytes: Vec<u8>,
}

impl Sampler {
    /// Begins to sample on these CPUs.
    pub fn open(host: &Host, sampling: &Sampling<'_>, cpus: &[u32]) -> Result<Self, Unavailable> {
        let mut attr = attributes(sampling);
        let (ids, flags) = match sampling.target {
            Target::Host => (vec![-1], 0),
            Target::Cgroup(directory) => (vec![directory.as_raw_fd()], sys::PERF_FLAG_PID_CGROUP),
            Target::Processes(pids) => (threads(host, pids)?, 0),
        };
        let mut sampler = Self { rings: Vec::new(), _events: Vec::new(), bytes: Vec::new() };
        let mut gone = None;
        for cpu in cpus {
            // Events of one CPU share the ring of the first.
            let mut first: Option<usize> = None;
            for id in &ids {
                let event = match open(&mut attr, *id, *cpu, flags) {
                    Ok(event) => event,
                    // A thread has ended, or a CPU has gone, since it was listed.
                    Err(error) if is_gone(&error) => {
                        gone = Some(error);
                        continue;
                    }
                    Err(error) => return Err(refusal(host, sampling, &error)),
                };
                match first.and_then(|at| sampler._events.get(at)) {
                    Some(leader) => share(&event, leader).map_err(|error| refusal(host, sampling, &error))?,
                    None => {
                        sampler.rings.push(ring(&event).map_err(|error| refusal(host, sampling, &error))?);
                        first = Some(sampler._events.len());
                    }
                }
                sampler._events.push(event);
            }
        }
        match gone {
            Some(error) if sampler._events.is_empty() => Err(refusal(host, sampling, &error)),
            _ => Ok(sampler),
        }
    }

    /// Takes over what has been sampled. Gives back how many bytes could not be understood.
    pub fn drain(&mut self, each: &mut dyn FnMut(Record)) -> usize {
        let mut strange = 0;
        for ring in &mut self.rings {
            ring.take(&mut self.bytes);
            strange += record::read(&self.bytes, each);
        }
        strange
    }
}

fn attributes(sampling: &Sampling<'_>) -> sys::perf_event_attr {
    let mut attr = sys::perf_event_attr {
        size: size_of::<sys::perf_event_attr>() as u32,
        type_: sampling.event.kind,
        config: sampling.event.config,
        sample_type: SAMPLE_TYPE,
        ..sys::perf_event_attr::default()
    };
    match sampling.every {
        Every::Hertz(hz) => {
            attr.__bindgen_anon_1.sample_freq = hz;
            attr.set_freq(1);
        }
        Every::Events(events) => attr.__bindgen_anon_1.sample_period = events,
    }
    attr.set_exclude_kernel(u64::from(!sampling.kernel));
    attr.set_exclude_hv(u64::from(!sampling.kernel));
    attr.set_exclude_callchain_kernel(u64::from(!sampling.kernel));
    attr.set_exclude_callchain_user(u64::from(!sampling.user));
    attr.set_comm(1);
    attr.set_inherit(u64::from(matches!(sampling.target, Target::Processes(_))));
    attr
}

/// All threads of the processes as they are now; later ones inherit their events.
fn threads(host: &Host, pids: &[u32]) -> Result<Vec<i32>, Unavailable> {
    let mut ids = Vec::new();
    let mut gap = None;
    for pid in pids {
        match host.list(&format!("proc/{pid}/task")) {
            Ok(names) => ids.extend(names.iter().filter_map(|name| name.parse::<i32>().ok())),
            Err(error) => gap = Some(Unavailable::from(error)),
        }
    }
    if ids.is_empty() {
        let none = || Unavailable::new(Reason::Absent, "none of the processes to look at exists (any more)");
        return Err(gap.unwrap_or_else(none));
    }
    Ok(ids)
}

fn open(attr: &mut sys::perf_event_attr, id: i32, cpu: u32, flags: u32) -> io::Result<OwnedFd> {
    let flags = u64::from(flags | sys::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attributes live through the call, and their size field says how long they are.
    let fd = unsafe { perf::perf_event_open(attr, id, cpu.cast_signed(), -1, flags as _) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has an event write into the ring of another.
fn share(event: &OwnedFd, leader: &OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors are open events, and the argument is a number.
    let result = unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), leader.as_raw_fd() as _) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn ring(event: &OwnedFd) -> io::Result<Ring> {
    let mut pages = PAGES;
    loop {
        match Ring::map(event.as_fd(), pages) {
            Err(rustix::io::Errno::PERM | rustix::io::Errno::NOMEM) if pages > 1 => pages /= 2,
            result => return result.map_err(io::Error::from),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::SRCH | Errno::NODEV))
}

/// Why the kernel does not let us sample, and the least that would change it.
fn refusal(host: &Host, sampling: &Sampling<'_>, error: &io::Error) -> Unavailable {
    use rustix::io::Errno;
    let event = &sampling.event.name;
    let errno = Errno::from_io_error(error);
    match errno {
        Some(Errno::ACCESS | Errno::PERM) => denied(host, sampling),
        Some(Errno::MFILE | Errno::NFILE) => {
            let why = format!("sampling {event} takes a file for each thread and CPU, and the limit is reached");
            Unavailable::new(Reason::Denied, why).with_remedy("raise the limit of open files (ulimit -n)")
        }
        Some(Errno::INVAL) if matches!(sampling.every, Every::Hertz(_)) => {
            let most = host.read_line("proc/sys/kernel/perf_event_max_sample_rate").unwrap_or_else(|_| "?".into());
            let why = format!("the kernel takes no such samples of {event}; it allows {most} per second at most");
            Unavailable::new(Reason::Disabled, why).with_remedy("take fewer samples per second (hz)")
        }
        Some(Errno::NOSYS) => Unavailable::new(Reason::Absent, "this kernel has no perf_event_open")
            .with_remedy("use a kernel built with CONFIG_PERF_EVENTS, and allow the call in seccomp"),
        _ => errno
            .and_then(|errno| sampling.event.refused(errno.raw_os_error()))
            .unwrap_or_else(|| Unavailable::new(Reason::Malformed, format!("sampling {event} was refused: {error}"))),
    }
}

fn denied(host: &Host, sampling: &Sampling<'_>) -> Unavailable {
    let value = refusal::paranoid(host);
    let level = value.map_or_else(|| "?".to_owned(), |value| value.to_string());
    let rights = "run rdiag as root, or give it CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8)";
    let own = matches!(sampling.target, Target::Processes(_));
    let high = value.is_some_and(|value| value > 2);
    let (why, remedy) = if own && high {
        (
            format!("kernel.perf_event_paranoid = {level} lets this user sample nothing, not even own processes"),
            format!("sysctl kernel.perf_event_paranoid=2, or {rights}"),
        )
    } else if own {
        ("this user may sample own processes only".to_owned(), rights.to_owned())
    } else {
        (
            format!("this user may not sample the whole host (kernel.perf_event_paranoid = {level})"),
            format!("name processes of your own (--pid), or {rights}"),
        )
    };
    Unavailable::new(Reason::Denied, why).with_remedy(remedy)
}
