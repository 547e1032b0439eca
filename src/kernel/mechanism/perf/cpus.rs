//! Lists of CPUs as the kernel writes them.

use crate::host::Host;

/// No machine has more CPUs than this.
const MAX: u32 = 1 << 16;

/// `0-3,8` → 0, 1, 2, 3, 8; what makes no sense is left out.
#[must_use]
pub fn parse(list: &str) -> Vec<u32> {
    let range = |range: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < MAX).then_some(first..=last)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// The CPUs that are switched on.
#[must_use]
pub fn online(host: &Host) -> Vec<u32> {
    let listed = host.read_line("sys/devices/system/cpu/online").map(|list| parse(&list)).unwrap_or_default();
    if listed.is_empty() { (0..host.facts().cpus).collect() } else { listed }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lists_are_read_and_nonsense_is_left_out() {
        assert_eq!(parse("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert!(parse("").is_empty());
        assert_eq!(parse("x,1,3-2,0-4294967295"), [1]);
    }
}
