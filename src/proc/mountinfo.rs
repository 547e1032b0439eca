//! /proc/PID/mountinfo.

/// A line, taken apart at its separator. Names in it are as the kernel wrote them, which [`crate::unescape_octal`] undoes.
///
/// `36 35 98:0 /root /point rw,noatime shared:1 - ext3 /dev/root rw,errors=continue`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountLine<'b> {
    mount: &'b [u8],
    file_system: &'b [u8],
}

impl<'b> MountLine<'b> {
    /// None for a line that was cut before the type of the file system.
    #[must_use]
    pub fn parse(line: &'b [u8]) -> Option<Self> {
        const SEPARATOR: &[u8] = b" - ";
        let at = line.windows(SEPARATOR.len()).position(|bytes| bytes == SEPARATOR)?;
        let (mount, rest) = line.split_at_checked(at)?;
        Some(Self { mount, file_system: rest.get(SEPARATOR.len()..)? })
    }

    /// The kernel's number for this mount, which open files name as well.
    #[must_use]
    pub fn id(&self) -> Option<&'b [u8]> {
        field(self.mount, 0)
    }

    /// Major and minor number of the superblock: the same for all mounts of one file system.
    #[must_use]
    pub fn device(&self) -> Option<&'b [u8]> {
        field(self.mount, 2)
    }

    /// The directory within the file system that is mounted; `/` unless it is a bind mount or a subvolume.
    #[must_use]
    pub fn root(&self) -> Option<&'b [u8]> {
        field(self.mount, 3)
    }

    /// Where it is mounted.
    #[must_use]
    pub fn point(&self) -> Option<&'b [u8]> {
        field(self.mount, 4)
    }

    /// Options of this mount, with commas between them.
    #[must_use]
    pub fn options(&self) -> Option<&'b [u8]> {
        field(self.mount, 5)
    }

    /// Type of the file system.
    #[must_use]
    pub fn kind(&self) -> &'b [u8] {
        field(self.file_system, 0).unwrap_or_default()
    }

    /// What is mounted: a device, a server and its export. May be empty.
    #[must_use]
    pub fn source(&self) -> Option<&'b [u8]> {
        field(self.file_system, 1)
    }

    /// Options of the file system, for all its mounts.
    #[must_use]
    pub fn super_options(&self) -> Option<&'b [u8]> {
        field(self.file_system, 2)
    }
}

/// One blank separates two fields: of two, the field between them is empty.
fn field(fields: &[u8], at: usize) -> Option<&[u8]> {
    fields.split(|byte| *byte == b' ').nth(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn any_number_of_optional_fields_may_stand_before_the_separator() {
        for optional in ["", " shared:1", " shared:1 master:2 new"] {
            let line = format!("36 35 98:0 /mnt1 /mnt\\0402 rw,noatime{optional} - ext3 /dev/root rw,errors=continue");
            let line = MountLine::parse(line.as_bytes()).unwrap();
            let mount = [line.id(), line.device(), line.root(), line.point(), line.options()];
            assert_eq!(mount, ["36", "98:0", "/mnt1", "/mnt\\0402", "rw,noatime"].map(|field| Some(field.as_bytes())));
            assert_eq!((line.kind(), line.source()), (&b"ext3"[..], Some(&b"/dev/root"[..])));
            assert_eq!(line.super_options(), Some(&b"rw,errors=continue"[..]));
        }
    }

    #[test]
    fn a_source_may_be_empty_and_a_name_any_bytes() {
        let line = MountLine::parse(b"303 98 0:47 / /\xff ro - tmpfs  ro,size=0k").unwrap();
        assert_eq!(
            (line.point(), line.source(), line.super_options()),
            (Some(&b"/\xff"[..]), Some(&b""[..]), Some(&b"ro,size=0k"[..]))
        );
    }

    #[test]
    fn a_line_that_was_cut_tells_what_is_left_of_it() {
        for line in ["", "36 35 98:0 /mnt1 /mnt2 rw shared:1", "36 35 98:0 / / rw -"] {
            assert_eq!(MountLine::parse(line.as_bytes()), None, "{line:?}");
        }
        let cut = MountLine::parse(b"36 35 98:0 / / rw - ext3").unwrap();
        assert_eq!((cut.kind(), cut.source(), cut.super_options()), (&b"ext3"[..], None, None));
        let short = MountLine::parse(b"36 35 - ext3").unwrap();
        assert_eq!((short.id(), short.device(), short.options()), (Some(&b"36"[..]), None, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), words in "[-/a-z0-9: ]{0,80}") {
            for line in [bytes.as_slice(), words.as_bytes()] {
                let Some(line) = MountLine::parse(line) else { continue };
                let _ = [line.id(), line.device(), line.root(), line.point(), line.options(), line.source(), line.super_options()];
            }
        }
    }
}
