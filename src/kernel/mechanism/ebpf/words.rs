//! Records and values of programs, as words and text.

/// The 64-bit word at an offset of a record; 0 past its end, which would be a bug of the program or its reader.
#[must_use]
pub fn word(record: &[u8], offset: usize) -> u64 {
    let bytes = record.get(offset..offset + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

/// Text that ends at its first NUL, from words.
#[must_use]
pub fn text_of_words(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    text(&bytes)
}

/// Text that ends at its first NUL; bytes that are no UTF-8 are replaced.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}
