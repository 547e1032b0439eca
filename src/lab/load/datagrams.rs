//! A program that takes datagrams more slowly than another one sends them.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use super::process::{Order, Tally, now, sleep};
use super::server;
use rdiag_kernel::host::files;

/// What one datagram holds, in bytes.
const DATAGRAM_BYTES: usize = 200;
/// So many are sent at once.
const BURST: u32 = 20;

/// Takes one after the other, and each holds it up for a while; counts them.
pub(super) fn take_slowly(order: &Order, buffer_kib: u32, hold: f64) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, buffer_kib as usize * 1024)?;
    let port = socket.local_addr()?.port();
    files::write_atomically(&server::port_file(order), |out| write!(out, "{port}"))?;
    let mut tally = Tally::new(order)?;
    let mut buffer = [0; DATAGRAM_BYTES];
    while now() < order.until {
        socket.recv(&mut buffer)?;
        handle_datagram(hold, order.until);
        tally.add(1)?;
    }
    Ok(())
}

#[inline(never)]
fn handle_datagram(hold: f64, until: f64) {
    sleep(hold, until);
}

/// Sends so many per second to the one that takes them, and counts them.
pub(super) fn send_datagrams(order: &Order, per_second: u32) -> io::Result<()> {
    let Some(server) = server::wait_for_server(order) else { return Ok(()) };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let every = f64::from(BURST) / f64::from(per_second.max(1));
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        let began = now();
        for _ in 0..BURST {
            socket.send_to(&[b'd'; DATAGRAM_BYTES], server)?;
        }
        tally.add(u64::from(BURST))?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}
