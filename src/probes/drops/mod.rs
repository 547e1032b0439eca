//! `drops`: packets that the kernel throws away, by reason and place, and datagrams by the UDP socket that had no room.

mod tables;

use std::collections::BTreeMap;

use super::owners::Owners;
use crate::def::{Context, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned};
use rdiag_kernel::mechanism::points::enumerators;
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_model::metric::Pick;
use rdiag_model::probe::Output;
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};
use tables::Sum;

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "drops",
    question: "Which packets does the kernel throw away: why, in which of its functions, and for which UDP sockets?",
    attach: "kfree_skb and udp_fail_queue_rcv_skb.",
    output: "Packets and bytes by the kernel's own name of the reason (since Linux 5.17), the function that dropped them, and \
             protocol; datagrams that found no room in a UDP socket, by its address and the process that holds it.",
    caveats: "A device that has no room drops before the kernel gets a packet: its own counters tell. Not every packet here is a \
              loss: what was answered with a refusal (NO_SOCKET), or was for another host (OTHERHOST), ends here too, and before \
              Linux 5.17 only the function distinguishes them. Frames without a protocol are those of local sockets \
              (unix, netlink). Packets of all network namespaces are counted. Before Linux 6.8 only sockets of IPv4 are \
              known. Who holds a socket is looked up in /proc afterwards. For whole stacks: \
              rdiag probe count --param tracepoint=skb:kfree_skb --param key=stack.",
    overhead: "Measured at 0.09 µs per packet that is dropped; nothing for others. The search for who holds a socket may take 2 % of \
               one CPU, and half a second at once.",
    params: &[ParamDef::top("how many rows a table has")],
    filters: &[],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "drops.packets.count",
            unit: Unit::Count,
            dimension: Some("reason and function"),
            help: "Packets that the kernel threw away, by reason and by the function that did.",
            sources: &[Formula::probe(Pick::Column("drops", "packets"))],
            caveat: "Some are no loss: see the caveats of the probe drops.",
            manual: "perf record -e skb:kfree_skb -a -- sleep 10; perf script",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "drops.udp.count",
            unit: Unit::Count,
            dimension: Some("UDP socket"),
            help: "Datagrams that found no room in the receive buffer of a UDP socket.",
            sources: &[Formula::probe(Pick::Column("receivers", "datagrams"))],
            caveat: "Before Linux 6.8 only sockets of IPv4.",
            manual: "ss -uanmp (the last number of skmem)",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

struct Drops {
    object: Object,
    symbols: Symbols,
    owners: Owners,
    reasons: BTreeMap<u32, String>,
    sums: BTreeMap<tables::Key, Sum>,
    receivers: BTreeMap<tables::Receiver, u64>,
    top: usize,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/drops/drops.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, context.filter.globals(context.host)?, &[])?;
    object.attach(kernel, Hook::Tracepoint("kfree_skb"))?;
    object.attach(kernel, Hook::Tracepoint("udp_fail_queue_rcv_skb"))?;
    Ok(Box::new(Drops {
        object,
        symbols: Symbols::new(context.host, Some(kernel)),
        owners: Owners::new(context.host.now()),
        reasons: enumerators(context.host, "skb_drop_reason"),
        sums: BTreeMap::new(),
        receivers: BTreeMap::new(),
        top: context.params.count("top") as usize,
    }))
}

impl Probe for Drops {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        let sums = self.object.take_per_cpu_hash::<tables::Key, [u64; 2]>("drops")?;
        self.symbols.learn(host, None, sums.iter().map(|([location, _], _)| *location));
        for (key, copies) in sums {
            let sum = self.sums.entry(key).or_default();
            copies.iter().for_each(|copy| sum.add(*copy));
        }
        let receivers = self.object.take_per_cpu_hash::<tables::Receiver, u64>("receivers")?;
        self.owners.learn(host, receivers.iter().map(|([inode, ..], _)| *inode));
        for (receiver, copies) in receivers {
            *self.receivers.entry(receiver).or_default() += copies.iter().sum::<u64>();
        }
        Ok(())
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        self.symbols.settle(host);
        let symbols = &self.symbols;
        let function = |at: u64| symbols.name(None, at).map_or_else(|| format!("{at:#x}"), str::to_owned);
        let drops = tables::drops(std::mem::take(&mut self.sums), &self.reasons, function, self.top);
        let receivers = tables::receivers(std::mem::take(&mut self.receivers), &self.owners, self.top);
        let lost = self.object.take_counts("lost")?;
        let [packets, datagrams] = [0, 1].map(|at: usize| lost.get(at).copied().unwrap_or(0));
        Ok(Taken {
            outputs: vec![Output::Table(drops), Output::Table(receivers)],
            lost: vec![
                ("dropped packets of more kinds than the table holds", packets),
                ("datagrams of more sockets than the table holds", datagrams),
            ],
            notes: symbols.notes().map(str::to_owned).collect(),
        })
    }
}
