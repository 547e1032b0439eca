//! `tcpaccept`: connections that tasks of this host accept, and how long those waited for it.

use super::{Connections, Tells, Told, who};
use crate::host::Host;
use crate::mechanism::ebpf::Object;
use crate::model::probe::{Cell, Column};
use crate::model::{Unavailable, Unit};
use crate::probes::{FilterKind, GivesStacks, Probe, ProbeDef, Taken, sockets};

pub(in crate::probes) static TCPACCEPT: ProbeDef = ProbeDef {
    id: "tcpaccept",
    question: "Which TCP connections are accepted, by whom, and how long did they wait in the listener's queue?",
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
    start: |context| Ok(Box::new(TcpAccept(Connections::start(context, Tells::Accept)?))),
};

struct TcpAccept(Connections);

impl Probe for TcpAccept {
    fn object(&self) -> Option<&Object> {
        Some(&self.0.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        self.0.poll(line)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        self.0.events.taken(&mut self.0.object, "connections", "TCP connections accepted", &columns())
    }
}

fn columns() -> Vec<Column> {
    who().into_iter().chain([Column::number("wait", "waited", Unit::Seconds)]).collect()
}

fn line(told: &Told) -> Vec<Cell> {
    told.who.iter().cloned().chain([told.time.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_cell_for_each_column() {
        assert_eq!(line(&Told::parse(&[])).len(), columns().len());
    }
}
