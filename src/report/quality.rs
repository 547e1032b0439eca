//! How far to trust the account of a task's time.

use super::{words, worth};
use rdiag_model::ledger::Level;
use rdiag_model::profile::{Grade, Quality};
use rdiag_model::quantity::{percent, seconds};
use rdiag_model::{Confidence, Profile};

/// How far to trust it, in a sentence.
pub(super) fn quality(profile: &Profile) -> String {
    let how = match profile.level {
        Level::L1 => "by samples of /proc (level L1)",
        Level::L2 => "by /proc and taskstats (level L2)",
        Level::L3 => "by watching every change of state inside the kernel (level L3)",
    };
    format!("Quality {}, measured {how}: {}.", grade(profile.quality.grade), profile.quality.words)
}

/// How sure the account is, for a reader with ten seconds: whether it adds up, and whether other counts of the same time agree.
pub(super) fn confidence(quality: &Quality, level: Level) -> String {
    let against: Vec<&str> =
        quality.checks.iter().filter(|check| check.agrees == Some(false)).map(|check| compared(&check.id)).collect();
    let (word, how) = match (quality.grade, level) {
        (Grade::D, _) => (Confidence::Low, ""),
        // Samples miss what is shorter than the time between them, however well they add up.
        (_, Level::L1) => (Confidence::Medium, ", sampled from /proc"),
        (Grade::A | Grade::B, _) if against.is_empty() => (Confidence::High, ""),
        _ => (Confidence::Medium, ""),
    };
    let made = quality.checks.iter().filter(|check| check.agrees.is_some()).count();
    let checks = match (made, against.len()) {
        (0, _) => "nothing to compare it with".to_owned(),
        (_, 0) => "other counts of it agree".to_owned(),
        (_, 1) => format!("another count disagrees on {}", against.join(", ")),
        _ => format!("other counts disagree on {}", against.join(", ")),
    };
    let left = if quality.residual_share < worth::LEFT_OVER {
        "all time accounted for".to_owned()
    } else {
        format!("{} of the time unaccounted or counted twice", percent(quality.residual_share))
    };
    let otherwise = quality.checks.iter().find_map(|check| check.otherwise_seconds).map_or(String::new(), |moved| {
        format!(" (getrusage, top and schedstat have {} of the run-queue wait as CPU time)", seconds(moved))
    });
    format!("{} (grade {} of A to D{how}): {left}; {checks}{otherwise}", words::confidence(word), grade(quality.grade))
}

/// What a check compares.
fn compared(id: &str) -> &str {
    match id {
        "cpu" => "CPU time",
        "run_queue" => "run-queue wait",
        "lifetimes" => "lives of threads",
        "block_io" => "waits for disks",
        "signs" => "negative times",
        other => other,
    }
}

/// The grade's letter.
fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::A => "A",
        Grade::B => "B",
        Grade::C => "C",
        Grade::D => "D",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::profile::Check;

    fn account(grade: Grade, level: Level, checks: &[Option<bool>]) -> String {
        let ids = ["cpu", "run_queue", "lifetimes"];
        let check = |(id, agrees): (&&str, &Option<bool>)| Check {
            id: (*id).into(),
            agrees: *agrees,
            words: String::new(),
            otherwise_seconds: None,
        };
        let checks = ids.iter().zip(checks).map(check).collect();
        let residual_share = if grade == Grade::A { 0.004 } else { 0.04 };
        confidence(&Quality { grade, residual_share, checks, words: String::new() }, level)
    }

    #[test]
    fn an_account_that_adds_up_and_that_others_confirm_is_sure() {
        let said = account(Grade::A, Level::L3, &[Some(true), None, Some(true)]);
        assert_eq!(said, "high (grade A of A to D): all time accounted for; other counts of it agree");
        let said = account(Grade::B, Level::L2, &[Some(true)]);
        assert_eq!(
            said,
            "high (grade B of A to D): 4.0% of the time unaccounted or counted twice; other counts of it agree"
        );
    }

    #[test]
    fn samples_are_never_more_than_half_sure() {
        let said = account(Grade::A, Level::L1, &[Some(true)]);
        assert_eq!(
            said,
            "medium (grade A of A to D, sampled from /proc): all time accounted for; other counts of it agree"
        );
        assert!(account(Grade::D, Level::L1, &[]).starts_with("low (grade D of A to D):"));
    }

    #[test]
    fn what_disagrees_is_named_and_makes_it_less_sure() {
        let said = account(Grade::A, Level::L3, &[Some(true), Some(false), None]);
        assert_eq!(
            said,
            "medium (grade A of A to D): all time accounted for; another count disagrees on run-queue wait"
        );
        let said = account(Grade::C, Level::L3, &[Some(false), Some(false)]);
        assert!(said.ends_with("other counts disagree on CPU time, run-queue wait"), "{said}");
        assert!(account(Grade::D, Level::L3, &[]).ends_with("nothing to compare it with"));
    }
}
