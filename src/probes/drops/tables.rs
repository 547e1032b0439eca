//! From the program's sums to tables.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::owners::Owners;
use crate::sockets;
use crate::table::TableSpec;
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;

/// `struct drop` of the program: the place; reason << 32 | protocol.
pub(super) type Key = [u64; 2];
/// `struct receiver` of the program: inode, ends.
pub(super) type Receiver = [u64; 6];

/// What was dropped in one place for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    packets: u64,
    bytes: u64,
}

impl Sum {
    pub(super) fn add(&mut self, [packets, bytes]: [u64; 2]) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// Stands for a kernel that tells no reasons.
const NO_REASON: u32 = u32::MAX;
/// Reasons above this are those of a subsystem (mac80211, Open vSwitch), which numbers them by itself.
const SUBSYSTEM_BITS: u32 = 16;

/// The name of a reason, as the kernel's types have it.
fn reason(number: u32, names: &BTreeMap<u32, String>) -> Option<String> {
    if number == NO_REASON {
        return None;
    }
    let name = names.get(&number).map(|name| name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name).to_owned());
    let own = 1 << SUBSYSTEM_BITS;
    Some(name.unwrap_or_else(|| match number / own {
        0 => format!("reason {number}"),
        subsystem => format!("reason {} of subsystem {subsystem}", number % own),
    }))
}

/// EtherType, `include/uapi/linux/if_ether.h`.
fn protocol(number: u64) -> String {
    match number {
        0 => "none".to_owned(),
        0x0800 => "IPv4".to_owned(),
        0x86dd => "IPv6".to_owned(),
        0x0806 => "ARP".to_owned(),
        0x8100 | 0x88a8 => "VLAN".to_owned(),
        0x88cc => "LLDP".to_owned(),
        _ => format!("{number:#06x}"),
    }
}

/// Packets by reason, function and protocol, most first.
pub(super) fn drops(
    sums: BTreeMap<Key, Sum>,
    names: &BTreeMap<u32, String>,
    function: impl Fn(u64) -> String,
    top: usize,
) -> ProbeTable {
    // Several places of one function are one row.
    let mut rows: BTreeMap<(String, u32, u64), Sum> = BTreeMap::new();
    for ([location, rest], sum) in sums {
        let key = (function(location), (rest >> 32) as u32, rest & 0xffff_ffff);
        rows.entry(key).or_default().add([sum.packets, sum.bytes]);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, sum)| Reverse(sum.packets));
    TableSpec::<((String, u32, u64), Sum)>::new("drops", "Packets thrown away")
        .rows("reason and function", |((function, number, frame), _)| {
            let told = reason(*number, names).map_or_else(String::new, |reason| format!("{reason} "));
            format!("{told}in {function} ({})", protocol(*frame))
        })
        .text("reason", "reason", |((_, number, _), _)| reason(*number, names))
        .text("function", "in function", |((function, ..), _)| function.clone())
        .text("protocol", "protocol", |((.., frame), _)| protocol(*frame))
        .sum("packets", "packets", Unit::Count, |(_, sum)| sum.packets as f64)
        .sum("bytes", "bytes", Unit::Bytes, |(_, sum)| sum.bytes as f64)
        .top(rows, top)
}

/// Datagrams by the socket that had no room for them, most first.
pub(super) fn receivers(counts: BTreeMap<Receiver, u64>, owners: &Owners, top: usize) -> ProbeTable {
    let mut rows: Vec<_> = counts.into_iter().collect();
    rows.sort_by_key(|(_, count)| Reverse(*count));
    let socket = |(receiver, datagrams): (Receiver, u64)| {
        let [inode, ..] = receiver;
        let [name, pid] = owners.of(inode);
        let [local, remote] = sockets::ends(&receiver.map(u64::to_ne_bytes).concat(), 8);
        Socket { inode, name, pid, local, remote, datagrams }
    };
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
    TableSpec::<Socket>::new("receivers", "Datagrams that found no room in a UDP socket")
        .rows("UDP socket", |of| format!("{} {} {} {}", known(&of.name), known(&of.local), known(&of.remote), of.inode))
        .text("name", "task", |of| of.name.clone())
        .text("pid", "pid", |of| of.pid.clone())
        .text("local", "local", |of| of.local.clone())
        .text("remote", "remote", |of| of.remote.clone())
        .sum("datagrams", "datagrams", Unit::Count, |of| of.datagrams as f64)
        .top(rows.into_iter().map(socket), top)
}

/// A socket that had no room for datagrams.
struct Socket {
    inode: u64,
    name: Option<String>,
    pid: Option<String>,
    local: Option<String>,
    remote: Option<String>,
    datagrams: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn names() -> BTreeMap<u32, String> {
        [(3, "SKB_DROP_REASON_NO_SOCKET".to_owned()), (6, "SKB_DROP_REASON_SOCKET_RCVBUFF".to_owned())].into()
    }

    #[test]
    fn places_of_one_function_are_one_row_and_what_is_left_out_is_summed_up() {
        let key = |location: u64, reason: u64, protocol: u64| [location, reason << 32 | protocol];
        let sum = |packets| Sum { packets, bytes: packets * 100 };
        let sums = [
            (key(0x10, 3, 0x0800), sum(1)),
            (key(0x18, 3, 0x0800), sum(2)),
            (key(0x20, 6, 0x86dd), sum(9)),
            (key(0x20, 2 << 16 | 7, 0), sum(1)),
            (key(0x30, u64::from(NO_REASON), 0x1234), sum(4)),
        ];
        let function = |at: u64| format!("f{}", at >> 4);
        let table = drops(sums.into(), &names(), function, 3);
        let instances: Vec<&str> = table.rows.iter().map(|row| row.instance.as_str()).collect();
        assert_eq!(instances, ["SOCKET_RCVBUFF in f2 (IPv6)", "in f3 (0x1234)", "NO_SOCKET in f1 (IPv4)"]);
        assert_eq!(table.rows[1].cells[0], Cell::Unknown(()));
        assert_eq!(table.rows[2].cells[3..], [3.0.into(), 300.0.into()]);
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        assert_eq!((table.others, table.others_sum["packets"]), (1, 1.0));
    }

    #[test]
    fn reasons_without_a_name_keep_their_number() {
        assert_eq!(reason(77, &names()).as_deref(), Some("reason 77"));
        assert_eq!(reason(2 << 16 | 7, &names()).as_deref(), Some("reason 7 of subsystem 2"));
    }

    #[test]
    fn a_udp_socket_is_named_by_its_address() {
        let local = u64::from_ne_bytes([127, 0, 0, 1, 0, 0, 0, 0]);
        let socket = |inode| [inode, 2 << 32 | 53 << 16, local, 0, 0, 0];
        let table = receivers([(socket(0), 5), (socket(9), 7)].into(), &Owners::default(), 1);
        let [row] = &table.rows[..] else { panic!("one row: {table:?}") };
        assert_eq!(row.cells.len(), table.columns.len());
        assert_eq!(row.cells[2..], ["127.0.0.1:53".into(), "0.0.0.0:0".into(), 7.0.into()]);
        assert_eq!(table.others_sum["datagrams"], 5.0);
    }
}
