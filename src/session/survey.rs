//! Asking every source once: what answers here, and what does not.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::worker::{Job, Task, Worker};
use crate::collectors::{self, Sink};
use crate::host::SharedHost;
use crate::model::{Reason, Unavailable};

/// What one collector found.
pub struct Surveyed {
    /// Collector id.
    pub collector: &'static str,
    /// What it cannot give: which series, and why.
    pub gaps: Vec<(String, Unavailable)>,
}

/// Takes one sample of every collector. Probing by doing: the listed is not the usable.
pub fn survey(host: &SharedHost) -> io::Result<Vec<Surveyed>> {
    let mut found = Vec::new();
    for def in collectors::ALL {
        let sink = Sink::new(def.series);
        let worker = Worker::start(host)?;
        worker.submit([Job { slot: 0, state: (def.start)(host), sink: sink.clone(), task: Task::Sample }]);
        let mut gaps = Vec::new();
        match worker.next(Duration::from_secs(3)) {
            Some(done) => gaps.extend(done.result.err().map(|gap| (def.id.to_owned(), gap))),
            None => gaps.push((def.id.to_owned(), Unavailable::new(Reason::Hung, "it did not answer within 3 s"))),
        }
        let told: BTreeMap<String, Unavailable> = sink.with_record(|record| record.gaps.clone());
        gaps.extend(told);
        found.push(Surveyed { collector: def.id, gaps });
    }
    Ok(found)
}
