//! What probes measured, told as text: the one place that goes through the shapes of outputs. In what medium, and in how many words, is
//! up to its writer.

use super::probe_words as words;
use super::schedule::{self, Line};
use rdiag_model::call_trace::Call;
use rdiag_model::probe::ProbeTable;
use rdiag_model::probed::{Distributions, ProbedOutput, StackSums};

/// A way to show outputs: in full on a terminal, there in a few lines of a report, or as Markdown.
pub(super) trait ShapeWriter {
    /// Calls that are told at most.
    const CALLS: usize;
    /// Levels of calls that are told.
    const LEVELS: usize = usize::MAX;

    /// What calls or a schedule are about.
    fn title(&mut self, title: &str);
    fn distributions(&mut self, all: &Distributions);
    fn table(&mut self, table: &ProbeTable);
    fn stacks(&mut self, sums: &StackSums);
    fn call(&mut self, call: &Call, depth: usize);
    /// The end of so many calls; `cut` says what is not told, if anything.
    fn calls_end(&mut self, told: usize, cut: &str);
    /// Columns of a picture.
    fn picture_width(&self) -> usize;
    fn picture(&mut self, lines: Vec<Line>);

    fn output(&mut self, output: &ProbedOutput) {
        match output {
            ProbedOutput::Histogram(all) => self.distributions(all),
            ProbedOutput::Table(table) | ProbedOutput::Events(table) => self.table(table),
            // A picture for pages; what it counts is said by the table of events.
            ProbedOutput::Heat(_) => {}
            ProbedOutput::Stacks(sums) => self.stacks(sums),
            ProbedOutput::Calls(trace) => {
                self.title(&trace.title);
                let calls = trace.calls.iter().zip(trace.depths()).filter(|(_, depth)| *depth < Self::LEVELS);
                let mut told = 0;
                for (call, depth) in calls.take(Self::CALLS) {
                    told += 1;
                    self.call(call, depth);
                }
                self.calls_end(told, &words::cut(trace, trace.calls.len() - told));
            }
            ProbedOutput::Schedule(strips) => {
                self.title(&strips.title);
                self.picture(schedule::lines(strips, self.picture_width()));
            }
        }
    }
}
