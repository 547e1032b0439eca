//! /proc/PID/maps, and the lines of /proc/PID/smaps that begin a mapping.

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'t> {
    /// First address.
    pub start: u64,
    /// The address behind the last one.
    pub end: u64,
    /// `r-xp`: what may be done with it, and whether it is private.
    pub rights: &'t str,
    /// Where in the file it begins.
    pub offset: u64,
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    /// Of the file; 0 where there is none.
    pub inode: Option<u64>,
    /// The file as the process sees it, or what the kernel calls the mapping. A line break in it is `\012`, and a removed file ends in
    /// ` (deleted)`.
    pub path: &'t str,
}

impl<'t> Mapping<'t> {
    /// None for a line that was cut before the device, or is none of a mapping.
    #[must_use]
    pub fn parse(line: &'t str) -> Option<Self> {
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        let part = |digits| u32::from_str_radix(digits, 16).ok();
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let (start, end) = (hex(start)?, hex(end)?);
        let rights = fields.next()?;
        let offset = hex(fields.next()?)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let device = (part(major)?, part(minor)?);
        let inode = fields.next().and_then(|inode| inode.parse().ok());
        Some(Self { start, end, rights, offset, device, inode, path: fields.next().unwrap_or_default().trim_start() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_may_hold_blanks_and_may_be_missing() {
        let line = "55d0c0a02000-55d0c0a09000 r-xp 00002000 fe:01 1234                       /usr/bin/my app (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x55d0_c0a0_2000, 0x55d0_c0a0_9000, 0x2000));
        assert_eq!((mapping.rights, mapping.device, mapping.inode), ("r-xp", (0xfe, 1), Some(1234)));
        assert_eq!(mapping.path, "/usr/bin/my app (deleted)");
        assert_eq!(Mapping::parse("7f00-7f01 rw-p 00000000 00:00 0").unwrap().path, "");
        assert_eq!(Mapping::parse("7f00-7f01 rw-p 00000000 00:00").unwrap().inode, None);
    }

    #[test]
    fn what_begins_no_mapping_is_none() {
        for line in [
            "",
            "Size:    4 kB",
            "VmFlags: rd ex mr mw me",
            "7f00-7f01 rw-p 0",
            "7f00-7f0g rw-p 0 0:0 0",
            "7f00 rw-p 0 0:0 0",
        ] {
            assert_eq!(Mapping::parse(line), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC{0,80}", words in "[-0-9a-f: ]{0,80}") {
            let _ = (Mapping::parse(&text), Mapping::parse(&words));
        }
    }
}
