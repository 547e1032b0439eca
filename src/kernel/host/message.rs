//! What rdiag and its confined processes say to each other: a length of four bytes, then JSON. A file travels with the first byte
//! of its message. Each side takes the other for hostile: a length has a bound, and what cannot be parsed is an error.

use std::io::{self, Error, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// No message is longer: some thousand addresses with the longest names there are.
const MAX_BYTES: usize = 16 << 20;

/// Sends a message; a file that goes with it stays open here.
///
/// # Errors
/// When the other side is gone.
pub fn send<T: Serialize>(socket: impl AsFd, message: &T, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
    let mut whole = length.to_le_bytes().to_vec();
    whole.extend_from_slice(&text);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let files = file.as_slice();
    if file.is_some() {
        rights.push(SendAncillaryMessage::ScmRights(files));
    }
    let mut left = whole.as_slice();
    while !left.is_empty() {
        let sent = match sendmsg(&socket, &[IoSlice::new(left)], &mut rights, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => continue,
            sent => sent?,
        };
        rights.clear();
        left = left.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// The next message, and the file that came with it. `WouldBlock` if it is not there in time; `UnexpectedEof` if the other side is gone.
///
/// # Errors
/// These, and when it is no such message.
pub fn receive<T: DeserializeOwned>(socket: impl AsFd, patience: Option<Duration>) -> io::Result<(T, Option<OwnedFd>)> {
    let until = patience.map(|patience| now() + patience);
    let mut file = None;
    let mut length = [0; 4];
    fill(socket.as_fd(), &mut length, until, &mut file)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_BYTES {
        return Err(Error::new(ErrorKind::InvalidData, "the message is too long"));
    }
    let mut text = vec![0; length];
    fill(socket.as_fd(), &mut text, until, &mut file)?;
    Ok((serde_json::from_slice(&text)?, file))
}

fn fill(
    socket: BorrowedFd<'_>,
    mut bytes: &mut [u8],
    until: Option<Instant>,
    file: &mut Option<OwnedFd>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        wait(socket, until)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let got = match recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut rights, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            got => got?.bytes,
        };
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                *file = files.last().or(file.take());
            }
        }
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        bytes = bytes.get_mut(got..).unwrap_or_default();
    }
    Ok(())
}

fn wait(socket: BorrowedFd<'_>, until: Option<Instant>) -> io::Result<()> {
    let Some(until) = until else { return Ok(()) };
    let left = until.saturating_duration_since(now());
    let left = Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
    match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&left)) {
        Ok(0) => Err(ErrorKind::WouldBlock.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The time by which rdiag limits how long it waits for processes of its own.
#[expect(clippy::disallowed_methods, reason = "how long rdiag waits for itself is in no recording")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
