//! Why a report could not be written down.

/// A report could not be written down.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A template of ours failed; its name and place are in the source.
    #[error("the template of the report failed")]
    Template(#[from] minijinja::Error),
    /// The report could not be serialised.
    #[error("the report has no JSON form")]
    Json(#[from] serde_json::Error),
}
