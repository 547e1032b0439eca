//! Pages of a trace buffer as the kernel hands them on: a time, and records each with its distance from the one before.

use std::ops::Range;

use super::format::Format;

/// Bits of the length in a page's head; above them the kernel marks pages before which something was lost.
const LENGTH: u64 = 0x3fff_ffff;
/// Kinds of records that carry no data.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of a time that an absolute stamp holds; the ones above are those of the page.
const STAMP_BITS: u64 = (1 << 59) - 1;

/// Where a page has its parts.
#[derive(Debug, Clone)]
pub struct PageLayout(Format);

impl PageLayout {
    /// From `events/header_page`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(Format::parse(text))
    }

    /// Bytes of a whole page; none if the description is not understood.
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        let data = self.0.field("data")?;
        Some(data.offset().checked_add(data.size())?).filter(|size| (1 << 9..=1 << 24).contains(size))
    }

    /// The beginning of a page.
    #[must_use]
    pub fn begin(&self, page: &[u8]) -> Cursor {
        let part = |name| self.0.field(name);
        let number = |name| part(name).and_then(|field| field.value(page));
        let (Some(time), Some(length), Some(data)) = (number("timestamp"), number("commit"), part("data")) else {
            return Cursor::default();
        };
        let length = usize::try_from(length & LENGTH).unwrap_or(0);
        let end = data.offset().saturating_add(length).min(page.len());
        Cursor { time, at: data.offset(), end }
    }

    /// Calls `each` with the time of every record, in the clock's nanoseconds, and its bytes.
    pub fn records(&self, page: &[u8], mut each: impl FnMut(u64, &[u8])) {
        let mut cursor = self.begin(page);
        while let Some((time, place)) = cursor.next(page) {
            each(time, page.get(place).unwrap_or_default());
        }
    }
}

/// How far a page was read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    /// Of the record before.
    time: u64,
    at: usize,
    end: usize,
}

impl Cursor {
    /// The time of the next record, in the clock's nanoseconds, and where its bytes are; none at the end, or where something is odd.
    pub fn next(&mut self, page: &[u8]) -> Option<(u64, Range<usize>)> {
        loop {
            let rest = page.get(self.at..self.end)?;
            let (head, after) = word(rest)?;
            let (kind, delta) = (head & 31, u64::from(head >> 5));
            let (skip, size) = match kind {
                // The length that follows counts itself.
                0 => (4, word(after).map_or(0, |(length, _)| length as usize).saturating_sub(4)),
                // Nothing more was written to the page, or a record was taken back.
                PADDING if delta == 0 => return None,
                PADDING => (0, word(after).map_or(0, |(length, _)| length as usize).max(4)),
                TIME_EXTEND | TIME_STAMP => {
                    let (high, _) = word(after)?;
                    let value = (u64::from(high) << 27) + delta;
                    self.time = if kind == TIME_EXTEND {
                        self.time.wrapping_add(value)
                    } else {
                        (self.time & !STAMP_BITS) | (value & STAMP_BITS)
                    };
                    (0, 4)
                }
                words => (0, words as usize * 4),
            };
            if after.get(skip..)?.len() < size {
                self.at = self.end;
                return None;
            }
            let from = self.at + 4 + skip;
            self.at = (from + size.next_multiple_of(4)).min(self.end);
            if kind < PADDING {
                self.time = self.time.wrapping_add(delta);
                return Some((self.time, from..from + size));
            }
        }
    }
}

/// A word of 32 bits, and what comes after it.
fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, after) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_ne_bytes(*word), after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                          \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                          \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                          \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn page(time: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        // The mark of a page before which something was lost.
        page.extend(((words.len() as u64 * 4) | (1 << 31)).to_ne_bytes());
        page.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        page.resize(4096, 0xaa);
        page
    }

    fn head(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    fn records(page: &[u8]) -> Vec<(u64, Vec<u32>)> {
        let mut all = Vec::new();
        let words = |bytes: &[u8]| bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
        PageLayout::parse(HEADER).records(page, |time, record| all.push((time, words(record))));
        all
    }

    #[test]
    fn records_have_their_times_and_bytes() {
        let words = [head(2, 5), 7, 8, head(0, 1), 8, 9, head(TIME_EXTEND, 3), 2, head(1, 1), 10];
        let found = records(&page(1000, &words));
        let later = 1006 + 3 + (2 << 27) + 1;
        assert_eq!(found, [(1005, vec![7, 8]), (1006, vec![9]), (later, vec![10])]);
        assert_eq!(PageLayout::parse(HEADER).size(), Some(4096));
        assert_eq!(PageLayout::parse("\tfield: u64 timestamp;\toffset:0;\tsize:8;\n").size(), None);
    }

    #[test]
    fn an_absolute_time_keeps_the_high_bits_of_the_page() {
        let found = records(&page(1 << 60 | 5, &[head(TIME_STAMP, 9), 1, head(1, 0), 4]));
        assert_eq!(found, [((1 << 60) | ((1 << 27) + 9), vec![4])]);
    }

    #[test]
    fn records_that_were_taken_back_are_passed_over_and_padding_ends_a_page() {
        let words = [head(PADDING, 1), 8, 0, head(1, 2), 3, head(PADDING, 0), head(1, 2), 4];
        assert_eq!(records(&page(10, &words)), [(12, vec![3])]);
    }

    proptest! {
        #[test]
        fn no_page_is_too_odd(words in proptest::collection::vec(any::<u32>(), 0..64), cut in 0_usize..300) {
            let page = page(1, &words);
            let _ = records(&page[..cut]);
        }

        #[test]
        fn small_records_of_any_kind_end(kinds in proptest::collection::vec((0_u32..32, 0_u32..3), 0..64)) {
            let words: Vec<u32> = kinds.iter().map(|(kind, delta)| head(*kind, *delta)).collect();
            let mut count = 0;
            PageLayout::parse(HEADER).records(&page(1, &words), |_, _| count += 1);
            prop_assert!(count <= 64);
        }
    }
}
