//! What was foreseen and answered in a lesson.

use serde::{Deserialize, Serialize};

use rdiag_model::Status;

/// Counts of one time through a lesson.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// Outcomes that were predicted, of those that could be judged.
    pub predictions: usize,
    /// Of these, as it was.
    pub foreseen: usize,
    /// Questions of the quiz that were answered.
    pub questions: usize,
    /// Of these, rightly.
    pub right: usize,
}

impl Score {
    /// Compares a prediction with an outcome; none where the outcome could not be judged, which counts for nothing.
    pub fn predicted(&mut self, trouble: bool, outcome: Status) -> Option<bool> {
        if matches!(outcome, Status::Unknown | Status::Skipped) {
            return None;
        }
        let as_it_was = trouble == (outcome >= Status::Warning);
        self.predictions += 1;
        self.foreseen += usize::from(as_it_was);
        Some(as_it_was)
    }

    /// Counts an answer.
    pub fn answered(&mut self, right: bool) {
        self.questions += 1;
        self.right += usize::from(right);
    }

    /// Whether the quiz was passed: predictions may be wrong, that is what they are for.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.questions > 0 && self.right == self.questions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_judged_counts_neither_for_nor_against_a_student() {
        let mut score = Score::default();
        assert_eq!(score.predicted(true, Status::Unknown), None);
        assert_eq!(score.predicted(true, Status::Critical), Some(true));
        assert_eq!(score.predicted(true, Status::Info), Some(false), "worth knowing is no trouble");
        assert_eq!(score.predicted(false, Status::Ok), Some(true));
        assert_eq!((score.predictions, score.foreseen), (3, 2));
        assert!(!score.is_passed(), "no question was answered");
        score.answered(true);
        assert!(score.is_passed());
        score.answered(false);
        assert!(!score.is_passed());
    }
}
