//! Commands that only read files from others: an unprivileged copy of this process reads them and does all that follows, and this
//! one, which keeps its rights, does for it what needs privileges.
//!
//! Files are opened before the copy is made. What the copy wants written it hands back, and this process puts it into the folder that was
//! asked for, so that a file belongs to the user who started rdiag, whatever user the copy runs as. Functions of a profile are looked up
//! here as well: that takes files and addresses that only this user may see, and yields names alone. The copy can open nothing, start
//! nothing and send nothing; what it asks for is bounded in number and size.

use std::cell::OnceCell;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{FileType, MemfdFlags, fstat, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};

use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::confine::{Confinement, Ended, Side, confine, fork};
use rdiag_kernel::host::files::Folder;
use rdiag_kernel::host::message::{receive, send};
use rdiag_kernel::host::{Clock, Host};
use rdiag_kernel::mechanism::perf_data::{Functions, Symbols};
use rdiag_kernel::mechanism::symbols::Files;
use rdiag_model::probe::Frame;
use rdiag_report::shown;
use rdiag_report::shown::Shown;

/// A recording of the largest hosts takes a tenth of this memory, and a hundredth of this time.
const CONFINEMENT: Confinement = Confinement { address_space: 4 << 30, cpu_seconds: 300, readable: &[] };
const LESS_CONFINED: &str = "the process that reads what was sent is less confined than it can be; missing here: ";
/// Files that are written for one command, and bytes of them together.
const MAX_FILES: usize = 1000;
const MAX_BYTES: u64 = 1 << 30;
/// Places of a question, and bytes of names in the answer.
const PLACES: usize = 1000;
const KERNEL_PLACES: usize = 10_000;
const MAX_NAMES: usize = 4 << 20;
/// Seconds for looking up the functions of one profile.
const MAX_LOOKING: f64 = 120.0;

/// What the copy asks for.
#[derive(Debug, Serialize, Deserialize)]
enum Question {
    /// That the file which comes with this message is written under this name.
    Write {
        name: String,
    },
    Kernel {
        build_id: Option<Vec<u8>>,
        landmark: Option<(String, u64)>,
        addresses: Vec<u64>,
    },
    File {
        path: String,
        build_id: Option<Vec<u8>>,
        offsets: Vec<u64>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    /// It is written, or why not: the number of the error if it has one, and its words.
    Written(Result<(), (Option<i32>, String)>),
    Names(Functions),
}

/// The way from the copy to the process that it is one of.
#[derive(Debug, Clone)]
pub(super) struct Desk(Rc<OwnedFd>);

/// Does `work` in a confined copy of this process; `folder` is where files go that it has written. What is missing of its confinement
/// here is noted once.
pub(super) fn confined(
    ui: &Ui,
    folder: Option<&Folder>,
    work: impl FnOnce(Desk) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let cannot = || Failure::io("starting a process without rights, to read what was sent");
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (own, other) = pair.map_err(|error| cannot()(error.into()))?;
    match fork().map_err(cannot())? {
        Side::Child => {
            drop(own);
            let missing = confine(CONFINEMENT);
            if !missing.is_empty() {
                ui.note(shown!("{}{}", LESS_CONFINED, Text::seen(missing.join(", "))));
            }
            work(Desk(Rc::new(other)))
        }
        Side::Parent(child) => {
            drop(other);
            serve(&own, folder);
            drop(own);
            match child.wait().map_err(cannot())? {
                // It has said itself what there is to say.
                Ended::Exited(code) => Exit::of_code(code).ok_or_else(|| ended(&format!("with code {code}"), None)),
                Ended::Killed(signal) => Err(killed(signal)),
            }
        }
    }
}

fn killed(signal: i32) -> Failure {
    let gib = CONFINEMENT.address_space >> 30;
    let seconds = CONFINEMENT.cpu_seconds;
    match signal {
        libc::SIGABRT => ended(
            &format!("because it ran out of memory: its limit is {gib} GiB"),
            Some("no file of rdiag's own takes as much; record for a shorter time, or ask for less of it"),
        ),
        libc::SIGXCPU => ended(
            &format!("after {seconds} s of CPU time"),
            Some("no file of rdiag's own takes as long; record for a shorter time, or ask for less of it"),
        ),
        signal => ended(&format!("by signal {signal}"), None),
    }
}

fn ended(how: &str, hint: Option<&str>) -> Failure {
    let message = format!("the process that reads what was sent has ended {how}");
    Failure::Ended { message, hint: hint.map(str::to_owned) }
}

/// Does what the copy asks for, until it has ended.
fn serve(socket: &OwnedFd, folder: Option<&Folder>) {
    let (host, clock) = (OnceCell::new(), Clock::live());
    let live = || Host::live(Path::new("/"));
    let mut symbols = None;
    let mut written = Written::default();
    let mut since = None;
    // What is no question ends it as well.
    while let Ok((question, file)) = receive::<Question>(socket, None) {
        let mut is_late = || clock.now(0) - *since.get_or_insert_with(|| clock.now(0)) > MAX_LOOKING;
        let answer = match question {
            Question::Write { name } => Reply::Written(
                written.write(folder, &name, file).map_err(|error| (error.raw_os_error(), error.to_string())),
            ),
            _ if is_late() => Reply::Names(Err("looking up the others took too long".to_owned())),
            Question::Kernel { build_id, landmark, addresses } => {
                let symbols = symbols.get_or_insert_with(|| Files::new(host.get_or_init(live)));
                let landmark = landmark.as_ref().map(|(name, address)| (name.as_str(), *address));
                Reply::Names(bounded(symbols.kernel_names(build_id.as_deref(), landmark, &addresses)))
            }
            Question::File { path, build_id, offsets } => {
                let symbols = symbols.get_or_insert_with(|| Files::new(host.get_or_init(live)));
                Reply::Names(bounded(symbols.names(&path, build_id.as_deref(), &offsets)))
            }
        };
        if send(socket, &answer, None).is_err() {
            break;
        }
    }
}

/// Names that fit into an answer.
fn bounded(found: Functions) -> Functions {
    let size = |frame: &Frame| {
        let more = [&frame.object, &frame.line].into_iter().flatten().map(String::len).sum::<usize>();
        frame.name.len() + more
    };
    let found = found?;
    let bytes: usize = found.iter().flatten().map(size).sum();
    if bytes > MAX_NAMES { Err("its functions have too long names".to_owned()) } else { Ok(found) }
}

/// What was written so far.
#[derive(Debug, Default)]
struct Written {
    files: usize,
    bytes: u64,
}

impl Written {
    fn write(&mut self, folder: Option<&Folder>, name: &str, file: Option<OwnedFd>) -> io::Result<()> {
        let (Some(folder), Some(file)) = (folder, file) else {
            return Err(io::Error::other("there is no folder for files, or no file"));
        };
        let found = fstat(&file)?;
        let size = u64::try_from(found.st_size).unwrap_or(0);
        (self.files, self.bytes) = (self.files + 1, self.bytes.saturating_add(size));
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is no regular file"));
        }
        if self.files > MAX_FILES || self.bytes > MAX_BYTES {
            return Err(io::Error::other("the output is larger than 1 GiB, or more than 1000 files"));
        }
        let from = std::fs::File::from(file);
        folder.write(Path::new(name), |to| {
            let (mut at, mut chunk) = (0, vec![0; 1 << 20]);
            loop {
                let read = from.read_at(&mut chunk, at)?;
                at += read as u64;
                if read == 0 || at > size {
                    return Ok(());
                }
                to.write_all(chunk.get(..read).unwrap_or_default())?;
            }
        })
    }
}

