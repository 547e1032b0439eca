//! Generic netlink messages: as much of them as taskstats needs.

use crate::mechanism::netlink::{ERROR, REQUEST, message, messages};
pub(super) use crate::mechanism::netlink::{attributes, word};

/// Bytes of a generic netlink header.
const GENERIC_HEADER: usize = 4;

/// A request of a family, with one attribute.
pub(super) fn request(family: u16, command: u8, sequence: u32, attribute: u16, value: &[u8]) -> Vec<u8> {
    let mut payload = vec![command, 1, 0, 0];
    payload.extend(((4 + value.len()) as u16).to_ne_bytes());
    payload.extend(attribute.to_ne_bytes());
    payload.extend(value);
    message(family, REQUEST, sequence, &payload)
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
pub(super) fn replies(bytes: &[u8]) -> Vec<Reply<'_>> {
    let mut replies = Vec::new();
    for one in messages(bytes) {
        if one.kind == ERROR {
            let Some(error) = word(one.payload, 0) else { break };
            replies.push(Reply::Error(one.sequence, error.cast_signed()));
        } else if let Some(attributes) = one.payload.get(GENERIC_HEADER..) {
            replies.push(Reply::Data(one.sequence, attributes));
        }
    }
    replies
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mechanism::netlink::HEADER;

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
        bytes[HEADER..HEADER + 4].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(replies(&bytes), [Reply::Error(9, -1)]);
    }

    proptest! {
        #[test]
        fn no_bytes_can_stop_the_parsers(bytes: Vec<u8>) {
            let _ = replies(&bytes);
        }
    }
}
