//! What of a process's memory holds code or variables, and from which file.

use std::path::PathBuf;

use super::bounded::Bounded;
use crate::host::Host;

/// Mappings that hold code, those that never do, and those of variables, in order of their addresses.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Maps(Vec<Mapping>);

/// The kernel's own library, which no file holds.
const VDSO: &str = "[vdso]";
/// Below are no addresses of a process: the least that vm.mmap_min_addr is set to anywhere.
const LOWEST: u64 = 4096;
/// Above are those of the kernel, or none, on every architecture with 64 bits.
const HIGHEST: u64 = 1 << 56;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    /// Where in the file it begins.
    offset: u64,
    /// Name of the file without its directories, `[vdso]`, or "" for memory without a file.
    object: String,
    /// Its path, as the process sees it; "" for what has none.
    path: PathBuf,
    /// Major and minor number of its file system's device.
    device: (u32, u32),
    kind: Kind,
    /// Its file has no name any more: it was removed, or replaced by another.
    deleted: bool,
}

/// What code comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file, or the kernel's own library.
    File,
    /// A file in memory only: a program, or code that was compiled at run time.
    MemoryFile,
    /// No file: compiled at run time.
    Memory,
    /// No code: the stack or the heap.
    Data,
    /// A file's, for this process alone to write to: variables with a beginning value, which the file's table of symbols may name.
    Variables,
}

impl Maps {
    /// From /proc/PID/maps; none if the process has ended, or may not be looked at. Or why it is not asked.
    pub(super) fn read(host: &Host, pid: u32, bounded: &Bounded) -> Result<Option<Self>, String> {
        let text = bounded.ask(pid, host.later(&format!("proc/{pid}/maps")))?;
        Ok(text.map(|text| Self::parse(&text)))
    }

    /// Where mappings begin, end, and are just left.
    pub(super) fn edges(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|mapping| [mapping.start, mapping.end.wrapping_sub(1), mapping.end])
    }

    pub(super) fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(mapping).collect())
    }

    /// Whether nothing that was mapped since can change what is known of an address: it lies in a file, or where no code can be.
    /// Code that is compiled at run time comes and goes.
    pub(super) fn settles(&self, address: u64) -> bool {
        !(LOWEST..HIGHEST).contains(&address)
            || self.any(address).is_some_and(|mapping| matches!(mapping.kind, Kind::File | Kind::Data))
    }

    fn any(&self, address: u64) -> Option<&Mapping> {
        let after = self.0.partition_point(|mapping| mapping.end <= address);
        self.0.get(after).filter(|mapping| mapping.start <= address)
    }

    fn find(&self, address: u64) -> Option<&Mapping> {
        self.any(address).filter(|mapping| !matches!(mapping.kind, Kind::Data | Kind::Variables))
    }

    /// Whether variables of a program or library lie at an address.
    pub(super) fn has_variables(&self, address: u64) -> bool {
        self.any(address).is_some_and(|mapping| mapping.kind == Kind::Variables)
    }

    /// What the code at an address comes from; none if there is no code.
    pub(super) fn kind(&self, address: u64) -> Option<Kind> {
        self.find(address).map(|mapping| mapping.kind)
    }

    /// How many bytes of code lie before an address in memory that is no file's, and from it on; none elsewhere.
    pub(super) fn around_in_memory(&self, address: u64) -> Option<(u64, u64)> {
        let mapping = self.find(address).filter(|mapping| mapping.kind == Kind::Memory)?;
        Some((address - mapping.start, mapping.end - address))
    }

    /// Whether the file that holds the code at an address was removed or replaced.
    pub(super) fn is_deleted(&self, address: u64) -> bool {
        self.find(address).is_some_and(|mapping| mapping.deleted)
    }

    /// What stands for an address without a name: its place in the file, which is the same in every process.
    pub(super) fn place(&self, address: u64) -> Option<String> {
        let mapping = self.find(address).filter(|mapping| mapping.kind != Kind::Memory)?;
        let offset = (address - mapping.start).wrapping_add(mapping.offset);
        Some(format!("{}+{offset:#x}", mapping.object))
    }

    /// Which mapping has the code of a file at an address, and where in the file; to be asked very often.
    pub(super) fn code_in_file(&self, address: u64) -> Option<(usize, u64)> {
        let at = self.0.partition_point(|mapping| mapping.end <= address);
        let is_code = |mapping: &&Mapping| mapping.start <= address && mapping.kind == Kind::File;
        let mapping = self.0.get(at).filter(is_code)?;
        Some((at, (address - mapping.start).wrapping_add(mapping.offset)))
    }

    /// The file that holds the code or the variables at an address, and where in it.
    pub(super) fn in_file(&self, address: u64, pid: u32) -> Option<(InFile, u64)> {
        let mapping = self.any(address).filter(|mapping| mapping.kind != Kind::Data)?;
        let has_path = !mapping.path.as_os_str().is_empty();
        // A process of 32 bits has another library of the kernel.
        if !has_path && (mapping.object != VDSO || mapping.start <= u32::MAX.into()) {
            return None;
        }
        let link = || PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
        let file = InFile {
            link: has_path.then(link),
            path: (has_path && !mapping.deleted).then(|| mapping.path.clone()),
            device: mapping.device,
            object: mapping.object.clone(),
            is_program: self.program().is_some_and(|program| std::ptr::eq(program, mapping)),
        };
        Some((file, (address - mapping.start).wrapping_add(mapping.offset)))
    }

    /// Addresses of code in files whose names are wanted.
    pub(super) fn code_of(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<u64> {
        let is_code = |mapping: &&Mapping| mapping.kind == Kind::File && is_wanted(&mapping.object);
        self.0.iter().filter(is_code).map(|mapping| mapping.start).collect()
    }

    /// The code of the program itself, which lies below that of all libraries.
    fn program(&self) -> Option<&Mapping> {
        self.0.iter().find(|mapping| mapping.kind == Kind::File)
    }

    /// Where the code at an offset of a file of this name is in memory.
    pub(super) fn address_of(&self, object: &str, offset: u64) -> Option<u64> {
        let code = self.0.iter().filter(|mapping| mapping.kind == Kind::File && mapping.object == object);
        code.filter_map(|mapping| {
            let into = offset.checked_sub(mapping.offset).filter(|into| *into < mapping.end - mapping.start)?;
            Some(mapping.start + into)
        })
        .next()
    }

    /// Whether there is code of a file of this name.
    pub(super) fn has_object(&self, object: &str) -> bool {
        self.0.iter().any(|mapping| mapping.kind == Kind::File && mapping.object == object)
    }

    /// Name of the file that holds the code at an address; "" for memory without a file.
    pub(super) fn object(&self, address: u64) -> Option<&str> {
        self.find(address).map(|mapping| mapping.object.as_str())
    }
}