impl Desk {
    /// Has a file written into the folder.
    pub(super) fn write<M>(&self, name: &str, text: &Shown<M>) -> io::Result<()> {
        self.put(name, text.as_bytes())
    }

    /// The same, of what was read and is kept as it is: a recording.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = std::fs::File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        match self.ask(&Question::Write { name: name.to_owned() }, Some(&file))? {
            Reply::Written(Ok(())) => Ok(()),
            Reply::Written(Err((Some(number), _))) => Err(io::Error::from_raw_os_error(number)),
            Reply::Written(Err((None, why))) => Err(io::Error::other(why)),
            Reply::Names(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn ask(&self, question: &Question, file: Option<&std::fs::File>) -> io::Result<Reply> {
        send(&*self.0, question, file.map(std::os::fd::AsFd::as_fd))?;
        receive(self.0.as_fd(), None).map(|(answer, _)| answer)
    }

    fn functions(&self, question: &Question) -> Functions {
        match self.ask(question, None) {
            Ok(Reply::Names(names)) => names,
            _ => Err("no process that could look them up answers".to_owned()),
        }
    }
}

impl Symbols for Desk {
    fn of_kernel(&mut self, build_id: Option<&[u8]>, landmark: Option<(&str, u64)>, addresses: &[u64]) -> Functions {
        let mut all = Vec::with_capacity(addresses.len());
        for addresses in addresses.chunks(KERNEL_PLACES) {
            let landmark = landmark.map(|(name, address)| (name.to_owned(), address));
            let (build_id, addresses) = (build_id.map(<[u8]>::to_vec), addresses.to_vec());
            all.extend(self.functions(&Question::Kernel { build_id, landmark, addresses })?);
        }
        Ok(all)
    }

    fn of_file(&mut self, path: &str, build_id: Option<&[u8]>, offsets: &[u64]) -> Functions {
        let mut all = Vec::with_capacity(offsets.len());
        for offsets in offsets.chunks(PLACES) {
            let (build_id, offsets) = (build_id.map(<[u8]>::to_vec), offsets.to_vec());
            all.extend(self.functions(&Question::File { path: path.to_owned(), build_id, offsets })?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_for_the_copy_is_a_file_of_the_folder_and_bounded() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::prepare(&place.path().join("out")).unwrap();
        let of = |bytes: u64| {
            let file = std::fs::File::from(memfd_create("x", MemfdFlags::CLOEXEC).unwrap());
            file.set_len(bytes).unwrap();
            Some(OwnedFd::from(file))
        };
        let mut written = Written::default();
        assert!(written.write(Some(&folder), "report.md", of(3)).is_ok());
        for name in ["../x", "/etc/x", "a/b", ".."] {
            assert!(written.write(Some(&folder), name, of(3)).is_err(), "{name}");
        }
        assert!(written.write(Some(&folder), "pipe", Some(io::pipe().unwrap().0.into())).is_err());
        assert!(written.write(Some(&folder), "large", of(MAX_BYTES)).is_err());
        assert!(written.write(None, "report.md", of(3)).is_err());
        assert_eq!(std::fs::metadata(folder.path().join("report.md")).unwrap().len(), 3);
    }

    #[test]
    fn how_it_ended_says_what_to_do() {
        assert!(killed(libc::SIGABRT).to_string().contains("4 GiB") && killed(libc::SIGABRT).hint().is_some());
        assert!(killed(libc::SIGXCPU).to_string().contains("300 s of CPU time"));
        assert_eq!(killed(libc::SIGSEGV).exit(), Exit::Failed);
    }
}
