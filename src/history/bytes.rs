//! Short integers and texts in a row. Reading is total: what is not there is none.

/// Longest text: a command line is cut at 200 characters, a path of a control group at 4096 bytes.
const MAX_TEXT: usize = 16 << 10;

/// Bytes in the making.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    /// Seven bits to a byte, the least first.
    pub(super) fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(super) fn size(&mut self, value: usize) {
        self.unsigned(value as u64);
    }

    /// Small ones of both signs are short.
    pub(super) fn signed(&mut self, value: i64) {
        self.unsigned((value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
    }

    /// What leads from one number to another, whatever they are.
    pub(super) fn step(&mut self, from: u64, to: u64) {
        self.signed(to.wrapping_sub(from).cast_signed());
    }

    pub(super) fn bits(&mut self, value: f64) {
        self.0.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text.get(..end).unwrap_or_default();
        self.size(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// Bytes that are left to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(super) fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            value |= bits << shift;
            if byte < 0x80 {
                // The tenth byte has room for one bit.
                return (shift < 63 || bits <= 1).then_some(value);
            }
        }
        None
    }

    /// A number of things, of which there may be so many.
    pub(super) fn count(&mut self, most: usize) -> Option<usize> {
        usize::try_from(self.unsigned()?).ok().filter(|count| *count <= most)
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(super) fn step(&mut self, from: u64) -> Option<u64> {
        Some(from.wrapping_add(self.signed()?.cast_unsigned()))
    }

    pub(super) fn bits(&mut self) -> Option<f64> {
        Some(f64::from_bits(u64::from_le_bytes(self.take(8)?.try_into().ok()?)))
    }

    pub(super) fn text(&mut self) -> Option<&'b str> {
        let length = self.count(MAX_TEXT)?;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(a: u64, b: i64, from: u64, to: u64, x: f64, text: String) {
            let mut out = Writer::default();
            out.unsigned(a);
            out.signed(b);
            out.step(from, to);
            out.bits(x);
            out.text(&text);
            let mut reader = Reader(&out.0);
            prop_assert_eq!(reader.unsigned(), Some(a));
            prop_assert_eq!(reader.signed(), Some(b));
            prop_assert_eq!(reader.step(from), Some(to));
            prop_assert_eq!(reader.bits().map(f64::to_bits), Some(x.to_bits()));
            prop_assert_eq!(reader.text(), Some(text.as_str()));
            prop_assert_eq!(reader.byte(), None);
        }

        #[test]
        fn anything_is_read_without_a_panic(bytes: Vec<u8>) {
            let mut reader = Reader(&bytes);
            while reader.unsigned().is_some() {}
            let _ = (reader.text(), reader.bits(), reader.signed());
        }
    }

    #[test]
    fn a_number_that_is_too_long_is_none() {
        assert_eq!(Reader(&[0xff; 10]).unsigned(), None);
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).unsigned(), Some(u64::MAX));
        assert_eq!(Reader(&[5]).count(4), None);
    }
}
