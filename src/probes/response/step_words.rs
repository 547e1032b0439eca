//! Steps to callers as the programs keep them (`struct step` of `walk.h`).

use rdiag_kernel::mechanism::symbols::unwind::{FOLLOWS_POINTERS, Plain, Step, Way};

/// Bytes of code that share a place in the table: as many as functions are aligned to.
const HELD: u64 = 16;
/// Bytes of code that a place of the other kind stands for, the bit that it has, and the bytes around a place that was asked for in which
/// all such places are told.
const PAGE: u64 = 4096;
const OF_PAGE: u64 = 2;
const CHUNK_OF_PAGES: u64 = 1 << 18;
const LOADS: u64 = 1;
const IN_LINK: u64 = 2;
const OUTERMOST: u64 = 4;
const NO_WAY: u64 = 8;
/// All bits of the word behind the flags.
const INTERPRETED_CODE: u64 = 0xffff_ffff << 32;
/// `struct step`.
pub(super) type StepWords = [u64; 10];

/// Pages around a place that hold nothing but code without tables, as the programs look for them where they know no step: what is compiled
/// at run time has ever new places, but lies together.
pub(super) fn pages_of(step: &Step) -> impl Iterator<Item = u64> {
    let chunk = step.place - step.place % CHUNK_OF_PAGES;
    let until = step.place.saturating_add(step.after).min(chunk.saturating_add(CHUNK_OF_PAGES));
    let from = step.place.saturating_sub(step.before).max(chunk).checked_next_multiple_of(PAGE);
    let from = from.filter(|_| step.way == Way::Unknown).unwrap_or(until);
    let pages = (from..until).step_by(PAGE as usize);
    pages.filter(move |page| until - page >= PAGE).map(|page| page | OF_PAGE)
}

/// The place that it is kept at, and `struct step`.
pub(super) fn words_of(step: &Step) -> (u64, StepWords) {
    let (plain, mut flags) = match step.way {
        Way::Plain(plain) => (plain, 0),
        Way::Unknown => (Way::POINTERS, if FOLLOWS_POINTERS { 0 } else { NO_WAY }),
        Way::Outermost => (Way::POINTERS, OUTERMOST),
        Way::Hard => (Way::POINTERS, NO_WAY),
    };
    let Plain { by_pointer, frame, loaded, returns, pointer } = plain;
    flags |= if loaded.is_some() { LOADS } else { 0 } | if returns.is_none() { IN_LINK } else { 0 };
    let all = |is: bool| if is { u64::MAX } else { 0 };
    let or_none = |offset: Option<i64>| offset.unwrap_or_default().cast_unsigned();
    let within = step.place % HELD;
    let from = within.saturating_sub(step.before);
    let until = within.saturating_add(step.after.max(1)).min(HELD);
    let words = [
        all(!by_pointer),
        all(by_pointer),
        frame.cast_unsigned(),
        or_none(loaded),
        or_none(returns),
        or_none(pointer),
        all(pointer.is_some()),
        all(pointer.is_none()),
        flags | if step.way == Way::Unknown { INTERPRETED_CODE } else { 0 },
        from | (until - from) << 8,
    ];
    ((step.place - within) | u64::from(step.is_called), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(place: u64, before: u64, after: u64, way: Way) -> Step {
        Step { place, is_called: false, before, after, way }
    }

    const PLAIN: Plain = Plain { by_pointer: false, frame: 24, loaded: None, returns: Some(-8), pointer: None };

    #[test]
    fn a_step_is_kept_for_the_bytes_that_share_its_place_as_far_as_it_holds() {
        let holds = |step: &Step| words_of(step).1[9];
        let all = step(0x1047, 100, 100, Way::Plain(PLAIN));
        let (place, [of_sp, of_pointer, frame, .., saved, kept, flags, holds_for]) = words_of(&all);
        assert_eq!((place, of_sp, of_pointer, frame, saved, kept), (0x1040, u64::MAX, 0, 24, 0, u64::MAX));
        assert_eq!((flags, holds_for), (0, 16 << 8));
        assert_eq!(words_of(&Step { is_called: true, ..all }).0, 0x1041, "apart from those in execution");
        assert_eq!(holds(&step(0x1047, 2, 3, Way::Unknown)), 5 | 5 << 8);
        assert_eq!(holds(&step(0x104f, 0, 0, Way::Unknown)), 15 | 1 << 8);
        assert_eq!(words_of(&step(0, 0, 1, Way::Outermost)).1[8] & 0xff, OUTERMOST);
        assert_eq!(words_of(&step(0, 0, 1, Way::Hard)).1[8] & 0xff, NO_WAY);
        let loads = Plain { loaded: Some(-8), returns: None, pointer: Some(-16), ..PLAIN };
        let (_, [.., loaded, returns, pointer, saved, kept, flags, _]) = words_of(&step(0, 0, 1, Way::Plain(loads)));
        assert_eq!((loaded as i64, returns, pointer as i64, saved, kept), (-8, 0, -16, u64::MAX, 0));
        assert_eq!(flags & 0xff, LOADS | IN_LINK);
    }

    #[test]
    fn code_in_memory_without_tables_is_known_by_pages() {
        let pages = |step: &Step| pages_of(step).collect::<Vec<_>>();
        assert_eq!(pages(&step(0x4_2345, 0x1345, 0x2000, Way::Unknown)), [0x4_1002, 0x4_2002, 0x4_3002]);
        assert_eq!(pages(&step(0x4_2345, 0x1344, 0x1cba, Way::Unknown)), [0x4_2002], "whole ones alone");
        assert_eq!(pages(&step(0x4_2345, 1 << 30, 1 << 30, Way::Unknown)).len(), 64, "those near by");
        assert!(pages(&step(0x4_2345, 0, 1, Way::Unknown)).is_empty());
        assert!(pages(&step(u64::MAX, 9, 9, Way::Unknown)).is_empty());
        assert!(pages(&step(0x4_2345, 0x4000, 0x4000, Way::Hard)).is_empty());
    }
}
