//! What the programs of any point count beside what they were asked for.

use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_model::Unavailable;

/// The counters of point.h, in its order: since the program was loaded, or between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) events: u64,
    pub(super) sum: u64,
    pub(super) negative: u64,
    no_room: u64,
    no_stack_room: u64,
    too_deep: u64,
    no_entry: u64,
}

impl Totals {
    /// The sums of several points.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            sum: self.sum.wrapping_add(other.sum),
            negative: self.negative + other.negative,
            no_room: self.no_room + other.no_room,
            no_stack_room: self.no_stack_room + other.no_stack_room,
            too_deep: self.too_deep + other.too_deep,
            no_entry: self.no_entry + other.no_entry,
        }
    }

    /// Reads them anew, and gives what came since.
    pub(super) fn advance(&mut self, object: &Object) -> Result<Self, Unavailable> {
        let copies = |at| -> Result<u64, Unavailable> {
            let copies = object.per_cpu_element::<u64>("point_counters", at)?;
            Ok(copies.iter().fold(0, |all, one| all.wrapping_add(*one)))
        };
        let now = Self {
            events: copies(0)?,
            sum: copies(1)?,
            negative: copies(2)?,
            no_room: copies(3)?,
            no_stack_room: copies(4)?,
            too_deep: copies(5)?,
            no_entry: copies(6)?,
        };
        let before = std::mem::replace(self, now);
        Ok(Self {
            events: now.events.saturating_sub(before.events),
            // Values may be negative.
            sum: now.sum.wrapping_sub(before.sum),
            negative: now.negative.saturating_sub(before.negative),
            no_room: now.no_room.saturating_sub(before.no_room),
            no_stack_room: now.no_stack_room.saturating_sub(before.no_stack_room),
            too_deep: now.too_deep.saturating_sub(before.too_deep),
            no_entry: now.no_entry.saturating_sub(before.no_entry),
        })
    }

    /// What is not in the outputs, and why.
    pub(super) fn lost(&self) -> [(&'static str, u64); 4] {
        [
            ("too many keys at once", self.no_room),
            ("stacks that found no room", self.no_stack_room),
            ("calls within more than 8 calls of the same function", self.too_deep),
            ("returns whose call was not seen", self.no_entry),
        ]
    }
}
