//! `tcplife`: connections of TCP that have ended. Its program serves `tcpconnect` and `tcpaccept` too.

mod accept;
mod connect;

pub(super) use accept::TCPACCEPT;
pub(super) use connect::TCPCONNECT;

use super::stream::{Events, Lines, Task};
use super::{calls, sockets};
use crate::def::{Context, FilterKind, GivesStacks, Probe, ProbeDef};
use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, include_bytes_aligned, words};
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "tcplife",
    question: "Which TCP connections ended: of which task, between which ends, how long did they last, and how much did they carry?",
    attach: "inet_sock_set_state, and sys_exit for accept() and accept4().",
    output: "A line for each connection when it ends on this host: seconds since the start, task, by what call the task is \
             known, both ends, bytes sent and received, duration since it was established, and how it ended.",
    caveats: "The task is the one that called connect() or accept(); of a connection from before the start, the one that \
              closed it. One that no task accepted or closed, or that io_uring or a 32-bit program accepted, has no known \
              task, and a filter by task leaves it out. Bytes are those of the socket's whole life, payload only, repeated \
              segments counted once; sent does not mean that they arrived. Duration is unknown where the beginning was \
              before the start. The closing handshake's last wait (TIME_WAIT) is not in it. Attempts that failed are in \
              tcpconnect. Subflows of MPTCP are connections of their own, without a task where they were accepted.",
    overhead: "Measured at 0.3 µs per change of a connection's state (some five for each side), and 0.09 µs per system call of any task.",
    params: &[sockets::PORT],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: |context| connections(context, Tells::Life, spec),
};

/// What the program reports; the numbers are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    Life = 0,
    Connect = 1,
    Accept = 2,
}

/// Starts the program, whose records are shown in this table.
fn connections(
    context: &Context<'_>,
    tells: Tells,
    spec: fn() -> TableSpec<'static, Told>,
) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/tcplife/tcplife.bpf.o"));
    let kernel = context.kernel()?;
    let mut globals = sockets::globals(context)?;
    globals.push(Global::u32("tells", tells as u32));
    globals.push(calls::numbers("accept_calls", &["accept", "accept4"]));
    let mut object = kernel.load(bytes, globals, &[])?;
    if tells != Tells::Connect {
        object.attach(kernel, Hook::Tracepoint("sys_exit"))?;
    }
    object.attach(kernel, Hook::Tracepoint("inet_sock_set_state"))?;
    Ok(Box::new(Lines { object, events: Events::new(context.host.now()), spec, read: Told::parse }))
}

/// A `struct told` of the program.
struct Told {
    /// Known where it was seen at some call.
    owner: Option<Task>,
    local: Option<String>,
    remote: Option<String>,
    /// At which call the owner was seen.
    by: Option<&'static str>,
    /// The state that was left; 0 for a connection that was established or accepted.
    state: u64,
    /// The error of the socket; 0 for none.
    error: u64,
    has_port: bool,
    /// Seconds.
    time: Option<f64>,
    sent: f64,
    received: f64,
}

/// Stands in records for a time that is not known.
const UNKNOWN: u64 = u64::MAX;
const SYN_SENT: u64 = 2;
const ESTABLISHED: u64 = 1;
const CLOSE_WAIT: u64 = 8;

impl Told {
    fn parse(record: &[u8]) -> Self {
        let word = |at: usize| words::word(record, at * 8);
        let [local, remote] = sockets::ends(record, 32);
        let (how, time) = (word(9), word(10));
        let by = ["", "connect", "accept", "close"].get((how & 0xff) as usize).copied().filter(|by| !by.is_empty());
        Self {
            owner: by.map(|_| Task::read(record, 1, 2)),
            local,
            remote,
            by,
            state: how >> 8 & 0xff,
            error: how >> 16,
            has_port: word(4) >> 16 & 0xffff != 0,
            time: (time != UNKNOWN).then_some(time as f64 * 1e-9),
            sent: word(11) as f64,
            received: word(12) as f64,
        }
    }

