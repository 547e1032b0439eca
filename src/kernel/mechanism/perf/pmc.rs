//! The system call and the reading of counters, behind a small seam: tests put a scripted machine in its place.
#![expect(unsafe_code, reason = "perf_event_open(2) and its ioctl(2)s have no safe wrappers")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use perf_event_open_sys as raw;
use perf_event_open_sys::bindings as sys;

use super::select::{Encoding, Modifiers};
use crate::mechanism::descriptors;

/// What is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Attr {
    pub(super) encoding: Encoding,
    pub(super) modifiers: Modifiers,
    /// Children of the task count too.
    pub(super) inherit: bool,
    /// Counts nothing before it is enabled.
    pub(super) disabled: bool,
    /// Enabled by the task's next execve(2).
    pub(super) on_exec: bool,
}

/// What it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A thread; 0 is the one that asks.
    Task(u32),
    /// The tasks of a control group, by the descriptor of its directory.
    Group(i32),
    /// Whatever runs.
    Everybody,
}

/// The counts of a group of events that were counted in the same moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GroupCounts {
    /// Nanoseconds in which it should have counted.
    pub(super) enabled: u64,
    /// Nanoseconds in which it did.
    pub(super) running: u64,
    /// In the order in which the events were opened.
    pub(super) values: Vec<u64>,
}

/// A machine with counters. Errors are numbers of the operating system.
pub(super) trait Pmu: Send {
    /// Opens an event on a CPU, or wherever its task runs, by itself or in the group of a leader that was opened before.
    fn open(&mut self, attr: &Attr, subject: Subject, cpu: Option<u32>, leader: Option<usize>) -> Result<usize, i32>;
    /// Reads a leader and its group.
    fn read(&mut self, leader: usize) -> Result<GroupCounts, i32>;
    /// Lets a leader and its group begin to count.
    fn enable(&mut self, leader: usize) -> Result<(), i32>;
    /// Closes an event.
    fn close(&mut self, event: usize);
}

/// The machine that rdiag runs on.
#[derive(Debug, Default)]
pub(super) struct Machine {
    events: Vec<Option<Opened>>,
    limit_raised: bool,
}

#[derive(Debug)]
struct Opened {
    fd: OwnedFd,
    /// The kernel's number of the event in readings of its group.
    id: u64,
    /// Those of its group, in the order of opening; empty for a member.
    members: Vec<u64>,
    /// How many were ever in its group. An event that was closed stays in it while a process that was just forked has its
    /// descriptor too, and the kernel refuses a reading without room for it.
    most: usize,
}

/// Words at the head of a reading of a group: number of values, time enabled, time running.
const HEAD: usize = 3;

impl Machine {
    fn get(&self, event: usize) -> Result<&Opened, i32> {
        self.events.get(event).and_then(Option::as_ref).ok_or(libc::EBADF)
    }

