//! `tcpconnect`: connections that tasks of this host begin, and how long it takes until they are established or fail.

use super::{Tells, Told, connections};
use crate::def::{FilterKind, GivesStacks, ProbeDef};
use crate::sockets;
use crate::table::TableSpec;
use rdiag_model::Unit;

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
    start: |context| connections(context, Tells::Connect, spec),
};

fn spec() -> TableSpec<'static, Told> {
    let table = Told::table("attempts", "TCP connections begun");
    table.number("latency", "latency", Unit::Seconds, |told| told.time).text("result", "result", Told::result)
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;

    #[test]
    fn an_attempt_is_shown_with_its_result_and_how_long_it_took() {
        let attempt = |how| spec().cells(&Told::parse(&record(how, [4000, 80], 2_000_000_000))).split_off(4);
        assert_eq!(attempt(1), [2.0.into(), "established".into()]);
        assert_eq!(attempt(1 | 2 << 8 | 111 << 16), [2.0.into(), "ECONNREFUSED".into()]);
    }
}
