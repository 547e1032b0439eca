//! What a thread waits for in io_uring_enter, as the kernel lists it: the requests of a ring that wait until a file is ready.
//!
//! The kernel lists requests that wait for sockets and pipes, and counts all that are under way: where both are the same number, the wait
//! is for those files. (Whether a wait was for a disk is known by its requests: rings.h.)

use rdiag_kernel::host::Host;
use rdiag_proc::field;

/// Names of operations by number, as `io_uring_enter(2)` has them without `IORING_OP_`: those that wait for a file to be ready.
const OPERATIONS: &[(u32, &str)] = &[
    (1, "readv"),
    (2, "writev"),
    (4, "read"),
    (5, "write"),
    (6, "poll"),
    (9, "sendmsg"),
    (10, "recvmsg"),
    (13, "accept"),
    (16, "connect"),
    (22, "read"),
    (23, "write"),
    (26, "send"),
    (27, "recv"),
    (30, "splice"),
];
/// Names that are written out.
const MAX_NAMES: usize = 3;

/// What a ring waits for; none where something else than waits for files is under way, or nothing, or that cannot be seen.
pub(super) fn waits_for(host: &Host, pid: u32, ring: u64) -> Option<String> {
    let fdinfo = host.read(&format!("proc/{pid}/fdinfo/{}", ring as u32)).ok()?;
    of_ring(&fdinfo)
}

/// The operations of a ring, if all that is under way are such.
fn of_ring(fdinfo: &str) -> Option<String> {
    let field = |name: &str| field(fdinfo, name)?.parse::<u32>().ok();
    let under_way = field("CachedSqHead:")?.wrapping_sub(field("CachedCqTail:")?);
    let listed = fdinfo.lines().skip_while(|line| !line.starts_with("PollList:")).skip(1);
    let operation = |line: &str| line.trim().strip_prefix("op=")?.split(',').next()?.parse::<u32>().ok();
    let operations: Vec<u32> = listed.map_while(operation).collect();
    if operations.is_empty() || operations.len() != under_way as usize {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for operation in operations {
        let name = OPERATIONS.iter().find(|(number, _)| *number == operation).map_or("others", |(_, name)| *name);
        if !names.contains(&name) && names.len() < MAX_NAMES {
            names.push(name);
        }
    }
    Some(format!("io_uring: {}", names.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fdinfo(submitted: u32, completed: u32, polled: &[u32]) -> String {
        let polled: String = polled.iter().map(|operation| format!("  op={operation}, task_works=0\n")).collect();
        format!(
            "pos:\t0\nSqMask:\t0x7\nSqHead:\t{submitted}\nCachedSqHead:\t{submitted}\nCqTail:\t{completed}\n\
             CachedCqTail:\t{completed}\nSQEs:\t0\nCQEs:\t0\nPollList:\n{polled}CqOverflowList:\n"
        )
    }

    #[test]
    fn a_ring_waits_for_files_where_all_that_is_under_way_does() {
        assert_eq!(of_ring(&fdinfo(5, 4, &[27])).as_deref(), Some("io_uring: recv"));
        assert_eq!(of_ring(&fdinfo(8, 5, &[13, 27, 27])).as_deref(), Some("io_uring: accept or recv"));
        assert_eq!(
            of_ring(&fdinfo(1, u32::MAX, &[99, 6])).as_deref(),
            Some("io_uring: others or poll"),
            "counters wrap around"
        );
        assert_eq!(of_ring(&fdinfo(6, 4, &[27])), None, "a request to a disk is under way too");
        assert_eq!(of_ring(&fdinfo(4, 4, &[27])), None, "one of several answers of one request");
        assert_eq!((of_ring(&fdinfo(5, 4, &[])), of_ring(""), of_ring("CachedSqHead: x")), (None, None, None));
    }
}
