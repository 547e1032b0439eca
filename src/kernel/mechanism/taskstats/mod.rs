//! taskstats: what the kernel counts for single threads, by generic netlink. It answers those with CAP_NET_ADMIN in the
//! host's own user namespace.

mod layout;
mod message;

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv, send, socket_with, sockopt,
};

pub use layout::{Delay, Delays, delays};
use message::{Reply, attributes, replies, request, word};
use rdiag_model::{Reason, Unavailable};

const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_NAME: u16 = 2;
const FAMILY_ID: u16 = 1;

const GET: u8 = 1;
/// Attributes of a request.
const OF_THREAD: u16 = 1;
const LISTEN: u16 = 3;
const LISTEN_NO_MORE: u16 = 4;
/// Attributes of a reply: a thread's id and structure, as one.
const THREAD: u16 = 4;
const THREAD_ID: u16 = 1;
const STRUCTURE: u16 = 3;

/// Bytes that ended threads may take up until they are read.
const LISTENER_BYTES: usize = 4 << 20;

/// A connection to the kernel.
#[derive(Debug)]
pub struct Taskstats {
    socket: OwnedFd,
    family: u16,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Taskstats {
    /// Connects.
    pub fn open() -> Result<Self, Unavailable> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::GENERIC))
                .and_then(|socket| {
                    bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
                    // A request without an answer must not hang the run.
                    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1)))?;
                    Ok(socket)
                })
                .map_err(failed)?;
        let mut connection = Self { socket, family: CONTROLLER, sequence: 0, buffer: vec![0; 16 << 10] };
        let id = connection.ask(GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0", |data| {
            attributes(data, FAMILY_ID).first().and_then(|id| Some(u16::from_ne_bytes(id.get(..2)?.try_into().ok()?)))
        });
        connection.family = match id {
            Ok(Some(id)) => id,
            Err(Errno::NOENT) | Ok(None) => {
                return Err(Unavailable::new(Reason::Absent, "this kernel has no taskstats (CONFIG_TASKSTATS)"));
            }
            Err(error) => return Err(failed(error)),
        };
        Ok(connection)
    }

    /// What was counted for a thread; none if there is no such thread.
    pub fn of_thread(&mut self, tid: u32) -> Result<Option<Delays>, Unavailable> {
        match self.ask(GET, OF_THREAD, &tid.to_ne_bytes(), |data| threads(data).first().map(|(_, delays)| *delays)) {
            Ok(delays) => Ok(delays),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Registers this connection for every exit of a thread on these CPUs (`0-3`). It asks nothing any more.
    pub fn listen(mut self, cpus: &str) -> Result<Listener, Unavailable> {
        let _ = sockopt::set_socket_recv_buffer_size_force(&self.socket, LISTENER_BYTES);
        let mask = format!("{cpus}\0").into_bytes();
        self.tell(LISTEN, &mask).map_err(failed)?;
        Ok(Listener { connection: self, mask, lost: 0 })
    }

    fn tell(&mut self, attribute: u16, value: &[u8]) -> Result<(), Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request(self.family, GET, self.sequence, attribute, value);
        send(&self.socket, &bytes, SendFlags::empty()).map(drop)
    }

    /// Sends a request, and reads its answer.
    fn ask<T>(
        &mut self,
        command: u8,
        attribute: u16,
        value: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request(self.family, command, self.sequence, attribute, value);
        send(&self.socket, &bytes, SendFlags::empty())?;
        // Answers to requests that were given up may come first.
        for _ in 0..16 {
            let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            for reply in replies(self.buffer.get(..length).unwrap_or_default()) {
                match reply {
                    Reply::Error(sequence, number) if sequence == self.sequence => {
                        return Err(Errno::from_raw_os_error(number.saturating_neg()));
                    }
                    Reply::Data(sequence, data) if sequence == self.sequence => return Ok(read(data)),
                    _ => {}
                }
            }
        }
        Err(Errno::TIMEDOUT)
    }
}

/// Hears of threads that end.
#[derive(Debug)]
pub struct Listener {
    connection: Taskstats,
    mask: Vec<u8>,
    lost: u64,
}

impl Listener {
    /// The threads that have ended since the last time, with what was counted for them.
    pub fn take(&mut self) -> Vec<(u32, Delays)> {
        let mut ended = Vec::new();
        // As many datagrams as the buffer can hold.
        for _ in 0..LISTENER_BYTES / 512 {
            let connection = &mut self.connection;
            match recv(&connection.socket, &mut connection.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    for reply in replies(connection.buffer.get(..length).unwrap_or_default()) {
                        if let Reply::Data(_, data) = reply {
                            ended.extend(threads(data));
                        }
                    }
                }
                // The kernel says once that it had to drop some, not how many.
                Err(Errno::NOBUFS) => self.lost += 1,
                Err(_) => break,
            }
        }
        ended
    }

    /// How often the kernel had to drop some.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.connection.tell(LISTEN_NO_MORE, &self.mask);
    }
}

/// The threads in a reply.
fn threads(data: &[u8]) -> Vec<(u32, Delays)> {
    let thread = |nested: &[u8]| {
        let id = word(attributes(nested, THREAD_ID).first()?, 0)?;
        Some((id, delays(attributes(nested, STRUCTURE).first()?)?))
    };
    attributes(data, THREAD).into_iter().filter_map(thread).collect()
}

fn failed(error: Errno) -> Unavailable {
    match error {
        Errno::PERM | Errno::ACCESS => Unavailable::new(Reason::Denied, "taskstats: permission denied")
            .with_remedy("run rdiag as root on the host, or grant it CAP_NET_ADMIN there"),
        Errno::AGAIN | Errno::TIMEDOUT => Unavailable::new(Reason::Hung, "taskstats did not answer"),
        Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => {
            Unavailable::new(Reason::Absent, "this kernel has no generic netlink")
        }
        other => Unavailable::new(Reason::Malformed, format!("taskstats: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_in_a_reply() {
        let structure = include_bytes!("recorded-v16.bin");
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes
        };
        let nested = [attribute(THREAD_ID, &77_u32.to_ne_bytes()), attribute(STRUCTURE, structure)].concat();
        let found = threads(&attribute(THREAD, &nested));
        assert_eq!(found.iter().map(|(tid, delays)| (*tid, delays.cpu.count)).collect::<Vec<_>>(), [(77, 32)]);
        assert!(threads(&nested).is_empty());
    }

    #[test]
    fn whoever_asks_gets_an_answer_or_a_reason() {
        match Taskstats::open().and_then(|mut kernel| kernel.of_thread(std::process::id())) {
            Ok(delays) => assert!(delays.is_some_and(|delays| delays.cpu.count > 0)),
            Err(gap) => assert!([Reason::Denied, Reason::Absent].contains(&gap.reason), "{gap}"),
        }
    }
}
