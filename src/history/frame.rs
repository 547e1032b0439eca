//! Pieces of a file that stand for themselves: each with its name, its length, and a checksum of both and of what it holds. After a damaged
//! piece reading goes on with the next one.

use std::io::{Read as _, Write as _};

use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::Damage;

/// Files larger than this are none of the recorder's.
pub const MAX_FILE: u64 = 64 << 20;
/// One piece is never larger unpacked.
const MAX_PIECE: usize = 32 << 20;
/// Nor are all pieces of a file together.
pub(super) const MAX_UNPACKED: usize = 96 << 20;

/// Pieces of a file: a tail has some hundred.
const MAX_PIECES: usize = 20_000;

/// Not the beginning of any text.
const MAGIC: [u8; 4] = [0xf5, b'r', b'd', b'h'];
/// Magic, kind, length of the name, lengths packed and unpacked, checksum of the content, checksum of all that and the name.
const HEAD: usize = 4 + 1 + 1 + 4 + 4 + 4 + 4;

/// What a piece holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Where and when, as JSON.
    Header,
    /// Numbers of one collector.
    Series,
    /// Labels, gaps and lines of one collector.
    Text,
    /// The table of processes of one collector.
    Processes,
    /// One sample, in a tail.
    Sample,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Header, Self::Series, Self::Text, Self::Processes, Self::Sample];

    /// One of them for any number.
    pub(super) fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number) % Self::ALL.len()).copied().unwrap_or(Self::Header)
    }

    fn what(self) -> &'static str {
        match self {
            Self::Header => "the header",
            Self::Series => "figures",
            Self::Text => "names and log lines",
            Self::Processes => "the table of processes",
            Self::Sample => "a sample",
        }
    }
}

/// A piece that was read.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

fn sum(parts: [&[u8]; 2]) -> u32 {
    let mut sum = Crc::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.sum()
}

/// Adds a piece.
pub(super) fn write(out: &mut Vec<u8>, kind: Kind, name: &str, content: &[u8]) {
    let name = name.as_bytes().get(..name.len().min(255)).unwrap_or_default();
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::default());
    // Memory takes whatever is written.
    let _ = packed.write_all(content);
    let packed = packed.finish().unwrap_or_default();
    let begin = out.len();
    out.extend_from_slice(&MAGIC);
    out.push(Kind::ALL.iter().position(|known| *known == kind).unwrap_or(0) as u8);
    out.push(name.len() as u8);
    for number in [packed.len() as u32, content.len() as u32, sum([&packed, &[]])] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let head = sum([out.get(begin..).unwrap_or_default(), name]);
    out.extend_from_slice(&head.to_le_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(&packed);
}

/// The head of a piece at the beginning of some bytes: what it is, and its lengths.
struct Head<'b> {
    kind: Kind,
    name: &'b str,
    unpacked: usize,
    sum: u32,
    packed: &'b [u8],
    /// As far as the piece reaches, and whether it does before the end of the file.
    length: usize,
    is_whole: bool,
}

fn head(bytes: &[u8]) -> Option<Head<'_>> {
    let fixed = bytes.get(..HEAD)?;
    let number = |at: usize| Some(u32::from_le_bytes(fixed.get(at..at + 4)?.try_into().ok()?));
    if fixed.get(..4)? != MAGIC {
        return None;
    }
    let name = bytes.get(HEAD..HEAD + usize::from(*fixed.get(5)?))?;
    if sum([fixed.get(..HEAD - 4)?, name]) != number(HEAD - 4)? {
        return None;
    }
    let begin = HEAD + name.len();
    let length = begin.checked_add(number(6)? as usize)?;
    Some(Head {
        kind: *Kind::ALL.get(usize::from(*fixed.get(4)?))?,
        name: std::str::from_utf8(name).ok()?,
        unpacked: number(10)? as usize,
        sum: number(14)?,
        packed: bytes.get(begin..length.min(bytes.len()))?,
        length,
        is_whole: length <= bytes.len(),
    })
}

/// The piece that a file begins with, if it is whole.
pub(super) fn first(bytes: &[u8]) -> Option<Frame> {
    let head = head(bytes)?;
    let content = unpack(&head, &mut MAX_PIECE.clone()).ok()?;
    Some(Frame { kind: head.kind, name: head.name.to_owned(), content })
}

/// A piece of a file as it goes by.
pub(super) enum Piece<'b> {
    /// It is whole.
    Whole(Frame),
    /// It is not: its bytes.
    Damaged(&'b [u8]),
}

