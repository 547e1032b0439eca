//! Counters that the driver of a network device keeps under names of its own, as `ethtool -S` shows them (include/uapi/linux/ethtool.h:
//! ETHTOOL_GSSET_INFO, ETHTOOL_GSTRINGS, ETHTOOL_GSTATS). No file shows them. No right is needed.
#![expect(unsafe_code, reason = "the ioctl of ethtool has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// The ioctl for all that ethtool asks (include/uapi/linux/sockios.h).
const SIOCETHTOOL: u32 = 0x8946;
const GET_SET_INFO: u32 = 0x37;
const GET_STRINGS: u32 = 0x1b;
const GET_STATS: u32 = 0x1d;
/// The set of strings that names the counters (ETH_SS_STATS), as a number and as the bit of a mask.
const STATS: u32 = 1;
const STATS_BIT: u64 = 1 << STATS;
/// Bytes of a name, unused ones being 0 (ETH_GSTRING_LEN).
const NAME: usize = 32;

/// No device has more counters: some drivers keep a hundred and more for each queue.
const MAX: usize = 65_536;
/// The kernel writes as many counters as the driver has at that moment, whatever room there is. Their number changes where root changes the
/// number of queues, so there is room for twice as many as any device has; pages that nothing writes to cost nothing.
const ROOM: usize = 2 * MAX;

/// struct ethtool_sset_info for one set.
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    /// Which sets are asked for, and afterwards which there are.
    mask: u64,
    count: u32,
}

/// A socket through which devices of its network namespace are asked.
#[derive(Debug)]
pub struct DriverCounters(OwnedFd);

impl DriverCounters {
    /// # Errors
    /// Where no socket can be made.
    pub fn open() -> io::Result<Self> {
        Ok(Self(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?))
    }

    /// The counters of a device, in the order of its driver, each with its name; none where the driver keeps none.
    ///
    /// # Errors
    /// Where there is no such device, its driver refuses, or it has more counters than rdiag reads.
    pub fn of(&self, device: &str) -> io::Result<Vec<(String, u64)>> {
        let mut info = SetInfo { command: GET_SET_INFO, reserved: 0, mask: STATS_BIT, count: 0 };
        // SAFETY: the kernel reads and writes a `struct ethtool_sset_info` with room for one set, as many as the mask asks for.
        if let Err(error) = unsafe { self.ask(device, (&raw mut info).cast()) } {
            return if error.raw_os_error() == Some(libc::EOPNOTSUPP) { Ok(Vec::new()) } else { Err(error) };
        }
        let count = info.count as usize;
        if info.mask & STATS_BIT == 0 || count == 0 {
            return Ok(Vec::new());
        }
        if count > MAX {
            return Err(io::Error::other("it has more counters than rdiag reads"));
        }
        // struct ethtool_gstrings: three words, then names. struct ethtool_stats: two words, then numbers.
        let mut names = vec![0_u32; 3 + ROOM * NAME / 4];
        if let [command, set, length, ..] = names.as_mut_slice() {
            // Kernels of 2026 and later write nothing where their number is another one.
            (*command, *set, *length) = (GET_STRINGS, STATS, count as u32);
        }
        let mut numbers = vec![0_u64; 1 + ROOM];
        if let [begin, ..] = numbers.as_mut_slice() {
            *begin = words(GET_STATS, count as u32);
        }
        // SAFETY: both buffers begin as the kernel expects, and have room for twice as many counters as any device has.
        unsafe {
            self.ask(device, names.as_mut_ptr().cast())?;
            self.ask(device, numbers.as_mut_ptr().cast())?;
        }
        let ([_, _, named, names @ ..], [begin, numbers @ ..]) = (names.as_slice(), numbers.as_slice()) else {
            return Ok(Vec::new());
        };
        if [*named, second(*begin)].iter().any(|told| *told as usize != count) {
            return Err(io::Error::other("the driver changed its counters meanwhile"));
        }
        let bytes: Vec<u8> = names.iter().take(count * NAME / 4).flat_map(|word| word.to_ne_bytes()).collect();
        Ok(bytes.chunks_exact(NAME).map(text).zip(numbers.iter().copied()).collect())
    }

    /// # Safety
    /// `data` points to what the command at its beginning reads and writes.
    unsafe fn ask(&self, device: &str, data: *mut libc::c_char) -> io::Result<()> {
        // SAFETY: all bits zero is a valid value of this C struct.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays 0.
        if device.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = data;
        // SAFETY: the pointer is to a live value of the type that this request reads; for `data` the caller answers.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Two words of 32 bits as they stand in memory.
fn words(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The second of two such words.
fn second(both: u64) -> u32 {
    let [.., e, f, g, h] = both.to_ne_bytes();
    u32::from_ne_bytes([e, f, g, h])
}

/// A name without the bytes that are not used. It comes from a driver, so it is no more than a text.
fn text(bytes: &[u8]) -> String {
    let used = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(used).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_counters_has_none_and_one_that_is_not_there_is_an_error() {
        let kernel = DriverCounters::open().unwrap();
        assert_eq!(kernel.of("lo").unwrap(), []);
        assert_eq!(kernel.of("rdiag-no-such").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert!(kernel.of("a name of more than fifteen bytes").is_err());
        let counters = kernel.of("eth0").unwrap_or_default();
        assert!(counters.iter().all(|(name, _)| !name.is_empty() && name.len() <= NAME), "{counters:?}");
    }

    #[test]
    fn names_end_where_the_driver_ends_them() {
        assert_eq!(text(b"  pkts rx OOB\0\0rest"), "pkts rx OOB");
        assert_eq!(
            (text(b"rx_out_of_buffer"), text(b"\0"), text(b"a\xffb\0")),
            ("rx_out_of_buffer".into(), String::new(), "a\u{fffd}b".into())
        );
        assert_eq!((second(words(7, 9)), words(7, 9).to_ne_bytes().first_chunk()), (9, Some(&7_u32.to_ne_bytes())));
    }
}
