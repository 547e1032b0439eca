//! What goes when the folder is full: recordings of drill-downs that are not pinned, then the oldest blocks, and those of an incident last.

use rdiag_history::{Incident, incident_second};
use rdiag_kernel::host::StoredFile;

/// Part of the space that incidents may take before others.
const PINNED_SHARE: u64 = 2;
/// A block is no longer, in seconds. How long it is stands in it, and not in its name.
const LONGEST_BLOCK: i64 = 3600;

/// A file that may go.
struct Place<'f> {
    file: &'f StoredFile,
    content: Content,
}

enum Content {
    /// A block, and the seconds since 1970 in which it may begin and end.
    Block(i64, i64),
    /// The recording of the drill-down of the incident at this second.
    Drill(i64),
}

impl Place<'_> {
    fn is_of(&self, incident: &Incident) -> bool {
        let (from, to) = incident.span();
        match self.content {
            Content::Block(begins, ends) => begins <= to.div_euclid(1_000_000) && ends >= from.div_euclid(1_000_000),
            Content::Drill(second) => second == incident.second(),
        }
    }
}

/// The files of the folder that may go, in the order in which they do.
fn places(files: &[StoredFile]) -> Vec<Place<'_>> {
    let drills =
        files.iter().filter_map(|file| Some(Place { file, content: Content::Drill(incident_second(&file.name)?) }));
    let mut drills: Vec<Place<'_>> = drills.collect();
    drills.sort_by_key(|place| match place.content {
        Content::Drill(second) | Content::Block(second, _) => second,
    });
    let blocks: Vec<(&StoredFile, i64)> =
        files.iter().filter_map(|file| Some((file, super::begins(&file.name)?))).collect();
    let next = blocks.iter().skip(1).map(|(_, begins)| Some(*begins)).chain([None]);
    let blocks = blocks.iter().zip(next).map(|((file, begins), next)| {
        let longest = begins.saturating_add(LONGEST_BLOCK);
        // A clock that was set back in between says nothing.
        let ends = next.filter(|next| next > begins).map_or(longest, |next| next.min(longest));
        Place { file, content: Content::Block(*begins, ends) }
    });
    drills.into_iter().chain(blocks).collect()
}

/// The blocks of no pinned incident, oldest first, and the bytes of all that is pinned.
pub(super) fn loose<'f>(files: &'f [StoredFile], incidents: &[Incident]) -> (Vec<&'f StoredFile>, u64) {
    let is_pinned = |place: &Place<'_>| incidents.iter().any(|incident| incident.pinned && place.is_of(incident));
    let (pinned, loose): (Vec<Place<'f>>, Vec<Place<'f>>) = places(files).into_iter().partition(is_pinned);
    let of_pinned = pinned.iter().map(|place| place.file.bytes).sum();
    (
        loose.iter().filter(|place| matches!(place.content, Content::Block(..))).map(|place| place.file).collect(),
        of_pinned,
    )
}

/// What is to be done so that so many more bytes fit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Names of the files to remove.
    pub(super) remove: Vec<String>,
    /// Indexes of the incidents whose blocks are kept no longer.
    pub(super) unpinned: Vec<usize>,
}

