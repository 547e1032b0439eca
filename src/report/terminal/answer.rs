//! The causes of a symptom: which was found, which are not clear or ruled out, and by what.

use super::super::answer::MAX_CAUSES;
use super::super::sentence::first_sentence;
use super::{Page, Paint, Text, pad, seen};
use crate::shown;
use rdiag_model::answer::Outcome;
use rdiag_model::{Report, Status};

/// Width of the longest outcome.
const LABEL: usize = 14;

impl Page {
    /// A line for each cause; where none was found, also those that rdiag cannot see.
    pub(super) fn answer(&mut self, report: &Report) {
        let Some(answer) = &report.answer else { return };
        self.push("Causes", Paint::Bold);
        for cause in answer.causes.iter().take(MAX_CAUSES) {
            let label: Text = shown!("  {}", pad(cause.outcome.word(), LABEL));
            let sentence = first_sentence(&cause.sentence, false);
            let text = if sentence.is_empty() {
                seen(&cause.title)
            } else {
                shown!("{}: {}", seen(&cause.title), seen(sentence))
            };
            let paint = match cause.outcome {
                Outcome::Found | Outcome::Beside => Paint::Status(cause.status),
                Outcome::Unknown | Outcome::NotClear => Paint::Status(Status::Unknown),
                Outcome::RuledOut | Outcome::NotLookedFor => Paint::Dim,
            };
            self.item(label, text, paint, Paint::None);
        }
        if answer.with(Outcome::Found).next().is_none() {
            for unseen in answer.unseen.iter().take(MAX_CAUSES) {
                let label: Text = shown!("  {}", pad("not looked at", LABEL));
                self.item(label, seen(unseen), Paint::Dim, Paint::None);
            }
        }
        self.blank();
    }
}
