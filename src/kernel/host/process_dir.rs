//! /proc as a directory of processes: thousands of small reads, so each costs one open, one read and one close.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, RawDir, openat, readlinkat};
use rustix::io::Errno;

use super::{secrets, tree};
use crate::host::replay::HostSpec;
use crate::host::replay::OpenFile;
use crate::host::source::SourceError;

/// An open /proc.
#[derive(Debug)]
pub struct ProcessDir {
    dir: OwnedFd,
    /// Where it is, for the messages.
    path: PathBuf,
    /// The recorded tree and its instant, if it is one.
    recorded: Option<(HostSpec, usize)>,
    /// The tree that it lies in, if it holds copied files and not those of the kernel.
    tree: Option<OwnedFd>,
    loadavg_is_its_own: bool,
}

impl ProcessDir {
    /// Opens it. `folder` is where it lies if a tree stands in for the machine.
    pub(super) fn open(
        path: &Path,
        folder: Option<&Path>,
        recorded: Option<(HostSpec, usize)>,
    ) -> Result<Self, SourceError> {
        let fail = |e: Errno| SourceError::io("proc", &io::Error::from(e));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tree = folder.map(tree::root).transpose().map_err(fail)?;
        let dir = match &tree {
            Some(tree) => tree::open_in(tree.as_fd(), "proc", flags),
            None => rustix::fs::open(path, flags, Mode::empty()),
        };
        let dir = dir.map_err(fail)?;
        let tree = tree.filter(|_| recorded.is_some() || !tree::is_procfs(dir.as_fd()));
        let own = rustix::process::getpid().as_raw_nonzero().to_string();
        let itself = readlinkat(&dir, "self", Vec::new()).is_ok_and(|target| target.as_bytes() == own.as_bytes());
        let device = |name| rustix::fs::statat(&dir, name, rustix::fs::AtFlags::empty()).map(|stat| stat.st_dev);
        let loadavg_is_its_own = itself && tree.is_none() && device(".") == device("loadavg");
        Ok(Self { dir, path: path.to_owned(), recorded, tree, loadavg_is_its_own })
    }

