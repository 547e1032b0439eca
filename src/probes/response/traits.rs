//! What the arguments and results of calls are. For calls on rings (io_uring, libaio) the kernel's mark of a wait for a disk is not used:
//! it is set for any wait in io_uring_enter while a request is under way, the read of a pipe too, and never for libaio. The programs know
//! instead whether a request to a disk ended meanwhile that a call on the ring, or a worker, had sent (rings.h).

use crate::calls;

/// Calls whose first argument is a file descriptor, and whose result is a number of bytes.
const MOVES_BYTES: &[&str] = &[
    "read",
    "pread64",
    "readv",
    "preadv",
    "preadv2",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "recvfrom",
    "recvmsg",
    "sendto",
    "sendmsg",
    "getdents",
    "getdents64",
    "sendfile",
    "splice",
    "copy_file_range",
    "tee",
    "vmsplice",
];
/// Other calls whose first argument is one, and that may wait for it.
const ON_FILE: &[&str] = &[
    "recvmmsg",
    "sendmmsg",
    "connect",
    "accept",
    "accept4",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "syncfs",
    "fallocate",
    "ftruncate",
    "ioctl",
    "flock",
    "fcntl",
];
/// Calls after which a descriptor may mean another file.
const FREES: &[&str] = &["close", "close_range", "dup2", "dup3", "execve", "execveat"];

/// Calls that wait for any of many requests.
const RINGS: &[&str] = &["io_uring_enter", "io_getevents", "io_pgetevents"];
/// Calls that hand over requests which those wait for.
const HAND_OVER: &[&str] = &["io_uring_enter", "io_submit"];
/// Calls that wait for any of a list of descriptors, and of sets of them.
const POLLS: &[&str] = &["poll", "ppoll"];
const SELECTS: &[&str] = &["select", "pselect6"];

/// For each call what its arguments and result are, as response.bpf.c has it.
pub(super) fn all() -> Vec<u8> {
    const TAKES_FD: u8 = 1;
    const GIVES_BYTES: u8 = 2;
    const TAKES_ADDRESS: u8 = 4;
    const FREES_FD: u8 = 8;
    const IS_RING: u8 = 16;
    const IS_POLL: u8 = 32;
    const IS_SELECT: u8 = 64;
    const HANDS_OVER: u8 = 128;
    let sets: [(&[&str], u8); 8] = [
        (MOVES_BYTES, TAKES_FD | GIVES_BYTES),
        (ON_FILE, TAKES_FD),
        (&["futex"], TAKES_ADDRESS),
        (FREES, FREES_FD),
        (RINGS, IS_RING),
        (HAND_OVER, HANDS_OVER),
        (POLLS, IS_POLL),
        (SELECTS, IS_SELECT),
    ];
    let mut traits = vec![0_u8; calls::CALLS];
    for (names, bits) in sets {
        for number in names.iter().filter_map(|name| calls::number(name)) {
            if let Some(of) = traits.get_mut(number as usize) {
                *of |= bits;
            }
        }
    }
    traits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_takes_a_descriptor_and_gives_bytes_and_a_close_frees_one() {
        let of = |name| all()[calls::number(name).unwrap() as usize];
        assert_eq!([of("read"), of("fsync"), of("futex"), of("close"), of("nanosleep")], [3, 1, 4, 8, 0]);
        assert_eq!([of("io_uring_enter"), of("io_getevents"), of("ppoll"), of("pselect6")], [16 | 128, 16, 32, 64]);
        assert_eq!(of("io_submit"), 128);
        assert_eq!(all().len(), calls::CALLS);
    }
}
