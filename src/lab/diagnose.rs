//! rdiag's own answer to an exercise: what a scenario says that it must find (`diagnosis`) is found, and what it must not find is not. The
//! same lines are where reports and `explain` learn which exercise shows what a rule is about, so no second list can promise more.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;

use super::error::LabError;
use super::scenario::{Diagnosis, Variant};
use rdiag_kernel::host::SharedHost;
use rdiag_model::{Finding, Metrics, Reading, Status, Target};
use rdiag_playbook::{Measure, Plan, PlannedStep};
use rdiag_session as session;
use rdiag_session::{Observer, Run};

/// Length of a window.
const WINDOW: &str = "4s";

/// The programs of the load: name and process id, by role.
pub(super) type Programs = BTreeMap<String, (String, u32)>;

/// What is wrong about the answers of rdiag, in sentences; nothing if all is well.
pub(super) fn diagnose(host: &SharedHost, variant: &Variant, programs: &Programs) -> Result<Vec<String>, LabError> {
    // Both playbooks at the same time: neither disturbs the other, and the load has to run half as long.
    let (used, asked) = std::thread::scope(|scope| {
        let used = scope.spawn(|| by_use_method(host, variant, programs));
        let asked = by_method_r(host, variant, programs);
        (used.join(), asked)
    });
    let mut wrong = used.map_err(|_| LabError::failed("diagnosing")(io::Error::other("its thread ended")))??;
    wrong.extend(asked?);
    Ok(wrong)
}

fn by_use_method(host: &SharedHost, variant: &Variant, programs: &Programs) -> Result<Vec<String>, LabError> {
    let mut wrong = Vec::new();
    let asks_use = |wanted: &Diagnosis| !matches!(wanted, Diagnosis::Component { .. });
    if variant.diagnosis.iter().any(asks_use) || !variant.quiet.is_empty() {
        let metrics = variant.diagnosis.iter().filter_map(|wanted| match wanted {
            Diagnosis::Largest { largest, .. } => Some(largest.as_str()),
            _ => None,
        });
        let rules = variant.diagnosis.iter().filter_map(|wanted| match wanted {
            Diagnosis::Rule { rule, .. } => Some(rule),
            _ => None,
        });
        let rules: Vec<&str> = rules.chain(&variant.quiet).map(String::as_str).collect();
        let asked = Asked { rules: Some(&rules), metrics: &metrics.collect::<Vec<_>>() };
        let run = run(host, "use-method", &asked, &Target::default())?;
        for wanted in &variant.diagnosis {
            match wanted {
                Diagnosis::Rule { rule, culprit } => {
                    let name = culprit.as_ref().and_then(|role| programs.get(role)).map(|(name, _)| name);
                    wrong.extend(missed(&run, rule, name));
                }
                Diagnosis::Largest { largest, of } => {
                    let name = programs.get(of).map(|(name, _)| name.as_str());
                    let found = leader(&run.analysis.metrics, largest);
                    if !found.as_deref().zip(name).is_some_and(|(found, name)| is_of(found, name)) {
                        wrong.push(format!("the largest value of {largest} is that of {found:?}, not of {name:?}"));
                    }
                }
                Diagnosis::Component { .. } => {}
            }
        }
        wrong.extend(false_blame(&run, variant, programs));
    }
    Ok(wrong)
}

fn by_method_r(host: &SharedHost, variant: &Variant, programs: &Programs) -> Result<Vec<String>, LabError> {
    let mut wrong = Vec::new();
    for wanted in &variant.diagnosis {
        if let Diagnosis::Component { component, of, share } = wanted {
            wrong.extend(other_component(host, component, programs.get(of).map(|(_, pid)| *pid), *share)?);
        }
    }
    Ok(wrong)
}

/// What is asked of a run.
#[derive(Default)]
struct Asked<'a> {
    /// Rules; windows behind the last one that judges any of them are left out. All windows if none are named.
    rules: Option<&'a [&'a str]>,
    /// Metrics beside those that the playbook measures.
    metrics: &'a [&'a str],
}

