//! The causes of a symptom, as a list.

use super::super::answer::MAX_CAUSES;
use super::super::sentence::first_sentence;
use super::{Text, text};
use crate::shown;
use rdiag_model::Report;
use rdiag_model::answer::Outcome;

/// An item for each cause; where none was found, also those that rdiag cannot see.
pub(super) fn causes(report: &Report) -> Text {
    let Some(answer) = &report.answer else { return Text::new() };
    let mut out = Text::of("## Causes\n\n");
    for cause in answer.causes.iter().take(MAX_CAUSES) {
        let sentence = first_sentence(&cause.sentence, false);
        let sentence = if sentence.is_empty() { Text::new() } else { shown!(": {}", text(sentence)) };
        out.push(shown!("- **{}:** {}{}\n", cause.outcome.word(), text(&cause.title), sentence));
    }
    if answer.with(Outcome::Found).next().is_none() {
        for unseen in answer.unseen.iter().take(MAX_CAUSES) {
            out.push(shown!("- **not looked at:** {}\n", text(unseen)));
        }
    }
    out.push("\n");
    out
}
