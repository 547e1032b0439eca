//! One control group judged for itself: by its own limits, by those of the groups above it, which hold for it as well, and with those below
//! it, whose use counts for it. Its neighbours are no question then. All else is shared with the host and judged as ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{is_below, path_of};
use rdiag_judge::rules::{Judge, Rule, Scope};
use rdiag_model::{Facts, Finding, LogLine, Metrics, Reading, Reason, Target, Unavailable};
use rdiag_playbook::{Method, Plan};

/// From so many on, collectors leave out those that are furthest from their limit.
const RECORDED: usize = 30;

/// Whether a plan judges control groups beside the host that they are on.
pub(crate) fn judges_groups(plan: &Plan) -> bool {
    let mut rules = plan.windows.iter().flatten().flat_map(|planned| &planned.rules);
    plan.playbook.method != Method::MethodR && rules.any(|(rule, _)| is_of_groups(rule))
}

/// Kills at a limit that rdiag cannot see are told from those of all groups that it sees.
fn is_of_groups(rule: &Rule) -> bool {
    rule.id.starts_with("cgroup.") && rule.id != "cgroup.errors.oom_unseen"
}

/// Judges rules by the metrics of a window; those about single control groups by what concerns the one that was asked for.
pub(crate) struct GroupJudge<'s> {
    host: Judge<'s>,
    group: Option<Judge<'s>>,
}

impl<'s> GroupJudge<'s> {
    pub(crate) fn new(
        facts: &'s Facts,
        metrics: &Arc<Metrics>,
        window: usize,
        log: &'s [LogLine],
        recent: f64,
        target: &Target,
    ) -> Self {
        let judge = |metrics| Judge::new(Scope { facts, metrics, window, log, recent });
        let own = target.cgroup.as_ref().map(|typed| Arc::new(narrowed(metrics, &path_of(typed))));
        Self { host: judge(Arc::clone(metrics)), group: own.map(judge) }
    }

    pub(crate) fn judge(&self, rule: &Rule, origin: &str) -> Vec<Finding> {
        self.group.as_ref().filter(|_| is_of_groups(rule)).unwrap_or(&self.host).judge(rule, origin)
    }
}

/// The metrics with those control groups alone that concern `group`.
fn narrowed(metrics: &Metrics, group: &str) -> Metrics {
    let mut own = metrics.clone();
    let labels: BTreeMap<String, BTreeMap<String, String>> = own.labels.get("cgroup_io").cloned().unwrap_or_default();
    for reading in own.readings.values_mut() {
        let Reading::Measured { dimension: Some(dimension), instances, .. } = reading else { continue };
        let of_limit = |instance: &str| {
            labels.get(instance).and_then(|own| own.get("group")).map_or_else(|| instance.to_owned(), Clone::clone)
        };
        let before = instances.len();
        match dimension.as_str() {
            "cgroup" => instances.retain(|instance, _| concerns(instance, group)),
            "cgroup_io" => instances.retain(|instance, _| concerns(&of_limit(instance), group)),
            _ => continue,
        }
        if instances.is_empty() && before > 0 {
            *reading = Reading::Unavailable(if before >= RECORDED {
                let why = format!(
                    "of many control groups those nearest to their limit are recorded, and {group} is none of them"
                );
                Unavailable::new(Reason::NotVisible, why)
            } else {
                let why = format!("neither the control group {group} nor one above or below it has this");
                Unavailable::new(Reason::NotApplicable, why)
            });
        }
    }
    own
}

/// Whether a group is this one, lies below it, or above it; what stands for groups that were not looked at (`(groups left out)`) may be
/// any.
fn concerns(instance: &str, group: &str) -> bool {
    instance.starts_with('(') || is_below(instance, group) || is_below(group, instance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::{Stats, Unit};

    #[test]
    fn groups_above_and_below_concern_it_and_neighbours_do_not() {
        for (instance, expected) in [
            ("/shop", true),
            ("/shop/web", true),
            ("/shop/web/worker", true),
            ("/", true),
            ("(groups left out)", true),
            ("/shop/webdav", false),
            ("/shop/db", false),
            ("/sho", false),
        ] {
            assert_eq!(concerns(instance, "/shop/web"), expected, "{instance}");
        }
        assert!(concerns("/shop", "/"));
    }

    #[test]
    fn what_no_group_of_them_has_does_not_apply_and_other_dimensions_stay() {
        let reading = |dimension: &str, instances: &[&str]| Reading::Measured {
            unit: Unit::Ratio,
            dimension: Some(dimension.into()),
            source: "x".into(),
            rank: 0,
            instances: instances.iter().map(|name| ((*name).to_owned(), Ok(Stats::constant(0.5)))).collect(),
        };
        let mut metrics = Metrics::default();
        metrics.readings.insert("cgroup.a".into(), reading("cgroup", &["/shop/db"]));
        metrics.readings.insert("cgroup.b".into(), reading("cgroup", &["/shop/web", "/shop/db"]));
        metrics.readings.insert("disk.a".into(), reading("device", &["vda"]));
        let limits = ["/shop/web 8:0 riops", "/shop/db 8:0 riops"];
        metrics.readings.insert("cgroup.io".into(), reading("cgroup_io", &limits));
        let labels = metrics.labels.entry("cgroup_io".into()).or_default();
        for limit in limits {
            let group = limit.split(' ').next().unwrap().to_owned();
            labels.insert(limit.into(), [("group".to_owned(), group)].into());
        }
        let many: Vec<String> = (0..RECORDED).map(|number| format!("/other/{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        metrics.readings.insert("cgroup.many".into(), reading("cgroup", &many));
        let own = narrowed(&metrics, "/shop/web");
        let gap = |id: &str| match own.readings.get(id) {
            Some(Reading::Unavailable(gap)) => gap.reason,
            other => panic!("{id} stayed: {other:?}"),
        };
        assert_eq!(gap("cgroup.a"), Reason::NotApplicable);
        assert_eq!(gap("cgroup.many"), Reason::NotVisible, "a limit that is not recorded is not denied");
        assert!(own.measured("cgroup.b", "/shop/web").is_some() && own.measured("cgroup.b", "/shop/db").is_none());
        assert!(own.measured("cgroup.io", limits[0]).is_some() && own.measured("cgroup.io", limits[1]).is_none());
        assert!(own.measured("disk.a", "vda").is_some());
        assert!(metrics.measured("cgroup.b", "/shop/db").is_some(), "rules about the host see all");
    }

    #[test]
    fn where_groups_are_judged_probes_look_at_the_whole_host() {
        let of = |name: &str| {
            let named = crate::resolve(name).unwrap();
            judges_groups(&Plan::new(&named.loaded, &named.library, &BTreeMap::new()).unwrap())
        };
        assert!(of("use-method") && of("slow-container"));
        assert!(!of("method-r") && !of("cpu-hot"));
    }
}
