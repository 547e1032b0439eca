//! Recordings on stdin, one after the other: `cat runs/*.json.gz | rdiag fleet -`.
//!
//! Where one ends is only known by unpacking it, and a crafted one may exhaust memory or time there. So a process
//! without rights finds the ends and hands each piece over with its length. What is damaged costs itself: behind it, the next packed
//! recording or armored one is looked for by the bytes that each begins with. What holds nothing else is neither tried at each of its bytes
//! nor listed as many hosts.

use std::fs::File;
use std::io::{self, BufRead, PipeReader, Read, Seek as _, Write};
use std::path::PathBuf;

use flate2::bufread::GzDecoder;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Deserialize as _;
use serde::de::IgnoredAny;

use super::files::Sent;
use super::holding::{HoldingReader, MOST};
use super::judging::Opened;
use rdiag_kernel::host::confine::{Child, Confinement, Side, confine, fork};
use rdiag_session::{ArmorKind, LONGEST_LINE};

/// Unpacking thirty thousand recordings takes a minute; no piece takes more memory than `MOST`.
const CONFINEMENT: Confinement = Confinement { address_space: 4 << 30, cpu_seconds: 3600, readable: &[] };
/// What stands in the place of a length before the sentence that tells what is wrong.
const DAMAGED: u64 = u64::MAX;
/// Longest such sentence.
const LONGEST: u64 = 1 << 10;
/// Damaged pieces in a row that are listed, and behind whose first byte the next one is looked for. Behind more of them it is the last that
/// may begin in what was passed over, so that no byte is read again and again.
const MOST_DAMAGED: usize = 100;

/// What was sent, piece by piece.
pub(super) struct Pieces {
    from: PipeReader,
    count: usize,
}

/// Starts the process that finds the ends; none in that process itself, when it is done.
pub(super) fn split() -> io::Result<Option<(Pieces, Child)>> {
    let (from, mut to) = io::pipe()?;
    match fork()? {
        Side::Child => {
            drop(from);
            // What is missing of it here, `rdiag doctor` says.
            let _ = confine(CONFINEMENT);
            // If the reader is gone, there is no use in going on.
            let _ = pieces(&mut HoldingReader::new(io::stdin().lock()), &mut to);
            Ok(None)
        }
        Side::Parent(splitter) => Ok(Some((Pieces { from, count: 0 }, splitter))),
    }
}

impl Pieces {
    fn piece(&mut self) -> io::Result<Option<io::Result<File>>> {
        let mut length = [0; 8];
        match self.from.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = u64::from_le_bytes(length);
        if length == DAMAGED {
            let mut why = Vec::new();
            let _ = (&mut self.from).take(LONGEST).read_to_end(&mut why)?;
            return Ok(Some(Err(io::Error::other(String::from_utf8_lossy(&why).trim().to_owned()))));
        }
        if length > MOST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut file = File::from(memfd_create("recording", MemfdFlags::CLOEXEC)?);
        if io::copy(&mut (&mut self.from).take(length), &mut file)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.rewind()?;
        Ok(Some(Ok(file)))
    }
}

impl Iterator for Pieces {
    type Item = Opened;

    fn next(&mut self) -> Option<Opened> {
        let file = self.piece().unwrap_or_else(|error| Some(Err(error)))?;
        self.count += 1;
        let path = PathBuf::from(format!("stdin:{}", self.count));
        Some(Opened { sent: Sent { path, report: None }, file })
    }
}

