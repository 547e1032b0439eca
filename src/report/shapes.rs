//! What probes measure comes in six shapes. This is the one place that goes through them, for all formats; how a shape looks is up to the
//! writer of a format: the full text, the few lines in a report, Markdown, a page.

use super::hot::hot;
use super::probed::{distributions, whole};
use super::schedule::strips;
use rdiag_model::call_trace::CallTrace;
use rdiag_model::heat::HeatMap;
use rdiag_model::hot::Hot;
use rdiag_model::probe::{Output, ProbeTable, Stacks};
use rdiag_model::probed::{Distributions, ProbedOutput};
use rdiag_model::schedule::Strips;

/// Pieces of a picture: many for each column of a terminal, so that none of them seems to begin late.
const PIECES: usize = 2_000;

/// Writes each shape in its own way.
pub(super) trait ShapeWriter {
    fn histogram(&mut self, all: &Distributions);
    fn table(&mut self, table: &ProbeTable);
    /// Sums by stack, what all of them are, and where that comes from.
    fn stacks(&mut self, stacks: &Stacks, whole: f64, hot: &Hot);
    fn calls(&mut self, trace: &CallTrace);
    fn schedule(&mut self, strips: &Strips);

    fn events(&mut self, table: &ProbeTable) {
        self.table(table);
    }

    /// A picture for pages; what it counts is said by the table of events.
    fn heat(&mut self, _: &HeatMap) {}

    /// An output as a report holds it.
    fn probed(&mut self, output: &ProbedOutput) {
        match output {
            ProbedOutput::Histogram(all) => self.histogram(all),
            ProbedOutput::Table(table) => self.table(table),
            ProbedOutput::Events(table) => self.events(table),
            ProbedOutput::Heat(map) => self.heat(map),
            ProbedOutput::Stacks(sums) => self.stacks(&sums.stacks, sums.whole, &sums.hot),
            ProbedOutput::Calls(trace) => self.calls(trace),
            ProbedOutput::Schedule(strips) => self.schedule(strips),
        }
    }

    /// An output as it was measured. It may be as large as a profile, so that tables and stacks are not copied.
    fn measured(&mut self, output: &Output) {
        match output {
            Output::Histogram(histogram) => self.histogram(&distributions(histogram, usize::MAX)),
            Output::Table(table) => self.table(table),
            Output::Events(table) => self.events(table),
            Output::Stacks(stacks) => self.stacks(stacks, whole(stacks), &hot(stacks)),
            Output::Calls(trace) => self.calls(trace),
            Output::Schedule(schedule) => self.schedule(&strips(schedule, PIECES)),
        }
    }
}
