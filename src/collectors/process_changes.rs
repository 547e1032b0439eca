//! The collector `processes` for a recorder that may be killed at any time: beside the table that it gives at the end of a window, each
//! sample gives what is new since the one before.

use super::processes::{self, Processes};
use crate::def::{Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::{Process, Unavailable};

/// In place of the collector `processes`. After each sample its record's table holds those of which something is new: with one point if
/// they did something, without if they have ended.
pub static PROCESS_CHANGES: CollectorDef = CollectorDef {
    id: processes::COLLECTOR.id,
    help: processes::COLLECTOR.help,
    cadence: processes::COLLECTOR.cadence,
    series: processes::COLLECTOR.series,
    metrics: processes::COLLECTOR.metrics,
    overhead: processes::COLLECTOR.overhead,
    start: |_| Box::new(ProcessChanges::default()),
};

#[derive(Default)]
struct ProcessChanges {
    inner: Processes,
}

impl Collect for ProcessChanges {
    fn prepare(&mut self, host: &Host, out: &Sink) {
        self.inner.prepare(host, out);
    }

    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let at = out.current();
        let outcome = self.inner.sample(host, out);
        let known = self.inner.table.entries.iter().map(|entry| &entry.process);
        out.processes(known.filter_map(|process| news(process, at)).collect());
        outcome
    }

    fn so_far(&mut self, host: &Host, out: &Sink) {
        self.inner.so_far(host, out);
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        self.inner.finish(host, out);
    }
}

/// What is new of a process at this sample.
fn news(process: &Process, at: usize) -> Option<Process> {
    let (seen, before) = (usize::from(process.last) == at, usize::from(process.last) + 1 == at);
    let newest = process.points.last().filter(|point| seen && usize::from(point.at) == at);
    let points: Vec<_> = newest.into_iter().cloned().collect();
    (before || !points.is_empty()).then(|| Process {
        pid: process.pid,
        ppid: process.ppid,
        start_ticks: process.start_ticks,
        comm: process.comm.clone(),
        uid: process.uid,
        first: process.first,
        last: process.last,
        points,
        ..Process::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::ProcessPoint;

    #[test]
    fn a_process_is_news_when_it_did_something_and_once_when_it_has_ended() {
        let point = |at| ProcessPoint { at, utime: 5, ..ProcessPoint::default() };
        let mut process = Process { pid: 7, points: vec![point(0), point(2)], last: 2, ..Process::default() };
        let told = |process: &Process, at| news(process, at).map(|news| (news.pid, news.points.len()));
        assert_eq!(told(&process, 2), Some((7, 1)));
        process.last = 3;
        assert_eq!(told(&process, 3), None, "it did nothing");
        assert_eq!(told(&process, 4), Some((7, 0)), "it has ended");
        assert_eq!(told(&process, 5), None);
    }
}
