//! `tcpconnect`: connections that tasks of this host begin, and how long it takes until they are established or fail.

use super::{Connections, Tells, Told, who};
use crate::host::Host;
use crate::mechanism::ebpf::Object;
use crate::model::probe::{Cell, Column};
use crate::model::{Unavailable, Unit};
use crate::probes::{FilterKind, GivesStacks, Probe, ProbeDef, Taken, sockets};

pub(in crate::probes) static TCPCONNECT: ProbeDef = ProbeDef {
    id: "tcpconnect",
    question: "Who connects to whom by TCP, how long does it take until the connection is established, and which attempts fail?",
    attach: "inet_sock_set_state.",
    output: "A line for each attempt when it is decided: seconds since the start, task, both ends, the time from connect() \
             until then, and the result: established, or the error.",
    caveats: "Without an error of the socket the attempt was given up by its task (close, exit), or failed on this host; with \
              no local port it could not leave at all. What fails earlier still, for want of a route, has no line. Attempts \
              that were under way at the start or at the end have none either. The time is that of the kernels and of the \
              network: how long the peer leaves the connection in its queue is not in it.",
    overhead: "Measured at 0.3 µs per change of a connection's state (some five for each side); nothing per system call.",
    params: &[sockets::PORT],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: |context| Ok(Box::new(TcpConnect(Connections::start(context, Tells::Connect)?))),
};

struct TcpConnect(Connections);

impl Probe for TcpConnect {
    fn object(&self) -> Option<&Object> {
        Some(&self.0.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        self.0.poll(line)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        self.0.events.taken(&mut self.0.object, "attempts", "TCP connections begun", &columns())
    }
}

fn columns() -> Vec<Column> {
    let own = [Column::number("latency", "latency", Unit::Seconds), Column::text("result", "result")];
    who().into_iter().chain(own).collect()
}

fn line(told: &Told) -> Vec<Cell> {
    told.who.iter().cloned().chain([told.time.clone(), told.result().into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_cell_for_each_column() {
        assert_eq!(line(&Told::parse(&[])).len(), columns().len());
    }
}
