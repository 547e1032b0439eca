//! A server that takes connections more slowly than its clients come, and the clients.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

use super::process::{Order, STACK_BYTES, now, sleep};
use rdiag_kernel::host::files;

/// No answer takes longer: then something else is wrong, and the client tries again.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Where the server tells its port.
pub(super) fn port_file(order: &Order) -> PathBuf {
    order.scratch.join("port")
}

/// Takes one connection after the other, and each holds it up for a while.
pub(super) fn accept_slowly(order: &Order, backlog: u32, hold: f64) -> io::Result<()> {
    let listening = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&listening, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    listen(&listening, backlog.cast_signed())?;
    let listener = std::net::TcpListener::from(listening);
    let port = listener.local_addr()?.port();
    files::write_atomically(&port_file(order), |out| write!(out, "{port}"))?;
    while now() < order.until {
        if let Ok((client, _)) = listener.accept() {
            answer_request(client, hold, order.until);
        }
    }
    Ok(())
}

#[inline(never)]
fn answer_request(mut client: TcpStream, hold: f64, until: f64) {
    sleep(hold, until);
    let _ = client.write_all(b"ok");
}

/// The address of the server, as soon as it tells its port.
pub(super) fn wait_for_server(order: &Order) -> Option<SocketAddr> {
    while now() < order.until {
        let told = files::read_named(&port_file(order), 16).ok();
        if let Some(port) = told.and_then(|text| String::from_utf8(text).ok()?.parse().ok()) {
            return Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        }
        sleep(0.05, order.until);
    }
    None
}

/// So many clients that connect, wait for the answer, and connect again.
pub(super) fn ask_again_and_again(order: &Order, clients: u32) -> io::Result<()> {
    let (Some(server), until) = (wait_for_server(order), order.until) else { return Ok(()) };
    let start = |_| {
        let client = move || {
            while now() < until {
                let _ = send_request(&server);
            }
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
fn send_request(server: &SocketAddr) -> io::Result<()> {
    let mut connection = TcpStream::connect_timeout(server, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let mut answer = [0; 2];
    connection.read_exact(&mut answer)
}
