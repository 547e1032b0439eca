//! Generic netlink messages: as much of them as taskstats needs. All numbers are in the order of the machine's bytes.

/// Bytes of a netlink and a generic netlink header.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;

/// A request of a family, with one attribute.
pub(super) fn request(family: u16, command: u8, sequence: u32, attribute: u16, value: &[u8]) -> Vec<u8> {
    let attribute_length = 4 + value.len();
    let length = HEADER + GENERIC_HEADER + attribute_length.next_multiple_of(4);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The kernel fills in who it is from.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((attribute_length as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length, 0);
    bytes
}

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<'b> {
    /// An error number, or 0 for an acknowledgement; and which request it answers.
    Error(u32, i32),
    /// Which request it answers, and its attributes.
    Data(u32, &'b [u8]),
}

/// The messages of a datagram; what cannot be understood ends them.
pub(super) fn replies(mut bytes: &[u8]) -> Vec<Reply<'_>> {
    let mut replies = Vec::new();
    while let Some(length) = word(bytes, 0).map(|length| length as usize).filter(|length| *length >= HEADER) {
        let (Some(message), Some(sequence)) = (bytes.get(..length), word(bytes, 8)) else { break };
        let kind = bytes.get(4..6).and_then(|two| two.try_into().ok()).map_or(0, u16::from_ne_bytes);
        if kind == NLMSG_ERROR {
            let Some(error) = word(message, HEADER) else { break };
            replies.push(Reply::Error(sequence, error.cast_signed()));
        } else if let Some(attributes) = message.get(HEADER + GENERIC_HEADER..) {
            replies.push(Reply::Data(sequence, attributes));
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    replies
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

/// A word of four bytes.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_a_message_with_its_attribute() {
        let bytes = request(31, 1, 7, 2, b"abc\0x");
        assert_eq!(bytes.len() % 4, 0);
        let replies = replies(&bytes);
        let [Reply::Data(7, data)] = replies[..] else { panic!("{replies:?}") };
        assert_eq!(attributes(data, 2), [b"abc\0x"]);
        assert!(attributes(data, 3).is_empty());
    }

    #[test]
    fn an_error_is_told_with_the_request_that_it_answers() {
        let mut bytes = request(2, 0, 9, 0, b"");
        bytes[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(replies(&bytes), [Reply::Error(9, -1)]);
    }

    proptest! {
        #[test]
        fn no_bytes_can_stop_the_parsers(bytes: Vec<u8>, wanted: u16) {
            let _ = (replies(&bytes), attributes(&bytes, wanted));
        }
    }
}
