//! What the probes on connections share: both ends of a socket as sock.h hands them on, and the filter by port.
//!
//! Packets are handled in whatever context they come, so the task that runs is seldom the socket's owner. It is the owner where connect()
//! begins, where a descriptor comes out of accept(), and where a side is closed: there `tcplife` and its siblings note it. Where no such
//! moment was seen (`tcpretrans`, `drops`), the inode of the socket's file is looked for in /proc/PID/fd, in a bounded share of the time
//! (`owners.rs`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::def::{Context, ParamDef, ParamKind};
use rdiag_kernel::mechanism::ebpf::{Global, words};
use rdiag_model::Unavailable;

pub(super) const PORT: ParamDef = ParamDef {
    name: "port",
    kind: ParamKind::Count { min: 0, max: 65_535 },
    default: "0",
    help: "only where this is the local or the remote port; 0: any",
};

/// Address families of Linux.
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;

/// The constants that put filters and the parameter `port` in force.
pub(super) fn globals(context: &Context<'_>) -> Result<Vec<Global>, Unavailable> {
    let mut globals = context.filter.globals(context.host)?;
    globals.push(Global::u32("filter_port", u32::try_from(context.params.count("port")).unwrap_or(0)));
    Ok(globals)
}

/// `struct ends`, whose first word stands at this offset: local and remote end, as `192.0.2.1:80` or `[2001:db8::1]:80`. An
/// IPv4 address in a socket of IPv6 is shown as what it is. A port of 0 is one that the socket did not have (yet).
pub(super) fn ends(record: &[u8], at: usize) -> [Option<String>; 2] {
    let word = |place: usize| words::word(record, at + place * 8);
    let family = word(0) >> 32;
    let end = |first: usize, port: u64| {
        let ip = match family {
            AF_INET => {
                let [a, b, c, d, ..] = word(first).to_ne_bytes();
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
            AF_INET6 => {
                let bytes = u128::from(u64::from_be_bytes(word(first).to_ne_bytes())) << 64
                    | u128::from(u64::from_be_bytes(word(first + 1).to_ne_bytes()));
                IpAddr::V6(Ipv6Addr::from_bits(bytes)).to_canonical()
            }
            _ => return None,
        };
        Some(SocketAddr::new(ip, (port & 0xffff) as u16).to_string())
    };
    [end(1, word(0) >> 16), end(3, word(0))]
}

/// The state of a connection of TCP, `include/net/tcp_states.h`.
pub(super) fn state(number: u64) -> &'static str {
    match number {
        1 => "ESTABLISHED",
        2 => "SYN_SENT",
        // A request that is no socket yet has a number of its own.
        3 | 12 => "SYN_RECV",
        4 => "FIN_WAIT1",
        5 => "FIN_WAIT2",
        6 => "TIME_WAIT",
        7 => "CLOSE",
        8 => "CLOSE_WAIT",
        9 => "LAST_ACK",
        10 => "LISTEN",
        11 => "CLOSING",
        _ => "(unknown)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(family: u64, local: [u8; 16], remote: [u8; 16]) -> Vec<u8> {
        let mut record = vec![0xff; 8];
        record.extend((family << 32 | 40_000 << 16 | 443).to_ne_bytes());
        record.extend(local);
        record.extend(remote);
        record
    }

    #[test]
    fn ends_are_shown_as_addresses_are_written() {
        let mut loopback = [0; 16];
        loopback[..4].copy_from_slice(&[127, 0, 0, 1]);
        let mut server = [0; 16];
        server[..4].copy_from_slice(&[192, 0, 2, 7]);
        let told = |texts: [&str; 2]| texts.map(|text| Some(text.to_owned()));
        assert_eq!(ends(&record(2, loopback, server), 8), told(["127.0.0.1:40000", "192.0.2.7:443"]));
        let v6: Ipv6Addr = "2001:db8::a:1".parse().unwrap();
        let mapped: Ipv6Addr = "::ffff:192.0.2.7".parse().unwrap();
        let both = ends(&record(10, v6.octets(), mapped.octets()), 8);
        assert_eq!(both, told(["[2001:db8::a:1]:40000", "192.0.2.7:443"]));
    }

    #[test]
    fn other_families_and_short_records_have_no_address() {
        assert_eq!(ends(&record(1, [0; 16], [0; 16]), 8), [None, None]);
        assert_eq!(ends(&[1, 2], 8), [None, None]);
    }
}
