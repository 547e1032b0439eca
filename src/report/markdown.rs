//! The report as a ticket comment: CommonMark that also reads well as plain text.

mod probes;
mod profile;
mod runs;

use super::escape::{markdown as text, markdown_code as code, visible};
use super::{ReportError, shown, words};
use rdiag_model::quantity::with_unit;
use rdiag_model::{Finding, Kind, ProbeResult, Report, Status};

/// What a ticket comment may hold at most, in characters.
pub(super) const MAX_CHARS: usize = 30_000;
/// Room that is kept for the note about what was left out.
const NOTE_CHARS: usize = 400;
/// Rows of a list or table.
const MAX_ROWS: usize = 20;

/// One result that belongs to no run: a profile that was made elsewhere.
#[must_use]
pub fn profile(result: &ProbeResult, title: &str) -> String {
    probes::probe(&super::probed::alone(result, title))
}

/// The report as Markdown of at most 30 000 characters. What does not fit is left out, and named.
///
/// # Errors
///
/// None today; the other renderers have some.
pub fn markdown(report: &Report) -> Result<String, ReportError> {
    let mut page = Page { out: String::new(), chars: 0, left_out: Vec::new() };
    page.section("the verdict", head(report));
    page.section("what limits the conclusion", limits(report));
    if let Some(task) = &report.profile {
        page.section("the runs", task.runs.as_ref().map(runs::runs).unwrap_or_default());
        page.section("the profile", profile::head(task));
        let missing = profile::components(task).into_iter().filter(|one| !page.fits(one.clone())).count();
        if missing > 0 {
            page.left_out.push(words::plural(missing, "component", "components"));
        }
        page.section("the forecast", profile::forecast(task));
        page.section("the calls", profile::calls(task));
        page.section("who waited for whom", profile::chains(task));
        let notes: String =
            task.notes.iter().take(MAX_ROWS).map(|note| format!("- **Note:** {}\n", text(note))).collect();
        page.section("the notes", if notes.is_empty() { notes } else { format!("{notes}\n") });
    }
    page.section("the matrix", matrix(report));
    let groups = shown::fired(report);
    if !groups.is_empty() {
        page.section("the findings", "## Findings\n\n".to_owned());
    }
    let mut missing = 0;
    for (number, group) in groups.iter().enumerate() {
        let lead = shown::lead_of_cell(&groups, number);
        missing += usize::from(!page.fits(finding(report, number + 1, group, lead)));
    }
    if missing > 0 {
        page.left_out.push(words::plural(missing, "finding", "findings"));
    }
    let mut missing = 0;
    let (silent, telling) = probes::by_silence(report);
    for (at, probed) in telling.iter().enumerate() {
        let heading = if at == 0 { "## Inside the kernel\n\n" } else { "" };
        let fits = at < MAX_ROWS && page.fits(format!("{heading}{}", probes::probe(probed)));
        missing += usize::from(!fits);
    }
    if missing > 0 {
        page.left_out.push(words::plural(missing, "probe", "probes"));
    }
    page.section("the probes that saw nothing", probes::silent(&silent));
    page.section("what was ruled out", ruled_out(report));
    page.section("what could not be measured", gaps(report));
    page.section("the largest consumers", top(report));
    page.section("the cost of measuring", format!("{}\n", text(&words::cost(report))));
    if !page.left_out.is_empty() {
        let note =
            format!("\n*Left out here for length: {}. The HTML and JSON reports have it.*\n", page.left_out.join(", "));
        page.out.push_str(&note);
    }
    Ok(page.out)
}

struct Page {
    out: String,
    chars: usize,
    left_out: Vec<String>,
}

impl Page {
    fn section(&mut self, name: &str, body: String) {
        if !body.is_empty() && !self.fits(body) {
            self.left_out.push(name.to_owned());
        }
    }

    fn fits(&mut self, body: String) -> bool {
        let chars = body.chars().count();
        let fits = self.chars + chars + NOTE_CHARS <= MAX_CHARS;
        if fits {
            self.chars += chars;
            self.out.push_str(&body);
        }
        fits
    }
}

