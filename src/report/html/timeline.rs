//! What each thread did over time, as the page shows it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::profile_words as words;
use crate::shade::Shade;
use crate::shown::{Html, Shown};
use crate::svg::{self, Area};
use crate::words::counted;
use rdiag_model::Profile;
use rdiag_model::ledger::Timeline;
use rdiag_model::quantity::seconds;

/// Threads whose states are drawn.
const MAX_TIMELINES: usize = 24;

#[derive(Serialize)]
pub(super) struct ThreadView {
    name: String,
    seconds: String,
    svg: Shown<Html>,
}

/// The threads, and how many more there are.
pub(super) fn threads(profile: &Profile) -> (Vec<ThreadView>, String) {
    let drawn: Vec<ThreadView> = profile
        .threads
        .iter()
        .filter_map(|row| {
            let timeline = profile.timelines.iter().find(|timeline| timeline.tid == row.tid)?;
            Some(ThreadView {
                name: words::thread(row),
                seconds: seconds(row.seconds),
                svg: svg::areas(&states(timeline, profile.elapsed_seconds), 14),
            })
        })
        .take(MAX_TIMELINES)
        .collect();
    let hidden = (profile.population.seen).saturating_sub(drawn.len() as u64);
    let more = match hidden {
        0 => String::new(),
        _ if drawn.is_empty() => String::new(),
        hidden => format!("{} not drawn.", counted(hidden, "more thread is", "more threads are")),
    };
    (drawn, more)
}

/// The states of a thread: those of one slice stand upon one another, each as high as its share of the slice.
fn states(timeline: &Timeline, elapsed: f64) -> Vec<Area> {
    let mut areas: BTreeMap<Shade, Vec<[f64; 4]>> = BTreeMap::new();
    let place = |at: f64| if elapsed > 0.0 { (at / elapsed).clamp(0.0, 1.0) } else { 0.0 };
    for slice in &timeline.slices {
        let mut sums: BTreeMap<Shade, f64> = BTreeMap::new();
        for (component, part) in &slice.parts {
            *sums.entry(Shade::of(*component)).or_default() += part;
        }
        // What is in no part is left blank.
        let whole = sums.values().sum::<f64>().max(slice.until - slice.from);
        let mut floor = 1.0;
        for (shade, sum) in sums.into_iter().filter(|(_, sum)| whole > 0.0 && *sum > 0.0) {
            let top: f64 = floor - sum / whole;
            let (from, until) = (place(slice.from), place(slice.until));
            let boxes = areas.entry(shade).or_default();
            match boxes.last_mut() {
                Some([_, end, over, under])
                    if (*end - from).abs() < 1e-9 && (*over - top).abs() < 0.005 && (*under - floor).abs() < 0.005 =>
                {
                    *end = until;
                }
                _ => boxes.push([from, until, top, floor]),
            }
            floor = top;
        }
    }
    let area = |(shade, boxes): (Shade, _)| Area { class: shade.class(), title: shade.word(), boxes };
    areas.into_iter().map(area).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::Component as C;
    use rdiag_model::ledger::Slice;

    fn slice(from: f64, until: f64, parts: &[(C, f64)]) -> Slice {
        Slice { from, until, parts: parts.to_vec() }
    }

    /// The area of each class, of a picture of 1 × 1.
    fn sizes(slices: Vec<Slice>, elapsed: f64) -> Vec<(&'static str, f64, usize)> {
        let areas = states(&Timeline { tid: 1, slices }, elapsed);
        let size = |[from, until, top, floor]: &[f64; 4]| (until - from) * (floor - top);
        areas.iter().map(|area| (area.class, area.boxes.iter().map(size).sum(), area.boxes.len())).collect()
    }

    #[test]
    fn areas_are_as_large_as_the_time_and_what_nobody_knows_is_blank() {
        let slices = vec![
            slice(0.0, 4.0, &[(C::CpuUser, 1.0), (C::CpuSys, 1.0), (C::IoBlockRead, 2.0)]),
            slice(4.0, 5.0, &[(C::IpcPipe, 0.5)]),
            slice(6.0, 10.0, &[(C::WaitPoll, 4.0)]),
        ];
        let seen = sizes(slices, 10.0);
        for ((class, size, _), (should, part)) in
            seen.iter().zip([("t-cpu", 0.2), ("t-disk", 0.2), ("t-other", 0.05), ("t-idle", 0.4)])
        {
            assert!(*class == should && (size - part).abs() < 1e-9, "{seen:?}");
        }
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn the_same_state_slice_after_slice_is_one_box_and_too_much_time_does_not_overflow() {
        let even = (0..100).map(|at| slice(f64::from(at), f64::from(at + 1), &[(C::CpuUser, 1.0)])).collect();
        assert_eq!(sizes(even, 100.0), [("t-cpu", 1.0, 1)]);
        let double = sizes(vec![slice(0.0, 1.0, &[(C::CpuUser, 1.0), (C::IpcPipe, 1.0)])], 1.0);
        assert_eq!(double, [("t-cpu", 0.5, 1), ("t-other", 0.5, 1)]);
        assert_eq!(sizes(vec![slice(0.0, 0.0, &[])], 0.0), []);
    }
}
