//! Attaching to a point that the user has chosen: one object serves them all.

use std::num::NonZeroU32;
use std::os::fd::AsFd as _;

use aya::Ebpf;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeScope};
use aya::programs::{Program, ProgramError};

use super::object::by_name;
use super::{Kernel, Object, error};
use crate::host::Host;
use crate::mechanism::perf::dynamic::{self, Spot};
use crate::mechanism::points::{Point, Target, returns};
use rdiag_model::probe::Attachment;
use rdiag_model::{Reason, Unavailable};

/// Where the kernel lists the kinds of events that it was built with.
const KINDS: &str = "/sys/bus/event_source/devices/";

/// Which moments of a function are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moments {
    /// When it is entered; of a tracepoint, when it is passed.
    Entry,
    /// When it returns.
    Return,
    /// Both.
    Both,
}

/// What calls the programs at a function of the kernel.
#[derive(Debug, Clone, Copy)]
pub enum Way<'k> {
    /// A trampoline, which hands over arguments and result (fentry, fexit).
    Trampoline(&'k Kernel),
    /// A trap or a jump, which hands over registers (kprobe, kretprobe). All other points are of this kind.
    Probe,
}

impl Object {
    /// Attaches the programs `point_tracepoint`, or `point_fentry` and `point_fexit`, or `point_kprobe` and `point_kretprobe`, or
    /// `point_uprobe` and `point_uretprobe`. Functions of programs are watched in these processes alone; in all if none are given.
    pub fn attach_point(
        &mut self,
        host: &Host,
        point: &Point,
        moments: Moments,
        pids: &[u32],
        way: Way<'_>,
    ) -> Result<(), Unavailable> {
        if let (Target::Kernel(function), Way::Trampoline(kernel)) = (&point.target, way) {
            let attached = trampoline(&mut self.ebpf, kernel, function, moments);
            return self.note(point, "fentry", attached);
        }
        self.attach_point_to(host, "point", point, moments, pids)
    }

    /// The same with programs that begin with another word than `point`, where an object looks at several. This is the one place where
    /// returns of programs' functions are watched, and where those are refused that would end the program.
    pub fn attach_point_to(
        &mut self,
        host: &Host,
        programs: &str,
        point: &Point,
        moments: Moments,
        pids: &[u32],
    ) -> Result<(), Unavailable> {
        if let (Target::User { path, .. }, Moments::Return | Moments::Both) = (&point.target, moments) {
            returns::obstacle(path, &point.name)?;
        }
        let ebpf = &mut self.ebpf;
        let (back_end, attached) = match &point.target {
            Target::Tracepoint { group, event } => ("tracepoint", tracepoint(ebpf, programs, group, event)),
            Target::Kernel(function) => ("kprobe", kernel(ebpf, programs, function, moments)),
            Target::User { path, offsets } => ("uprobe", user(ebpf, programs, (path, offsets), moments, pids)),
            Target::Marker { path, offsets, semaphore } => {
                ("uprobe", self.marker(host, programs, (path, offsets, *semaphore), pids))
            }
        };
        self.note(point, back_end, attached)
    }

    /// Notes that it is attached, or tells why it is not.
    fn note(
        &mut self,
        point: &Point,
        back_end: &'static str,
        attached: Result<(), ProgramError>,
    ) -> Result<(), Unavailable> {
        attached.map_err(|problem| {
            let said = error::refusal(&problem);
            if said.contains(KINDS) {
                let why = format!("{} cannot be traced here: this kernel was built without {back_end}s", point.name);
                return Unavailable::new(Reason::Absent, why);
            }
            let is_denied = error::is_denied(&problem);
            let gap = error::of_attempts(&point.name, &[format!("{back_end}: {said}")], is_denied);
            // Such as those that run when a probe is hit.
            let remedy = "choose a function that calls it, or that it calls: some may not be probed at all";
            let is_of_function = !is_denied && matches!(point.target, Target::Kernel(_));
            if is_of_function { gap.with_remedy(remedy) } else { gap }
        })?;
        let back_end = back_end.to_owned();
        self.attached.push(Attachment { event: point.name.clone(), back_end, refused: Vec::new() });
        Ok(())
    }

