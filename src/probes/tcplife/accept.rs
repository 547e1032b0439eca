//! `tcpaccept`: connections that tasks of this host accept, and how long those waited for it.

use super::{Tells, Told, connections};
use crate::def::{FilterKind, GivesStacks, ProbeDef};
use crate::sockets;
use crate::table::TableSpec;
use rdiag_model::Unit;

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
    start: |context| connections(context, Tells::Accept, spec),
};

fn spec() -> TableSpec<'static, Told> {
    Told::table("connections", "TCP connections accepted").number("wait", "waited", Unit::Seconds, |told| told.time)
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;
    use rdiag_model::probe::Cell;

    #[test]
    fn an_accepted_connection_is_shown_with_its_wait_and_none_that_is_not_known() {
        let wait = |time| spec().cells(&Told::parse(&record(2, [80, 4000], time))).split_off(4);
        assert_eq!(wait(3_000_000_000), [3.0.into()]);
        assert_eq!(wait(u64::MAX), [Cell::Unknown(())]);
    }
}
