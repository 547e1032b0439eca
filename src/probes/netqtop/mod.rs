//! `netqtop`: packets and bytes by queue of a network device.

use std::collections::BTreeMap;

use crate::def::{Context, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned, words};
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "netqtop",
    question: "How are packets and bytes spread over the queues of network devices, and how large are the packets?",
    attach: "net_dev_start_xmit and netif_receive_skb.",
    output: "Packets, bytes, their rates, the queue's share of its device's packets in that direction, and packets by size, for each \
             device, direction and queue.",
    caveats: "Sizes are those between kernel and driver: with offloads (TSO, GRO) one packet here is many on the wire. The queue of a \
              received packet is unknown where the driver does not tell it (lo, most virtual devices). Packets of all network \
              namespaces are counted; what a driver or XDP handles alone is not. Who sends does not matter, so nothing is \
              limited to a process.",
    overhead: "One program run for each packet between kernel and driver.",
    params: &[ParamDef {
        name: "top",
        kind: ParamKind::Count { min: 1, max: 4096 },
        default: "64",
        help: "how many queues to show",
    }],
    filters: &[],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

struct NetQTop {
    object: Object,
    top: usize,
    since: f64,
}

/// `struct key` of the program: network namespace and index of the device; direction and queue; name.
type Key = [u64; 4];
/// `struct sum` of the program: packets, bytes, packets by size.
type Sum = [u64; 7];
/// Stands for a queue that the driver did not tell.
const NO_QUEUE: u64 = 0xffff;
fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/netqtop/netqtop.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, context.filter.globals(context.host)?, &[])?;
    object.attach(kernel, Hook::Tracepoint("net_dev_start_xmit"))?;
    object.attach(kernel, Hook::Tracepoint("netif_receive_skb"))?;
    Ok(Box::new(NetQTop { object, top: context.params.count("top") as usize, since: context.host.now() }))
}

impl Probe for NetQTop {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let sums = self.object.take_per_cpu_hash::<Key, Sum>("queues")?;
        let sums = sums.into_iter().map(|(key, copies)| (key, copies.into_iter().fold([0; 7], plus))).collect();
        let lost = self.object.take_counts("lost")?.iter().sum();
        Ok(Taken {
            outputs: vec![Output::Table(queues(sums, seconds, self.top))],
            lost: vec![("packets of more queues than the table holds", lost)],
            notes: Vec::new(),
        })
    }
}

fn plus(one: Sum, other: Sum) -> Sum {
    let mut sum = one;
    sum.iter_mut().zip(other).for_each(|(word, other)| *word += other);
    sum
}

/// Devices by name and namespace, the directions of each, and their queues in order; if there are too many, those with most
/// packets.
fn queues(mut sums: Vec<(Key, Sum)>, seconds: f64, top: usize) -> ProbeTable {
    let mut of_device: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for ([device, queue, ..], [packets, ..]) in &sums {
        *of_device.entry((*device, queue >> 32)).or_default() += packets;
    }
    sums.sort_by_key(|(_, [packets, ..])| std::cmp::Reverse(*packets));
    let left_out = sums.split_off(top.min(sums.len()));
    sums.sort_by_key(|([device, queue, name @ ..], _)| (words::text_of_words(name), *device, *queue));
    let share = |queue: &Queue| {
        let whole = of_device.get(&(queue.device, queue.direction)).copied().unwrap_or(0).max(1);
        queue.packets as f64 / whole as f64
    };
    let spec = TableSpec::<Queue>::new("queues", "Packets by queue")
        .rows("queue", Queue::instance)
        .text("device", "device", |queue| queue.name.clone())
        .text("namespace", "network namespace", |queue| queue.namespace().to_string())
        .text("direction", "direction", |queue| queue.direction().to_owned())
        .text("queue", "queue", |queue| queue.number.clone())
        .sum("packets", "packets", Unit::Count, |queue| queue.packets as f64)
        .sum("bytes", "bytes", Unit::Bytes, |queue| queue.bytes as f64)
        .number("packet_rate", "packets", Unit::PerSecond, |queue| queue.packets as f64 / seconds)
        .number("byte_rate", "bytes", Unit::BytesPerSecond, |queue| queue.bytes as f64 / seconds)
        .number("share", "of the device", Unit::Ratio, share)
        .number("below_64", "< 64 B", Unit::Count, |queue| queue.below_64 as f64)
        .number("below_512", "< 512 B", Unit::Count, |queue| queue.below_512 as f64)
        .number("below_2k", "< 2 KiB", Unit::Count, |queue| queue.below_2k as f64)
        .number("below_16k", "< 16 KiB", Unit::Count, |queue| queue.below_16k as f64)
        .number("from_16k", "larger", Unit::Count, |queue| queue.from_16k as f64);
    let mut table = spec.all(sums.into_iter().map(Queue::new));
    left_out.into_iter().for_each(|one| spec.leave_out(&Queue::new(one), &mut table));
    table
}

/// A queue of a device in one direction, and its packets by size, as the program sorts them.
struct Queue {
    device: u64,
    direction: u64,
    number: Option<String>,
    name: String,
    packets: u64,
    bytes: u64,
    below_64: u64,
    below_512: u64,
    below_2k: u64,
    below_16k: u64,
    from_16k: u64,
}

impl Queue {
    fn new(([device, queue, name @ ..], sum): (Key, Sum)) -> Self {
        let [packets, bytes, below_64, below_512, below_2k, below_16k, from_16k] = sum;
        let number = Some(queue & 0xffff_ffff).filter(|number| *number != NO_QUEUE);
        Self {
            device,
            direction: queue >> 32,
            number: number.map(|number| number.to_string()),
            name: words::text_of_words(&name),
            packets,
            bytes,
            below_64,
            below_512,
            below_2k,
            below_16k,
            from_16k,
        }
    }

    fn namespace(&self) -> u64 {
        self.device >> 32
    }

    fn direction(&self) -> &'static str {
        if self.direction == 0 { "sent" } else { "received" }
    }

    fn instance(&self) -> String {
        let number = self.number.as_deref().unwrap_or("?");
        format!("{} in {}, {}, queue {number}", self.name, self.namespace(), self.direction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    #[test]
    fn queues_stand_in_order_with_their_share_of_the_device_in_their_direction() {
        let name = u64::from_ne_bytes(*b"eth0\0\0\0\0");
        let key = |direction: u64, queue: u64| [9 << 32 | 2, direction << 32 | queue, name, 0];
        let sums = vec![
            (key(0, 1), [30, 3000, 0, 30, 0, 0, 0]),
            (key(0, 0), [10, 1000, 0, 10, 0, 0, 0]),
            (key(1, NO_QUEUE), [7, 420, 7, 0, 0, 0, 0]),
            (key(1, 3), [1, 60, 1, 0, 0, 0, 0]),
        ];
        let table = queues(sums, 2.0, 3);
        let instances: Vec<&str> = table.rows.iter().map(|row| row.instance.as_str()).collect();
        let told = ["sent, queue 0", "sent, queue 1", "received, queue ?"].map(|rest| format!("eth0 in 9, {rest}"));
        assert_eq!(instances, told);
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        assert_eq!(table.rows[1].cells[4..9], [30.0, 3000.0, 15.0, 1500.0, 0.75].map(Cell::from));
        assert_eq!(table.rows[2].cells[3], Cell::Unknown(()));
        assert_eq!(table.rows[2].cells[9], 7.0.into());
        assert_eq!((table.others, table.others_sum["bytes"]), (1, 60.0));
    }
}
