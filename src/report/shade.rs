//! What the pictures of a task's time distinguish: a letter, a word and a class of the style sheet for each kind of state.

use rdiag_model::Component;
use rdiag_model::component::ThreadState;
use rdiag_model::ledger::Slice;

/// The part of a slice that weighs most.
pub(super) fn dominant(slice: &Slice) -> Option<Component> {
    slice.parts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|part| part.0)
}

/// What the timeline distinguishes: a letter and a class for each kind of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shade {
    Cpu,
    Runnable,
    Disk,
    Memory,
    Lock,
    Other,
    Idle,
}

impl Shade {
    pub(super) const ALL: [Self; 7] =
        [Self::Cpu, Self::Runnable, Self::Disk, Self::Memory, Self::Lock, Self::Other, Self::Idle];

    pub(super) fn of(component: Component) -> Self {
        let id = component.id();
        match component.def().state {
            ThreadState::Executing => Self::Cpu,
            ThreadState::Runnable => Self::Runnable,
            ThreadState::Paging => Self::Memory,
            ThreadState::Lock => Self::Lock,
            ThreadState::Idle => Self::Idle,
            ThreadState::Sleeping if id.starts_with("io.") || id.starts_with("fault") => Self::Disk,
            ThreadState::Sleeping => Self::Other,
        }
    }

    /// One character of the terminal's bar.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Cpu => '#',
            Self::Runnable => 'r',
            Self::Disk => 'D',
            Self::Memory => 'M',
            Self::Lock => 'L',
            Self::Other => 'w',
            Self::Idle => '.',
        }
    }

    /// In the legend.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Cpu => "on a CPU",
            Self::Runnable => "waiting for a CPU",
            Self::Disk => "disk or file",
            Self::Memory => "memory",
            Self::Lock => "lock",
            Self::Other => "network, other programs, other",
            Self::Idle => "often idle",
        }
    }

    /// Class in the style sheet.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Cpu => "t-cpu",
            Self::Runnable => "t-run",
            Self::Disk => "t-disk",
            Self::Memory => "t-mem",
            Self::Lock => "t-lock",
            Self::Other => "t-other",
            Self::Idle => "t-idle",
        }
    }
}