fn run(host: &SharedHost, playbook: &str, asked: &Asked<'_>, target: &Target) -> Result<Run, LabError> {
    let failed = |error: String| LabError::failed("diagnosing")(io::Error::other(error));
    let named = session::resolve(playbook).map_err(|error| failed(error.to_string()))?;
    let given = BTreeMap::from([("duration".to_owned(), WINDOW.to_owned())]);
    let mut plan = Plan::new(&named.loaded, &named.library, &given).map_err(|error| failed(error.to_string()))?;
    if let Some(rules) = asked.rules {
        let judges = |step: &PlannedStep| step.rules.iter().any(|(rule, _)| rules.contains(&rule.id.as_str()));
        let last = plan.windows.iter().rposition(|steps| steps.iter().any(judges)).unwrap_or(0);
        plan.windows.truncate(last + 1);
        plan.windows.iter_mut().skip(1).for_each(|steps| steps.retain(judges));
    }
    let catalogue = session::catalogue();
    let givers =
        catalogue.metrics.iter().filter(|metric| asked.metrics.contains(&metric.id)).map(|metric| metric.collector);
    if let Some(first) = plan.windows.first_mut().and_then(|steps| steps.first_mut()) {
        first.step.collect.extend(givers.map(|giver| Measure::Plain(giver.to_owned())));
    }
    session::run(host, &plan, target, &AtomicBool::new(false), &mut Silent).map_err(LabError::failed("diagnosing"))
}

fn told(finding: &Finding) -> String {
    let culprit = finding.culprit.as_ref().map_or("no culprit", |who| &who.name);
    format!("{} ({culprit}): {}", finding.status.word(), finding.summary)
}

/// Whether what is blamed is of the program. A socket is named after its program with its address behind it, a function of a kernel
/// module after the module, and its threads too.
fn is_of(who: &str, name: &str) -> bool {
    who.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '_', '/']))
}

/// A rule that does not fire, or blames another.
fn missed(run: &Run, rule: &str, name: Option<&String>) -> Option<String> {
    let found: Vec<&Finding> = run.analysis.findings.iter().filter(|finding| finding.id == rule).collect();
    let blames = |finding: &Finding, name: &String| finding.culprit.as_ref().is_some_and(|who| is_of(&who.name, name));
    let is_it = |finding: &&&Finding| finding.status.fired() && name.is_none_or(|name| blames(finding, name));
    if found.iter().any(|finding| is_it(&finding)) {
        return None;
    }
    let said: Vec<String> = found.iter().map(|finding| told(finding)).collect();
    Some(format!("rdiag does not find {rule} of {name:?}: {said:?}"))
}

/// What others on this host do is theirs, so only blame of the load counts.
fn false_blame(run: &Run, variant: &Variant, programs: &Programs) -> Vec<String> {
    let is_own = |finding: &&Finding| {
        finding.culprit.as_ref().is_some_and(|who| programs.values().any(|(name, _)| is_of(&who.name, name)))
    };
    let blamed = run.analysis.findings.iter().filter(|finding| variant.quiet.contains(&finding.id));
    let blamed = blamed.filter(|finding| finding.status >= Status::Warning).filter(is_own);
    blamed.map(|finding| format!("rdiag is wrong about {}: {}", finding.id, told(finding))).collect()
}

/// Whose value of a metric is the largest, processes of one name taken together.
fn leader(windows: &[Metrics], metric: &str) -> Option<String> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for metrics in windows {
        let Some(Reading::Measured { dimension: Some(of), instances, .. }) = metrics.readings.get(metric) else {
            continue;
        };
        for (instance, stats) in instances {
            let label = metrics.labels.get(of).and_then(|all| all.get(instance)?.get("name"));
            *sums.entry(label.unwrap_or(instance).clone()).or_default() +=
                stats.as_ref().map_or(0.0, |stats| stats.mean);
        }
    }
    sums.into_iter()
        .filter(|(_, sum)| *sum > 0.0)
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(name, _)| name)
}

/// A program whose time method-r puts down to something else.
fn other_component(
    host: &SharedHost,
    component: &str,
    pid: Option<u32>,
    share: f64,
) -> Result<Option<String>, LabError> {
    let Some(pid) = pid else { return Ok(Some("a program of the load does not run".into())) };
    let target = Target { pids: vec![pid], children: true, ..Target::default() };
    let profile = match run(host, "method-r", &Asked::default(), &target)?.analysis.profile {
        Some(Ok(profile)) => profile,
        Some(Err(gap)) => return Ok(Some(format!("method-r has no account of process {pid}: {}", gap.why))),
        None => return Ok(Some("method-r gave no account".into())),
    };
    let is_it = |id: &str| id == component || id.starts_with(&format!("{component}."));
    let found: f64 = profile.components.iter().filter(|row| is_it(row.id.id())).map(|row| row.share).sum();
    if found >= share {
        return Ok(None);
    }
    let all: Vec<String> =
        profile.components.iter().map(|row| format!("{} {:.0} %", row.id.id(), row.share * 100.0)).collect();
    Ok(Some(format!("method-r puts {:.0} % of the time down to {component}: {}", found * 100.0, all.join(", "))))
}

struct Silent;

impl Observer for Silent {
    fn window(&mut self, _: &[&PlannedStep], _: f64, _: bool) {}
    fn begun(&mut self) {}
    fn progress(&mut self, _: f64) {}
    fn window_ended(&mut self) {}
}