/// A file that a process has mapped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct InFile {
    /// The kernel's link to it; none for the kernel's own library.
    pub(super) link: Option<PathBuf>,
    /// Where the process sees it; none if another file may be there now.
    pub(super) path: Option<PathBuf>,
    /// Major and minor number of its file system's device.
    pub(super) device: (u32, u32),
    /// Its name without directories.
    pub(super) object: String,
    /// It is code of the program itself, and of no library.
    pub(super) is_program: bool,
}

fn mapping(line: &str) -> Option<Mapping> {
    let rdiag_proc::Mapping { start, end, rights, offset, device, path, .. } = rdiag_proc::Mapping::parse(line)?;
    let is_code = rights.contains('x');
    let is_file = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/dev/zero");
    let is_variables = rights == "rw-p" && is_file && !path.starts_with("/memfd:");
    if !is_code && !is_variables {
        // Anything else may hold code a moment later.
        let never = path == "[stack]" || path == "[heap]";
        let (object, path) = (String::new(), PathBuf::new());
        return never.then_some(Mapping { start, end, offset, object, path, device, kind: Kind::Data, deleted: false });
    }
    let (path, deleted) = path.strip_suffix(" (deleted)").map_or((path, false), |path| (path, true));
    // Memory without a file may have a label, a name in brackets, or one of the kernel's made-up files.
    let kind = match path {
        VDSO => Kind::File,
        path if path.starts_with("/memfd:") => Kind::MemoryFile,
        _ if is_variables => Kind::Variables,
        _ if is_file => Kind::File,
        _ => Kind::Memory,
    };
    let object = if kind == Kind::Memory { "" } else { path.rsplit('/').next().unwrap_or_default() };
    let object = with_line_breaks(object);
    let path = if is_file && kind != Kind::MemoryFile { path } else { "" };
    let path = PathBuf::from(with_line_breaks(path));
    Some(Mapping { start, end, offset, object, path, device, kind, deleted })
}

