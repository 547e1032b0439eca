//! `tcptop`: bytes of TCP by process and connection.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::sockets;
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Deed, Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "tcptop",
    question: "Which processes send and receive how many bytes over which TCP connections?",
    attach: "sock_send_length and sock_recv_length (Linux 6.3); before, the functions tcp_sendmsg, tcp_sendpage and \
             tcp_recvmsg.",
    output: "Bytes sent and received, and the rate of both, by task and connection, and by task.",
    caveats: "Bytes that a program handed to the kernel or took from it, not what is on the wire: no headers, and retransmissions \
              count once. What the kernel sends or receives by itself (NFS, io_uring workers) stands under its own threads' names, \
              or not at all. Data that are moved from a socket into a pipe (splice) are not seen.",
    overhead: "One program run for each call that sends or receives on a socket.",
    params: &[sockets::PORT, ParamDef::top("how many rows a table has")],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "tcptop.all.bytes_per_second",
            unit: Unit::BytesPerSecond,
            help: "Bytes that all processes handed to TCP and took from it, per second.",
            sources: &[Formula::probe(Pick::ColumnSum("tasks", "rate"))],
            caveat: "Without headers; retransmissions count once, what stays on this host twice.",
            manual: MANUAL,
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "tcptop.task.bytes_per_second",
            unit: Unit::BytesPerSecond,
            dimension: Some("task"),
            help: "Bytes that a process handed to TCP and took from it, per second.",
            sources: &[Formula::probe(Pick::Column("tasks", "rate"))],
            caveat: "Without headers; retransmissions count once.",
            manual: MANUAL,
            deed: Some(Deed { verb: "carried", of: "the traffic of TCP", ..Deed::USUAL }),
        },
    ],
    start,
};

const MANUAL: &str = "ss -tinp (bytes_sent, bytes_received), twice";

struct TcpTop {
    object: Object,
    sums: BTreeMap<Key, Sum>,
    top: usize,
    since: f64,
}

/// `struct key` of the program: process, name, ends.
type Key = [u64; 8];
/// Sent, received.
type Sum = [u64; 2];
/// Connections of one reading; more are counted as lost.
const MOST: usize = 50_000;

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/tcptop/tcptop.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, sockets::globals(context)?, &[])?;
    if kernel.has_tracepoint("sock_send_length") {
        object.attach(kernel, Hook::Tracepoint("sock_send_length"))?;
        object.attach(kernel, Hook::Tracepoint("sock_recv_length"))?;
    } else {
        object.attach(kernel, Hook::Function("tcp_sendmsg"))?;
        let receive = |program| Hook::FunctionBy { function: "tcp_recvmsg", program };
        // The program for six arguments is refused where there are five; the other one would be taken for six, and read wrongly.
        if object.attach(kernel, receive("tcp_recvmsg_of_six")).is_err() {
            object.attach(kernel, receive("tcp_recvmsg_of_five"))?;
        }
        // sendfile(2) has it until 6.5; where it is missing, tcp_sendmsg is called.
        if kernel.has_function("tcp_sendpage") {
            object.attach(kernel, Hook::Function("tcp_sendpage"))?;
        }
    }
    let top = context.params.count("top") as usize;
    Ok(Box::new(TcpTop { object, sums: BTreeMap::new(), top, since: context.host.now() }))
}

impl Probe for TcpTop {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let mut crowded = 0;
        for (key, copies) in self.object.take_per_cpu_hash::<Key, Sum>("bytes")? {
            let full = self.sums.len() >= MOST && !self.sums.contains_key(&key);
            for sum in copies {
                if full {
                    crowded += sum.iter().sum::<u64>();
                } else {
                    add(self.sums.entry(key).or_default(), sum);
                }
            }
        }
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let sums = std::mem::take(&mut self.sums);
        let lost = vec![
            ("bytes of more connections than the table holds", self.object.take_counts("lost")?.iter().sum()),
            ("bytes of more connections than a reading holds", crowded),
        ];
        let outputs =
            vec![Output::Table(connections(&sums, seconds, self.top)), Output::Table(tasks(&sums, seconds, self.top))];
        Ok(Taken { outputs, lost, notes: Vec::new() })
    }
}

fn add(to: &mut Sum, [sent, received]: Sum) {
    let [sents, receiveds] = to;
    *sents += sent;
    *receiveds += received;
}

