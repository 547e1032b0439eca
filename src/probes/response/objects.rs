//! What a wait was about, as text: the device, the file, the peer, the lock.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::record::Cell;
use crate::block::Devices;
use rdiag_kernel::classify::FileClass;

/// Flag beside the port of a socket: the port is our own, not the peer's.
const OWN_PORT: u64 = 1 << 16;
pub(super) const IPV6: u64 = 10;
/// The port of name servers.
const DNS: u64 = 53;
/// In place of an object: the lock of the process's address space.
const MMAP_LOCK: u64 = 1;

/// The key of a wait in a call on this class of file; "" where there is nothing to name.
pub(super) fn key(cell: &Cell, class: FileClass, devices: &Devices, futex: bool) -> String {
    let [a, b, _] = cell.object;
    let device = || devices.name(a as u32);
    if cell.kind.kernel_lock() && class == FileClass::Unknown {
        return if a == MMAP_LOCK { "mmap_lock".to_owned() } else { String::new() };
    }
    if cell.kind.io_wait() && !matches!(class, FileClass::Block | FileClass::File) {
        return if a == 0 { String::new() } else { device() };
    }
    match class {
        FileClass::Block => device(),
        FileClass::File if a == 0 => cell.name.clone(),
        FileClass::File if cell.name.is_empty() => device(),
        FileClass::File => format!("{} on {}", cell.name, device()),
        FileClass::Kernel => cell.name.clone(),
        FileClass::Pipe => format!("pipe:[{b}]"),
        FileClass::Unix | FileClass::Netlink | FileClass::Socket => format!("socket:[{b}]"),
        FileClass::Inet => peer(&cell.object),
        // The class of what it is parked for, which has no name.
        FileClass::Unknown if cell.kind.parked() && a != 0 => String::new(),
        FileClass::Unknown if cell.kind.parked() && b != 0 => format!("futex {b:#x}"),
        FileClass::Unknown if futex && cell.kind.rwlock() => format!("rwlock {a:#x}"),
        FileClass::Unknown if futex && a != 0 => format!("futex {a:#x}"),
        _ => String::new(),
    }
}

/// The key of a wait with what throttles its requests, if anything does: then the disk is not what is slow.
pub(super) fn throttled(key: String, by: Option<&str>) -> String {
    match by {
        Some(by) if key.is_empty() => format!("throttled by {by}"),
        Some(by) => format!("{key}, throttled by {by}"),
        None => key,
    }
}

/// Family and port of a socket as the programs hand them on: of two ports the lower one, which says what service this is.
pub(super) fn service(family: u64, own: u64, their: u64) -> u64 {
    family << 32 | if their != 0 && their <= own { their } else { own | OWN_PORT }
}