/// The kernel writes a line break as `\012`, and no other character in any other way: what looks like one is part of a name.
fn with_line_breaks(name: &str) -> String {
    name.replace("\\012", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c0a00000-55d0c0a02000 r--p 00000000 fe:00 123                        /usr/bin/app
55d0c0a02000-55d0c0a09000 r-xp 00002000 fe:00 123                        /usr/bin/app
7f1100000000-7f1100010000 rw-p 00000000 00:00 0 
7f1200000000-7f1200010000 rwxp 00000000 00:00 0 
7f1300000000-7f1300010000 r-xp 00000000 fe:00 9                          /opt/a b/lib\\012x.so (deleted)
7f1380000000-7f1380010000 r-xp 00000000 fe:00 9                          /opt/x\\057etc\\057shadow
7f1390000000-7f1390010000 rw-p 00003000 fe:00 9                          /opt/lib.so
7f1400000000-7f1400010000 r-xs 00000000 00:01 9                          /memfd:jit (deleted)
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0                          [stack]
garbage
ffffffffffffffffff-0 r-xp";

    #[test]
    fn code_is_found_with_its_file_and_code_made_at_run_time_has_none() {
        let maps = Maps::parse(TEXT);
        let of = |address| (maps.kind(address), maps.object(address));
        assert_eq!(of(0x55d0_c0a0_0010), (None, None), "data");
        assert_eq!(of(0x55d0_c0a0_2010), (Some(Kind::File), Some("app")));
        assert_eq!(maps.place(0x55d0_c0a0_2010).as_deref(), Some("app+0x2010"));
        assert_eq!(of(0x7f12_0000_0000), (Some(Kind::Memory), Some("")));
        assert_eq!(maps.place(0x7f12_0000_0000), None);
        let file = |link: Option<&str>, path: Option<&str>, object: &str, device| InFile {
            link: link.map(|range| format!("/proc/7/map_files/{range}").into()),
            path: path.map(PathBuf::from),
            device,
            object: object.into(),
            is_program: object == "app",
        };
        let app = file(Some("55d0c0a02000-55d0c0a09000"), Some("/usr/bin/app"), "app", (0xfe, 0));
        assert_eq!(maps.in_file(0x55d0_c0a0_2010, 7), Some((app, 0x2010)));
        let deleted = file(Some("7f1300000000-7f1300010000"), None, "lib\nx.so", (0xfe, 0));
        assert_eq!(maps.in_file(0x7f13_0000_0001, 7), Some((deleted, 1)));
        assert_eq!(maps.in_file(0x7f12_0000_0000, 7), None);
        assert_eq!(maps.code_in_file(0x55d0_c0a0_2010), Some((0, 0x2010)));
        assert_eq!(maps.code_in_file(0x7ffd_0000_0010).map(|(_, offset)| offset), Some(0x10));
        for elsewhere in [0, 0x7f12_0000_0000, 0x7f13_9000_0010, 0x7f14_0000_0000, u64::MAX] {
            assert_eq!(maps.code_in_file(elsewhere), None, "{elsewhere:#x}");
        }
        assert_eq!(maps.in_file(0x7ffd_0000_0010, 7), Some((file(None, None, "[vdso]", (0, 0)), 0x10)));
        assert_eq!(of(0x7f13_0000_ffff), (Some(Kind::File), Some("lib\nx.so")));
        assert_eq!(of(0x7f13_8000_0000), (Some(Kind::File), Some("x\\057etc\\057shadow")), "as it is called");
        assert!(maps.is_deleted(0x7f13_0000_0000) && !maps.is_deleted(0x55d0_c0a0_2010));
        assert_eq!(of(0x7f13_9000_0010), (None, None), "no code");
        assert!(maps.has_object("app") && !maps.has_object("lib.so") && !maps.has_object(""));
        assert!(maps.has_variables(0x7f13_9000_0010) && !maps.has_variables(0x7f13_0000_0001));
        let library = file(Some("7f1390000000-7f1390010000"), Some("/opt/lib.so"), "lib.so", (0xfe, 0));
        assert_eq!(maps.in_file(0x7f13_9000_0010, 7), Some((library, 0x3010)));
        assert_eq!(of(0x7f14_0000_0000), (Some(Kind::MemoryFile), Some("memfd:jit")));
        assert_eq!(of(0x7ffd_0000_0000), (Some(Kind::File), Some("[vdso]")));
        assert_eq!(of(0), (None, None));
        assert_eq!(of(u64::MAX), (None, None));
    }

    #[test]
    fn what_is_known_of_an_address_holds_where_a_file_is_or_no_code_can_be() {
        let maps = Maps::parse(TEXT);
        for settled in [0, 0x10, 0x55d0_c0a0_2010, 0x7ffd_0000_0000, 0x7ffe_0000_0010, u64::MAX, 1 << 63] {
            assert!(maps.settles(settled), "{settled:#x}");
        }
        // Compiled at run time, made ready for that, not mapped by any process yet.
        for open in [
            0x55d0_c0a0_0010,
            0x7f12_0000_0000,
            0x7f13_9000_0010,
            0x7f14_0000_0000,
            0x7f11_0000_0000,
            0x7f20_0000_0000,
            0x40_0000,
        ] {
            assert!(!maps.settles(open), "{open:#x}");
        }
    }
}