/// Hands over one piece after the other.
fn pieces<R: Read>(reader: &mut HoldingReader<R>, to: &mut impl Write) -> io::Result<()> {
    let mut damaged = 0;
    loop {
        reader.skip_space()?;
        let first = reader.fill_buf()?;
        let found = match first {
            [] => return Ok(()),
            [0x1f, ..] => packed(reader),
            [b'{', ..] => plain(reader),
            [b'R', ..] => armored(reader),
            _ => Err("what follows there is no recording".to_owned()),
        };
        match found {
            Ok(()) => {
                let piece = reader.passed();
                to.write_all(&(piece.len() as u64).to_le_bytes())?;
                to.write_all(piece)?;
                reader.forget();
                damaged = 0;
            }
            Err(_) if damaged >= MOST_DAMAGED => reader.next_packed(true)?,
            Err(mut why) => {
                damaged += 1;
                if damaged == MOST_DAMAGED {
                    why += "; so is what follows, up to the next recording that is whole";
                }
                // A sentence of always the same length needs no second number.
                let mut sentence = why.into_bytes();
                sentence.resize(LONGEST as usize, b' ');
                to.write_all(&DAMAGED.to_le_bytes())?;
                to.write_all(&sentence)?;
                reader.next_packed(false)?;
            }
        }
    }
}

/// The pieces of what was sent, none in the place of one that is damaged. Fuzzing begins with it.
///
/// # Errors
/// When it cannot be read.
pub fn taken_apart(from: impl Read) -> io::Result<Vec<Option<Vec<u8>>>> {
    let mut sent = Vec::new();
    pieces(&mut HoldingReader::new(from), &mut sent)?;
    let (mut rest, mut all) = (&sent[..], Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = u64::from_le_bytes(*length);
        let is_damaged = length == DAMAGED;
        let length = usize::try_from(if is_damaged { LONGEST } else { length }).unwrap_or(usize::MAX);
        let (piece, behind) = behind.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        all.push((!is_damaged).then(|| piece.to_vec()));
        rest = behind;
    }
    Ok(all)
}

/// Passes over one packed recording.
fn packed<R: Read>(reader: &mut HoldingReader<R>) -> Result<(), String> {
    let size = io::copy(&mut GzDecoder::new(&mut *reader).take(MOST + 1), &mut io::sink());
    match size {
        Ok(size) if size > MOST => Err(format!("it is larger than {} MiB unpacked", MOST >> 20)),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("it is cut off or damaged: {error}")),
    }
}

/// Passes over one that is not packed.
fn plain<R: Read>(reader: &mut HoldingReader<R>) -> Result<(), String> {
    let mut read = serde_json::Deserializer::from_reader(&mut *reader);
    IgnoredAny::deserialize(&mut read).map(drop).map_err(|error| format!("it is cut off or damaged: {error}"))
}