    fn try_open(
        &self,
        attr: &mut sys::perf_event_attr,
        subject: Subject,
        cpu: i32,
        leader: i32,
    ) -> Result<OwnedFd, i32> {
        let (pid, flag) = match subject {
            Subject::Task(tid) => (tid.cast_signed(), 0),
            Subject::Group(fd) => (fd, sys::PERF_FLAG_PID_CGROUP),
            Subject::Everybody => (-1, 0),
        };
        let flags = (flag | sys::PERF_FLAG_FD_CLOEXEC).into();
        // SAFETY: the attributes are initialised, live, and as long as their size says; counting cannot harm memory.
        let fd = unsafe { raw::perf_event_open(attr, pid, cpu, leader, flags) };
        if fd < 0 {
            return Err(last_error());
        }
        // SAFETY: the call has just made this descriptor, which has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl Pmu for Machine {
    fn open(&mut self, attr: &Attr, subject: Subject, cpu: Option<u32>, leader: Option<usize>) -> Result<usize, i32> {
        let leader_fd = leader.map(|leader| self.get(leader).map(|opened| opened.fd.as_raw_fd())).transpose()?;
        let mut attributes = attributes(attr);
        let cpu = cpu.map_or(-1, u32::cast_signed);
        let fd = match self.try_open(&mut attributes, subject, cpu, leader_fd.unwrap_or(-1)) {
            Err(libc::EMFILE) if !std::mem::replace(&mut self.limit_raised, true) => {
                descriptors::make_room(u64::MAX);
                self.try_open(&mut attributes, subject, cpu, leader_fd.unwrap_or(-1))?
            }
            other => other?,
        };
        let mut id = 0;
        // SAFETY: the descriptor is an open event, and the pointer is to a live number of the type that is written.
        if unsafe { raw::ioctls::ID(fd.as_raw_fd(), &raw mut id) } < 0 {
            return Err(last_error());
        }
        match leader.and_then(|leader| self.events.get_mut(leader)?.as_mut()) {
            Some(leader) => {
                leader.members.push(id);
                leader.most += 1;
            }
            None if leader.is_some() => return Err(libc::EBADF),
            None => {}
        }
        let members = if leader.is_none() { vec![id] } else { Vec::new() };
        self.events.push(Some(Opened { fd, id, members, most: 1 }));
        Ok(self.events.len() - 1)
    }

    fn read(&mut self, leader: usize) -> Result<GroupCounts, i32> {
        let opened = self.get(leader)?;
        let mut bytes = vec![0_u8; (HEAD + 2 * opened.most) * 8];
        let length = rustix::io::read(&opened.fd, &mut bytes).map_err(rustix::io::Errno::raw_os_error)?;
        let words: Vec<u64> = bytes
            .get(..length)
            .unwrap_or_default()
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect();
        parse(&words, &opened.members).ok_or(libc::EIO)
    }

    fn enable(&mut self, leader: usize) -> Result<(), i32> {
        let fd = self.get(leader)?.fd.as_raw_fd();
        // SAFETY: the descriptor is an open event; the argument is a flag.
        let outcome = unsafe { raw::ioctls::ENABLE(fd, sys::PERF_IOC_FLAG_GROUP) };
        if outcome < 0 { Err(last_error()) } else { Ok(()) }
    }

    fn close(&mut self, event: usize) {
        let closed = self.events.get_mut(event).and_then(Option::take);
        let id = closed.map(|opened| opened.id);
        for leader in self.events.iter_mut().flatten() {
            leader.members.retain(|member| Some(*member) != id);
        }
    }
}

/// A reading with PERF_FORMAT_GROUP | ID and both times: the values by the numbers of their events. A group in an error
/// state reads as nothing.
fn parse(words: &[u64], members: &[u64]) -> Option<GroupCounts> {
    let [count, enabled, running, rest @ ..] = words else { return None };
    let pairs: Vec<[u64; 2]> = rest.as_chunks().0.iter().copied().take(usize::try_from(*count).ok()?).collect();
    let value = |id: &u64| pairs.iter().find(|[_, of]| of == id).map(|[value, _]| *value);
    let values: Option<Vec<u64>> = members.iter().map(value).collect();
    Some(GroupCounts { enabled: *enabled, running: *running, values: values? })
}

fn attributes(attr: &Attr) -> sys::perf_event_attr {
    let mut raw = sys::perf_event_attr {
        type_: attr.encoding.kind,
        size: size_of::<sys::perf_event_attr>() as u32,
        config: attr.encoding.config,
        read_format: u64::from(
            sys::PERF_FORMAT_GROUP
                | sys::PERF_FORMAT_ID
                | sys::PERF_FORMAT_TOTAL_TIME_ENABLED
                | sys::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..sys::perf_event_attr::default()
    };
    raw.__bindgen_anon_3.config1 = attr.encoding.config1;
    raw.__bindgen_anon_4.config2 = attr.encoding.config2;
    let Modifiers { user, kernel, hypervisor, guest, host, precise } = attr.modifiers;
    if user || kernel || hypervisor {
        raw.set_exclude_user((!user).into());
        raw.set_exclude_kernel((!kernel).into());
        raw.set_exclude_hv((!hypervisor).into());
    }
    if guest || host {
        raw.set_exclude_guest((!guest).into());
        raw.set_exclude_host((!host).into());
    }
    raw.set_precise_ip(precise.into());
    raw.set_inherit(attr.inherit.into());
    raw.set_disabled(attr.disabled.into());
    raw.set_enable_on_exec(attr.on_exec.into());
    raw
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_numbers_and_a_short_reading_is_none() {
        let words = [2, 100, 50, 7, 11, 8, 10];
        let reading = parse(&words, &[10, 11]).unwrap();
        assert_eq!(reading, GroupCounts { enabled: 100, running: 50, values: vec![8, 7] });
        for end in 0..words.len() {
            assert_eq!(parse(&words[..end], &[10, 11]), None);
        }
        assert_eq!(parse(&[u64::MAX, 1, 1, 5, 3], &[3]).unwrap().values, [5]);
        assert_eq!(parse(&[2, 100, 50, 7, 11, 8, 10], &[12]), None);
    }

    #[test]
    fn modifiers_exclude_what_they_do_not_name() {
        let modifiers = Modifiers { user: true, host: true, precise: 2, ..Modifiers::default() };
        let raw = attributes(&Attr { modifiers, ..Attr::default() });
        assert_eq!((raw.exclude_user(), raw.exclude_kernel(), raw.exclude_hv()), (0, 1, 1));
        assert_eq!((raw.exclude_guest(), raw.exclude_host(), raw.precise_ip()), (1, 0, 2));
        let all = attributes(&Attr::default());
        assert_eq!((all.exclude_user(), all.exclude_kernel(), all.exclude_guest()), (0, 0, 0));
    }

    #[test]
    fn the_own_thread_is_counted_on_this_machine() {
        let clock = Encoding { kind: sys::PERF_TYPE_SOFTWARE, config: 1, ..Encoding::default() };
        let modifiers = Modifiers { user: true, ..Modifiers::default() };
        let attr = Attr { encoding: clock, modifiers, ..Attr::default() };
        let mut machine = Machine::default();
        let leader = match machine.open(&attr, Subject::Task(0), None, None) {
            Ok(leader) => leader,
            // Some containers forbid the call altogether.
            Err(libc::EACCES | libc::EPERM | libc::ENOSYS) => {
                return crate::skip::skip("perf_event_open is forbidden here");
            }
            Err(other) => panic!("error {other}"),
        };
        let member = machine.open(&attr, Subject::Task(0), None, Some(leader)).unwrap();
        let spin: u64 = (0..300_000_u64).map(|n| std::hint::black_box(n % 7)).sum();
        assert!(spin > 0);
        let reading = machine.read(leader).unwrap();
        assert_eq!(reading.values.len(), 2);
        assert!(reading.running > 0 && reading.values[0] > 0, "{reading:?}");
        // As if a process that was just forked had it still.
        let elsewhere = machine.get(member).unwrap().fd.try_clone().unwrap();
        machine.close(member);
        assert_eq!(machine.read(leader).unwrap().values.len(), 1);
        drop(elsewhere);
        assert_eq!(machine.read(leader).unwrap().values.len(), 1);
        machine.close(leader);
        assert_eq!(machine.read(leader), Err(libc::EBADF));
    }
}
