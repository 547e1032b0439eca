//! What the recorder keeps on disk: blocks of the recording model, column by column, and the tail of the block in the making. Pure: bytes
//! in, bytes out; `src/session/` reads and writes the files. Beside them stands the list of incidents (`incidents.rs`).
//!
//! A block holds some minutes. Each collector is a column of its own (`column.rs`) with a checksum of its own (`frame.rs`): names once,
//! then differences as short integers, deflated. A damaged column costs itself, and is named; the header stands at both ends. The tail
//! (`tail.rs`) gets a frame for each sample, which can be read without those before it but for the names that these brought.
//!
//! Where space is short, a block is written again with a sample a minute (`tier.rs`), and what a minute hides of some figures
//! (`bursts.rs`).
//!
//! Time in a block is rounded to a microsecond. All else comes back as it went in, bit by bit.
//!
//! Blocks may come from anywhere, so decoding is total and bounded: by 96 MiB for each file, and by the number of values
//! that a column may say it has.

mod block;
mod bursts;
mod bytes;
mod column;
mod frame;
mod incidents;
mod numbers;
mod table;
mod tail;
#[cfg(test)]
mod tests;
mod text;
mod tier;

pub use block::{Block, Cost, FORMAT_VERSION, Header, Readable, framed, header_of, read_block, write_block};
pub use bursts::Extreme;
pub use frame::MAX_FILE;
pub use incidents::{
    CriticalRule, INCIDENTS, Incident, MAX_INCIDENTS, MOST_INCIDENTS, Resource, incident_second, read_incidents,
    write_incidents,
};
pub use tail::{Sample, Tail, read_tail};
pub use tier::{is_finer, is_mean, of_samples, thin_block};

/// What a file lacks, in words: a column that does not fit its checksum, an end that is torn off.
pub type Damage = String;
