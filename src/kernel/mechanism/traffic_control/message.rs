//! The messages of rtnetlink about queueing disciplines and classes.

use crate::mechanism::netlink::{DONE, ERROR, attribute, long, messages, word};

const NEW_QDISC: u16 = 36;
const NEW_CLASS: u16 = 40;
/// Bytes of `struct tcmsg`, which comes before the attributes.
const HEAD: usize = 20;
/// Attributes: the kind, the older statistics (`TCA_STATS`), and the newer nested ones (`TCA_STATS2`).
const KIND: u16 = 1;
const FIGURES: u16 = 3;
const NESTED: u16 = 7;
/// Within the newer ones: bytes and packets sent, and the queue.
const BASIC: u16 = 1;
const QUEUED: u16 = 3;
/// Packets in 64 bits (Linux 5.5).
const PACKETS: u16 = 8;
/// No kind has a longer name.
const LONGEST: usize = 16;

/// A queueing discipline or a class of one, and what the kernel has counted for it since it was set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// Index of the network device.
    pub device: u32,
    /// Its own number, major and minor: `8001:0`, `1:20`.
    pub handle: u32,
    /// What it is attached to.
    pub parent: u32,
    /// `fq_codel`, `htb`; of a class, that of its discipline.
    pub kind: String,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets waiting.
    pub waiting: u32,
    /// Bytes waiting.
    pub waiting_bytes: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Times that a configured rate delayed a packet.
    pub overlimits: u32,
}

impl Queue {
    /// Parent of the root qdisc of a device.
    pub const ROOT: u32 = u32::MAX;

    /// Its number as `tc` writes it.
    #[must_use]
    pub fn number(&self) -> String {
        format!("{:x}:{:x}", self.handle >> 16, self.handle & 0xffff)
    }
}

/// Part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Queue(Queue),
    /// An error number below 0, or 0.
    Error(i32),
    Done,
}

/// The head of a request about a device (0 for all).
pub(super) fn asking(device: u32) -> Vec<u8> {
    let mut head = vec![0; HEAD];
    if let Some(place) = head.get_mut(4..8) {
        place.copy_from_slice(&device.to_ne_bytes());
    }
    head
}

/// The parts of a datagram that answer a request. Malformed ones are left out.
pub(super) fn parts(bytes: &[u8], sequence: u32) -> Vec<Part> {
    let own = messages(bytes).into_iter().filter(|message| message.sequence == sequence);
    let part = |kind, payload: &[u8]| match kind {
        DONE => Some(Part::Done),
        ERROR => Some(Part::Error(word(payload, 0)?.cast_signed())),
        NEW_QDISC | NEW_CLASS => Some(Part::Queue(queue(payload)?)),
        _ => None,
    };
    own.filter_map(|message| part(message.kind, message.payload)).collect()
}

fn queue(payload: &[u8]) -> Option<Queue> {
    let about = payload.get(HEAD..)?;
    let kind = attribute(about, KIND)?;
    let kind = kind.split(|byte| *byte == 0).next().unwrap_or_default();
    let head = Queue {
        device: word(payload, 4)?,
        handle: word(payload, 8)?,
        parent: word(payload, 12)?,
        kind: String::from_utf8_lossy(kind.get(..LONGEST).unwrap_or(kind)).into_owned(),
        ..Queue::default()
    };
    newer(about, &head).or_else(|| older(about, &head)).or(Some(head))
}

/// `struct gnet_stats_basic` and `struct gnet_stats_queue`.
fn newer(about: &[u8], head: &Queue) -> Option<Queue> {
    let nested = attribute(about, NESTED)?;
    let (basic, queued) = (attribute(nested, BASIC)?, attribute(nested, QUEUED)?);
    let packets = attribute(nested, PACKETS).and_then(|value| long(value, 0));
    Some(Queue {
        bytes: long(basic, 0)?,
        packets: packets.or_else(|| word(basic, 8).map(u64::from))?,
        waiting: word(queued, 0)?,
        waiting_bytes: word(queued, 4)?,
        drops: word(queued, 8)?,
        overlimits: word(queued, 16)?,
        ..head.clone()
    })
}

/// `struct tc_stats`.
fn older(about: &[u8], head: &Queue) -> Option<Queue> {
    let figures = attribute(about, FIGURES)?;
    Some(Queue {
        bytes: long(figures, 0)?,
        packets: word(figures, 8)?.into(),
        drops: word(figures, 12)?,
        overlimits: word(figures, 16)?,
        waiting: word(figures, 28)?,
        waiting_bytes: word(figures, 32)?,
        ..head.clone()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mechanism::netlink::message;

    fn attribute_of(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn words(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    fn answer(attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut payload = words(&[0, 3, 0x8001_0000, Queue::ROOT, 2]);
        payload.extend(attributes.concat());
        message(NEW_QDISC, 0, 5, &payload)
    }

    #[test]
    fn figures_are_found_in_the_newer_structure_and_else_in_the_older_one() {
        let basic = [9_000_u64.to_ne_bytes().to_vec(), words(&[60])].concat();
        let queued = words(&[7, 8_000, 40, 0, 500]);
        let nested = [attribute_of(BASIC, &basic), attribute_of(QUEUED, &queued)];
        let kind = attribute_of(KIND, b"tbf\0");
        let expected = Queue {
            device: 3,
            handle: 0x8001_0000,
            parent: Queue::ROOT,
            kind: "tbf".to_owned(),
            bytes: 9_000,
            packets: 60,
            waiting: 7,
            waiting_bytes: 8_000,
            drops: 40,
            overlimits: 500,
        };
        let new = answer(&[kind.clone(), attribute_of(NESTED, &nested.concat())]);
        assert_eq!(parts(&new, 5), [Part::Queue(expected.clone())]);
        let figures = [9_000_u64.to_ne_bytes().to_vec(), words(&[60, 40, 500, 0, 0, 7, 8_000])].concat();
        assert_eq!(
            parts(&answer(&[kind.clone(), attribute_of(FIGURES, &figures)]), 5),
            [Part::Queue(expected.clone())]
        );
        let many = [&nested[..], &[attribute_of(PACKETS, &(1_u64 << 40).to_ne_bytes())]].concat().concat();
        let Some(Part::Queue(found)) = parts(&answer(&[kind, attribute_of(NESTED, &many)]), 5).pop() else { panic!() };
        assert_eq!((found.packets, found.number().as_str()), (1 << 40, "8001:0"));
    }

    #[test]
    fn answers_to_others_are_left_out_and_the_end_and_errors_are_told() {
        assert!(parts(&answer(&[attribute_of(KIND, b"htb\0")]), 6).is_empty());
        assert_eq!(parts(&message(DONE, 0, 6, &[0; 4]), 6), [Part::Done]);
        assert_eq!(parts(&message(ERROR, 0, 6, &words(&[(-1_i32).cast_unsigned()])), 6), [Part::Error(-1)]);
        assert_eq!(asking(3).get(4..8), Some(&3_u32.to_ne_bytes()[..]));
    }

    proptest! {
        #[test]
        fn no_answer_can_stop_the_parser(bytes: Vec<u8>, sequence: u32, value: Vec<u8>, kind in 0_u16..12) {
            let _ = parts(&bytes, sequence);
            let garbled = answer(&[attribute_of(KIND, b"x"), attribute_of(kind, &value), attribute_of(NESTED, &bytes)]);
            let _ = parts(&garbled, 5);
        }
    }
}
