//! The host over the run: the windows, and the curves that the page draws.

use std::collections::BTreeSet;

use super::trace::{Args, Group, Slice, Trace, args, shown, text};
use crate::exported::Exported;
use rdiag_model::Unit;
use rdiag_model::report::{Curve, Lane, Span};

pub(super) fn draw(trace: &mut Trace, of: &Exported<'_>) {
    let group = trace.group(&format!("host {}", of.report.host.hostname));
    let window = |(at, span): (usize, &Span)| Slice {
        from: span.from,
        until: span.until,
        name: if at == 0 { "first window".to_owned() } else { "drill-down".to_owned() },
        args: args([
            ("window", Some(at.into())),
            ("run started (wall clock, UTC)", Some(text(&of.report.window.started))),
            ("interval (s)", Some(of.report.window.interval_seconds.into())),
        ]),
    };
    trace.slices(group, "windows", "window", of.windows().iter().enumerate().map(window).collect());
    let mut gaps = Vec::new();
    for lane in of.report.timeline.iter().flat_map(|timeline| &timeline.lanes) {
        for (at, window) in of.windows().iter().enumerate() {
            curves(trace, group, lane, (at, *window), &mut gaps);
        }
    }
    trace.slices(group, "not measured", "gap", gaps);
}

/// The curves of a lane in one window.
fn curves(trace: &mut Trace, group: Group, lane: &Lane, (at, window): (usize, Span), gaps: &mut Vec<Slice>) {
    let name = named(lane);
    let values = |curve: &Curve| curve.values.get(at).map_or(0, Vec::len);
    // They are of the same intervals, or else are drawn by their own.
    let counts: BTreeSet<usize> = lane.curves.iter().map(values).filter(|count| *count > 0).collect();
    for count in counts {
        let width = (window.until - window.from) / count as f64;
        let instant = |slot: usize| window.from + slot as f64 * width;
        let mut gap: Option<usize> = None;
        for slot in 0..count {
            let value = |curve: &Curve| {
                let value = curve.values.get(at).filter(|values| values.len() == count)?.get(slot).copied()??;
                value.is_finite().then(|| (shown(&curve.name), value.into()))
            };
            let known: Args = lane.curves.iter().filter_map(value).collect();
            if known.is_empty() {
                gap.get_or_insert(slot);
                continue;
            }
            gaps.extend(gap.take().map(|from| missing(&name, instant(from), instant(slot))));
            trace.counter(group, &name, instant(slot), known);
        }
        gaps.extend(gap.map(|from| missing(&name, instant(from), window.until)));
    }
}

fn missing(lane: &str, from: f64, until: f64) -> Slice {
    Slice { from, until, name: format!("not measured: {lane}"), args: Args::new() }
}

/// `IOPS vda (per second)`.
fn named(lane: &Lane) -> String {
    let instance = lane.instance.iter().map(|instance| format!(" {instance}")).collect::<String>();
    let unit = match lane.unit {
        Unit::Ratio => " (share, 0 to 1)",
        Unit::Seconds => " (s)",
        Unit::Bytes => " (bytes)",
        Unit::Count => "",
        Unit::PerSecond => " (per second)",
        Unit::BytesPerSecond => " (bytes/s)",
    };
    format!("{}{instance}{unit}", lane.title)
}
