//! A server that answers many clients at once over connections that stay, and the clients.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use super::kinds::Fault;
use super::process::{Order, STACK_BYTES, Tally, now, sleep};
use super::server::{PATIENCE, port_file, wait_for_server};
use crate::chance::Chance;
use rdiag_kernel::host::files;
use rdiag_own as own;

/// What a request and an answer hold, in bytes.
const MESSAGE_BYTES: usize = 64;
/// How long the server makes a pause, in seconds: as long as TCP waits at least before it sends a segment again (TCP_RTO_MIN).
const PAUSE_SECONDS: f64 = 0.2;
/// An answer that takes as long is late, in seconds.
const LATE_SECONDS: f64 = 0.1;

/// Answers each client in a thread of its own; of a thousand requests so many go wrong.
pub(super) fn answer_clients(order: &Order, fault: Fault, in_thousand: u32) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    files::write_atomically(&port_file(order), |out| write!(out, "{port}"))?;
    let until = order.until;
    while now() < until {
        let (client, address) = listener.accept()?;
        if fault == Fault::Lost {
            own::lose(&client, in_thousand)?;
        }
        let chance = Chance::new(u64::from(address.port()));
        let serve = move || serve_client(client, fault, in_thousand, chance, until);
        std::thread::Builder::new().name(order.name()).stack_size(STACK_BYTES).spawn(serve)?;
    }
    Ok(())
}

fn serve_client(
    mut client: TcpStream,
    fault: Fault,
    in_thousand: u32,
    mut chance: Chance,
    until: f64,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut message = [0; MESSAGE_BYTES];
    while now() < until {
        client.read_exact(&mut message)?;
        if fault == Fault::Late && chance.below(1000) < in_thousand as usize {
            wait_for_other_service(until);
        }
        client.write_all(&message)?;
    }
    Ok(())
}

#[inline(never)]
fn wait_for_other_service(until: f64) {
    sleep(PAUSE_SECONDS, until);
}

/// So many clients that ask, wait for the answer, and ask again a little later; answers that are late are counted.
pub(super) fn ask_over_connections(order: &Order, clients: u32, every: f64) -> io::Result<()> {
    let (Some(server), until) = (wait_for_server(order), order.until) else { return Ok(()) };
    let late = Arc::new(Mutex::new(Tally::new(order)?));
    let start = |_| {
        let late = late.clone();
        let client = move || -> io::Result<()> {
            let mut connection = TcpStream::connect_timeout(&server, PATIENCE)?;
            connection.set_read_timeout(Some(PATIENCE))?;
            connection.set_nodelay(true)?;
            while now() < until {
                let asked = now();
                ask(&mut connection)?;
                if now() - asked > LATE_SECONDS {
                    late.lock().unwrap_or_else(PoisonError::into_inner).add(1)?;
                }
                sleep(every, until);
            }
            Ok(())
        };
        std::thread::Builder::new().name(order.name()).stack_size(STACK_BYTES).spawn(client)
    };
    let started: io::Result<Vec<_>> = (0..clients).map(start).collect();
    for thread in started? {
        let _ = thread.join();
    }
    Ok(())
}

#[inline(never)]
fn ask(connection: &mut TcpStream) -> io::Result<()> {
    let mut message = [b'q'; MESSAGE_BYTES];
    connection.write_all(&message)?;
    connection.read_exact(&mut message)
}
