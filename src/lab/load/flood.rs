//! A program that sends datagrams as fast as it can for part of the time, in a network of its own, where another CPU takes them in.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use super::process::{Order, Tally, now, sleep};
use rdiag_own as own;

/// What one datagram holds, in bytes.
const DATAGRAM_BYTES: u16 = 64;
/// So many are handed over by one call, and come apart only where they are taken in: with a call for each, the CPU that sends would have
/// several times the work of the one that takes in.
const DATAGRAMS: u16 = 16;
/// From one stretch of sending to the next, in seconds.
const EVERY: f64 = 0.01;
/// So many calls are made between two looks at the clock.
const BURST: u64 = 5;

/// Sends for so much of the time (0 to 1), and counts. No process reads: what fills the buffer of the other socket is dropped there, after
/// the CPU that the packets are steered to has done nearly all of its work.
pub(super) fn send_in_own_network(order: &Order, duty: f64) -> io::Result<()> {
    let cpus = own::usable_cpus();
    let [taking, sending] = [cpus.first(), cpus.last()].map(|cpu| cpu.copied().unwrap_or(0));
    // Before any thread is made: only this one would move.
    own::enter_own_network(taking)?;
    own::use_only(sending)?;
    let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    from.connect(to.local_addr()?)?;
    own::split_datagrams(&from, DATAGRAM_BYTES)?;
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        let began = now();
        let mut sent = 0;
        while now() - began < duty * EVERY {
            sent += send_burst(&from)?;
        }
        tally.add(sent)?;
        sleep(EVERY - (now() - began), order.until);
    }
    Ok(())
}

#[inline(never)]
fn send_burst(socket: &UdpSocket) -> io::Result<u64> {
    for _ in 0..BURST {
        socket.send(&[b'd'; DATAGRAM_BYTES as usize * DATAGRAMS as usize])?;
    }
    Ok(BURST * u64::from(DATAGRAMS))
}