fn head(report: &Report) -> String {
    let verdict = &report.verdict;
    let detail = words::detail(report);
    let mut out = format!("# {}: {}\n\n", verdict.status.word().to_uppercase(), text(&verdict.headline.title));
    if !detail.is_empty() {
        out.push_str(&format!("**{}**\n\n", text(&detail)));
    }
    out.push_str(&format!(
        "{} · {} · playbook {} · {} {}\n\n",
        text(&words::occasion(report)),
        words::measured(report),
        code(&report.playbook.name),
        text(&report.tool.name),
        text(&report.tool.version),
    ));
    if let Some((said, command)) = words::recipe(report) {
        out.push_str(&format!("{} The same again: {}\n\n", text(&said), code(&command)));
    }
    out
}

fn limits(report: &Report) -> String {
    let limits = &report.verdict.limits;
    if limits.is_empty() {
        return String::new();
    }
    let mut out = "What limits this conclusion:\n\n".to_owned();
    for limit in limits.iter().take(MAX_ROWS) {
        out.push_str(&format!("- {}\n", text(limit)));
    }
    out.push('\n');
    out
}

fn matrix(report: &Report) -> String {
    if report.matrix.is_empty() {
        return String::new();
    }
    let cells: Vec<Vec<String>> = report
        .matrix
        .iter()
        .take(MAX_ROWS)
        .map(|row| {
            let mut line = vec![words::resource(row.resource).to_owned()];
            line.extend(row.cells.iter().take(Kind::ALL.len()).map(|cell| {
                let word = words::cell_word(cell);
                let word = match cell.status {
                    Some(Status::Warning | Status::Critical) => format!("**{word}**"),
                    _ => word.to_owned(),
                };
                let figure = words::cell_figure(cell);
                text_cell(&format!("{word} {}", text(&figure)))
            }));
            line
        })
        .collect();
    let mut head = vec!["Resource".to_owned()];
    head.extend(Kind::ALL.iter().map(|kind| words::kind(*kind).to_owned()));
    table(&head, &cells)
}

fn text_cell(content: &str) -> String {
    content.trim().to_owned()
}

/// A table whose columns also line up as plain text.
pub(super) fn table(head: &[String], rows: &[Vec<String>]) -> String {
    use unicode_width::UnicodeWidthStr as _;
    let widths: Vec<usize> = (0..head.len())
        .map(|at| {
            let cells = rows.iter().filter_map(|row| row.get(at)).chain(head.get(at));
            cells.map(|cell| cell.width()).max().unwrap_or(0).clamp(3, 48)
        })
        .collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths);
        let padded = cells.map(|(cell, width)| format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width()))));
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join(" | ");
    let mut out = format!("{}| {rule} |\n", line(head));
    for row in rows {
        out.push_str(&line(row));
    }
    out.push('\n');
    out
}