    /// A table with the columns that all three begin with.
    fn table(id: &'static str, title: &'static str) -> TableSpec<'static, Self> {
        TableSpec::<Self>::new(id, title)
            .text("name", "task", |told| told.owner.as_ref().map(Task::name))
            .text("pid", "pid", |told| told.owner.as_ref().map(|owner| owner.pid.to_string()))
            .text("local", "local", |told| told.local.clone())
            .text("remote", "remote", |told| told.remote.clone())
    }

    /// How it ended, or what became of the attempt.
    fn result(&self) -> String {
        match (self.state, self.error) {
            (0, _) => "established".to_owned(),
            (_, error @ 1..) => calls::error(error),
            (SYN_SENT, _) if !self.has_port => "no local port".to_owned(),
            (SYN_SENT, _) => "given up".to_owned(),
            // Without the exchange that ends a connection in order.
            (ESTABLISHED | CLOSE_WAIT, _) => "aborted here".to_owned(),
            _ => "closed".to_owned(),
        }
    }
}

fn spec() -> TableSpec<'static, Told> {
    Told::table("connections", "TCP connections that ended")
        .text("by", "known by", |told| told.by.map(str::to_owned))
        .number("sent", "sent", Unit::Bytes, |told| told.sent)
        .number("received", "received", Unit::Bytes, |told| told.received)
        .number("duration", "duration", Unit::Seconds, |told| told.time)
        .text("result", "end", Told::result)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    /// From and to 127.0.0.1, with these ports.
    pub(super) fn record(how: u64, ports: [u64; 2], time: u64) -> Vec<u8> {
        let loopback = u64::from_ne_bytes([127, 0, 0, 1, 0, 0, 0, 0]);
        let comm = u64::from_ne_bytes(*b"nginx\0\0\0");
        let family_and_ports = 2 << 32 | ports[0] << 16 | ports[1];
        let words = [9, 7 << 32 | 8, comm, 0, family_and_ports, loopback, 0, loopback, 0, how, time, 10, 20];
        words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
    }

    fn line(record: &[u8]) -> Vec<Cell> {
        spec().cells(&Told::parse(record))
    }

    #[test]
    fn a_connection_is_shown_with_its_owner_ends_bytes_and_duration() {
        let cells = line(&record(2 | 9 << 8, [80, 4000], 2_000_000_000));
        assert_eq!(cells[..5], ["nginx", "7", "127.0.0.1:80", "127.0.0.1:4000", "accept"].map(Cell::from));
        assert_eq!(cells[5..], [10.0.into(), 20.0.into(), 2.0.into(), "closed".into()]);
    }

    #[test]
    fn what_is_not_known_is_no_zero_and_no_name() {
        let cells = line(&record(1 << 8, [80, 4000], UNKNOWN));
        let unknown = Cell::Unknown(());
        assert_eq!((&cells[0], &cells[1], &cells[4], &cells[7]), (&unknown, &unknown, &unknown, &unknown));
        assert_eq!(line(&[1, 2])[..4], [(); 4].map(Cell::Unknown));
    }

    #[test]
    fn ends_and_failures_are_told_apart() {
        let result =
            |state: u64, error: u64, port| Told::parse(&record(1 | state << 8 | error << 16, [port, 80], 1)).result();
        assert_eq!(result(0, 0, 4000), "established");
        assert_eq!(result(2, 111, 4000), "ECONNREFUSED");
        assert_eq!(result(2, 110, 4000), "ETIMEDOUT");
        assert_eq!(result(2, 0, 0), "no local port");
        assert_eq!(result(2, 0, 4000), "given up");
        assert_eq!(result(1, 104, 4000), "ECONNRESET");
        assert_eq!(result(8, 0, 4000), "aborted here");
        assert_eq!(result(5, 0, 4000), "closed");
    }
}
