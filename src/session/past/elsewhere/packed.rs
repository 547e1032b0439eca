//! What was given, unpacked as it is read: gzip and xz are taken off, and whether an archive comes out is said.

use std::io::{self, BufReader, Chain, Cursor, ErrorKind, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

/// How many bytes are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Of one file, unpacked.
    pub(super) file: u64,
    /// Of all that an archive has, unpacked.
    pub(super) archive: u64,
}

/// What others print is no larger: of sadf a day a second apart, of a host with some disks; of atop a day of a thousand processes; of below
/// half an hour of them. An sosreport is some GB at most.
pub(super) const LIMITS: Limits = Limits { file: 256 << 20, archive: 8 << 30 };

/// Memory for unpacking, in KiB: `xz -9` takes a quarter of it.
const XZ_KIB: u32 = 256 << 10;
/// The head of an archive.
const BLOCK: u64 = 512;
const USTAR: (usize, &[u8]) = (257, b"ustar");
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// What was given, from its beginning on.
pub(super) struct Unpacked<'r> {
    pub(super) is_archive: bool,
    is_packed: bool,
    from: Box<dyn Read + 'r>,
}

/// Looks at what was given, and at what comes out of it.
pub(super) fn open<'r>(from: impl Read + 'r) -> Result<Unpacked<'r>, String> {
    let (head, from) = peek(BufReader::with_capacity(1 << 16, from)).map_err(|error| in_words(&error, false))?;
    let is_packed = head.starts_with(XZ) || head.starts_with(GZIP);
    let unpacked: Box<dyn Read + 'r> = match is_packed {
        true if head.starts_with(XZ) => Box::new(XzReader::new_mem_limit(from, true, XZ_KIB)),
        true => Box::new(MultiGzDecoder::new(from)),
        false => Box::new(from),
    };
    let (head, from) = peek(unpacked).map_err(|error| in_words(&error, is_packed))?;
    let (at, magic) = USTAR;
    let is_archive = head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    Ok(Unpacked { is_archive, is_packed, from: Box::new(from) })
}

/// What was looked at, and the rest of it.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// The first bytes, and all of it.
fn peek<R: Read>(mut from: R) -> io::Result<(Vec<u8>, Whole<R>)> {
    let mut head = Vec::new();
    from.by_ref().take(BLOCK).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(from)))
}

impl Unpacked<'_> {
    /// All of it, if it is no larger.
    pub(super) fn bytes(mut self, limit: u64) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let read = self.from.by_ref().take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| in_words(&error, self.is_packed))?;
        match bytes.len() as u64 > limit {
            true if self.is_packed => Err(format!("it is larger than {} unpacked", size(limit))),
            true => Err(format!("it is larger than {}", size(limit))),
            false => Ok(bytes),
        }
    }

    /// Why an archive cannot be read on.
    pub(super) fn broken(&self, error: &io::Error) -> String {
        in_words(error, self.is_packed)
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.from.read(buffer)
    }
}

/// Bytes as people say them.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
        bytes => format!("{} MiB", bytes >> 20),
    }
}

fn in_words(error: &io::Error, is_packed: bool) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "it is cut off: the file is incomplete, so copy it again".to_owned(),
        ErrorKind::OutOfMemory => {
            format!(
                "unpacking takes more than {} of memory: unpack it with `xz -dk FILE`",
                size(u64::from(XZ_KIB) << 10)
            )
        }
        _ if is_packed => format!("it is damaged and cannot be unpacked: {error}"),
        _ => error.to_string(),
    }
}
