//! Memory that this process has and does not use, given back to the kernel: for one that runs for months, after a start that took more.
#![expect(unsafe_code, reason = "madvise(2) on what is mapped, and malloc_trim(3), have no safe wrappers")]

use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;

use rdiag_proc::Mapping;
use rustix::mm::{Advice, madvise};

/// A range of addresses.
type Range = std::ops::Range<usize>;

/// Gives back free memory of the allocator, and pages of files: this program's own code and constants, most of which only the start needs.
/// Code that runs later is refaulted from the page cache, 64 kB at a time.
pub fn release_memory() {
    // SAFETY: it gives back what no allocation holds.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
    for range in unchanged(&text("/proc/self/smaps")) {
        let start = with_exposed_provenance_mut::<c_void>(range.start);
        // SAFETY: the mapping cannot be written to, and holds no page but those of its file, which come back unchanged when they are
        // looked at.
        let _ = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) };
    }
}

fn text(path: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "rdiag's own memory, not what is looked at")]
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Of /proc/PID/smaps, the mappings of files that can be neither written to nor have been: no page of theirs is in memory of its own
/// (relocated constants are), or was and is in swap space now.
fn unchanged(smaps: &str) -> Vec<Range> {
    let mut found = Vec::new();
    let mut mapping: Option<Range> = None;
    let mut own = None;
    for line in smaps.lines() {
        if let Some(next) = header(line) {
            (mapping, own) = (next, None);
            continue;
        }
        let none = || line.split_whitespace().nth(1) == Some("0");
        match line.split(':').next() {
            Some("Anonymous") => own = Some(!none()),
            // It comes after the other one.
            Some("Swap") if own == Some(false) && none() => found.extend(mapping.take()),
            _ => {}
        }
    }
    found
}

/// If a line begins a mapping (`55d0…-55d1… r-xp 00000000 fe:01 1234 /usr/bin/rdiag`), its range where that is private, of a file and not
/// writable.
fn header(line: &str) -> Option<Option<Range>> {
    let mapping = Mapping::parse(line)?;
    let range = usize::try_from(mapping.start).ok()?..usize::try_from(mapping.end).ok()?;
    let is_fixed = mapping.rights.ends_with('p') && mapping.rights.as_bytes().get(1) == Some(&b'-');
    Some((is_fixed && mapping.inode.is_some_and(|inode| inode != 0)).then_some(range))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};

    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn mappings_of_files_that_were_never_written_to_are_found_and_no_others() {
        let mapping = |at: u32, mode: &str, inode: u32, rest: &str| {
            format!("{at}000-{at}800 {mode} 00000000 fe:01 {inode}    /usr/bin/rdiag\nSize: 2 kB\nRss: 2 kB\n{rest}")
        };
        let (clean, changed) = ("Anonymous: 0 kB\nSwap: 0 kB\n", "Anonymous: 4 kB\nSwap: 0 kB\n");
        let smaps = [
            mapping(1, "r-xp", 7, clean),
            mapping(2, "rw-p", 7, clean),
            mapping(3, "r--p", 7, changed),
            mapping(4, "r--p", 7, "Anonymous: 0 kB\nSwap: 4 kB\n"),
            mapping(5, "r--s", 7, clean),
            mapping(6, "r-xp", 0, clean),
            mapping(7, "r--p", 7, clean),
            // What a kernel does not say is not known.
            mapping(8, "r--p", 7, "Anonymous: 0 kB\n"),
            mapping(9, "r--p", 7, "Swap: 0 kB\n"),
            "VmFlags: rd ex mr mw me\nno line of smaps\n".to_owned(),
        ];
        assert_eq!(unchanged(&smaps.concat()), [0x1000..0x1800, 0x7000..0x7800]);
        assert!(unchanged("").is_empty());
    }

    /// Kilobytes of the mapping at an address that are in memory.
    fn resident(start: usize) -> u64 {
        let smaps = text("/proc/self/smaps");
        let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
        let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn pages_of_a_file_are_given_back_and_what_was_written_over_them_stays() {
        const PAGES: usize = 64;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; PAGES * PAGE]).unwrap();
        let map = || {
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: the kernel chooses the place.
            unsafe { mmap(std::ptr::null_mut(), PAGES * PAGE, access, flags, &file, 0) }.unwrap().cast::<u8>()
        };
        let (code, relocated) = (map(), map());
        // SAFETY: both mappings are of this test alone, and have so many bytes.
        unsafe {
            relocated.add(5 * PAGE).write_volatile(9);
            for start in [code, relocated] {
                (0..PAGES).for_each(|page| assert!([7, 9].contains(&start.add(page * PAGE).read_volatile())));
                mprotect(start.cast(), PAGES * PAGE, MprotectFlags::READ).unwrap();
            }
        }
        let before = [code, relocated].map(|start| resident(start.addr()));
        release_memory();
        let after = [code, relocated].map(|start| resident(start.addr()));
        assert_eq!((before, after), ([256, 256], [0, 256]));
        // SAFETY: as above; nothing looks at them later.
        unsafe {
            assert_eq!((code.add(5 * PAGE).read_volatile(), relocated.add(5 * PAGE).read_volatile()), (7, 9));
            munmap(code.cast(), PAGES * PAGE).unwrap();
            munmap(relocated.cast(), PAGES * PAGE).unwrap();
        }
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_was_allocated_and_freed_is_given_back() {
        let of_no_file = || {
            let status = text("/proc/self/status");
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        // The last one keeps the allocator from giving back the others by itself.
        let mut blocks: Vec<Vec<u8>> = (0..64_000).map(|_| vec![1; 1000]).collect();
        let last = blocks.pop();
        drop(blocks);
        let kept = of_no_file();
        release_memory();
        let after = of_no_file();
        assert!(after + 40_000 < kept, "{kept} kB before, {after} kB after");
        drop(last);
    }
}
