//! Changes that leave an input readable enough to be read on: libFuzzer's own mostly end at the first parser.

pub mod elf;
pub mod json;
pub mod perf;

/// Numbers at which something changes.
pub const EDGES: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    8,
    63,
    64,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65535,
    65536,
    1 << 24,
    i32::MAX as u64,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 40,
    1 << 53,
    (1 << 53) + 1,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 7,
    u64::MAX - 1,
    u64::MAX,
];

/// Chance, the same for the same seed (xorshift).
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// Of a seed.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(u64::from(seed) << 16 | 0x9e37)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below this one; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        (self.any() >> 11) as usize % end.max(1)
    }

    /// One of these.
    pub fn of<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.below(list.len())]
    }

    /// A number that is near another, at an edge, or anywhere.
    pub fn number(&mut self, near: u64) -> u64 {
        match self.below(8) {
            0..=2 => *self.of(EDGES),
            3 => near.wrapping_add(1),
            4 => near.wrapping_sub(1),
            5 => near.wrapping_mul(2),
            6 => near ^ 1 << self.below(64),
            _ => self.any() >> self.below(64),
        }
    }
}

/// Puts the bytes in the place of an input, as far as there is room.
fn put(bytes: &[u8], data: &mut [u8], most: usize) -> usize {
    let size = bytes.len().min(most).min(data.len());
    data[..size].copy_from_slice(&bytes[..size]);
    size
}