    /// The loader knows nothing of the counters by which programs know whether they are traced.
    fn marker(
        &mut self,
        host: &Host,
        programs: &str,
        (path, offsets, semaphore): (&str, &[u64], Option<u64>),
        pids: &[u32],
    ) -> Result<(), ProgramError> {
        let Program::UProbe(program) = by_name(&mut self.ebpf, &format!("{programs}_uprobe"))? else {
            return Err(ProgramError::UnexpectedProgramType);
        };
        program.load()?;
        let program = program.fd()?.as_fd();
        let pids: Vec<Option<u32>> =
            if pids.is_empty() { vec![None] } else { pids.iter().copied().map(Some).collect() };
        for offset in offsets {
            for pid in &pids {
                let spot = Spot::User { path, offset: *offset, semaphore };
                let watched = dynamic::open(host, spot, *pid).map_err(ProgramError::IOError)?;
                watched.run(program).map_err(ProgramError::IOError)?;
                self.watched.push(watched);
            }
        }
        Ok(())
    }
}

impl Moments {
    /// Those of the two programs that are needed. The return comes first: a call that is entered before its return is watched
    /// would wait for it for ever.
    fn of(self, programs: &str, kind: &str) -> Vec<String> {
        let (entry, exit) = (format!("{programs}_{kind}probe"), format!("{programs}_{kind}retprobe"));
        match self {
            Self::Entry => vec![entry],
            Self::Return => vec![exit],
            Self::Both => vec![exit, entry],
        }
    }
}

fn tracepoint(ebpf: &mut Ebpf, programs: &str, group: &str, event: &str) -> Result<(), ProgramError> {
    let Program::TracePoint(program) = by_name(ebpf, &format!("{programs}_tracepoint"))? else {
        return Err(ProgramError::UnexpectedProgramType);
    };
    program.load()?;
    program.attach(group, event).map(drop)
}

fn trampoline(ebpf: &mut Ebpf, kernel: &Kernel, function: &str, moments: Moments) -> Result<(), ProgramError> {
    let (entry, exit) = ("point_fentry", "point_fexit");
    // In the order of the other ways.
    let names: &[&str] = match moments {
        Moments::Entry => &[entry],
        Moments::Return => &[exit],
        Moments::Both => &[exit, entry],
    };
    for name in names {
        match by_name(ebpf, name)? {
            Program::FEntry(program) => {
                program.load(function, &kernel.function(function).types())?;
                program.attach()?;
            }
            Program::FExit(program) => {
                program.load(function, &kernel.function(function).types())?;
                program.attach()?;
            }
            _ => return Err(ProgramError::UnexpectedProgramType),
        }
    }
    Ok(())
}

fn kernel(ebpf: &mut Ebpf, programs: &str, function: &str, moments: Moments) -> Result<(), ProgramError> {
    for name in moments.of(programs, "k") {
        let Program::KProbe(program) = by_name(ebpf, &name)? else { return Err(ProgramError::UnexpectedProgramType) };
        program.load()?;
        program.attach(function, 0)?;
    }
    Ok(())
}

fn user(
    ebpf: &mut Ebpf,
    programs: &str,
    (path, offsets): (&str, &[u64]),
    moments: Moments,
    pids: &[u32],
) -> Result<(), ProgramError> {
    let one = |pid: &u32| NonZeroU32::new(*pid).map(UProbeScope::OneProcess);
    let mut scopes: Vec<UProbeScope> = pids.iter().filter_map(one).collect();
    if scopes.is_empty() {
        scopes.push(UProbeScope::AllProcesses);
    }
    for name in moments.of(programs, "u") {
        let Program::UProbe(program) = by_name(ebpf, &name)? else { return Err(ProgramError::UnexpectedProgramType) };
        match program.load() {
            // It looks at a function of another file, too.
            Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
            Err(problem) => return Err(problem),
        }
        for offset in offsets {
            for scope in &scopes {
                program.attach(UProbeAttachLocation::AbsoluteOffset(*offset), path, *scope)?;
            }
        }
    }
    Ok(())
}
