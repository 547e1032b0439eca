//! From what a scenario says to what a process does: numbers in place of ranges.

use super::task::Task;
use super::work::{Between, Work};
use crate::chance::Chance;

impl Work {
    /// Whether it takes at most a few percent of a CPU, and nothing of a disk.
    #[must_use]
    pub fn is_gentle(&self) -> bool {
        match self {
            Self::HoldUp { .. }
            | Self::Restart { .. }
            | Self::OpenFiles { .. }
            | Self::LeaveChildren { .. }
            | Self::Accept { .. }
            | Self::Connect { .. }
            | Self::LookUp { .. }
            | Self::Fill { .. }
            | Self::Send { .. }
            | Self::TakeDatagrams { .. }
            | Self::SendDatagrams { .. } => true,
            Self::Compute { threads, for_each_cpu: false, busy_ms, rest_ms, on_one_cpu: false } => {
                threads[1] == 1 && rest_ms[0] >= 4 * busy_ms[1]
            }
            Self::TakeTurns { computed_percent, .. } => *computed_percent <= 20,
            _ => false,
        }
    }

    /// With numbers for a host with so many CPUs.
    #[must_use]
    pub fn decide(&self, chance: &mut Chance, cpus: usize) -> Task {
        let mut pick = |[low, high]: Between| low + chance.below((high.saturating_sub(low) as usize) + 1) as u32;
        let ms = |count: u32| f64::from(count) * 1e-3;
        match self {
            Self::Bursts { processes_per_cpu, busy_ms, every_ms } => Task::Bursts {
                // More than eight CPUs' worth would need more processes than a classroom's limits allow.
                processes: pick(*processes_per_cpu) * cpus.clamp(1, 8) as u32,
                busy: ms(pick(*busy_ms)),
                every: ms(pick(*every_ms)),
            },
            Self::Pulse { busy_ms, every_ms } => Task::Pulse { busy: ms(pick(*busy_ms)), every: ms(pick(*every_ms)) },
            Self::Poll { context, busy_ms, every_ms } => Task::Poll {
                module: String::new(),
                context: *context,
                busy: ms(pick(*busy_ms)),
                every: ms(pick(*every_ms)),
            },
            Self::Fetch { from, threads, wait_ms, at_once } => Task::Fetch {
                module: String::new(),
                from: *from,
                threads: pick(*threads),
                wait: ms(pick(*wait_ms)),
                at_once: pick(*at_once),
            },
            Self::Crew { how, workers, every_ms } => Task::Crew { how: *how, workers: *workers, every: ms(*every_ms) },
            Self::Reads { file_mib, block_bytes, threads } => {
                Task::Reads { file_mib: *file_mib, block_bytes: *block_bytes, threads: pick(*threads) }
            }
            Self::Rewrite { file_mib, every_ms } => {
                Task::Rewrite { file_mib: pick(*file_mib), every: ms(pick(*every_ms)) }
            }
            Self::HoldUp { parents } => Task::HoldUp { parents: pick(*parents) },
            Self::Copy { how, file_mib, block_bytes, every_ms } => {
                Task::Copy { how: *how, file_mib: *file_mib, block_bytes: *block_bytes, every: ms(*every_ms) }
            }
            Self::Restart { flaw, every_ms } => {
                Task::Restart { flaw: *flaw, segments: pick([2, 5]), every: ms(*every_ms) }
            }
            Self::Compute { threads, for_each_cpu, busy_ms, rest_ms, on_one_cpu } => Task::Compute {
                threads: pick(*threads) * if *for_each_cpu { cpus.clamp(1, 8) as u32 } else { 1 },
                busy: ms(pick(*busy_ms)),
                rest: ms(pick(*rest_ms)),
                on_one_cpu: *on_one_cpu,
            },
            Self::TakeTurns { threads, hold_ms, computed_percent } => Task::TakeTurns {
                threads: pick(*threads),
                hold: ms(pick(*hold_ms)),
                computed: f64::from(*computed_percent) * 1e-2,
            },
            Self::OpenFiles { limit, every_ms } => Task::OpenFiles { limit: *limit, every: ms(*every_ms) },
            Self::LeaveChildren { every_ms } => Task::LeaveChildren { every: ms(*every_ms) },
            Self::Accept { backlog, hold_ms } => Task::Accept { backlog: *backlog, hold: ms(pick(*hold_ms)) },
            Self::Connect { clients } => Task::Connect { clients: pick(*clients) },
            Self::Grow { end, mib, every_ms } => Task::Grow { end: *end, mib: *mib, every: ms(*every_ms) },
            Self::ReadBytes => Task::ReadBytes,
            Self::TakeMemory { from, mib, written_percent, every_ms } => Task::TakeMemory {
                from: *from,
                mib: *mib,
                written_percent: *written_percent,
                every: ms(pick(*every_ms)),
            },
            Self::TakePieces { pieces } => Task::TakePieces { pieces: pick(*pieces) },
            Self::LookUp { sought, every_ms } => Task::LookUp { sought: *sought, every: ms(pick(*every_ms)) },
            Self::Send { usual_bytes, others, every_ms } => {
                Task::Send { usual_bytes: pick(*usual_bytes), others: *others, every: ms(pick(*every_ms)) }
            }
            Self::Commit { bytes, every_ms } => Task::Commit { bytes: *bytes, every: ms(pick(*every_ms)) },
            Self::TakeDatagrams { buffer_kib, hold_ms } => {
                Task::TakeDatagrams { buffer_kib: *buffer_kib, hold: ms(pick(*hold_ms)) }
            }
            Self::SendDatagrams { per_second } => Task::SendDatagrams { per_second: pick(*per_second) },
            Self::Fill { room, mib, files, every_ms } => {
                Task::Fill { room: *room, mib: *mib, files: *files, every: ms(*every_ms) }
            }
            Self::Answer { fault, in_thousand } => Task::Answer { fault: *fault, in_thousand: pick(*in_thousand) },
            Self::Ask { clients, every_ms } => Task::Ask { clients: pick(*clients), every: ms(*every_ms) },
            Self::AddUp { layout, thousands, every_ms } => {
                Task::AddUp { layout: *layout, additions: 1000 * u64::from(pick(*thousands)), every: ms(*every_ms) }
            }
            Self::LookThrough { table, mib, every_ms } => {
                Task::LookThrough { table: *table, mib: *mib, every: ms(*every_ms) }
            }
            Self::Flood { duty_percent } => Task::Flood { duty: f64::from(pick(*duty_percent)) * 1e-2 },
            Self::Reread { file_mib, every_ms } => Task::Reread { file_mib: *file_mib, every: ms(*every_ms) },
        }
    }
}
