//! What happened shortly before the run. Who types a command does so after something went wrong, and a disk that failed a minute ago is
//! news: lines of the kernel log that are recent enough are judged by their rule like lines of the window, and the finding says how old
//! they are.

use std::collections::BTreeSet;

use minijinja::Value;

use super::{Judge, PreparedRule, Rule, Scope, judge_window, with_value};
use crate::rules::culprit::named_by_log;
use crate::rules::values::Values;
use rdiag_model::quantity::seconds;
use rdiag_model::{Culprit, Finding, LogLine, Stats, Status};

/// The metric of what happened at the limits of memory cgroups, whose lines are of the class `oom`.
const AT_LIMITS: &str = "kernel.log.cgroup_oom.count";
/// How such lines are marked.
const AT_LIMIT: &str = "memory cgroup";
/// The metric of allocations that failed at the limit of a control group.
pub(super) const LIMIT_FAILURES: &str = "cgroup.memory.limit_failures.count";
/// The clock of the log may be ahead of that of the host by so many seconds.
const CLOCKS: f64 = 60.0;

/// Devices that are named as gone.
const MOST_GONE: usize = 3;
/// Lines of the first seconds after boot are about what the kernel found there: a drive without a disk, a link that came up.
const BOOT: f64 = 60.0;
/// Classes whose lines report that something was lost or stood still. Others report a state, which has a rule of its own (a clock that is
/// no longer trusted), or what may mean nothing (a link that changed, a failed self-check).
const HARM: [&str; 12] = [
    "bug",
    "disk",
    "file_max",
    "filesystem",
    "hardware",
    "hardware_fatal",
    "hung_task",
    "lockup",
    "nfs",
    "oom",
    "page_allocation",
    "swap",
];

/// How many seconds before the run a line was written, if that is recent; none for one of the window.
fn age(scope: &Scope<'_>, line: &LogLine) -> Option<f64> {
    // In a later window, what the first one saw is no news.
    // Of a device that is gone, or holds something else by now, nothing waits or fails any more.
    let counts =
        scope.window == 0 && scope.recent > 0.0 && !line.in_window && !line.gone && HARM.contains(&line.class.as_str());
    let age = scope.facts.uptime_seconds - line.seconds_since_boot;
    (counts && line.seconds_since_boot > BOOT && age <= scope.recent && age > -CLOCKS).then(|| age.max(0.0))
}

impl Judge<'_> {
    /// The sentence that says when it happened.
    pub(super) fn says_when(&self, before: f64) -> String {
        let [before, recent] = [before, self.scope.recent].map(seconds);
        format!("The newest is from {before} before the window; up to {recent} counts as current.")
    }

    /// The devices of the finding's lines that are gone by now, in a sentence.
    pub(super) fn says_what_is_gone(&self, rule: &Rule) -> Option<String> {
        let lines = self.scope.log.iter().filter(|line| rule.log.contains(&line.class) && line.gone);
        let names: BTreeSet<&str> = lines.filter_map(|line| line.subject.as_deref()).collect();
        let shown: Vec<&str> = names.iter().copied().take(MOST_GONE).collect();
        let more = if names.len() > MOST_GONE { " and others" } else { "" };
        let verb = if names.len() == 1 { "was" } else { "were" };
        (!names.is_empty()).then(|| format!("{}{more} {verb} removed or set up anew since.", shown.join(", ")))
    }

    /// Judges a finding of the past as if its recent lines were of the window. Nothing changes if none is recent, or if the rule finds
    /// nothing in them.
    pub(super) fn count_recent(&self, prepared: &PreparedRule<'_>, name: &str, labels: &Value, finding: &mut Finding) {
        let classes = &prepared.rule.log;
        let ages = self.recent(classes, name).filter_map(|line| age(&self.scope, line));
        let Some(newest) = ages.min_by(f64::total_cmp) else { return };
        let mut values = Values::default();
        for id in prepared.needs.required.iter().chain(&prepared.needs.optional) {
            let measured = self.measured(id, name);
            let of_window = match self.recent_count(prepared, id, name) {
                Some(count) => measured.map(|stats| Stats { total: count as f64, ..stats.clone() }),
                None => measured.cloned(),
            };
            values.set_metric(id, of_window.as_ref());
        }
        values.set("instance", Value::from(name));
        values.set("label", labels.clone());
        let context = values.context();
        let Ok(value) = prepared.value.number(&context) else { return };
        let context = with_value(value, context);
        let is_refuted = || prepared.unless.as_ref().is_some_and(|unless| unless.holds(&context).unwrap_or(false));
        if let Ok(status) = judge_window(prepared, &context)
            && status >= Status::Warning
            && !is_refuted()
        {
            (finding.status, finding.seconds_before) = (status, Some(newest));
        }
    }

    /// Who the recent lines of a finding name, where its rule takes who the log names.
    pub(super) fn recent_culprit(&self, prepared: &PreparedRule<'_>, name: &str, finding: &Finding) -> Option<Culprit> {
        let asks = finding.seconds_before.is_some() && prepared.rule.culprit.as_ref()?.starts_with("log(");
        let lines = self.recent(&prepared.rule.log, name).filter(|_| asks);
        named_by_log(&lines.filter_map(|line| line.subject.clone()).collect::<Vec<_>>())
    }

    /// Recent lines of some classes; for a control group, those that name it as the one whose limit was reached.
    fn recent<'j>(&'j self, classes: &'j [String], group: &'j str) -> impl Iterator<Item = &'j LogLine> {
        let names_it = move |line: &&LogLine| group.is_empty() || limited_by(line) == Some(group);
        let of_class = self.scope.log.iter().filter(move |line| classes.contains(&line.class));
        of_class.filter(|line| age(&self.scope, line).is_some()).filter(names_it)
    }

    /// Whether a line of the window names a control group as the one whose limit was reached: where the kernel counts every hit of
    /// the limit and no failures (v1), the log has told that this was one.
    pub(super) fn is_limit_logged(&self, prepared: &PreparedRule<'_>, group: &str) -> bool {
        let of_class = |line: &&LogLine| prepared.rule.log.contains(&line.class) && line.in_window;
        !group.is_empty() && self.scope.log.iter().filter(of_class).any(|line| limited_by(line) == Some(group))
    }

    /// What a metric would have counted of the recent lines; none for metrics that count something else.
    fn recent_count(&self, prepared: &PreparedRule<'_>, id: &str, name: &str) -> Option<usize> {
        let classes = &prepared.rule.log;
        if id == AT_LIMITS {
            return Some(self.recent(classes, name).filter(|line| line.text.contains(AT_LIMIT)).count());
        }
        if let Some(own) = id.strip_prefix("kernel.log.").and_then(|rest| rest.strip_suffix(".count")) {
            let is_of_boot = own.ends_with(".since_boot");
            return (!is_of_boot).then(|| self.recent(&[own.to_owned()], "").count());
        }
        // The kernel counts kills apart from its log.
        let is_value = prepared.rule.value.strip_suffix(".total") == Some(id);
        (is_value || id == LIMIT_FAILURES).then(|| self.recent(classes, name).count())
    }
}

/// The control group whose limit a line says was reached.
fn limited_by(line: &LogLine) -> Option<&str> {
    line.text.split_once("memory cgroup ")?.1.split([';', ']']).next()
}

#[cfg(test)]
mod tests;
