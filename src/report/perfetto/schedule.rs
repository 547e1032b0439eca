//! Who ran when, on which CPU, as the recording has it: a report holds no more than sums.
//!
//! A probe is attached before its window begins; how long before is not recorded. Its times are drawn as if both began together. The group
//! says by how much that may be too late: by the time that the probe took beyond its window.

use super::trace::{Slice, Trace, args, shown};
use crate::exported::Exported;
use rdiag_model::probe::Output;
use rdiag_model::quantity::seconds;
use rdiag_model::schedule::{RunSlice, Schedule};

pub(super) fn draw(trace: &mut Trace, of: &Exported<'_>) {
    let windows = of.recording.into_iter().flat_map(|recording| &recording.windows);
    for (span, window) in of.windows().iter().zip(windows) {
        for result in window.probes.values().flatten() {
            let earlier = seconds((result.seconds - window.seconds).max(0.0));
            for output in &result.outputs {
                let Output::Schedule(schedule) = output else { continue };
                let title = format!("{} ({}; drawn up to {earlier} too late)", schedule.title, result.probe);
                cpus(trace, schedule, &title, span.from);
            }
        }
    }
}

fn cpus(trace: &mut Trace, schedule: &Schedule, title: &str, begins: f64) {
    let group = trace.group(title);
    let slice = |slice: &RunSlice| {
        let task = slice.task.and_then(|at| schedule.tasks.get(at as usize));
        Slice {
            from: begins + slice.from,
            until: begins + slice.until,
            name: task.map_or_else(|| "not known".to_owned(), |task| shown(&task.name)),
            args: args([
                ("pid", task.map(|task| task.pid.into())),
                ("tid", task.map(|task| task.tid.into())),
                ("waited for a CPU before (s)", slice.waited.map(Into::into)),
                ("why it left", slice.left.and_then(|left| serde_json::to_value(left).ok())),
            ]),
        }
    };
    for cpu in &schedule.cpus {
        trace.slices(group, &format!("CPU {}", cpu.cpu), "schedule", cpu.slices.iter().map(slice).collect());
    }
}
