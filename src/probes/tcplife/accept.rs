//! `tcpaccept`: connections that tasks of this host accept, and how long those waited for it.

use super::{Tells, Told, connections, who};
use crate::def::{FilterKind, GivesStacks, ProbeDef};
use crate::sockets;
use rdiag_model::Unit;
use rdiag_model::probe::{Cell, Column};

pub(crate) static TCPACCEPT: ProbeDef = ProbeDef {
    id: "tcpaccept",
    question: "Which TCP connections are accepted, by which task, and how long did they wait in the listener's queue?",
    attach: "inet_sock_set_state, and sys_exit for accept() and accept4().",
    output: "A line for each connection that accept() gives to a task: seconds since the start, task, both ends, and the time \
             since the connection was established.",
    caveats: "The wait is unknown where the connection was established before the start, or was over when it was accepted. \
              What io_uring and 32-bit programs accept is not seen. Connections that still wait have no line: \
              network.saturation.listen_overflow of use-method looks at full queues.",
    overhead: "As tcplife: 0.3 µs per change of a connection's state, and 0.09 µs per system call of any task.",
    params: &[sockets::PORT],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: |context| connections(context, Tells::Accept, ["connections", "TCP connections accepted"], columns(), line),
};

fn columns() -> Vec<Column> {
    who().into_iter().chain([Column::number("wait", "waited", Unit::Seconds)]).collect()
}

fn line(record: &[u8]) -> Vec<Cell> {
    let told = Told::parse(record);
    told.who.into_iter().chain([told.time]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_cell_for_each_column() {
        assert_eq!(line(&[]).len(), columns().len());
    }
}
