//! The loads: what a scenario may have done to the host, and the process that does it. Such a process is rdiag itself, started through a
//! link with a neutral name, which profiles show, with one hidden argument and its order on standard input. It ends by itself at its time,
//! when its parent ends (parent-death signal), or at a limit of the kernel's, whichever is first. A small file system and swap
//! space lie in the run's folder and are noted in the journal; a network of a load's own ends with its process.

mod bounds;
mod bursts;
mod bytes;
mod commits;
mod compute;
pub(super) mod copy;
mod counters;
mod crew;
mod datagrams;
mod decide;
pub(super) mod elf;
mod fill;
mod flood;
mod grow;
mod hoard;
mod hold_up;
mod in_kernel;
mod kinds;
mod lookups;
mod memory;
mod messages;
mod process;
mod pulse;
mod reads;
mod requests;
mod reread;
mod restart;
mod rewrite;
mod server;
mod table;
mod talk;
pub(super) mod task;
pub(super) mod work;

use std::process::ExitCode;

pub use bounds::unsafe_work;
pub use counters::cost_of_neighbours;
pub use fill::room;
pub use kinds::{
    CopyKind, CrewKind, End, Fault, FetchFrom, Flaw, KernelContext, Layout, MemoryFrom, Others, Room, Sought, TableOf,
};
pub use process::{ARGUMENT, Order, count_file, hand};
pub use restart::program_file;
pub use table::swap_file;
pub use task::Task;
pub use work::Work;

use process::now;
use rdiag_own::{self as own, Limits};

/// The process itself: reads its order and does what it says. What it cannot do, the symptom meter tells.
#[must_use]
pub fn main() -> ExitCode {
    let order = own::order().ok().and_then(|bytes| serde_json::from_slice::<Order>(&bytes).ok());
    let Some(order) = order.filter(|order| own::die_with(order.parent).is_ok()) else { return ExitCode::from(2) };
    own::set_name(&order.name());
    let left = (order.until - now()).clamp(1.0, 3600.0);
    own::apply(Limits {
        cpu_seconds: (left * own::usable_cpus().len() as f64) as u64 + 5,
        memory_bytes: order.memory_bytes,
        file_bytes: order.file_bytes,
    });
    let done = match &order.task {
        Task::Bursts { processes, busy, every } => bursts::serve_in_bursts(&order, *processes, *busy, *every),
        Task::Burst { busy } => {
            bursts::compute_one_request(now() + *busy);
            Ok(())
        }
        Task::Pulse { busy, every } => pulse::poll_on_every_cpu(&order, *busy, *every),
        Task::Poll { module, context, busy, every } => in_kernel::poll(&order, module, *context, *busy, *every),
        Task::Fetch { module, from, threads, wait, .. } => in_kernel::fetch(&order, module, *from, *threads, *wait),
        Task::Crew { how, workers, every } => crew::work_in_rounds(&order, *how, *workers, *every),
        Task::Reads { file_mib, block_bytes, threads } => {
            reads::read_at_random(&order, *file_mib, *block_bytes, *threads)
        }
        Task::Rewrite { file_mib, every } => rewrite::rewrite(&order, *file_mib, *every),
        Task::HoldUp { parents } => hold_up::hold_up(&order, *parents),
        Task::HeldUp => own::hold_up_by_child(left),
        Task::Copy { how, file_mib, block_bytes, every } => {
            copy::copy_again_and_again(&order, *how, *file_mib, *block_bytes, *every)
        }
        Task::Restart { flaw, segments, every } => restart::try_again_and_again(&order, *flaw, *segments, *every),
        Task::Compute { threads, busy, rest, on_one_cpu } => {
            compute::serve_requests(&order, *threads, *busy, *rest, *on_one_cpu)
        }
        Task::TakeTurns { threads, hold, computed } => compute::take_turns(&order, *threads, *hold, *computed),
        Task::OpenFiles { limit, every } => hoard::open_without_closing(&order, *limit, *every),
        Task::LeaveChildren { every } => hoard::leave_children(&order, *every),
        Task::Accept { backlog, hold } => server::accept_slowly(&order, *backlog, *hold),
        Task::Connect { clients } => server::ask_again_and_again(&order, *clients),
        Task::Grow { end, mib, every } => grow::start_workers(&order, *end, *mib, *every),
        Task::Worker { end, mib, every } => grow::cache_results(&order, *end, *mib, *every),
        Task::TakeMemory { from, mib, written_percent, every } => {
            memory::serve_from_memory(&order, *from, *mib, *written_percent, *every)
        }
        Task::TakePieces { pieces } => requests::serve_from_pieces(&order, *pieces),
        Task::LookUp { sought, every } => lookups::look_for_files(&order, *sought, *every),
        Task::Send { usual_bytes, others, every } => messages::send_messages(&order, *usual_bytes, *others, *every),
        Task::Commit { bytes, every } => commits::commit_again_and_again(&order, *bytes, *every),
        Task::TakeDatagrams { buffer_kib, hold } => datagrams::take_slowly(&order, *buffer_kib, *hold),
        Task::SendDatagrams { per_second } => datagrams::send_datagrams(&order, *per_second),
        Task::Fill { room, every, .. } => fill::write_until_full(&order, *room, *every),
        Task::Answer { fault, in_thousand } => talk::answer_clients(&order, *fault, *in_thousand),
        Task::Ask { clients, every } => talk::ask_over_connections(&order, *clients, *every),
        Task::AddUp { layout, additions, every } => counters::add_in_two_threads(&order, *layout, *additions, *every),
        Task::LookThrough { table, mib, every } => table::look_through(&order, *table, *mib, *every),
        Task::Flood { duty } => flood::send_in_own_network(&order, *duty),
        Task::ReadBytes => bytes::read_byte_by_byte(&order),
        Task::Reread { file_mib, every } => reread::read_over_and_over(&order, *file_mib, *every),
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
