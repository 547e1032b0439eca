//! A recording as text, for what carries nothing else: the log of a container, a console.

use std::borrow::Cow;
use std::io::{self, Write};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sha2::Digest as _;
use thiserror::Error;

/// What the first and the last line begin with.
const MARK: &[u8] = b"RDIAG1 ";
const END: &[u8] = b"END";
/// Bytes of a line: 76 signs of base64, as MIME has it.
const LINE: usize = 57;
/// No line is longer: that of a terminal or a log may have been broken, but not joined.
pub const LONGEST_LINE: u64 = 256;

/// A text that begins like a recording and is none.
#[derive(Debug, Error)]
pub enum ArmorError {
    /// Its last line is missing.
    #[error("its text is cut off: there is no line \"RDIAG1 END\"")]
    Truncated,
    /// What is between is no base64, or not what the first line says.
    #[error("its text is damaged: it is not what its first line says, so fetch it again")]
    Damaged,
}

/// What a line of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The first of a recording.
    First,
    /// The last one.
    Last,
    /// Another one.
    Other,
}

impl Kind {
    /// What the line that text begins with is: only its beginning is looked at.
    pub fn of(text: &[u8]) -> Self {
        match text.strip_prefix(MARK) {
            Some([b'0'..=b'9', ..]) => Self::First,
            Some(rest) if rest.starts_with(END) => Self::Last,
            _ => Self::Other,
        }
    }
}

/// `RDIAG1 LENGTH SHA256`, the bytes as base64, and `RDIAG1 END`: the reader can tell whether all of it arrived.
pub fn write_armored(bytes: &[u8], to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "RDIAG1 {} {}", bytes.len(), sum(bytes))?;
    for line in bytes.chunks(LINE) {
        writeln!(to, "{}", BASE64_STANDARD.encode(line))?;
    }
    writeln!(to, "RDIAG1 END")
}

/// What a text holds, with other lines around it; anything else as it is.
pub(super) fn bare(bytes: &[u8]) -> Result<Cow<'_, [u8]>, ArmorError> {
    if matches!(bytes, [0x1f, 0x8b, ..] | [b'{', ..]) {
        return Ok(Cow::Borrowed(bytes));
    }
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let mut lines = lines.skip_while(|line| Kind::of(line) != Kind::First);
    let Some(first) = lines.next() else { return Ok(Cow::Borrowed(bytes)) };
    let mut text = Vec::with_capacity(bytes.len());
    loop {
        let line = lines.next().ok_or(ArmorError::Truncated)?;
        match Kind::of(line) {
            Kind::First => return Err(ArmorError::Truncated),
            Kind::Last => break,
            Kind::Other => text.extend_from_slice(line),
        }
    }
    let packed = BASE64_STANDARD.decode(text).map_err(|_| ArmorError::Damaged)?;
    let told = format!("RDIAG1 {} {}", packed.len(), sum(&packed));
    if first == told.as_bytes() { Ok(Cow::Owned(packed)) } else { Err(ArmorError::Damaged) }
}

fn sum(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armored(bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        write_armored(bytes, &mut text).unwrap();
        text
    }

    #[test]
    fn the_first_line_says_what_must_come_through() {
        let text = String::from_utf8(armored(&[0; 58])).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let [head, first, second, end] = lines.as_slice() else { panic!("{text}") };
        // printf '\0…' | sha256sum of 58 zero bytes.
        assert!(head.starts_with("RDIAG1 58 ") && head.len() == "RDIAG1 58 ".len() + 64, "{head}");
        assert_eq!((first.len(), *second, *end), (76, "AA==", "RDIAG1 END"));
    }

    #[test]
    fn a_text_comes_back_with_other_lines_around_it_and_other_ends_of_lines() {
        let packed = [0x1f, 0x8b].repeat(100);
        let text = armored(&packed);
        let dos = String::from_utf8(text.clone()).unwrap().replace('\n', "\r\n").into_bytes();
        let among = [b"warning: something\n", &text[..], b"and more\n"].concat();
        for text in [text, dos, among] {
            assert_eq!(*bare(&text).unwrap(), packed[..]);
        }
        for other in [&packed[..], b"{\"windows\": []}", b"RDIAG1 END\n", b"hello", b""] {
            assert_eq!(*bare(other).unwrap(), *other);
        }
    }

    #[test]
    fn a_text_that_lacks_something_is_no_recording() {
        let text = String::from_utf8(armored(&[7; 200])).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let mut fewer = lines.clone();
            fewer.remove(at);
            let fewer = fewer.join("\n");
            let read = bare(fewer.as_bytes());
            match at {
                0 => assert_eq!(*read.unwrap(), *fewer.as_bytes(), "it is no such text"),
                at if at == lines.len() - 1 => assert!(matches!(read, Err(ArmorError::Truncated)), "{line}"),
                _ => assert!(matches!(read, Err(ArmorError::Damaged)), "{line}"),
            }
        }
        let cut = [lines[0], lines[1], &text].join("\n");
        assert!(matches!(bare(cut.as_bytes()), Err(ArmorError::Truncated)), "the next one is another recording");
        let other = text.replacen("BwcH", "CAgI", 1);
        assert!(matches!(bare(other.as_bytes()), Err(ArmorError::Damaged)));
        assert!(matches!(bare(b"RDIAG1 3 x\n\xff\xff\nRDIAG1 END"), Err(ArmorError::Damaged)));
    }
}