/// Passes over one that came as text. What is in it is unpacked by its reader.
fn armored<R: Read>(reader: &mut HoldingReader<R>) -> Result<(), String> {
    let (mut is_first, mut line) = (true, Vec::new());
    loop {
        line.clear();
        // A longer one counts as two, neither of which the reader of the text takes for its own.
        let read =
            reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        let holds_first =
            (0..line.len()).any(|at| ArmorKind::of(line.get(at..).unwrap_or_default()) == ArmorKind::First);
        match ArmorKind::of(&line) {
            ArmorKind::First if is_first => is_first = false,
            _ if is_first => return Err("what follows there is no recording".to_owned()),
            ArmorKind::Last => return Ok(()),
            // What was cut off may have ended within a line.
            _ if read == 0 || holds_first => return Err("its text is cut off".to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::holding::MAGIC;
    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    }

    /// Bytes that come one at a time.
    struct Slowly<'b>(&'b [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let first = buffer.get_mut(..1).unwrap_or_default();
            self.0.read(first)
        }
    }

    /// Each piece, or the sentence about it.
    fn found_in(from: impl Read) -> Vec<Result<String, String>> {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut sent = Vec::new();
        pieces(&mut HoldingReader::new(from), &mut sent).unwrap();
        std::thread::spawn(move || writer.write_all(&sent).unwrap());
        let text = |mut file: File| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            let mut plain = String::new();
            match GzDecoder::new(&*bytes).read_to_string(&mut plain) {
                Ok(_) => plain,
                Err(_) => String::from_utf8(bytes).unwrap(),
            }
        };
        let pieces = Pieces { from: reader, count: 0 };
        pieces.map(|piece| piece.file.map(text).map_err(|error| error.to_string())).collect()
    }

    fn found(bytes: &[u8]) -> Vec<Result<String, String>> {
        let at_once = found_in(bytes);
        assert_eq!(at_once, found_in(Slowly(bytes)), "however they come");
        at_once
    }

    #[test]
    fn packed_and_plain_recordings_are_told_apart_by_where_they_end() {
        let all = [gzip("{\"a\": 1}"), b"\n {\"b\": {\"c\": \"}\"}}{} ".to_vec(), gzip("{}"), gzip("")].concat();
        let texts: Vec<String> = found(&all).into_iter().map(Result::unwrap).collect();
        assert_eq!(texts, ["{\"a\": 1}", "{\"b\": {\"c\": \"}\"}}", "{}", "{}", ""]);
        assert_eq!(found(b" \n"), []);
    }

    #[test]
    fn what_is_damaged_costs_itself_alone() {
        let whole = gzip("{\"a\": 1, \"long\": \"abcdefghijklmnopqrstuvwxyz\"}");
        let cut = &whole[..whole.len() - 12];
        for (damaged, why) in [
            (cut.to_vec(), "cut off or damaged"),
            (b"ssh: no route to host\n".to_vec(), "no recording"),
            (b"{\"a\": [1, ".to_vec(), "cut off or damaged"),
            (vec![0x1f], "cut off or damaged"),
        ] {
            let found = found(&[whole.clone(), damaged.clone(), whole.clone()].concat());
            let [Ok(first), Err(error), Ok(last)] = found.as_slice() else { panic!("{damaged:?}: {found:?}") };
            assert!(first == last && first.contains("xyz") && error.contains(why), "{error}");
        }
        let [Ok(_), Err(error)] = &*found(&[&*whole, cut].concat()) else { panic!("the last is cut off") };
        assert!(error.contains("cut off"), "{error}");
    }

    #[test]
    fn recordings_as_text_follow_each_other_and_those_that_are_packed_with_what_logs_hold_besides() {
        let text = |bytes: &[u8]| {
            let mut text = Vec::new();
            rdiag_session::write_armored(bytes, &mut text).unwrap();
            text
        };
        let (one, other) = (text(&gzip("{\"a\": 1}")), text(&[7; 300]));
        let found = found(&[&one, &other[..other.len() - 20], &one, &gzip("{}")[..], b"Rest\n", &other].concat());
        let [Ok(first), Err(cut), Ok(second), Ok(third), Err(noise), Ok(last)] = &*found else { panic!("{found:?}") };
        let is_text = |text: &str| text.starts_with("RDIAG1 ") && text.ends_with("RDIAG1 END\n");
        assert!(first == second && is_text(first) && is_text(last) && third == "{}", "{found:?}");
        assert!(cut.contains("cut off") && noise.contains("no recording"), "{cut} {noise}");
    }

    #[test]
    fn what_holds_many_beginnings_and_no_recording_is_a_few_hosts_and_read_in_one_go() {
        let whole = gzip("{\"a\": 1}");
        let head = [&MAGIC[..], &[0; 7]].concat();
        for damaged in [
            MAGIC.repeat(50_000),
            [b"{\"", &MAGIC.repeat(50_000)[..], b"\n"].concat(),
            head.repeat(20_000),
            b"RDIAG1 1\n".repeat(50_000),
        ] {
            let found = found(&[&whole, &*damaged, &whole].concat());
            let (errors, all) = (found.iter().filter(|one| one.is_err()).count(), found.len());
            assert!(found.first().is_some_and(Result::is_ok) && found.last().is_some_and(Result::is_ok), "{found:?}");
            assert!((1..=MOST_DAMAGED).contains(&errors) && all == errors + 2, "{errors} of {all}");
        }
    }
}
