//! Counters of the queueing disciplines of network devices and their classes, from rtnetlink. No privilege is needed; the answer covers the
//! network namespace of the process.

mod message;

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netdevice, netlink, recv, send, socket_with,
    sockopt,
};

use super::netlink::{DUMP, REQUEST, message};
pub use message::Queue;
use message::{Part, asking, parts};
use rdiag_model::{Reason, Unavailable};

const GET_QDISC: u16 = 38;
const GET_CLASS: u16 = 42;

/// More entries than this are not read.
const MAX_QUEUES: usize = 16_384;
/// The kernel fills at most 32 KiB of a datagram.
const DATAGRAM: usize = 64 << 10;

/// A connection to the kernel.
#[derive(Debug)]
pub struct TrafficControl {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl TrafficControl {
    /// Connects.
    pub fn open() -> Result<Self, Unavailable> {
        // Without the number of a protocol, netlink is rtnetlink.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .and_then(|socket| {
                bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
                // A request without an answer must not hang the run.
                sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1)))?;
                Ok(socket)
            })
            .map_err(failed)?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; DATAGRAM] })
    }

    /// The queueing disciplines of all devices.
    pub fn qdiscs(&mut self) -> Result<Vec<Queue>, Unavailable> {
        self.ask(GET_QDISC, 0).map_err(failed)
    }

    /// The classes of a device.
    pub fn classes(&mut self, device: u32) -> Result<Vec<Queue>, Unavailable> {
        self.ask(GET_CLASS, device).map_err(failed)
    }

    /// The name of a device.
    #[must_use]
    pub fn name(&self, device: u32) -> Option<String> {
        netdevice::index_to_name(&self.socket, device).ok()
    }

    fn ask(&mut self, what: u16, device: u32) -> Result<Vec<Queue>, Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = message(what, REQUEST | DUMP, self.sequence, &asking(device));
        send(&self.socket, &bytes, SendFlags::empty())?;
        let mut all = Vec::new();
        for _ in 0..MAX_QUEUES {
            let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            for part in parts(self.buffer.get(..length).unwrap_or_default(), self.sequence) {
                match part {
                    Part::Queue(queue) if all.len() < MAX_QUEUES => all.push(queue),
                    Part::Queue(_) => {}
                    Part::Error(0) | Part::Done => return Ok(all),
                    Part::Error(number) => return Err(Errno::from_raw_os_error(number.saturating_neg())),
                }
            }
        }
        Err(Errno::TIMEDOUT)
    }
}

fn failed(error: Errno) -> Unavailable {
    match error {
        // systemd's RestrictAddressFamilies= answers that there is no such family.
        Errno::PERM | Errno::ACCESS | Errno::AFNOSUPPORT => {
            Unavailable::new(Reason::Denied, "reading queueing disciplines (rtnetlink) is denied")
                .with_remedy("run rdiag where AF_NETLINK sockets are allowed: outside the sandbox or container")
        }
        Errno::AGAIN | Errno::TIMEDOUT => Unavailable::new(
            Reason::Hung,
            "the kernel did not answer the request for queueing disciplines (rtnetlink) within 1 s",
        ),
        Errno::PROTONOSUPPORT | Errno::OPNOTSUPP => {
            Unavailable::new(Reason::Absent, "this kernel has no queueing disciplines (CONFIG_NET_SCHED)")
        }
        other => Unavailable::new(Reason::Malformed, format!("reading queueing disciplines (rtnetlink): {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_is_a_reason_and_a_remedy() {
        for refused in [Errno::PERM, Errno::ACCESS, Errno::AFNOSUPPORT] {
            let gap = failed(refused);
            assert_eq!((gap.reason, gap.remedy.is_some()), (Reason::Denied, true), "{refused}");
        }
        assert_eq!(failed(Errno::OPNOTSUPP).reason, Reason::Absent);
        assert_eq!(failed(Errno::AGAIN).reason, Reason::Hung);
    }

    #[test]
    fn an_ordinary_user_gets_an_answer_or_a_reason() {
        let answer = TrafficControl::open().and_then(|mut kernel| kernel.qdiscs().map(|all| (kernel.name(1), all)));
        match answer {
            // Every network namespace has loopback; the kernel lists its queue even where there is none.
            Ok((name, all)) => assert_eq!((name.as_deref(), all.iter().any(|one| one.device == 1)), (Some("lo"), true)),
            Err(gap) => assert!([Reason::Denied, Reason::Absent].contains(&gap.reason), "{gap}"),
        }
    }
}
