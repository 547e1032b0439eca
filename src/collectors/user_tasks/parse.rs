//! What /proc/PID/status says about a process as one of a user's.

/// CAP_SYS_ADMIN and CAP_SYS_RESOURCE: a process with one of them is exempt from the limit on processes.
const UNBOUND: u64 = 1 << 21 | 1 << 24;

/// Name, real user and threads of a process, and whether its limit on processes holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) threads: u64,
    pub(super) is_bound: bool,
}

/// None where a line is missing or broken. The kernel writes line ends in a name as `\n`.
pub(super) fn status(bytes: &[u8]) -> Option<Status> {
    let text = String::from_utf8_lossy(bytes);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let capabilities = u64::from_str_radix(field("CapEff").unwrap_or("0"), 16).ok()?;
    Some(Status {
        name: field("Name")?.to_owned(),
        uid: field("Uid")?.split_whitespace().next()?.parse().ok()?,
        threads: field("Threads")?.parse().ok()?,
        // What has ended counts until its parent has asked for it, and starts nothing any more.
        is_bound: capabilities & UNBOUND == 0 && !field("State").unwrap_or("").starts_with('Z'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tmy sh\nUmask:\t0022\nState:\tS (sleeping)\nUid:\t1000\t0\t0\t0\nThreads:\t3\nCapEff:\t0000000000000000\n";

    #[test]
    fn the_real_user_and_the_capabilities_count() {
        let expected = Status { name: "my sh".into(), uid: 1000, threads: 3, is_bound: true };
        assert_eq!(status(STATUS.as_bytes()), Some(expected));
        for (mask, is_bound) in [("200000", false), ("1000000", false), ("ffffffffffffffff", false), ("400", true)] {
            let text = STATUS.replace("CapEff:\t0000000000000000", &format!("CapEff:\t{mask}"));
            assert_eq!(status(text.as_bytes()).unwrap().is_bound, is_bound, "{mask}");
        }
        let ended = STATUS.replace("S (sleeping)", "Z (zombie)");
        assert!(!status(ended.as_bytes()).unwrap().is_bound);
        for cut in 0..STATUS.find("CapEff").unwrap() - 2 {
            assert_eq!(status(&STATUS.as_bytes()[..cut]), None, "{cut}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = status(&bytes);
        }
    }
}
