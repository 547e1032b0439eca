//! `tcpconnect`: connections that tasks of this host begin, and how long it takes until they are established or fail.

use super::{Tells, Told, connections, who};
use crate::def::{FilterKind, GivesStacks, ProbeDef};
use crate::sockets;
use rdiag_model::Unit;
use rdiag_model::probe::{Cell, Column};

pub(crate) static TCPCONNECT: ProbeDef = ProbeDef {
    id: "tcpconnect",
    question: "Which task connects to which TCP peer, how long until the connection is established, and which attempts fail?",
    attach: "inet_sock_set_state.",
    output: "A line for each attempt when it is decided: seconds since the start, task, both ends, the time from connect() \
             until then, and the result: established, or the error.",
    caveats: "Without an error of the socket the attempt was given up by its task (close, exit), or failed on this host; with \
              no local port it could not leave at all. What fails earlier still, for lack of a route, has no line. Attempts \
              that were under way at the start or at the end have none either. The time is that of the kernels and of the \
              network: how long the peer leaves the connection in its queue is not in it.",
    overhead: "Measured at 0.3 µs per change of a connection's state (some five for each side); nothing per system call.",
    params: &[sockets::PORT],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: |context| connections(context, Tells::Connect, ["attempts", "TCP connections begun"], columns(), line),
};

fn columns() -> Vec<Column> {
    let own = [Column::number("latency", "latency", Unit::Seconds), Column::text("result", "result")];
    who().into_iter().chain(own).collect()
}

fn line(record: &[u8]) -> Vec<Cell> {
    let told = Told::parse(record);
    let result = told.result();
    told.who.into_iter().chain([told.time, result.into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_cell_for_each_column() {
        assert_eq!(line(&[]).len(), columns().len());
    }
}
