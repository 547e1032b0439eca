//! Rows of the USE checklist that rdiag does not measure: what a report would leave out in silence.

use rdiag_model::Recording;
use rdiag_model::report::{Coverage, UnmeasuredRow};

use super::words::plural;

/// Those of tests/rows_of_use.yaml, from which it is generated.
const ROWS: &str = include_str!("../../reports/templates/unmeasured_rows.json");
/// The playbook whose checklist it is.
const CHECKLIST: &str = "use-method";

/// All of them in a report of the USE method, none in others.
pub(super) fn unmeasured(recording: &Recording) -> Vec<UnmeasuredRow> {
    let rows = (recording.playbook == CHECKLIST).then(|| serde_json::from_str(ROWS).ok());
    rows.flatten().unwrap_or_default()
}

/// How many there are; nothing if there are none.
pub(super) fn counted(coverage: &Coverage) -> Option<String> {
    let in_part = coverage.rows.iter().filter(|row| row.in_part).count();
    let whole = coverage.rows.len().saturating_sub(in_part);
    let in_part = plural(in_part, "row", "rows");
    let told = || format!("USE checklist: rdiag measures {in_part} only in part and {whole} not at all");
    (!coverage.rows.is_empty()).then(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_the_use_method_names_the_rows_that_are_not_measured_and_others_do_not() {
        let of = |playbook: &str| unmeasured(&Recording { playbook: playbook.into(), ..crate::sample::recording() });
        assert!(of("slow-system").is_empty());
        let rows = of(CHECKLIST);
        assert!(rows.iter().all(|row| !row.why.is_empty() && !row.remedy.is_empty()));
        assert!(rows.iter().any(|row| row.row == "disk.smart" && !row.in_part && row.remedy.contains("smartctl")));
        assert!(rows.iter().any(|row| row.in_part));
    }
}
