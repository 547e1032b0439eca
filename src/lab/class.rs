//! What a class reached, from what each student hands in.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::place::{Progress, Reached};
use rdiag_report::shown;
use rdiag_report::shown::{Markdown, Shown};

/// The version of the overview's JSON.
const FORMAT_VERSION: u32 = 1;

/// A student and what he or she reached.
#[derive(Debug, Clone)]
pub struct Student {
    /// The name.
    pub name: String,
    /// By exercise and lesson.
    pub progress: Progress,
}

/// A class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overview {
    /// Is 1.
    pub format_version: u32,
    /// By name.
    pub students: Vec<Row>,
    /// Exercises and lessons that any student tried, in order.
    pub exercises: Vec<Column>,
}

/// One student.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The name.
    pub name: String,
    /// Exercises and lessons that were passed.
    pub passed: usize,
    /// Of these, without a hint.
    pub without_hints: usize,
    /// What was reached in each that was tried.
    pub reached: BTreeMap<String, Reached>,
}

/// One exercise or lesson.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Column {
    /// Its id.
    pub id: String,
    /// Its title; none if this version of rdiag does not know it.
    pub title: Option<String>,
    /// Students who had it checked at least once.
    pub tried: usize,
    /// Students who passed it.
    pub passed: usize,
    /// Checks of all of them together.
    pub checks: usize,
}

/// Puts together what a class reached. `titles` are those of all exercises and lessons, by id.
#[must_use]
pub fn overview(students: Vec<Student>, titles: &[(String, String)]) -> Overview {
    let mut columns: BTreeMap<String, Column> = BTreeMap::new();
    let mut rows: Vec<Row> = Vec::new();
    for student in students {
        for (id, reached) in &student.progress {
            let title = titles.iter().find(|(known, _)| known == id).map(|(_, title)| title.clone());
            let column = columns.entry(id.clone()).or_insert_with(|| Column {
                id: id.clone(),
                title,
                tried: 0,
                passed: 0,
                checks: 0,
            });
            column.tried += 1;
            column.passed += usize::from(reached.passed);
            column.checks = column.checks.saturating_add(reached.checks);
        }
        let passed = || student.progress.values().filter(|reached| reached.passed);
        rows.push(Row {
            passed: passed().count(),
            without_hints: passed().filter(|reached| reached.hints == 0 && !reached.after_solution).count(),
            name: student.name,
            reached: student.progress,
        });
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Overview { format_version: FORMAT_VERSION, students: rows, exercises: columns.into_values().collect() }
}

impl Overview {
    /// As a document with two tables.
    #[must_use]
    pub fn markdown(&self) -> Shown<Markdown> {
        let text = |text: &str| Shown::<Markdown>::text(text);
        let mut out = Shown::of("# What the class reached\n\n| student | passed | without a hint |");
        for column in &self.exercises {
            out.push(shown!(" {} |", text(&column.id)));
        }
        out.push("\n|---|---|---|");
        out.push(Shown::repeated("---|", self.exercises.len()));
        for row in &self.students {
            out.push(shown!("\n| {} | {} | {} |", text(&row.name), row.passed, row.without_hints));
            for column in &self.exercises {
                out.push(shown!(
                    " {} |",
                    row.reached.get(&column.id).map_or_else(Shown::new, |reached| text(&told(reached)))
                ));
            }
        }
        out.push("\n\n| exercise | title | tried | passed | checks for each who tried |\n|---|---|---|---|---|");
        for column in &self.exercises {
            let title = column.title.as_deref().unwrap_or("not of this version");
            let checks = column.checks as f64 / column.tried.max(1) as f64;
            out.push(shown!(
                "\n| {} | {} | {} | {} | {:.1} |",
                text(&column.id),
                text(title),
                column.tried,
                column.passed,
                checks
            ));
        }
        out.push("\n");
        out
    }
}

/// What was reached, in a few words.
fn told(reached: &Reached) -> String {
    let mut text = if reached.passed { "passed".to_owned() } else { format!("tried {} ×", reached.checks) };
    if reached.after_solution {
        text.push_str(", solution read");
    }
    if reached.passed && reached.hints > 0 {
        let _ = write!(text, ", hints: {}", reached.hints);
    }
    if let Some(score) = reached.score {
        let _ = write!(text, ", foreseen {} of {}", score.foreseen, score.predictions);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson::Score;

    fn student(name: &str, reached: &[(&str, bool, usize, usize)]) -> Student {
        let one = |(id, passed, hints, checks): &(&str, bool, usize, usize)| {
            (id.to_string(), Reached { passed: *passed, hints: *hints, checks: *checks, ..Reached::default() })
        };
        Student { name: name.into(), progress: reached.iter().map(one).collect() }
    }

    #[test]
    fn a_class_is_counted_by_student_and_by_exercise() {
        let mut anna = student("anna", &[("04-load", true, 0, 1), ("busy", true, 0, 1)]);
        anna.progress.get_mut("busy").unwrap().score =
            Some(Score { predictions: 3, foreseen: 2, questions: 3, right: 3 });
        let class = vec![student("ben", &[("04-load", true, 2, 4), ("99-later", false, 0, 2)]), anna];
        let overview = overview(class, &[("04-load".into(), "Load".into()), ("busy".into(), "Busy".into())]);
        let rows: Vec<_> = overview.students.iter().map(|row| (&*row.name, row.passed, row.without_hints)).collect();
        assert_eq!(rows, [("anna", 2, 2), ("ben", 1, 0)]);
        let columns: Vec<_> = overview.exercises.iter().map(|c| (&*c.id, c.tried, c.passed, c.checks)).collect();
        assert_eq!(columns, [("04-load", 2, 2, 5), ("99-later", 1, 0, 2), ("busy", 1, 1, 1)]);
        let text = overview.markdown();
        assert!(text.contains("| ben | 1 | 0 | passed, hints: 2 | tried 2 × |  |"), "{text}");
        assert!(
            text.contains("| passed, foreseen 2 of 3 |") && text.contains("| not of this version | 1 | 0 | 2.0 |"),
            "{text}"
        );
    }

    #[test]
    fn a_name_that_is_markup_is_shown_and_not_obeyed() {
        let text = overview(vec![student("| x | <b>", &[])], &[]).markdown();
        assert!(text.contains("| &#124; x &#124; &lt;b&gt; | 0 | 0 |"), "{text}");
    }
}
