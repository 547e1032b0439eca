//! The plan: a playbook resolved against the rules and parameters of this run.

use std::collections::BTreeMap;

use super::{Library, LoadedPlaybook, ParamType, Playbook, PlaybookError, Step};
use rdiag_judge::rules::Rule;

/// Shortest and longest window, in seconds.
const DURATION: (f64, f64) = (0.2, 24.0 * 3600.0);
/// Shortest interval, in seconds: below it, rdiag would be the load.
const SHORTEST_INTERVAL: f64 = 0.1;

/// The budget when nothing is given.
pub const DEFAULT_BUDGET: f64 = 0.05;

/// Seconds before a run in which what the kernel log reports counts as current, if the playbook has no parameter for it.
const RECENT: f64 = 600.0;

/// What a run will do.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Plan {
    /// The playbook.
    pub playbook: Playbook,
    /// Parameters in force.
    pub params: BTreeMap<String, String>,
    /// Length of a window in seconds.
    pub duration: f64,
    /// Distance of two samples in seconds.
    pub interval: f64,
    /// Share of all CPUs' time that programs inside the kernel may take, all together, before the most expensive one is stopped.
    pub budget: f64,
    /// Seconds before the run in which a line of the kernel log is judged like one of the window; 0 if none is.
    pub recent: f64,
    /// Steps by window: those of the first run at once, those of the others only when their conditions hold.
    pub windows: Vec<Vec<PlannedStep>>,
}

/// A step with its rules.
#[derive(Debug, Clone, serde::Serialize)]
pub struct PlannedStep {
    /// The step.
    pub step: Step,
    /// Its rules, with the playbook's overrides, and where each one's thresholds come from.
    pub rules: Vec<(Rule, String)>,
}

impl Plan {
    /// Resolves a playbook. The playbook must have been checked.
    pub fn new(
        loaded: &LoadedPlaybook,
        library: &Library,
        given: &BTreeMap<String, String>,
    ) -> Result<Self, PlaybookError> {
        let playbook = loaded.playbook.clone();
        let mut params = defaults(&playbook)?;
        for (name, value) in given {
            let Some(param) = playbook.params.get(name) else {
                let known: Vec<&str> = playbook.params.keys().map(String::as_str).collect();
                let problem = format!("{} has no such parameter; it has {}", playbook.name, known.join(", "));
                return Err(PlaybookError::Param { name: name.clone(), problem });
            };
            check_value(name, param.kind, value)?;
            params.insert(name.clone(), value.clone());
        }
        let seconds = |name: &str, default: f64| -> Result<f64, PlaybookError> {
            params.get(name).map_or(Ok(default), |text| duration(name, text))
        };
        let duration = seconds("duration", 10.0)?;
        let mut interval = seconds("interval", 1.0)?.min(duration);
        let levels = levels(&playbook).unwrap_or_default();
        // Conditions are looked at where an interval ends, so the default one leaves room for what they begin.
        if !given.contains_key("interval") && levels.values().any(|level| *level > 0) && duration / interval < 1.5 {
            interval = (duration / 3.0).max(SHORTEST_INTERVAL);
        }
        let recent = seconds("recent", RECENT)?;
        let limits = |name: &str, ok: bool, problem: String| {
            if ok { Ok(()) } else { Err(PlaybookError::Param { name: name.to_owned(), problem }) }
        };
        limits(
            "duration",
            duration >= DURATION.0 && duration <= DURATION.1,
            "it must be between 200ms and 24h".into(),
        )?;
        limits(
            "interval",
            interval >= SHORTEST_INTERVAL,
            "it must be at least 100ms: rdiag would become the load".into(),
        )?;
        limits(
            "interval",
            duration / interval <= 20_000.0,
            "more than 20000 samples in a window; take a longer interval".into(),
        )?;
        let count = levels.values().copied().max().unwrap_or(0) + 1;
        let mut windows: Vec<Vec<PlannedStep>> = vec![Vec::new(); count];
        for step in &playbook.steps {
            let rules = step.rules.iter().filter_map(|id| planned_rule(id, &playbook, loaded, library)).collect();
            if let Some(window) = windows.get_mut(levels.get(&step.id).copied().unwrap_or(0)) {
                let collect = step.collect.iter().map(|measure| measure.resolve(&params)).collect();
                window.push(PlannedStep { step: Step { collect, ..step.clone() }, rules });
            }
        }
        Ok(Self { playbook, params, duration, interval, budget: DEFAULT_BUDGET, recent, windows })
    }
}

fn planned_rule(id: &str, playbook: &Playbook, loaded: &LoadedPlaybook, library: &Library) -> Option<(Rule, String)> {
    let known = library.rules.get(id)?;
    Some(match playbook.overrides.get(id) {
        Some(change) => (change.apply(&known.rule), format!("playbook {}", loaded.file.label)),
        None => (known.rule.clone(), known.origin.clone()),
    })
}

