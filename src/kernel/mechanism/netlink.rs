//! Netlink messages, as far as rdiag needs them. All numbers are in native byte order. No input is an error: parsing ends at the first
//! malformed message or attribute.

/// Bytes of the header of every message.
pub(super) const HEADER: usize = 16;
/// Flags of a message: a request, and one for all entries (dump).
pub(super) const REQUEST: u16 = 1;
pub(super) const DUMP: u16 = 0x300;
/// A message with an error number, or 0 for an acknowledgement.
pub(super) const ERROR: u16 = 2;
/// The end of a dump.
pub(super) const DONE: u16 = 3;

/// A message: its type, the request that it answers, and its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'b> {
    pub(super) kind: u16,
    pub(super) sequence: u32,
    pub(super) payload: &'b [u8],
}

/// A message with this payload, to be sent.
pub(super) fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = HEADER + payload.len().next_multiple_of(4);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The kernel fills in who it is from.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(length, 0);
    bytes
}

/// The messages of a datagram.
pub(super) fn messages(mut bytes: &[u8]) -> Vec<Message<'_>> {
    let mut all = Vec::new();
    while let Some(length) = word(bytes, 0).map(|length| length as usize).filter(|length| *length >= HEADER) {
        let (Some(whole), Some(sequence)) = (bytes.get(..length), word(bytes, 8)) else { break };
        let kind = bytes.get(4..6).and_then(|two| two.try_into().ok()).map_or(0, u16::from_ne_bytes);
        all.push(Message { kind, sequence, payload: whole.get(HEADER..).unwrap_or_default() });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// The values of the attributes of this kind.
pub(super) fn attributes(mut bytes: &[u8], wanted: u16) -> Vec<&[u8]> {
    /// Bits of the kind that say how the value is to be read.
    const FLAGS: u16 = 0xc000;
    let mut found = Vec::new();
    while let Some(header) = word(bytes, 0) {
        let header = header.to_ne_bytes();
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !FLAGS;
        let Some(value) = bytes.get(4..length) else { break };
        if kind == wanted {
            found.push(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The first attribute of this kind.
pub(super) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes, wanted).first().copied()
}

/// A number of four bytes.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// A number of eight bytes.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_sent_can_be_read_and_what_is_cut_ends_it() {
        let mut bytes = message(38, REQUEST | DUMP, 7, b"abcde");
        assert_eq!(bytes.len() % 4, 0);
        bytes.extend(message(DONE, 0, 7, b""));
        let all = messages(&bytes);
        assert_eq!(all.iter().map(|one| (one.kind, one.sequence)).collect::<Vec<_>>(), [(38, 7), (DONE, 7)]);
        assert_eq!(all[0].payload, b"abcde\0\0\0");
        assert_eq!(messages(&bytes[..bytes.len() - 1]).len(), 1);
    }

    proptest! {
        #[test]
        fn no_bytes_can_stop_the_parsers(bytes: Vec<u8>, wanted: u16, at: usize) {
            let _ = (messages(&bytes), attributes(&bytes, wanted), word(&bytes, at), long(&bytes, at));
        }
    }
}
