//! A loaded object: its programs are attached by the best way that the kernel allows, and its maps are read.

use aya::Ebpf;
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, Program, ProgramError};

use super::{Kernel, error};
use crate::mechanism::perf::dynamic::Watched;
use crate::mechanism::perf::event::{Event, Every};
use rdiag_model::Unavailable;
use rdiag_model::probe::Attachment;

/// Where a program is to be attached. Each has one or more ways, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook<'h> {
    /// A tracepoint, through programs `EVENT_btf` and `EVENT_raw` (`BOTH_TRACEPOINTS` in rdiag.h).
    Tracepoint(&'h str),
    /// The same with programs of another name, for events whose arguments differ between kernels.
    TracepointBy {
        /// The event.
        event: &'h str,
        /// Names of the programs, without `_btf` and `_raw`.
        program: &'h str,
    },
    /// A kernel function's entry and return: `FUNCTION_fentry` / `FUNCTION_kprobe`, `FUNCTION_fexit` / `FUNCTION_kretprobe`.
    /// Only those that the object has are attached.
    Function(&'h str),
    /// The same through programs of another name, for functions whose arguments differ between kernels, by trampolines alone.
    FunctionBy {
        /// The function.
        function: &'h str,
        /// Names of the programs, without `_fentry` and `_fexit`.
        program: &'h str,
    },
    /// A timer on every CPU: a program that runs this many times per second of CPU time that passes there.
    Clock {
        /// Name of the program.
        program: &'h str,
        /// Samples per second and CPU.
        hz: u64,
    },
}

/// One way to attach.
type Way<'w> = &'w mut dyn FnMut(&mut Ebpf) -> Result<(), ProgramError>;

/// An object in the kernel. Dropping it detaches and removes everything.
pub struct Object {
    pub(super) ebpf: Ebpf,
    pub(super) attached: Vec<Attachment>,
    /// Events to which the loader cannot attach; they run a program for as long as they are open.
    pub(super) watched: Vec<Watched>,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object").field("attached", &self.attached).finish_non_exhaustive()
    }
}

impl Object {
    pub(super) fn new(ebpf: Ebpf) -> Self {
        Self { ebpf, attached: Vec::new(), watched: Vec::new() }
    }

    /// Notes what other ways have said before this one was taken.
    pub fn note_refused(&mut self, refused: &[String]) {
        self.attached.iter_mut().for_each(|attached| attached.refused.extend_from_slice(refused));
    }

    /// Where it is attached.
    #[must_use]
    pub fn attachments(&self) -> &[Attachment] {
        &self.attached
    }

    /// Attaches to an event by the best way that works. The error holds what every way said.
    pub fn attach(&mut self, kernel: &Kernel, hook: Hook<'_>) -> Result<(), Unavailable> {
        match hook {
            Hook::Tracepoint(event) => self.tracepoint(kernel, event, event),
            Hook::TracepointBy { event, program } => self.tracepoint(kernel, event, program),
            Hook::Function(function) => self.first_of(
                function,
                [
                    ("fentry", &mut |ebpf: &mut Ebpf| fentry(ebpf, kernel, function, function)),
                    ("kprobe", &mut |ebpf: &mut Ebpf| kprobe(ebpf, function)),
                ],
            ),
            Hook::FunctionBy { function, program } => {
                self.first_of(function, [("fentry", &mut |ebpf: &mut Ebpf| fentry(ebpf, kernel, function, program))])
            }
            Hook::Clock { program, hz } => {
                self.first_of("CPU clock", [("perf event", &mut |ebpf: &mut Ebpf| clock(ebpf, program, hz))])
            }
        }
    }

    /// Loads the program of a BTF tracepoint that [`Object::hold`] attaches, maybe again and again.
    pub fn prepare(&mut self, kernel: &Kernel, event: &str) -> Result<(), Unavailable> {
        self.first_of(
            event,
            [("BTF tracepoint", &mut |ebpf: &mut Ebpf| btf_tracepoint(ebpf, event)?.load(event, &kernel.points()))],
        )
    }

    /// Attaches a prepared program for as long as what is returned lives.
    pub fn hold(&mut self, event: &str) -> Result<Held, Unavailable> {
        let held = btf_tracepoint(&mut self.ebpf, event).and_then(|program| {
            let link = program.attach()?;
            program.take_link(link)
        });
        held.map(|link| Held { _link: link }).map_err(|problem| {
            let refused = format!("BTF tracepoint: {}", error::refusal(&problem));
            error::of_attempts(event, &[refused], error::is_denied(&problem))
        })
    }

    /// Has a program run at samples of an event, of whatever runs on these CPUs. It may be called again for others. A CPU that
    /// has gone meanwhile is left out.
    pub fn sample(&mut self, program: &str, event: &Event, every: Every, cpus: &[u32]) -> Result<(), Unavailable> {
        let result = self.sample_on(program, event, every, cpus);
        result.map_err(|problem| {
            let no_event = error::errno(&problem).and_then(|errno| event.refused(errno));
            no_event.unwrap_or_else(|| {
                let refused = format!("perf event: {}", error::refusal(&problem));
                error::of_attempts(&event.name, &[refused], error::is_denied(&problem))
            })
        })?;
        if self.attached.iter().all(|known| known.event != event.name) {
            let back_end = "perf event".to_owned();
            self.attached.push(Attachment { event: event.name.clone(), back_end, refused: Vec::new() });
        }
        Ok(())
    }

