//! When the findings held.

use super::trace::{Args, Slice, Trace, args, text};
use crate::exported::Exported;
use rdiag_model::Finding;
use rdiag_model::report::Span;

/// A track for each finding that fired, the most urgent first. What happened before the window has no time, and is not drawn.
pub(super) fn draw(trace: &mut Trace, of: &Exported<'_>) {
    let fired = of.report.findings.iter().enumerate().filter(|(_, finding)| finding.status.fired());
    let held: Vec<_> = fired.filter_map(|(at, finding)| Some((finding, of.held(at, finding)?))).collect();
    if held.is_empty() {
        return;
    }
    let group = trace.group("findings");
    for (finding, held) in held {
        let instance = finding.instance.iter().map(|instance| format!(" {instance}")).collect::<String>();
        let track = format!("{} {}{instance}", finding.status.word(), finding.id);
        let over = if held.exact { "it held in just these stretches" } else { "the window over which it was judged" };
        let slice = |span: &Span| Slice {
            from: span.from,
            until: span.until,
            name: format!("{}{instance}", finding.title),
            args: about(finding, over),
        };
        trace.slices(group, &track, "finding", held.spans.iter().map(slice).collect());
    }
}

fn about(finding: &Finding, over: &'static str) -> Args {
    let culprit = finding.culprit.as_ref();
    args([
        ("summary", Some(text(&finding.summary))),
        ("rule", Some(text(&finding.id))),
        ("status", Some(finding.status.word().into())),
        ("instance", finding.instance.as_deref().map(text)),
        ("culprit", culprit.map(|culprit| text(&culprit.name))),
        ("culprit share (0 to 1)", culprit.and_then(|culprit| culprit.share).map(Into::into)),
        ("value", finding.value.map(Into::into)),
        ("unit", serde_json::to_value(finding.unit).ok().filter(|_| finding.value.is_some())),
        ("confidence", serde_json::to_value(finding.confidence).ok()),
        ("drawn over", Some(over.into())),
    ])
}
