//! What other programs printed of their recordings: sysstat, atop, PCP, below, the journal.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rdiag_kernel::host::Zone;
use rdiag_playbook::{Library, Plan};
use rdiag_session::{Span, elsewhere};

use super::recorded;

/// From 2026-03-10 00:00 UTC to 06:00, in microseconds.
const SPAN: Span = Span { from: 1_773_100_800_000_000, to: 1_773_122_400_000_000 };

/// That of use-method.
pub(super) static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let library = Library::read(Vec::new());
    let loaded = library.playbook("use-method").expect("a playbook of rdiag's own").clone();
    Plan::new(&loaded, &library, &BTreeMap::new()).expect("a playbook of rdiag's own has a plan")
});

/// `rdiag run --at TIME --from FILE`.
pub fn printed(data: &[u8]) -> bool {
    let Ok(past) = elsewhere(data, SPAN, &PLAN, &Zone::utc()) else { return false };
    for record in past.recording.windows.iter().flat_map(|window| window.collectors.values()) {
        let samples = record.times.len();
        assert!(record.times.is_sorted(), "samples are in order");
        assert!(record.series.iter().all(|series| series.values.len() == samples));
        for process in &record.processes {
            assert!(usize::from(process.last) < samples && process.first <= process.last, "{process:?}");
            assert!(process.points.iter().all(|point| usize::from(point.at) < samples), "{process:?}");
            assert!(process.points.is_sorted_by(|a, b| a.at < b.at), "{process:?}");
        }
    }
    recorded::judged(&past.recording);
    true
}
