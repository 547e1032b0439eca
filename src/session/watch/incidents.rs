//! What the recorder does about an incident: it has its time kept, and one run of use-method made, seldom enough that a bad day costs
//! little.
//!
//! Nothing but rdiag itself is started, with a command line that stands from the beginning on, by a process that was made before the
//! recorder gave up its rights.

use std::ffi::OsString;

use super::super::past::time::interval;
use super::Keeper;
use super::pressure::{Pressure, Seen};
use super::verdict::{Critical, InMaking, MinuteJudge};
use rdiag_history::{CriticalRule, INCIDENTS, Incident, MAX_INCIDENTS, Resource, read_incidents};
use rdiag_kernel::host::SharedHost;
use rdiag_kernel::host::again::{Again, Printed};
use rdiag_kernel::host::files::Folder;

/// Microseconds in which a resource has no second incident.
const COOL_DOWN: u64 = 30 * 60 * 1_000_000;
/// Microseconds in which a rule that becomes critical is part of the incident that its resource had: they are pinned with it.
const SAME: u64 = 5 * 60 * 1_000_000;
const DAY: u64 = 24 * 3600 * 1_000_000;
/// Drill-downs within a day.
const A_DAY: usize = 10;
/// Exit codes with which a recording is whole: all is done, or a probe was stopped by its budget.
const WHOLE: [i32; 2] = [0, 5];

