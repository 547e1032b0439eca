//! From the program's sums to tables.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::owners::Owners;
use crate::sockets;
use rdiag_model::Unit;
use rdiag_model::probe::{Cell, Column, ProbeTable, Row};

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
fn reason(number: u32, names: &BTreeMap<u32, String>) -> Cell {
    if number == NO_REASON {
        return Cell::Unknown(());
    }
    let name = names.get(&number).map(|name| name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name).to_owned());
    let own = 1 << SUBSYSTEM_BITS;
    name.unwrap_or_else(|| match number / own {
        0 => format!("reason {number}"),
        subsystem => format!("reason {} of subsystem {subsystem}", number % own),
    })
    .into()
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
    let left_out = rows.split_off(top.min(rows.len()));
    let others = |of: fn(&Sum) -> u64| left_out.iter().map(|(_, sum)| of(sum) as f64).sum::<f64>();
    let row = |((function, number, frame), sum): ((String, u32, u64), Sum)| {
        let (reason, protocol) = (reason(number, names), protocol(frame));
        let told = reason.text().map_or_else(String::new, |reason| format!("{reason} "));
        Row {
            instance: format!("{told}in {function} ({protocol})"),
            cells: vec![
                reason,
                function.into(),
                protocol.into(),
                (sum.packets as f64).into(),
                (sum.bytes as f64).into(),
            ],
        }
    };
    ProbeTable {
        id: "drops".into(),
        title: "Packets thrown away".into(),
        dimension: Some("reason and function".into()),
        columns: vec![
            Column::text("reason", "reason"),
            Column::text("function", "in function"),
            Column::text("protocol", "protocol"),
            Column::number("packets", "packets", Unit::Count),
            Column::number("bytes", "bytes", Unit::Bytes),
        ],
        others: left_out.len() as u64,
        others_sum: if left_out.is_empty() {
            BTreeMap::new()
        } else {
            [("packets".into(), others(|sum| sum.packets)), ("bytes".into(), others(|sum| sum.bytes))].into()
        },
        rows: rows.into_iter().map(row).collect(),
    }
}

/// Datagrams by the socket that had no room for them, most first.
pub(super) fn receivers(counts: BTreeMap<Receiver, u64>, owners: &Owners, top: usize) -> ProbeTable {
    let mut rows: Vec<_> = counts.into_iter().collect();
    rows.sort_by_key(|(_, count)| Reverse(*count));
    let left_out = rows.split_off(top.min(rows.len()));
    let row = |(receiver, count): (Receiver, u64)| {
        let record: Vec<u8> = receiver.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let [local, remote] = sockets::ends(&record, 8);
        let [inode, ..] = receiver;
        let [name, pid] = owners.cells(inode);
        let text = |cell: &Cell| cell.text().unwrap_or("?").to_owned();
        Row {
            instance: format!("{} {} {} {inode}", text(&name), text(&local), text(&remote)),
            cells: vec![name, pid, local, remote, (count as f64).into()],
        }
    };
    ProbeTable {
        id: "receivers".into(),
        title: "Datagrams that found no room in a UDP socket".into(),
        dimension: Some("UDP socket".into()),
        columns: vec![
            Column::text("name", "task"),
            Column::text("pid", "pid"),
            Column::text("local", "local"),
            Column::text("remote", "remote"),
            Column::number("datagrams", "datagrams", Unit::Count),
        ],
        others: left_out.len() as u64,
        others_sum: if left_out.is_empty() {
            BTreeMap::new()
        } else {
            [("datagrams".into(), left_out.iter().map(|(_, count)| *count as f64).sum())].into()
        },
        rows: rows.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(reason(77, &names()), "reason 77".into());
        assert_eq!(reason(2 << 16 | 7, &names()), "reason 7 of subsystem 2".into());
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