/// Shows all pieces of a file, one at a time; all bytes of it are in one of them.
pub(super) fn walk<'b>(mut bytes: &'b [u8], mut visit: impl FnMut(Piece<'b>)) {
    let (mut room, mut pieces) = (MAX_UNPACKED, 0);
    while !bytes.is_empty() {
        let head = head(bytes).filter(|_| pieces < MAX_PIECES);
        pieces += usize::from(head.is_some());
        // What no piece begins with goes by byte by byte.
        let length = head.as_ref().map_or(1, |head| head.length.min(bytes.len()));
        let (raw, rest) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
        visit(match head.and_then(|head| Some((head.kind, head.name.to_owned(), unpack(&head, &mut room).ok()?))) {
            Some((kind, name, content)) => Piece::Whole(Frame { kind, name, content }),
            None => Piece::Damaged(raw),
        });
        bytes = rest;
    }
}

/// All pieces of a file that are whole, in order; what is wrong with the others goes to `damage`.
pub(super) fn read(mut bytes: &[u8], damage: &mut Vec<Damage>) -> Vec<Frame> {
    let mut frames = Vec::new();
    let (mut room, mut pieces) = (MAX_UNPACKED, 0);
    while !bytes.is_empty() {
        pieces += 1;
        if pieces > MAX_PIECES {
            damage.push(format!("it has more than {MAX_PIECES} pieces; the rest was not read"));
            break;
        }
        let Some(head) = head(bytes) else {
            // The next piece begins where one can be told by its checksum.
            let next = (1..bytes.len()).find(|at| bytes.get(*at..).is_some_and(|rest| self::head(rest).is_some()));
            let skipped = next.unwrap_or(bytes.len());
            damage.push(match next {
                Some(_) => format!("{skipped} bytes are no part of it"),
                None => format!("its last {skipped} bytes are incomplete"),
            });
            bytes = bytes.get(skipped..).unwrap_or_default();
            continue;
        };
        let of = if head.name.is_empty() { String::new() } else { format!(" of {}", head.name) };
        let what = format!("{}{of}", head.kind.what());
        match unpack(&head, &mut room) {
            Ok(content) => frames.push(Frame { kind: head.kind, name: head.name.to_owned(), content }),
            Err(why) => damage.push(format!("{what}: {why}")),
        }
        bytes = bytes.get(head.length..).unwrap_or_default();
    }
    frames
}

fn unpack(head: &Head<'_>, room: &mut usize) -> Result<Vec<u8>, &'static str> {
    if !head.is_whole {
        return Err("it is cut off");
    }
    if head.unpacked > MAX_PIECE || head.unpacked > *room {
        return Err("it is larger than the recorder makes it");
    }
    if sum([head.packed, &[]]) != head.sum {
        return Err("it does not fit its checksum");
    }
    let mut content = Vec::new();
    let read = DeflateDecoder::new(head.packed).take(head.unpacked as u64 + 1).read_to_end(&mut content);
    if read.is_err() || content.len() != head.unpacked {
        return Err("it cannot be unpacked");
    }
    *room -= content.len();
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<u8> {
        let mut file = Vec::new();
        for name in ["one", "two", "three"] {
            write(&mut file, Kind::Series, name, name.repeat(40).as_bytes());
        }
        file
    }

    fn names(bytes: &[u8]) -> (Vec<String>, Vec<Damage>) {
        let mut damage = Vec::new();
        (read(bytes, &mut damage).into_iter().map(|frame| frame.name).collect(), damage)
    }

    #[test]
    fn a_bit_anywhere_costs_one_piece_and_is_said() {
        let file = three();
        assert_eq!(names(&file), (vec!["one".into(), "two".into(), "three".into()], vec![]));
        for bit in 0..file.len() * 8 {
            let mut file = file.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            let (names, damage) = names(&file);
            assert_eq!((names.len(), damage.len()), (2, 1), "bit {bit}: {names:?} {damage:?}");
        }
    }

    #[test]
    fn a_torn_end_costs_the_last_piece() {
        let file = three();
        for length in 0..file.len() {
            let (names, damage) = names(&file[..length]);
            let whole = ["one", "two", "three"].iter().take(names.len()).copied().collect::<Vec<_>>();
            assert_eq!(names, whole);
            let at_an_end =
                length == 0 || head(&file).is_some_and(|one| one.length == length || one.length * 2 == length);
            assert_eq!(damage.is_empty(), at_an_end, "{length}: {damage:?}");
        }
    }

    #[test]
    fn a_piece_that_unpacks_to_more_than_it_says_or_may_is_refused() {
        let mut file = Vec::new();
        write(&mut file, Kind::Series, "bomb", &vec![0; MAX_PIECE + 1]);
        assert_eq!(names(&file).1, ["figures of bomb: it is larger than the recorder makes it"]);
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&vec![0; 1 << 20]).unwrap();
        let packed = packed.finish().unwrap();
        let head = Head {
            kind: Kind::Text,
            name: "",
            unpacked: 10,
            sum: sum([&packed, &[]]),
            packed: &packed,
            length: 0,
            is_whole: true,
        };
        assert_eq!(unpack(&head, &mut MAX_PIECE.clone()), Err("it cannot be unpacked"));
        assert_eq!(unpack(&head, &mut 9), Err("it is larger than the recorder makes it"));
    }
}
