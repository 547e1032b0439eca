//! Where the fields of `struct taskstats` (linux/taskstats.h) lie. They have moved: version 15 put the longest and shortest
//! delay between them, version 16 put those at the end again. So the version that stands in the reply decides, never the
//! structure that this program was built with.

/// What the kernel has counted for a thread since it was born.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delays {
    /// Version of the structure.
    pub version: u16,
    /// Waiting for a CPU.
    pub cpu: Delay,
    /// Waiting for a disk: with `in_iowait` set.
    pub disk: Delay,
    /// Swapping in: up to version 10 the waits for the disk, which are then not in `disk`; afterwards only the handing over
    /// of the request, or the unpacking where swap is compressed memory.
    pub swap_in: Delay,
    /// Freeing memory for itself (direct reclaim), the CPU time for it included. None before version 7.
    pub reclaim: Option<Delay>,
    /// Waiting for pages that had been evicted shortly before; most of it is in `disk` too. None before version 9.
    pub thrashing: Option<Delay>,
    /// Moving pages together, the CPU time for it included. None before version 11.
    pub compaction: Option<Delay>,
}

/// How often, and for how long in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delay {
    /// How often.
    pub count: u64,
    /// Nanoseconds.
    pub nanoseconds: u64,
}

/// Versions before this one are those of kernels that are no longer in use.
const OLDEST: u16 = 4;
/// The version with the longest and shortest delay beside each sum.
const INTERLEAVED: u16 = 15;
/// Up to this version, waits for a disk while swapping in are counted separately from other waits for disks.
const SWAP_APART: u16 = 10;

/// Offsets of the pairs of count and sum, in bytes.
struct Layout {
    disk: usize,
    swap_in: usize,
    reclaim: usize,
    thrashing: usize,
    compaction: usize,
}

const PLAIN: Layout = Layout { disk: 32, swap_in: 48, reclaim: 312, thrashing: 328, compaction: 352 };
/// Two words more behind each pair.
const WITH_EXTREMES: Layout = Layout { disk: 48, swap_in: 80, reclaim: 360, thrashing: 392, compaction: 432 };

impl Delays {
    /// Whether `disk` leaves out the waits in `swap_in`.
    #[must_use]
    pub fn swap_is_apart(&self) -> bool {
        (1..=SWAP_APART).contains(&self.version)
    }
}

/// The fields of a structure as the kernel sent it; none if it is not what its version says.
#[must_use]
pub fn delays(bytes: &[u8]) -> Option<Delays> {
    let version = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let word = |offset: usize| Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?));
    let at = |offset: usize| Some(Delay { count: word(offset)?, nanoseconds: word(offset + 8)? });
    let layout = match version {
        ..OLDEST => return None,
        INTERLEAVED => WITH_EXTREMES,
        _ => PLAIN,
    };
    let since = |first: u16, offset: usize| at(offset).filter(|_| version >= first);
    Some(Delays {
        version,
        cpu: at(16)?,
        disk: at(layout.disk)?,
        swap_in: at(layout.swap_in)?,
        reclaim: since(7, layout.reclaim),
        thrashing: since(9, layout.thrashing),
        compaction: since(11, layout.compaction),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A structure whose words count from 1.
    fn structure(version: u16, words: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..words).flat_map(u64::to_ne_bytes).collect();
        bytes[..2].copy_from_slice(&version.to_ne_bytes());
        bytes
    }

    fn pair(first: u64) -> Delay {
        Delay { count: first, nanoseconds: first + 1 }
    }

    #[test]
    fn fields_are_where_the_version_puts_them() {
        // Versions of Linux 5.10, 6.1, 6.12 and 6.18, and one of the future.
        for (version, words) in [(10, 44), (13, 51), (14, 53), (16, 70), (17, 86)] {
            let delays = delays(&structure(version, words)).unwrap();
            assert_eq!((delays.cpu, delays.disk, delays.swap_in), (pair(2), pair(4), pair(6)), "{version}");
            assert_eq!((delays.reclaim, delays.thrashing), (Some(pair(39)), Some(pair(41))), "{version}");
            assert_eq!(delays.compaction, (version > 10).then(|| pair(44)), "{version}");
            assert_eq!(delays.swap_is_apart(), version == 10);
        }
        // The longest and the shortest delay stand behind each pair.
        let interleaved = delays(&structure(15, 70)).unwrap();
        assert_eq!((interleaved.cpu, interleaved.disk, interleaved.swap_in), (pair(2), pair(6), pair(10)));
        assert_eq!((interleaved.reclaim, interleaved.thrashing), (Some(pair(45)), Some(pair(49))));
        assert_eq!(interleaved.compaction, Some(pair(54)));
    }

    #[test]
    fn short_and_ancient_structures_are_refused_and_fields_that_were_not_sent_are_not_zero() {
        assert_eq!(delays(&structure(16, 5)), None);
        assert_eq!(delays(&structure(3, 50)), None);
        assert_eq!(delays(b""), None);
        let short = delays(&structure(16, 20)).unwrap();
        assert_eq!((short.disk, short.reclaim, short.compaction), (pair(4), None, None));
    }

    /// As Linux 6.18 sent it of an interpreter that had waited for no disk.
    #[test]
    fn a_recorded_structure_is_read() {
        let delays = delays(include_bytes!("recorded-v16.bin")).unwrap();
        assert_eq!((delays.version, delays.cpu), (16, Delay { count: 32, nanoseconds: 23_080_507 }));
        let none = Some(Delay::default());
        assert_eq!((delays.disk, delays.swap_in), (Delay::default(), Delay::default()));
        assert_eq!((delays.reclaim, delays.thrashing, delays.compaction), (none, none, none));
    }

    proptest! {
        #[test]
        fn no_bytes_can_stop_it(bytes: Vec<u8>) {
            let _ = delays(&bytes);
        }
    }
}
