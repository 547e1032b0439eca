//! Little-endian numbers out of bytes that may be anything.

/// What is left of a piece of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

impl<'b> Bytes<'b> {
    /// The next so many bytes; none if there are fewer.
    pub(super) fn take(&mut self, many: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(many)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Numbers of eight bytes up to the end.
    pub(super) fn words(self) -> impl Iterator<Item = u64> + 'b {
        self.0.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
    }

    /// Text up to its zero byte, or to the end.
    pub(super) fn text(self) -> String {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}