/// A table of what carried most, `top` of them.
fn table<'c, K: Default + 'c>(
    spec: TableSpec<'c, (K, Sum)>,
    mut rows: Vec<(K, Sum)>,
    seconds: f64,
    top: usize,
) -> ProbeTable {
    let spec = spec
        .sum("sent", "sent", Unit::Bytes, |(_, [sent, _])| *sent as f64)
        .sum("received", "received", Unit::Bytes, |(_, [_, received])| *received as f64)
        .sum("rate", "both", Unit::BytesPerSecond, move |(_, [sent, received])| {
            (*sent as f64 + *received as f64) / seconds
        });
    rows.sort_by_key(|(_, sum)| Reverse(sum.iter().sum::<u64>()));
    spec.top_with_rest(rows, top, Default::default(), |rest, sum| add(rest, *sum))
}

/// Who carries something, between which ends.
#[derive(Default)]
struct Connection {
    name: String,
    tgid: u64,
    local: Option<String>,
    remote: Option<String>,
}

impl Connection {
    fn new([tgid, first, second, ends @ ..]: Key) -> Self {
        let [local, remote] = sockets::ends(&ends.map(u64::to_ne_bytes).concat(), 0);
        Self { name: words::text_of_words(&[first, second]), tgid, local, remote }
    }

    fn told(&self) -> String {
        let [local, remote] = [&self.local, &self.remote].map(|end| end.as_deref().unwrap_or("?"));
        format!("{} (pid {}) {local} to {remote}", self.name, self.tgid)
    }
}

fn connections(sums: &BTreeMap<Key, Sum>, seconds: f64, top: usize) -> ProbeTable {
    let spec = TableSpec::<(Connection, Sum)>::new("connections", "Bytes of TCP by connection")
        .rows("connection", |(connection, _)| connection.told())
        .text("name", "task", |(connection, _)| connection.name.clone())
        .text("pid", "pid", |(connection, _)| connection.tgid.to_string())
        .text("local", "local", |(connection, _)| connection.local.clone())
        .text("remote", "remote", |(connection, _)| connection.remote.clone());
    table(spec, sums.iter().map(|(key, sum)| (Connection::new(*key), *sum)).collect(), seconds, top)
}

fn tasks(sums: &BTreeMap<Key, Sum>, seconds: f64, top: usize) -> ProbeTable {
    let mut by_task: BTreeMap<(u64, String), Sum> = BTreeMap::new();
    for ([tgid, first, second, ..], sum) in sums {
        add(by_task.entry((*tgid, words::text_of_words(&[*first, *second]))).or_default(), *sum);
    }
    let spec = TableSpec::<((u64, String), Sum)>::new("tasks", "Bytes of TCP by task")
        .rows("task", |((tgid, name), _)| format!("{name} (pid {tgid})"))
        .text("name", "task", |((_, name), _)| name.clone())
        .text("pid", "pid", |((tgid, _), _)| tgid.to_string());
    table(spec, by_task.into_iter().collect(), seconds, top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    #[test]
    fn connections_and_tasks_with_most_bytes_come_first_and_the_rest_is_summed_up() {
        let local = u64::from_ne_bytes([127, 0, 0, 1, 0, 0, 0, 0]);
        let key = |tgid, port: u64| {
            [tgid, u64::from_ne_bytes(*b"importer"), 0, 2 << 32 | port << 16 | 80, local, 0, local, 0]
        };
        let sums = BTreeMap::from([(key(7, 4000), [10, 200]), (key(7, 4001), [0, 100]), (key(8, 4002), [250, 0])]);
        let table = connections(&sums, 2.0, 1);
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.cells.len(), table.columns.len());
        assert_eq!(row.instance, "importer (pid 8) 127.0.0.1:4002 to 127.0.0.1:80");
        assert_eq!(row.cells[4..], [250.0, 0.0, 125.0].map(Into::into));
        assert_eq!((table.others, table.others_sum["received"], table.others_sum["rate"]), (2, 300.0, 155.0));
        let table = tasks(&sums, 2.0, 1);
        assert_eq!(table.rows[0].instance, "importer (pid 7)");
        assert_eq!(table.rows[0].cells[2..4], [10.0.into(), 300.0.into()]);
    }

    #[test]
    fn ends_that_are_no_addresses_are_not_known() {
        let sums = BTreeMap::from([([7, u64::from_ne_bytes(*b"importer"), 0, 0, 0, 0, 0, 0], [10, 20])]);
        let row = &connections(&sums, 2.0, 1).rows[0];
        assert_eq!(row.instance, "importer (pid 7) ? to ?");
        let ends = [Cell::Unknown(()), Cell::Unknown(())];
        let numbers = [10.0, 20.0, 15.0].map(Cell::from);
        assert_eq!(row.cells, [&["importer", "7"].map(Cell::from)[..], &ends, &numbers].concat());
    }
}