/// Makes a plan: `taken` bytes of `limit` are taken, and `size` more are needed. Incidents are in the order of time.
pub(super) fn make_room(files: &[StoredFile], incidents: &[Incident], taken: u64, size: u64, limit: u64) -> Room {
    let places = places(files);
    let mut pinned: Vec<usize> =
        (0..incidents.len()).filter(|at| incidents.get(*at).is_some_and(|one| one.pinned)).collect();
    let mut room = Room::default();
    let holds = |pinned: &[usize], place: &Place<'_>| {
        pinned.iter().filter_map(|at| incidents.get(*at)).any(|incident| place.is_of(incident))
    };
    loop {
        let (kept, free): (Vec<&Place<'_>>, Vec<&Place<'_>>) = places.iter().partition(|place| holds(&pinned, place));
        let of_pinned: u64 = kept.iter().map(|place| place.file.bytes).sum();
        let of_free: u64 = free.iter().map(|place| place.file.bytes).sum();
        let is_too_much = of_pinned > limit / PINNED_SHARE;
        let fits = taken.saturating_sub(of_free).saturating_add(size) <= limit;
        if pinned.is_empty() || (!is_too_much && fits) {
            let mut taken = taken;
            for place in free {
                if taken.saturating_add(size) <= limit {
                    break;
                }
                taken = taken.saturating_sub(place.file.bytes);
                room.remove.push(place.file.name.clone());
            }
            return room;
        }
        room.unpinned.push(pinned.remove(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_history::Resource;

    fn incident(second: i64) -> Incident {
        Incident {
            wall_micros: second * 1_000_000,
            resource: Resource::Io,
            rule: None,
            share: 0.5,
            at_least: false,
            seconds: 5.0,
            pinned: true,
            drilled: true,
            note: None,
        }
    }

    /// Blocks of ten minutes from second 0 on, of 100 bytes each.
    fn blocks(count: i64) -> Vec<StoredFile> {
        (0..count).map(|at| StoredFile { name: format!("{:010}-{}.rdh", at + 1, at * 600), bytes: 100 }).collect()
    }

    /// The numbers of the blocks that go, and the incidents that lose their pin.
    fn plan(files: &[StoredFile], incidents: &[Incident], limit: u64) -> (Vec<String>, Vec<usize>) {
        let taken = files.iter().map(|file| file.bytes).sum();
        let room = make_room(files, incidents, taken, 100, limit);
        let short = |name: &String| name.split('-').next().unwrap().trim_start_matches('0').to_owned();
        (room.remove.iter().map(short).collect(), room.unpinned)
    }

    #[test]
    fn without_incidents_the_oldest_go() {
        assert_eq!(plan(&blocks(10), &[], 1100), (vec![], vec![]));
        assert_eq!(plan(&blocks(10), &[], 1000), (vec!["1".into()], vec![]));
        assert_eq!(plan(&blocks(10), &[], 850), (vec!["1".into(), "2".into(), "3".into()], vec![]));
        assert_eq!(plan(&blocks(10), &[], 10).0.len(), 10, "all that there is");
    }

    #[test]
    fn the_blocks_of_an_incident_are_passed_over() {
        // At 1500 s: from 900 to 1800, which blocks 2, 3 and 4 touch.
        let (gone, unpinned) = plan(&blocks(10), &[incident(1500)], 700);
        assert_eq!((gone.join(" ").as_str(), unpinned), ("1 5 6 7", vec![]));
        let mut loose = incident(1500);
        loose.pinned = false;
        assert_eq!(plan(&blocks(10), &[loose], 700).0.join(" "), "1 2 3 4");
    }

    #[test]
    fn incidents_take_half_of_the_space_and_then_the_oldest_loses_its_pin() {
        let incidents = [incident(1500), incident(4500)];
        assert_eq!(plan(&blocks(12), &incidents, 1200), (vec!["1".into()], vec![]));
        let (gone, unpinned) = plan(&blocks(12), &incidents, 1000);
        assert_eq!((gone.join(" ").as_str(), unpinned), ("1 2 3", vec![0]));
        // Where even one is too large, none is kept.
        assert_eq!(plan(&blocks(12), &incidents, 300).1, [0, 1]);
    }

    #[test]
    fn recordings_of_drill_downs_are_kept_with_their_incident_and_go_first_without_it() {
        let mut files = blocks(6);
        let drill = |second| StoredFile { name: incident(second).file(), bytes: 100 };
        files.extend([drill(1500), drill(700)]);
        let room = make_room(&files, &[incident(1500)], 800, 100, 800);
        assert_eq!(room.remove, [incident(700).file()]);
        let room = make_room(&files, &[incident(1500)], 800, 100, 700);
        assert_eq!(room.remove, [incident(700).file(), incident(1500).file()]);
        assert_eq!(room.unpinned, [0], "four hundred bytes are more than half");
    }

    #[test]
    fn a_gap_or_a_clock_that_was_set_pins_no_more_than_the_longest_block() {
        let block = |number: u32, second: i64| StoredFile { name: format!("{number:010}-{second}.rdh"), bytes: 100 };
        // A day without a recorder; then a clock that was set back by a day.
        let files = [block(1, 0), block(2, 90_000), block(3, 3000), block(4, 3600)];
        let places = places(&files);
        let of = |second: i64| places.iter().map(|place| place.is_of(&incident(second))).collect::<Vec<_>>();
        assert_eq!(of(1000), [true, false, false, false]);
        assert_eq!(of(50_000), [false; 4]);
        assert_eq!(of(91_000), [false, true, false, false]);
        assert_eq!(of(3500), [true, false, true, true]);
        assert_eq!(of(i64::MAX / 1_000_000), [false; 4]);
    }
}
