//! A program that sends messages to itself over the loopback interface: most of one size, some of quite another.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::kinds::Others;
use super::process::{Order, STACK_BYTES, Tally, now, sleep};
use crate::chance::Chance;

/// Of so many messages …
const ROUND: usize = 10;
/// … so many have the usual size.
const USUAL: usize = 7;

/// Sends until the time is over, and counts the messages.
pub(super) fn send_messages(order: &Order, usual: u32, others: Others, every: f64) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    sender.set_nodelay(true)?;
    let (receiver, _) = listener.accept()?;
    std::thread::Builder::new().name(order.name()).stack_size(STACK_BYTES).spawn(move || take_messages(receiver))?;
    let mut tally = Tally::new(order)?;
    let mut chance = Chance::new(u64::from(usual));
    let message = vec![b'm'; 64 * 1024];
    while now() < order.until {
        let began = now();
        for number in 0..ROUND {
            let bytes = match others {
                _ if number < USUAL => usual as usize,
                Others::Longer => 16 * 1024 + chance.below(32 * 1024),
                Others::Shorter => 1 + chance.below(32),
            };
            send_message(&mut sender, message.get(..bytes).unwrap_or(&message))?;
        }
        tally.add(ROUND as u64)?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

#[inline(never)]
fn send_message(connection: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    connection.write_all(message)
}

/// It ends with the connection.
#[inline(never)]
fn take_messages(mut connection: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    while connection.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
}