/// Address of the peer with the port that says what service this is.
pub(super) fn peer(object: &[u64; 3]) -> String {
    let [a, b, c] = object;
    let bytes = [a.to_ne_bytes(), b.to_ne_bytes()].concat();
    let address: [u8; 16] = bytes.try_into().unwrap_or_default();
    let v6 = Ipv6Addr::from(address);
    let v4 = match (c >> 32, v6.to_ipv4_mapped(), address) {
        (IPV6, mapped, _) => mapped,
        (_, _, [a, b, c, d, ..]) => Some(Ipv4Addr::new(a, b, c, d)),
    };
    let (port, own) = (c & 0xffff, c & OWN_PORT != 0);
    let unspecified = v4.map_or(v6.is_unspecified(), |v4| v4.is_unspecified());
    let service = if port == DNS { " (DNS)" } else { "" };
    match (v4, own) {
        _ if unspecified => format!("own port {port}"),
        (Some(v4), true) => format!("{v4}, own port {port}"),
        (Some(v4), false) => format!("{v4}:{port}{service}"),
        (None, true) => format!("{v6}, own port {port}"),
        (None, false) => format!("[{v6}]:{port}{service}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::*;

    fn cell(object: [u64; 3], name: &str) -> Cell {
        Cell { object, name: name.into(), ..Cell::default() }
    }

    #[test]
    fn peers_are_named_with_the_port_of_the_service() {
        let v4 = u64::from(u32::from_ne_bytes([10, 0, 0, 7]));
        assert_eq!(peer(&[v4, 0, 2 << 32 | 5432]), "10.0.0.7:5432");
        assert_eq!(peer(&[v4, 0, 2 << 32 | OWN_PORT | 80]), "10.0.0.7, own port 80");
        assert_eq!(peer(&[v4, 0, service(2, 40_000, 53)]), "10.0.0.7:53 (DNS)");
        assert_eq!(peer(&[v4, 0, service(2, 53, 40_000)]), "10.0.0.7, own port 53", "it is the name server itself");
        assert_eq!(peer(&[v4, 0, service(2, 40_000, 0)]), "10.0.0.7, own port 40000");
        assert_eq!(peer(&[0, 0, 2 << 32 | OWN_PORT | 80]), "own port 80");
        let v6: [u8; 16] = Ipv6Addr::LOCALHOST.octets();
        let half = |at: usize| u64::from_ne_bytes(v6[at..at + 8].try_into().unwrap());
        assert_eq!(peer(&[half(0), half(8), 10 << 32 | 443]), "[::1]:443");
        let mapped: [u8; 16] = Ipv4Addr::new(1, 2, 3, 4).to_ipv6_mapped().octets();
        let half = |at: usize| u64::from_ne_bytes(mapped[at..at + 8].try_into().unwrap());
        assert_eq!(peer(&[half(0), half(8), 10 << 32 | 443]), "1.2.3.4:443");
    }

    #[test]
    fn what_throttles_requests_is_part_of_the_key() {
        assert_eq!(throttled("log on vda".into(), Some("io.cost")), "log on vda, throttled by io.cost");
        assert_eq!(throttled(String::new(), Some("io.latency")), "throttled by io.latency");
        assert_eq!(throttled("vda".into(), None), "vda");
    }

    #[test]
    fn files_locks_and_pipes_have_keys_and_what_is_not_known_has_none() {
        let devices = Devices::default();
        assert_eq!(key(&cell([8 << 20 | 1, 7, 0], "log"), FileClass::File, &devices, false), "log on 8:1");
        assert_eq!(key(&cell([0, 7, 0], "log"), FileClass::File, &devices, false), "log");
        assert_eq!(key(&cell([0, 7, 0], ""), FileClass::Pipe, &devices, false), "pipe:[7]");
        assert_eq!(key(&cell([0x1000, 0, 0], ""), FileClass::Unknown, &devices, true), "futex 0x1000");
        let rwlock = Cell { kind: Kind(2 | 64 << 48), ..cell([0x1000, 0, 0], "") };
        assert_eq!(key(&rwlock, FileClass::Unknown, &devices, true), "rwlock 0x1000");
        assert_eq!(key(&cell([0, 0, 0], ""), FileClass::Unknown, &devices, false), "");
        assert_eq!(key(&cell([24, 9, 0], "cgroup.procs"), FileClass::Kernel, &devices, false), "cgroup.procs");
    }

    #[test]
    fn a_disk_is_named_where_the_call_is_on_something_else_and_so_is_a_lock() {
        let devices = Devices::default();
        let of = |flags: u64, object, name| Cell { kind: Kind(2 | flags << 48), ..cell(object, name) };
        assert_eq!(key(&of(1, [8 << 20 | 1, 0, 0], ""), FileClass::Inet, &devices, false), "8:1");
        assert_eq!(key(&of(1, [0; 3], ""), FileClass::Pipe, &devices, false), "");
        assert_eq!(key(&of(32, [1, 0, 0], ""), FileClass::Unknown, &devices, false), "mmap_lock");
        assert_eq!(key(&of(32, [0; 3], ""), FileClass::Unknown, &devices, true), "");
        assert_eq!(key(&of(32, [8 << 20 | 1, 7, 0], "log"), FileClass::File, &devices, false), "log on 8:1");
    }
}
