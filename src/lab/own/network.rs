//! A network of rdiag's own: a network namespace with nothing but a loopback interface, whose packets one CPU takes in.
#![expect(
    unsafe_code,
    reason = "unshare(2), the ioctl that switches an interface on, and an option of UDP without a safe wrapper"
)]

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Which CPUs take in what a queue received (Documentation/networking/scaling.rst).
const STEERING: &str = "/sys/class/net/lo/queues/rx-0/rps_cpus";

/// Puts the calling thread into a network of its own, and has what arrives there taken in by one CPU. All of it is gone with the last
/// thread in it, and nothing of the host is changed. It needs CAP_SYS_ADMIN, and a process with threads takes only this one there.
pub fn enter_own_network(cpu: usize) -> io::Result<()> {
    // SAFETY: no descriptor is shared differently afterwards: neither CLONE_FILES nor a new process namespace is asked for.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS)? };
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    // What was mounted at /sys shows the interfaces of the network that it was mounted from.
    mount("sysfs", "/sys", "sysfs", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
    switch_on("lo")?;
    OpenOptions::new().write(true).open(STEERING)?.write_all(mask(cpu).as_bytes())
}

/// Has what is sent by one call become datagrams of so many bytes, as late as the network can (UDP_SEGMENT, udp(7)): on a loopback
/// interface where they are taken in.
pub fn split_datagrams(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    let bytes = libc::c_int::from(bytes);
    // SAFETY: the kernel reads one integer, of the length that is stated beside it, before the call returns.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A set of one CPU as the kernel reads it: hexadecimal, 32 at a time, the highest first.
fn mask(cpu: usize) -> String {
    let zeros = ",00000000".repeat(cpu / 32);
    format!("{:x}{zeros}", 1_u32 << (cpu % 32))
}

fn switch_on(interface: &str) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all bytes zero are a valid value of this type, which holds numbers and addresses only.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(15)) {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the pointer is to a live value of the type that this request reads.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_one_cpu_is_written_as_the_kernel_reads_it() {
        assert_eq!([0, 5, 31, 32, 70].map(mask), ["1", "20", "80000000", "1,00000000", "40,00000000,00000000"]);
    }

    #[test]
    fn what_one_call_sends_arrives_as_datagrams() {
        let [to, from] = [(); 2].map(|()| UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        split_datagrams(&from, 10).unwrap();
        from.send(&[0; 25]).unwrap();
        let mut room = [0; 64];
        assert_eq!([(); 3].map(|()| to.recv(&mut room).unwrap()), [10, 10, 5]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what this very thread sees")]
    fn only_the_thread_that_asked_is_in_the_new_network() {
        let interfaces = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let before = interfaces();
        let there = std::thread::spawn(move || enter_own_network(0).is_ok().then(interfaces)).join().unwrap();
        if let Some(there) = there {
            let names: Vec<_> = there.lines().skip(2).filter_map(|line| line.split_once(':')).collect();
            assert!(names.iter().any(|(name, _)| name.trim() == "lo"), "{there}");
        }
        let names =
            |text: &str| text.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect::<Vec<_>>();
        assert_eq!(names(&interfaces()), names(&before));
    }
}