/// The parameters when nothing is given.
pub(super) fn defaults(playbook: &Playbook) -> Result<BTreeMap<String, String>, PlaybookError> {
    let mut params = BTreeMap::new();
    for (name, param) in &playbook.params {
        let text = match &param.default {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        check_value(name, param.kind, &text)?;
        params.insert(name.clone(), text);
    }
    Ok(params)
}

fn check_value(name: &str, kind: ParamType, text: &str) -> Result<(), PlaybookError> {
    match kind {
        ParamType::Duration => duration(name, text).map(|_| ()),
        ParamType::Number => {
            text.parse::<f64>().ok().filter(|n| n.is_finite()).map(|_| ()).ok_or_else(|| PlaybookError::Param {
                name: name.to_owned(),
                problem: format!("{text:?} is no number"),
            })
        }
        ParamType::Text => Ok(()),
    }
}

/// `500ms`, `10s`, `2m`, `1h`, or plain seconds → seconds.
pub fn duration(name: &str, text: &str) -> Result<f64, PlaybookError> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let factor = match unit.trim() {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * factor;
    if seconds.is_finite() && seconds > 0.0 {
        return Ok(seconds);
    }
    let problem = match seconds == 0.0 {
        true => "it must be longer than 0".to_owned(),
        false => format!("{text:?} is no duration; write 500ms, 10s, 2m or 1h"),
    };
    Err(PlaybookError::Param { name: name.to_owned(), problem })
}

/// The value of `--budget`: `5%` or `5` → 0.05, a share of all CPUs' time.
pub fn budget(text: &str) -> Result<f64, PlaybookError> {
    let percent = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    percent.filter(|percent| *percent > 0.0 && *percent <= 100.0).map(|percent| percent / 100.0).ok_or_else(|| {
        let problem = format!("{text:?} is no share of the CPUs above 0 and up to 100%; write 5%");
        PlaybookError::Param { name: "--budget".into(), problem }
    })
}

/// The rule ids in `status("…")`.
#[must_use]
pub fn statuses_cited(when: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut rest = when;
    while let Some((_, after)) = rest.split_once("status(") {
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| ['"', '\''].contains(c));
        if let Some(quote) = quote
            && let Some((id, tail)) = after.trim_start_matches(quote).split_once(quote)
        {
            ids.push(id.to_owned());
            rest = tail;
        } else {
            rest = after;
        }
    }
    ids
}

/// In which window each step runs: one later than the last step whose rules its condition asks for. An error holds the
/// steps that wait for each other.
pub(super) fn levels(playbook: &Playbook) -> Result<BTreeMap<String, usize>, Vec<String>> {
    let mut levels: BTreeMap<String, usize> = BTreeMap::new();
    let mut waiting: Vec<&Step> = playbook.steps.iter().collect();
    while !waiting.is_empty() {
        let ready = |step: &&Step, levels: &BTreeMap<String, usize>| -> Option<usize> {
            let Some(when) = &step.when else { return Some(0) };
            let mut level = 1;
            for id in statuses_cited(when) {
                let owners = playbook.steps.iter().filter(|other| other.rules.contains(&id));
                for owner in owners {
                    level = level.max(levels.get(&owner.id)? + 1);
                }
            }
            Some(level)
        };
        let decided: Vec<(String, usize)> =
            waiting.iter().filter_map(|step| Some((step.id.clone(), ready(step, &levels)?))).collect();
        if decided.is_empty() {
            return Err(waiting.iter().map(|step| step.id.clone()).collect());
        }
        waiting.retain(|step| !decided.iter().any(|(id, _)| *id == step.id));
        levels.extend(decided);
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_playbook_stand_in_for_their_names_in_what_is_collected() {
        let measure: crate::Measure =
            serde_json::from_str(r#"{"syscount": {"for": "$short", "top": 5, "call": "$absent"}}"#).unwrap();
        let params = BTreeMap::from([("short".to_owned(), "1s".to_owned())]);
        let given = measure.resolve(&params).params();
        let of = |name: &str| given.get(name).map(String::as_str);
        assert_eq!((of("for"), of("top"), of("call")), (Some("1s"), Some("5"), Some("$absent")));
    }

    #[test]
    fn durations_are_read_and_nonsense_is_refused() {
        assert_eq!(duration("d", "500ms").unwrap(), 0.5);
        assert_eq!(duration("d", "10s").unwrap(), 10.0);
        assert_eq!(duration("d", "2m").unwrap(), 120.0);
        assert_eq!(duration("d", "3").unwrap(), 3.0);
        for wrong in ["", "s", "-1s", "0", "1e9", "10 parsecs", "NaN", "inf"] {
            assert!(duration("d", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_budget_is_a_share_and_nonsense_is_refused() {
        assert_eq!((budget("5%").unwrap(), budget("0.5 %").unwrap(), budget("100").unwrap()), (0.05, 0.005, 1.0));
        for wrong in ["", "%", "-1%", "101%", "NaN", "inf%", "five"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_rules_that_a_condition_asks_for_are_found() {
        let when = r#"status("cpu.saturation") >= warning or status('disk.errors') == critical"#;
        assert_eq!(statuses_cited(when), ["cpu.saturation", "disk.errors"]);
        assert_eq!(statuses_cited("status(x"), Vec::<String>::new());
    }
}
