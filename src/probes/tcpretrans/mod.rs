//! `tcpretrans`: retransmitted TCP segments.

mod peers;

use super::owners::Owners;
use super::sockets;
use super::stream::{self, Events};
use crate::def::{Context, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use peers::Peers;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::Output;
use rdiag_model::{Deed, Formula, MetricDef, Unavailable, Unit};

const MANUAL: &str = "ss -tinp (retrans); tcpretrans-bpfcc";

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "tcpretrans",
    question: "Which TCP connections retransmit: of which task, to which peer, in which state?",
    attach: "tcp_retransmit_skb and tcp_retransmit_synack.",
    output: "A line for each transmission that repeats: seconds since the start, who holds the socket, both ends, the state of \
             the connection and of its congestion control, segments, bytes; and sums by task and peer.",
    caveats: "In the state loss a timer has expired, which costs 200 ms and more; in recovery the peer's acknowledgements showed \
              the loss; in open or disorder it is mostly a probe of whether the last segment has arrived. Who holds a socket \
              is looked up in /proc afterwards, so a process that has ended by then is not known; a socket that is closed, or that \
              is not accepted yet, has no process, and the answer to a connection request (SYN-ACK) belongs to the \
              listener. What was retransmitted was not lost for certain: its acknowledgement may have been, or be late.",
    overhead: "Measured at 1.2 µs per transmission that repeats; nothing for others. The search for who holds a socket may take \
               2 % of one CPU, and half a second at once.",
    params: &[sockets::PORT, ParamDef::top("how many pairs of task and peer are listed in the sums")],
    filters: &[],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "tcpretrans.segments.count",
            unit: Unit::Count,
            help: "Retransmitted TCP segments, SYN and SYN-ACK included.",
            sources: &[Formula::probe(Pick::ColumnSum("peers", "segments"))],
            caveat: "Those of all network namespaces; the counters in /proc/net/snmp are of one.",
            manual: MANUAL,
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "tcpretrans.segments_by_peer.count",
            unit: Unit::Count,
            dimension: Some("task and peer"),
            help: "Retransmitted segments, by who holds the socket and to which address.",
            sources: &[Formula::probe(Pick::Column("peers", "segments"))],
            caveat: "Who holds a socket is looked up afterwards.",
            manual: MANUAL,
            deed: Some(Deed { verb: "had", of: "the retransmitted segments", ..Deed::USUAL }),
        },
    ],
    start,
};

struct TcpRetrans {
    object: Object,
    events: Events,
    owners: Owners,
    peers: Peers,
    top: usize,
}

/// As many records are taken over at once; the ring holds fewer.
const MOST: usize = 100_000;

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/tcpretrans/tcpretrans.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, sockets::globals(context)?, &[])?;
    object.attach(kernel, Hook::Tracepoint("tcp_retransmit_skb"))?;
    object.attach(kernel, Hook::Tracepoint("tcp_retransmit_synack"))?;
    let began = context.host.now();
    Ok(Box::new(TcpRetrans {
        object,
        events: Events::new(began),
        owners: Owners::new(began),
        peers: Peers::default(),
        top: context.params.count("top") as usize,
    }))
}

impl Probe for TcpRetrans {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        let mut records: Vec<Vec<u8>> = Vec::new();
        self.object.drain("events", MOST, |record| records.push(record.to_vec()))?;
        self.owners.learn(host, records.iter().map(|record| words::word(record, INODE_AT)));
        let Self { events, owners, peers, .. } = self;
        let spec = spec();
        for record in &records {
            let resent = Resent::parse(record, owners);
            peers.add(&resent);
            events.add(record, &resent, &spec);
        }
        Ok(())
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let table = self.events.table(&spec());
        let lost = stream::lost(&mut self.object, &table)?;
        let peers = self.peers.take(self.top);
        Ok(Taken { outputs: vec![Output::Events(table), Output::Table(peers)], lost, ..Taken::default() })
    }
}

const INODE_AT: usize = 8;

/// A `struct resent` of the program.
struct Resent {
    /// Name and process id of the task that holds the socket.
    name: Option<String>,
    pid: Option<String>,
    local: Option<String>,
    remote: Option<String>,
    state: u64,
    congestion: u64,
    segments: u64,
    bytes: u64,
}

/// State of the congestion control after a timer has expired.
const LOSS: u64 = 4;
/// Stands for a connection request that is no socket yet.
const SYN_ACK: u64 = 12;

impl Resent {
    fn parse(record: &[u8], owners: &Owners) -> Self {
        let word = |at: usize| words::word(record, at * 8);
        let [name, pid] = owners.of(words::word(record, INODE_AT));
        let [local, remote] = sockets::ends(record, 16);
        Self { name, pid, local, remote, state: word(7), congestion: word(8), segments: word(9), bytes: word(10) }
    }

    /// A SYN-ACK is repeated by nothing but a timer.
    fn after_timer(&self) -> bool {
        self.congestion == LOSS || self.state == SYN_ACK
    }

    fn congestion(&self) -> String {
        let told = match self.congestion {
            _ if self.after_timer() => "loss",
            0 => "open",
            1 => "disorder",
            2 => "CWR",
            _ => "recovery",
        };
        told.to_owned()
    }
}

fn spec() -> TableSpec<'static, Resent> {
    TableSpec::<Resent>::new("retransmissions", "Retransmitted TCP segments")
        .text("name", "task", |resent| resent.name.clone())
        .text("pid", "pid", |resent| resent.pid.clone())
        .text("local", "local", |resent| resent.local.clone())
        .text("remote", "remote", |resent| resent.remote.clone())
        .text("state", "state", |resent| sockets::state(resent.state).to_owned())
        .text("congestion", "congestion", Resent::congestion)
        .number("segments", "segments", Unit::Count, |resent| resent.segments as f64)
        .number("bytes", "bytes", Unit::Bytes, |resent| resent.bytes as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    /// From 127.0.0.1:40000 to 192.0.2.LAST:443.
    pub(super) fn record(inode: u64, last: u8, state: u64, congestion: u64) -> Vec<u8> {
        let local = u64::from_ne_bytes([127, 0, 0, 1, 0, 0, 0, 0]);
        let remote = u64::from_ne_bytes([192, 0, 2, last, 0, 0, 0, 0]);
        let ends = [2 << 32 | 40_000 << 16 | 443, local, 0, remote, 0];
        let words = [&[9, inode][..], &ends, &[state, congestion, 2, 2896]].concat();
        words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
    }

    fn line(record: &[u8]) -> Vec<Cell> {
        spec().cells(&Resent::parse(record, &Owners::default()))
    }

    #[test]
    fn a_segment_is_shown_with_ends_state_and_what_made_the_kernel_repeat_it() {
        let line = |state, congestion| line(&record(0, 7, state, congestion));
        let cells = line(1, 3);
        assert_eq!(cells[0], "(no process)".into());
        assert_eq!(cells[2..6], ["127.0.0.1:40000", "192.0.2.7:443", "ESTABLISHED", "recovery"].map(Cell::from));
        assert_eq!(cells[6..], [2.0.into(), 2896.0.into()]);
        assert_eq!(line(2, LOSS)[4..6], ["SYN_SENT", "loss"].map(Cell::from));
        assert_eq!(line(SYN_ACK, 0)[4..6], ["SYN_RECV", "loss"].map(Cell::from));
    }

    #[test]
    fn short_records_harm_nobody() {
        assert_eq!(line(&[1])[2..4], [Cell::Unknown(()), Cell::Unknown(())]);
    }
}