fn finding(report: &Report, number: usize, group: &shown::Group<'_>, lead: Option<&Finding>) -> String {
    let finding = group.lead;
    let mut out = format!(
        "### {number}. {}: {} ({})\n\n{}\n\n",
        finding.status.word().to_uppercase(),
        text(&finding.title),
        text(&words::full_id(finding)),
        text(&finding.summary),
    );
    if let Some(culprit) = finding.culprit.as_ref().filter(|who| lead.is_none_or(|l| l.culprit.as_ref() != Some(who))) {
        let pids: Vec<String> = culprit.pids.iter().map(u32::to_string).collect();
        let pids = if pids.len() > 1 { format!(" (pids {})", pids.join(", ")) } else { String::new() };
        out.push_str(&format!("- **Who:** {}{pids}\n", text(&words::culprit(culprit))));
        if let Some(command) = culprit.labels.get("command") {
            out.push_str(&format!("- **Command:** {}\n", code(command)));
        }
    }
    evidence(report, &mut out, finding);
    if !group.others.is_empty() {
        let some = group.others.iter().take(MAX_ROWS).map(|other| {
            let instance = other.instance.as_deref().map_or_else(|| "this host".to_owned(), words::instance);
            format!("{} {}", text(&instance), text(&words::value(other))).trim_end().to_owned()
        });
        let some = some.collect::<Vec<_>>().join(", ");
        let more = group.others.len().saturating_sub(MAX_ROWS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        out.push_str(&format!("- **Also:** {some}{more}\n"));
    }
    for step in &finding.next {
        let name = if step.changes_host { "Next (changes the host)" } else { "Next" };
        out.push_str(&format!("- **{name}:** {}\n", text(&step.action)));
    }
    if let Some(lab) = &finding.lab {
        out.push_str(&format!("- **See it for yourself:** {}\n", code(&words::exercise(lab))));
    }
    if !finding.log.is_empty() {
        out.push_str("\nKernel log:\n\n");
        for line in finding.log.iter().take(5) {
            out.push_str(&format!("    {}\n", visible(line)));
        }
    }
    out.push('\n');
    out
}

fn evidence(report: &Report, out: &mut String, finding: &Finding) {
    let shown = finding
        .evidence
        .iter()
        .take(4)
        .map(|evidence| format!("{} {}", code(&evidence.metric), text(&words::figures(report, evidence))));
    let shown: Vec<String> = shown.collect();
    if !shown.is_empty() {
        out.push_str(&format!("- **Evidence:** {}\n", shown.join("; ")));
    }
    let threshold = words::threshold(finding);
    if !threshold.is_empty() {
        out.push_str(&format!("- **Threshold:** {} ({})\n", code(&threshold), text(&finding.threshold.origin)));
    }
    let mut trust = vec![words::confidence(finding.confidence).to_owned()];
    trust.extend(words::held(finding));
    trust.extend(finding.confidence_reasons.iter().take(4).cloned());
    out.push_str(&format!("- **Confidence:** {}\n", text(&trust.join("; "))));
    for command in finding.verify.lines().filter(|line| !line.trim().is_empty()) {
        out.push_str(&format!("- **By hand:** {}\n", code(command.trim())));
    }
}

fn ruled_out(report: &Report) -> String {
    if report.ruled_out.is_empty() {
        return String::new();
    }
    let mut out = "## Ruled out\n\n".to_owned();
    for cleared in &report.ruled_out {
        let partly = if cleared.complete { "" } else { " (in part)" };
        let sentences = cleared.sentences.iter().take(6).map(|sentence| text(sentence)).collect::<Vec<_>>().join(" ");
        let more = cleared.sentences.len().saturating_sub(6);
        let more = if more > 0 { format!(" And {more} more.") } else { String::new() };
        out.push_str(&format!("- **{}**{partly}: {sentences}{more}\n", words::resource(cleared.resource)));
    }
    out.push('\n');
    out
}

fn gaps(report: &Report) -> String {
    let groups = &report.coverage.groups;
    if groups.is_empty() {
        return String::new();
    }
    let mut out = "## Not measured\n\n".to_owned();
    for group in groups.iter().take(MAX_ROWS) {
        let named = text(&words::some(&words::missing(group), 4));
        let remedy = group.gap.remedy.as_ref().map(|remedy| format!(" *To see it:* {}", text(remedy)));
        out.push_str(&format!("- {}: {named}.{}\n", text(&group.gap.why), remedy.unwrap_or_default()));
    }
    if groups.len() > MAX_ROWS {
        out.push_str(&format!("- and {} more causes\n", groups.len() - MAX_ROWS));
    }
    out.push('\n');
    out
}

fn top(report: &Report) -> String {
    let mut out = String::new();
    for top in &report.top {
        let rows: Vec<Vec<String>> = top
            .rows
            .iter()
            .take(5)
            .map(|row| {
                let pid = row.labels.get("pid").map_or("", String::as_str);
                let share = rdiag_model::quantity::percent(row.share);
                vec![text(&row.name), text(pid), text(&with_unit(row.value, top.unit)), share]
            })
            .collect();
        let head = ["Process", "pid", top.title.as_str(), "Share"].map(text);
        out.push_str(&table(&head, &rows));
    }
    if out.is_empty() { out } else { format!("## Largest consumers\n\n{out}") }
}