/// The incidents that an earlier recorder left in the folder, and what is wrong with their list.
pub(super) fn known(folder: &Folder) -> (Vec<Incident>, Vec<String>) {
    let named = |why: String| format!("the list of incidents: {why}");
    let read = match folder.read(INCIDENTS, MAX_INCIDENTS) {
        Ok(bytes) => read_incidents(&bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Default::default(),
        Err(error) => Err(error.to_string()),
    };
    match read {
        Ok((incidents, damage)) => (incidents, damage.into_iter().map(named).collect()),
        Err(why) => (Vec::new(), vec![named(why)]),
    }
}

/// Watches for incidents.
pub(super) struct Incidents {
    pressure: Pressure,
    verdict: MinuteJudge,
    recent: Recent,
    again: Option<Again>,
    /// Why there are no drill-downs.
    cannot: Option<String>,
    /// The incident whose drill-down runs.
    running: Option<Incident>,
}

impl Incidents {
    /// To be called before rights are given up. `drill_down` is what rdiag is started with at an incident; if it is nothing, none is made.
    pub(super) fn watch(
        host: &SharedHost,
        known: &[Incident],
        verdict: MinuteJudge,
        drill_down: Option<&[OsString]>,
    ) -> Self {
        let (again, cannot) = match drill_down.map(Again::start) {
            Some(Ok(again)) => (Some(again), None),
            Some(Err(error)) => (None, Some(format!("no process for it: {error}"))),
            None => (None, Some("switched off".to_owned())),
        };
        let recent = known.iter().map(|one| (one.wall_micros, one.resource, one.drilled)).collect();
        Self { pressure: Pressure::watch(host), verdict, recent: Recent(recent), again, cannot, running: None }
    }

    /// Why pressure shows none, if that is so.
    pub(super) fn missing(&self, host: &SharedHost) -> Option<String> {
        let what = "pressure shows no incidents, only rules do";
        self.pressure.missing(host).map(|why| format!("{what}: {why} (boot with psi=1)"))
    }

    /// CPU seconds that rules took so far.
    pub(super) fn judging_cpu_seconds(&self) -> f64 {
        self.verdict.cpu_seconds()
    }

    /// To be called with each sample; what a person should know.
    pub(super) fn sample(&mut self, host: &SharedHost, keeper: &mut Keeper) -> Vec<String> {
        let seen = self.pressure.sample(host);
        self.take(host, keeper, seen)
    }

    /// To be called about once a second in between.
    pub(super) fn look(&mut self, host: &SharedHost, keeper: &mut Keeper) -> Vec<String> {
        let seen = self.pressure.look(host);
        self.take(host, keeper, seen)
    }

    /// To be called after each sample, with the share of a CPU that recording leaves of the budget: rules judge each minute that is over.
    pub(super) fn judge(
        &mut self,
        host: &SharedHost,
        keeper: &mut Keeper,
        (block, spare): (&InMaking<'_>, Option<f64>),
    ) -> Vec<String> {
        let (critical, told) = self.verdict.judge(block, spare);
        let told = told.into_iter();
        told.chain(critical.into_iter().filter_map(|one| self.of_rule(host.wall_micros(), one, keeper))).collect()
    }

    fn take(&mut self, host: &SharedHost, keeper: &mut Keeper, seen: Vec<Seen>) -> Vec<String> {
        self.ended(keeper);
        seen.into_iter().filter_map(|seen| self.of_pressure(host.wall_micros(), seen, keeper)).collect()
    }

    fn of_pressure(&mut self, now: i64, seen: Seen, keeper: &mut Keeper) -> Option<String> {
        let Seen { resource, share, at_least, seconds } = seen;
        if self.recent.had(now, resource, COOL_DOWN) {
            // A new one that outlasts the half hour since the last is an incident then.
            self.pressure.rearm(resource);
            return None;
        }
        Some(self.enter(Incident { share, at_least, ..incident(now, resource, seconds) }, keeper))
    }

    fn of_rule(&mut self, now: i64, critical: Critical, keeper: &mut Keeper) -> Option<String> {
        let Critical { key, resource, says, seconds } = critical;
        if self.recent.had(now, resource, COOL_DOWN) {
            if !self.recent.had(now, resource, SAME) {
                self.verdict.forget(&key);
            }
            return None;
        }
        let rule = Some(CriticalRule::new(&key.0, &says));
        Some(self.enter(Incident { rule, ..incident(now, resource, seconds) }, keeper))
    }

    fn enter(&mut self, incident: Incident, keeper: &mut Keeper) -> String {
        let (now, resource) = (incident.wall_micros, incident.resource);
        let outcome = self.drill(now);
        let incident = match &outcome {
            Ok(()) => Incident { drilled: true, ..incident },
            Err(why) => incident.noted(why),
        };
        self.recent.add(now, resource, incident.drilled);
        keeper.incident(incident.clone());
        let what = outcome.map_or_else(|why| format!("no drill-down: {why}"), |()| "a drill-down has begun".to_owned());
        let told = format!("incident: {}; ten minutes before and five after are pinned; {what}", in_words(&incident));
        if incident.drilled {
            self.running = Some(incident);
        }
        told
    }

    /// Begins a drill-down, or says why there is none.
    fn drill(&mut self, now: i64) -> Result<(), String> {
        let Some(again) = &mut self.again else {
            return Err(self.cannot.clone().unwrap_or_default());
        };
        if again.runs() {
            return Err("that of another incident was running".to_owned());
        }
        if self.recent.drilled_within_a_day(now) >= A_DAY {
            return Err(format!("there were {A_DAY} within a day"));
        }
        again.begin().map_err(|error| error.to_string())
    }

    /// Takes what a drill-down recorded.
    fn ended(&mut self, keeper: &mut Keeper) {
        let Some(ended) = self.again.as_mut().and_then(Again::ended) else { return };
        let Some(incident) = self.running.take() else { return };
        let outcome = match ended {
            Ok(Printed { code: Some(code), bytes, .. }) if WHOLE.contains(&code) && !bytes.is_empty() => Ok(bytes),
            Ok(Printed { code: Some(code), said, .. }) => Err(format!("it ended with code {code}: {said}")),
            Ok(Printed { code: None, said, .. }) => Err(said),
            Err(error) => Err(error.to_string()),
        };
        // The thread that writes says where it is, or why it is not.
        keeper.drilled(incident.wall_micros, outcome);
    }
}

/// One that is pinned.
fn incident(wall_micros: i64, resource: Resource, seconds: f64) -> Incident {
    Incident {
        wall_micros,
        resource,
        rule: None,
        share: 0.0,
        at_least: false,
        seconds,
        pinned: true,
        drilled: false,
        note: None,
    }
}

/// What was seen: `PSI io full 62 % of 5 s`, or a rule and its sentence.
#[must_use]
pub fn in_words(incident: &Incident) -> String {
    let seconds = interval(incident.seconds.round().max(1.0));
    if let Some(rule) = &incident.rule {
        return format!("{} critical over {seconds}: {}", rule.id, rule.says);
    }
    format!(
        "PSI {} {} {}{:.0} % of {seconds}",
        incident.resource.name(),
        incident.resource.line(),
        if incident.at_least { "at least " } else { "" },
        incident.share * 100.0,
    )
}

/// Incidents of the last day: when (microseconds since 1970), for which resource, and whether a drill-down was made.
struct Recent(Vec<(i64, Resource, bool)>);

impl Recent {
    /// A clock that was set, in whichever direction, puts them at most as far away as it was set.
    fn within(now: i64, then: i64, span: u64) -> bool {
        now.abs_diff(then) < span
    }

    /// Whether a resource had one in a time up to now.
    fn had(&self, now: i64, resource: Resource, span: u64) -> bool {
        self.0.iter().any(|(then, of, _)| *of == resource && Self::within(now, *then, span))
    }

    fn drilled_within_a_day(&self, now: i64) -> usize {
        self.0.iter().filter(|(then, _, drilled)| *drilled && Self::within(now, *then, DAY)).count()
    }

    fn add(&mut self, now: i64, resource: Resource, drilled: bool) {
        self.0.retain(|(then, ..)| Self::within(now, *then, DAY));
        self.0.push((now, resource, drilled));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    #[test]
    fn a_resource_has_one_incident_in_half_an_hour_and_others_have_their_own() {
        let mut recent = Recent(Vec::new());
        let cools = |recent: &Recent, now, resource| recent.had(now, resource, COOL_DOWN);
        assert!(!cools(&recent, 0, Resource::Io));
        recent.add(0, Resource::Io, true);
        assert!(cools(&recent, 0, Resource::Io) && cools(&recent, 30 * MINUTE - 1, Resource::Io));
        assert!(!cools(&recent, 30 * MINUTE, Resource::Io) && !cools(&recent, MINUTE, Resource::Memory));
        // A clock that was set far ahead, and back again.
        recent.add(10_000 * MINUTE, Resource::Io, true);
        assert!(!cools(&recent, MINUTE, Resource::Io), "that day is over");
    }

    #[test]
    fn ten_drill_downs_a_day_and_no_more() {
        let mut recent = Recent(Vec::new());
        for at in 0..20 {
            let now = at * 30 * MINUTE;
            let drilled = recent.drilled_within_a_day(now) < A_DAY;
            assert_eq!(drilled, at < 10);
            recent.add(now, Resource::Cpu, drilled);
        }
        let next_day = 24 * 60 * MINUTE;
        assert_eq!(recent.drilled_within_a_day(next_day), 9);
        recent.add(next_day, Resource::Cpu, true);
        assert!(recent.0.len() <= 20, "the first has gone");
    }

    #[test]
    fn an_incident_is_told_in_the_terms_of_the_field() {
        let incident = Incident { share: 0.62, ..incident(0, Resource::Io, 5.003) };
        assert_eq!(in_words(&incident), "PSI io full 62 % of 5 s");
        let rang = Incident { at_least: true, resource: Resource::Cpu, seconds: 10.0, ..incident };
        assert_eq!(in_words(&rang), "PSI cpu some at least 62 % of 10 s");
        let says = "/var (ext4) is 98% full: 1.2 GiB of 60 GiB left.";
        let rule = Some(CriticalRule::new("filesystem.utilization", says));
        let full = Incident { rule, resource: Resource::Filesystem, seconds: 60.004, ..rang };
        assert_eq!(
            in_words(&full),
            format!("filesystem.utilization critical over 1 min: {}", says.trim_end_matches('.'))
        );
    }
}
