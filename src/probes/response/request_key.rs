//! What requests are called by (`--each-key`): a field of the mark at which they begin or end, or what the text there goes on with.

use super::super::point_reads::words;
use super::super::value_read::{NOTHING, Read};
use super::record::{KEY_WORDS, RawKey};
use rdiag_kernel::mechanism::ebpf::{Global, words as of_words};

/// Longest text that is kept, in bytes.
const LONGEST: usize = KEY_WORDS * 8 - 1;

/// At which of the two marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    From,
    To,
}

/// What was written after `--each-key`: `arg1:string`, `to=return`.
pub(super) fn parse(text: &str) -> (At, &str) {
    match text.split_once('=') {
        Some(("from", field)) => (At::From, field),
        Some(("to", field)) => (At::To, field),
        _ => (At::From, text),
    }
}

/// How it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestKey {
    at: At,
    /// None: what the text of the mark goes on with.
    read: Option<Read>,
    /// The text begins with the request's id.
    behind_an_id: bool,
}

impl RequestKey {
    pub(super) fn new(at: At, read: Option<Read>) -> Self {
        Self { at, read, behind_an_id: false }
    }

    /// The first word of a text is the request's id, and no part of the key.
    pub(super) fn behind_an_id(self) -> Self {
        Self { behind_an_id: true, ..self }
    }

    /// The constants of the programs.
    pub(super) fn globals(self) -> Vec<Global> {
        let key_in = match (self.at, self.read) {
            (At::From, Some(_)) => 1,
            (At::To, Some(_)) => 2,
            (At::From, None) => 3,
            (At::To, None) => 4,
        };
        let read = self.read.unwrap_or(NOTHING);
        let (text_in, text_at) = read.text_at();
        vec![
            Global::u32("key_in", key_in),
            Global::bytes("key_field", read.bytes_of().collect()),
            Global::bytes("key_text_in", words(&[text_in])),
            Global::bytes("key_text_at", words(&[text_at])),
        ]
    }

    /// What was read of a request, for people; none if nothing could be.
    pub(super) fn shown(self, raw: &RawKey) -> Option<String> {
        let [has_key, key @ ..] = raw;
        let [number, ..] = key;
        if *has_key == 0 {
            return None;
        }
        match self.read {
            Some(read) if read.text.is_none() => Some(read.shown(*number)),
            _ => {
                let text = of_words::text_of_words(key);
                let is_cut = key.iter().flat_map(|word| word.to_ne_bytes()).take(LONGEST).all(|byte| byte != 0);
                let mut text = text.trim();
                if self.read.is_none() && self.behind_an_id {
                    text = text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start());
                }
                Some(if is_cut { format!("{text}…") } else { text.to_owned() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawKey {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(KEY_WORDS * 8, 0);
        let mut raw = [1; KEY_WORDS + 1];
        for (word, chunk) in raw.iter_mut().skip(1).zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(chunk.try_into().unwrap());
        }
        raw
    }

    #[test]
    fn a_key_is_read_where_the_request_begins_unless_it_says_where() {
        assert_eq!(parse("arg1:string"), (At::From, "arg1:string"));
        assert_eq!(parse("from=arg1"), (At::From, "arg1"));
        assert_eq!(parse("to=return:s32"), (At::To, "return:s32"));
    }

    #[test]
    fn what_was_read_is_shown_as_a_number_or_as_text_that_says_where_it_was_cut() {
        let number = RequestKey::new(At::From, Some(Read { bytes: 4, is_signed: true, ..NOTHING }));
        let mut words = [0; KEY_WORDS + 1];
        assert_eq!(number.shown(&words), None, "nothing was read");
        (words[0], words[1]) = (1, -7_i64 as u64);
        assert_eq!(number.shown(&words).as_deref(), Some("-7"));
        let text = RequestKey::new(At::From, None);
        assert_eq!(text.shown(&raw(" route=/cart\n")).as_deref(), Some("route=/cart"));
        let long = text.shown(&raw(&"x".repeat(LONGEST))).unwrap();
        assert!(long.starts_with("xxx") && long.ends_with('…'), "{long}");
        assert_eq!(text.behind_an_id().shown(&raw(" 4711 /cart 2\n")).as_deref(), Some("/cart 2"));
        assert_eq!(text.behind_an_id().shown(&raw("4711")).as_deref(), Some(""));
    }
}