    fn sample_on(&mut self, program: &str, event: &Event, every: Every, cpus: &[u32]) -> Result<(), ProgramError> {
        let Program::PerfEvent(program) = by_name(&mut self.ebpf, program)? else {
            return Err(ProgramError::UnexpectedProgramType);
        };
        if program.fd().is_err() {
            program.load()?;
        }
        let policy = match every {
            Every::Hertz(hz) => SamplePolicy::Frequency(hz),
            Every::Events(events) => SamplePolicy::Period(events),
        };
        for cpu in cpus {
            let config = PerfEventConfig::Pmu { pmu_type: event.kind, config: event.config };
            let attached = program.attach(config, PerfEventScope::AllProcessesOneCpu { cpu: *cpu }, policy, false);
            if let Err(problem) = attached {
                // Every CPU has a clock, so this one has gone.
                let gone = error::errno(&problem) == Some(rustix::io::Errno::NODEV.raw_os_error());
                if !(gone && event.is_clock()) {
                    return Err(problem);
                }
            }
        }
        Ok(())
    }

    fn tracepoint(&mut self, kernel: &Kernel, event: &str, program: &str) -> Result<(), Unavailable> {
        self.first_of(
            event,
            [
                ("BTF tracepoint", &mut |ebpf: &mut Ebpf| {
                    let Program::BtfTracePoint(program) = by_name(ebpf, &format!("{program}_btf"))? else {
                        return Err(ProgramError::UnexpectedProgramType);
                    };
                    program.load(event, &kernel.points())?;
                    program.attach().map(drop)
                }),
                ("raw tracepoint", &mut |ebpf: &mut Ebpf| {
                    let Program::RawTracePoint(program) = by_name(ebpf, &format!("{program}_raw"))? else {
                        return Err(ProgramError::UnexpectedProgramType);
                    };
                    program.load()?;
                    program.attach(event).map(drop)
                }),
            ],
        )
    }

    /// Tries ways until one works.
    fn first_of<const N: usize>(&mut self, event: &str, ways: [(&str, Way<'_>); N]) -> Result<(), Unavailable> {
        let mut refused = Vec::new();
        let mut denied = true;
        for (name, way) in ways {
            match way(&mut self.ebpf) {
                Ok(()) => {
                    self.attached.push(Attachment { event: event.to_owned(), back_end: name.to_owned(), refused });
                    return Ok(());
                }
                Err(problem) => {
                    denied &= error::is_denied(&problem);
                    refused.push(format!("{name}: {}", error::refusal(&problem)));
                }
            }
        }
        Err(error::of_attempts(event, &refused, denied))
    }
}

/// An attachment that ends when this is dropped.
pub struct Held {
    _link: BtfTracePointLink,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

fn btf_tracepoint<'e>(ebpf: &'e mut Ebpf, event: &str) -> Result<&'e mut BtfTracePoint, ProgramError> {
    let Program::BtfTracePoint(program) = by_name(ebpf, &format!("{event}_btf"))? else {
        return Err(ProgramError::UnexpectedProgramType);
    };
    Ok(program)
}

pub(super) fn by_name<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Program, ProgramError> {
    // An object without this program does not offer this way.
    ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)
}

fn fentry(ebpf: &mut Ebpf, kernel: &Kernel, function: &str, programs: &str) -> Result<(), ProgramError> {
    let mut any = false;
    if let Some(Program::FEntry(program)) = ebpf.program_mut(&format!("{programs}_fentry")) {
        program.load(function, &kernel.function(function).types())?;
        program.attach()?;
        any = true;
    }
    if let Some(Program::FExit(program)) = ebpf.program_mut(&format!("{programs}_fexit")) {
        program.load(function, &kernel.function(function).types())?;
        program.attach()?;
        any = true;
    }
    if any { Ok(()) } else { Err(ProgramError::NotLoaded) }
}

fn kprobe(ebpf: &mut Ebpf, function: &str) -> Result<(), ProgramError> {
    let mut any = false;
    for suffix in ["kprobe", "kretprobe"] {
        if let Some(Program::KProbe(program)) = ebpf.program_mut(&format!("{function}_{suffix}")) {
            program.load()?;
            program.attach(function, 0)?;
            any = true;
        }
    }
    if any { Ok(()) } else { Err(ProgramError::NotLoaded) }
}

/// A software clock on every CPU that is online.
fn clock(ebpf: &mut Ebpf, program: &str, hz: u64) -> Result<(), ProgramError> {
    let Program::PerfEvent(program) = by_name(ebpf, program)? else { return Err(ProgramError::UnexpectedProgramType) };
    program.load()?;
    let cpus = aya::util::online_cpus().map_err(|(_, error)| ProgramError::IOError(error))?;
    for cpu in cpus {
        program.attach(
            PerfEventConfig::Software(SoftwareEvent::CpuClock),
            PerfEventScope::AllProcessesOneCpu { cpu },
            SamplePolicy::Frequency(hz),
            false,
        )?;
    }
    Ok(())
}
