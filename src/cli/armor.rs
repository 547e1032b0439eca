//! A recording as text, for what carries nothing else: the log of a container, a console.

use std::io::{self, Write};

use sha2::Digest as _;

/// What the first and the last line begin with.
const MARK: &str = "RDIAG1";
/// Bytes of a line: 76 signs of base64, as MIME has it.
const LINE: usize = 57;
const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `RDIAG1 LENGTH SHA256`, the bytes as base64, and `RDIAG1 END`: the reader can tell whether all of it arrived.
pub(super) fn write(bytes: &[u8], to: &mut dyn Write) -> io::Result<()> {
    let sum: String = sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(to, "{MARK} {} {sum}", bytes.len())?;
    for line in bytes.chunks(LINE) {
        writeln!(to, "{}", base64(line))?;
    }
    writeln!(to, "{MARK} END")
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let all = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let sign = SIGNS.get((all >> (18 - 6 * place) & 63) as usize).copied().unwrap_or(b'=');
            text.push(if place > three.len() { '=' } else { char::from(sign) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let all =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (text, signs) in all {
            assert_eq!(base64(text.as_bytes()), signs);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn the_first_line_says_what_must_come_through() {
        let mut text = Vec::new();
        write(&[0; 58], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let [head, first, second, end] = lines.as_slice() else { panic!("{text}") };
        // printf '\0…' | sha256sum of 58 zero bytes.
        assert!(head.starts_with("RDIAG1 58 ") && head.len() == "RDIAG1 58 ".len() + 64, "{head}");
        assert_eq!((first.len(), *second, *end), (76, "AA==", "RDIAG1 END"));
    }
}
