//! A socket that loses some of what arrives at it.
#![expect(unsafe_code, reason = "SO_ATTACH_FILTER has no safe wrapper")]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use libc::{BPF_ABS, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SO_ATTACH_FILTER, SOL_SOCKET};
use libc::{sock_filter, sock_fprog, socklen_t};

/// Where classic BPF finds what is not of the packet, and a random number among it (linux/filter.h).
const SKF_AD_OFF: u32 = -0x1000_i32 as u32;
const SKF_AD_RANDOM: u32 = 56;

/// Has the kernel throw away so many in a thousand of the segments or datagrams that arrive at this socket, by chance, as if they
/// had been lost on the way. It ends with the socket, and needs no privilege.
pub fn lose(socket: &impl AsFd, in_thousand: u32) -> io::Result<()> {
    let share = f64::from(in_thousand.min(1000)) / 1000.0;
    let below = (share * f64::from(u32::MAX)) as u32;
    let step = |code: u32, jump_false: u8, k: u32| sock_filter { code: code as u16, jt: 0, jf: jump_false, k };
    let mut steps = [
        step(BPF_LD | BPF_W | BPF_ABS, 0, SKF_AD_OFF.wrapping_add(SKF_AD_RANDOM)),
        // From this number on all of it is kept, otherwise nothing.
        step(BPF_JMP | BPF_JGE | BPF_K, 1, below),
        step(BPF_RET | BPF_K, 0, u32::MAX),
        step(BPF_RET | BPF_K, 0, 0),
    ];
    let program = sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel copies the program, of the length that is stated beside it, before the call returns.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            SOL_SOCKET,
            SO_ATTACH_FILTER,
            std::ptr::from_ref(&program).cast(),
            size_of::<sock_fprog>() as socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::Duration;

    use super::*;

    #[test]
    fn as_much_is_lost_as_was_asked_for() {
        let arrived = |in_thousand: u32| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            lose(&socket, in_thousand).unwrap();
            // On a busy machine a datagram arrives a moment after it was sent.
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let hundred = || {
                for _ in 0..100 {
                    sender.send_to(b"x", socket.local_addr().unwrap()).unwrap();
                }
                (0..100).take_while(|_| socket.recv(&mut [0; 4]).is_ok()).count()
            };
            (0..10).map(|_| hundred()).sum::<usize>()
        };
        assert_eq!((arrived(0), arrived(1000)), (1000, 0));
        let most = arrived(100);
        assert!((800..980).contains(&most), "a tenth of them is lost: {most}");
    }
}