    /// Opens a file in it. Links in a copy are not trusted, and lead nowhere outside of it.
    fn at(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        if let Some(tree) = &self.tree {
            return tree::open_in(tree.as_fd(), &format!("proc/{name}"), flags);
        }
        openat(&self.dir, name, flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Whether this is a recorded tree, whose directory must be opened anew at each instant.
    pub fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Whether `loadavg` tells about the processes that are listed here: the kernel answers for the namespace of the
    /// reader, and in a container something else may stand in for the file (lxcfs).
    pub fn loadavg_is_its_own(&self) -> bool {
        self.loadavg_is_its_own
    }

    /// The ids in the directory (`""` for /proc itself, `1234/task` for threads), in the order the kernel lists them.
    pub fn list(&self, below: &str, ids: &mut Vec<u32>) -> Result<(), SourceError> {
        ids.clear();
        self.fault(below)?;
        let name = if below.is_empty() { "." } else { below };
        let fail = |e: rustix::io::Errno| SourceError::io(&format!("proc/{below}"), &io::Error::from(e));
        let dir = self.at(name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(fail)?;
        let mut buffer = [MaybeUninit::<u8>::uninit(); 32 * 1024];
        let mut entries = RawDir::new(dir, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(fail)?;
            if let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() {
                ids.push(id);
            }
        }
        Ok(())
    }

    /// `st_size` of a directory: since Linux 6.2 the size of `1234/fd` is the number of open files, which any user may see.
    pub fn size(&self, name: &str) -> Result<u64, SourceError> {
        self.fault(name)?;
        let stat = match self.tree.is_some() {
            true => self.at(name, OFlags::PATH).and_then(rustix::fs::fstat),
            false => rustix::fs::statat(&self.dir, name, rustix::fs::AtFlags::empty()),
        };
        let stat = stat.map_err(|e| SourceError::io(&format!("proc/{name}"), &io::Error::from(e)))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// The effective user of a process, and how many threads it has: they are among the links of its directory `task`, which
    /// costs a tenth of reading a file.
    pub fn owner_and_threads(&self, pid: u32) -> Result<(u32, u64), SourceError> {
        let name = format!("{pid}/task");
        self.fault(&name)?;
        let stat = match self.tree.is_some() {
            // In a copy both are those of its maker.
            true => Err(Errno::NOENT),
            false => rustix::fs::statat(&self.dir, name.as_str(), rustix::fs::AtFlags::empty()),
        };
        let stat = stat.map_err(|e| SourceError::io(&format!("proc/{name}"), &io::Error::from(e)))?;
        // `.` and `..` are links as well.
        Ok((stat.st_uid, usize::try_from(stat.st_nlink).unwrap_or(0).saturating_sub(2) as u64))
    }

    /// Where a link such as `1234/fd/5` points to, unresolved. It never waits for the file itself.
    pub fn link(&self, name: &str, buffer: Vec<u8>) -> Result<Vec<u8>, SourceError> {
        self.fault(name)?;
        let target = match self.tree.is_some() {
            true => self.at(name, OFlags::PATH | OFlags::NOFOLLOW).and_then(|link| readlinkat(link, "", buffer)),
            false => readlinkat(&self.dir, name, buffer),
        };
        let target = target.map_err(|e| SourceError::io(&format!("proc/{name}"), &io::Error::from(e)))?;
        Ok(target.into_bytes())
    }

    /// The protocol of the socket behind a link such as `1234/fd/5`, as the kernel names it (`TCP`, `UNIX-STREAM`,
    /// `NETLINK`): no table of sockets needs to be searched, whatever network namespace it is in.
    pub fn socket_protocol(&self, name: &str) -> Result<String, SourceError> {
        self.fault(name)?;
        let fail = |e: rustix::io::Errno| SourceError::io(&format!("proc/{name}"), &io::Error::from(e));
        if self.tree.is_some() {
            // Its link would lead to a file of this machine.
            return Err(fail(Errno::NOENT));
        }
        let mut buffer = [0_u8; 64];
        let path = self.path.join(name);
        let length = rustix::fs::getxattr(&path, "system.sockprotoname", &mut buffer).map_err(fail)?;
        let name = buffer.get(..length).unwrap_or_default();
        Ok(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
    }

    /// What the kernel knows of the file behind a link such as `1234/fd/5`. No server is asked, which may never answer.
    pub fn behind(&self, name: &str) -> Result<OpenFile, SourceError> {
        self.fault(name)?;
        let fail = |e: rustix::io::Errno| SourceError::io(&format!("proc/{name}"), &io::Error::from(e));
        if self.tree.is_some() {
            // Its link would lead to a file of this machine.
            let spec = self.recorded.as_ref().map(|(spec, _)| spec);
            let known = spec.and_then(|spec| spec.open_files.get(&format!("proc/{name}")).copied());
            return known.ok_or_else(|| fail(Errno::NOENT));
        }
        let how = rustix::fs::AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(&self.dir, name, how, rustix::fs::StatxFlags::BASIC_STATS).map_err(fail)?;
        Ok(OpenFile {
            regular: rustix::fs::FileType::from_raw_mode(stat.stx_mode.into()).is_file(),
            deleted: stat.stx_nlink == 0,
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            blocks: stat.stx_blocks,
        })
    }

    /// Reads `1234/stat` and the like into `buffer`, which grows when the file does not fit, and returns what was read. Command lines come
    /// without the secrets in them.
    pub fn read<'b>(&self, name: &str, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], SourceError> {
        self.fault(name)?;
        let fail = |e: rustix::io::Errno| SourceError::io(&format!("proc/{name}"), &io::Error::from(e));
        if buffer.len() < 4096 {
            buffer.resize(4096, 0);
        }
        // In a copy it may be a FIFO.
        let copy_flags = if self.tree.is_some() { OFlags::NONBLOCK } else { OFlags::empty() };
        loop {
            let file = self.at(name, OFlags::RDONLY | copy_flags).map_err(fail)?;
            let read = rustix::io::read(&file, &mut buffer[..]).map_err(fail)?;
            // A process file comes whole in one read if the buffer has room for it.
            if read < buffer.len() || buffer.len() >= 1 << 20 {
                if name.ends_with("/cmdline")
                    && let Some(masked) = secrets::masked_bytes(buffer.get(..read).unwrap_or_default())
                {
                    *buffer = masked;
                    return Ok(buffer);
                }
                return Ok(buffer.get(..read).unwrap_or_default());
            }
            buffer.resize(buffer.len() * 4, 0);
        }
    }

    fn fault(&self, name: &str) -> Result<(), SourceError> {
        match &self.recorded {
            Some((spec, instant)) => spec.fault(&format!("proc/{name}"), *instant),
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for ProcessDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_process_has_its_owner_and_as_many_threads_as_are_listed() {
        let processes = ProcessDir::open(Path::new("/proc"), None, None).unwrap();
        let end = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| end.wait());
            }
            let own = std::process::id();
            // Other tests start and end threads meanwhile.
            let agrees = (0..100).any(|_| {
                let mut listed = Vec::new();
                processes.list(&format!("{own}/task"), &mut listed).unwrap();
                let (owner, threads) = processes.owner_and_threads(own).unwrap();
                owner == rustix::process::geteuid().as_raw() && threads == listed.len() as u64 && threads >= 4
            });
            end.wait();
            assert!(agrees);
        });
        assert!(processes.owner_and_threads(u32::MAX).is_err());
    }

    #[test]
    fn a_file_that_is_deleted_but_open_is_told_from_one_that_is_there() {
        let processes = ProcessDir::open(Path::new("/proc"), None, None).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        #[expect(clippy::disallowed_methods, reason = "the test's own file")]
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        file.sync_all().unwrap();
        let name = format!("{}/fd/{}", std::process::id(), file.as_raw_fd());
        let before = processes.behind(&name).unwrap();
        assert!(before.regular && !before.deleted && before.blocks >= 195, "{before:?}");
        std::fs::remove_file(&path).unwrap();
        let after = processes.behind(&name).unwrap();
        assert_eq!(after, OpenFile { deleted: true, ..before });
        assert!(processes.link(&name, Vec::new()).unwrap().ends_with(b"file (deleted)"));
    }
}
