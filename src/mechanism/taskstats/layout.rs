//! Where the fields of `struct taskstats` (linux/taskstats.h) lie. They have moved: version 15 put the longest and shortest
//! delay between them, version 16 put those at the end again. So the version that stands in the reply decides, never the
//! structure that this program was built with.

/// What the kernel has counted for a thread since it was born.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delays {
    /// Version of the structure.
    pub version: u16,
    /// How often it got a CPU.
    pub cpu_count: u64,
    /// Nanoseconds in which it waited for a CPU.
    pub cpu_delay: u64,
    /// How often it waited for a disk: with `in_iowait` set.
    pub disk_count: u64,
    /// Nanoseconds in which it did.
    pub disk_delay: u64,
}

/// Versions before this one are those of kernels that nobody runs any more.
const OLDEST: u16 = 4;
/// The version with the longest and shortest delay beside each sum.
const INTERLEAVED: u16 = 15;

/// The fields of a structure as the kernel sent it; none if it is not what its version says.
#[must_use]
pub fn delays(bytes: &[u8]) -> Option<Delays> {
    let version = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let at = |offset: usize| Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?));
    let disk = match version {
        ..OLDEST => return None,
        INTERLEAVED => 48,
        _ => 32,
    };
    Some(Delays { version, cpu_count: at(16)?, cpu_delay: at(24)?, disk_count: at(disk)?, disk_delay: at(disk + 8)? })
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

    #[test]
    fn fields_are_where_the_version_puts_them() {
        // Sizes: 5.10 sends version 10, 6.1 version 13, 6.12 version 14, 6.18 version 16.
        for (version, words) in [(10, 44), (13, 51), (14, 53), (16, 70), (17, 86)] {
            let delays = delays(&structure(version, words)).unwrap();
            assert_eq!(
                (delays.cpu_count, delays.cpu_delay, delays.disk_count, delays.disk_delay),
                (2, 3, 4, 5),
                "{version}"
            );
        }
        // Words 4 and 5 are the longest and shortest wait for a CPU.
        let interleaved = delays(&structure(15, 69)).unwrap();
        assert_eq!((interleaved.cpu_delay, interleaved.disk_count, interleaved.disk_delay), (3, 6, 7));
    }

    #[test]
    fn short_and_ancient_structures_are_refused() {
        assert_eq!(delays(&structure(16, 5)), None);
        assert_eq!(delays(&structure(3, 50)), None);
        assert_eq!(delays(b""), None);
    }

    /// As Linux 6.18 sent it of an interpreter that had waited for no disk.
    #[test]
    fn a_recorded_structure_is_read() {
        let delays = delays(include_bytes!("recorded-v16.bin")).unwrap();
        assert_eq!((delays.version, delays.cpu_count, delays.cpu_delay), (16, 32, 23_080_507));
        assert_eq!((delays.disk_count, delays.disk_delay), (0, 0));
    }

    proptest! {
        #[test]
        fn no_bytes_can_stop_it(bytes: Vec<u8>) {
            let _ = delays(&bytes);
        }
    }
}
