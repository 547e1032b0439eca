//! Who is behind a finding: the largest consumer, with its share of the whole.

use std::collections::BTreeMap;

use super::membership::{self, GroupUse};
use rdiag_model::{Culprit, DeedOfMetric, Metrics, Reading, Stats};

/// What stands for the small rows of a table together.
pub(super) const OTHERS: &str = "(others)";

/// A task with a smaller share of the whole is not named as the culprit of a finding.
pub(super) const LEAST_SHARE: f64 = 0.1;
/// What processes do is counted of those that some sample saw. A share of it is said unless others used more than this part of the CPU
/// time, which itself has a row for them; levels are those of processes that are there.
const MOST_UNSEEN: f64 = 0.1;
const COUNTED_WHILE_SEEN: [&str; 5] = [
    "process.read.bytes",
    "process.write.bytes",
    "process.major_faults.count",
    "process.minor_faults.count",
    "process.run_delay.seconds",
];

/// The instance with the most of a metric. Processes of one name are taken together: a culprit of forty workers is one
/// culprit. So are threads of the kernel that differ by their number. `cgroup` narrows the search to processes of that group and the groups
/// below it, `wanted` to instances with these labels. Where most of what a group did may be that of processes whose group was not read,
/// there is none.
pub(super) fn top(
    metrics: &Metrics,
    metric: &str,
    cgroup: Option<&str>,
    wanted: &[(String, String)],
) -> Option<Culprit> {
    let Some(Reading::Measured { unit, dimension, instances, .. }) = metrics.readings.get(metric) else { return None };
    let dimension = dimension.clone()?;
    let labels = metrics.labels.get(&dimension);
    let label = |instance: &str, key: &str| -> Option<String> { labels?.get(instance)?.get(key).cloned() };
    let fits = |instance: &str| wanted.iter().all(|(key, value)| label(instance, key).as_ref() == Some(value));
    let mut groups: BTreeMap<String, Vec<(&str, f64)>> = BTreeMap::new();
    let mut whole = 0.0;
    let mut unplaced = 0.0;
    for (instance, stats) in instances {
        let Ok(Stats { total, .. }) = stats else { continue };
        if *total <= 0.0 {
            continue;
        }
        let is_in = match cgroup {
            None => Some(true),
            Some(group) => membership::is_in(labels.and_then(|all| all.get(instance)), group),
        };
        let Some(is_in) = is_in else {
            unplaced += total;
            continue;
        };
        if !is_in {
            continue;
        }
        let fits = fits(instance);
        // A function's share is of all code that ran, also where only some is asked for; a mount has its own whole.
        if fits || dimension == "function" {
            whole += total;
        }
        if !fits {
            continue;
        }
        let name = label(instance, "name").unwrap_or_else(|| instance.clone());
        let family =
            if ["process", "task", "thread"].contains(&dimension.as_str()) { family(&name).to_owned() } else { name };
        groups.entry(family).or_default().push((instance, *total));
    }
    groups.remove(OTHERS);
    let sum = |members: &[(&str, f64)]| members.iter().map(|(_, value)| value).sum::<f64>();
    let (name, members) = groups.iter().max_by(|(_, a), (_, b)| sum(a).total_cmp(&sum(b)))?;
    let value = sum(members);
    let share = match cgroup {
        None if whole <= 0.0 => None,
        None => Some(value / whole).filter(|share| *share < LEAST_SHARE || !misses_many(metrics, metric)),
        Some(group) => {
            let own = membership::own_figure(metrics, metric, group);
            let seen = GroupUse { known: whole, unplaced, own, allowed: membership::allowed(metrics, metric, group) };
            let others = groups.iter().filter(|(other, _)| *other != name);
            let next = others.map(|(_, members)| sum(members)).fold(0.0, f64::max);
            if !seen.names(value, next) {
                return None;
            }
            seen.share(value)
        }
    };
    let (name, mut members) = (name.clone(), members.clone());
    members.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let first = members.first().map_or("", |(instance, _)| instance);
    let mut names = labels.and_then(|all| all.get(first)).cloned().unwrap_or_default();
    // A single member of a family has its own name, as its number may be that of a CPU.
    let name = names.remove("name").filter(|_| members.len() == 1).unwrap_or(name);
    names.remove("pid");
    names.remove(membership::OTHER_GROUPS);
    if let Some(group) = cgroup {
        names.insert(Culprit::SHARE_OF.to_owned(), group.to_owned());
    }
    let pids = members.iter().filter_map(|(instance, _)| label(instance, "pid")?.parse().ok()).take(5).collect();
    Some(Culprit {
        kind: dimension,
        name,
        pids,
        count: members.len(),
        share,
        value: Some(value),
        unit: Some(*unit),
        metric: Some(metric.to_owned()),
        deed: DeedOfMetric::default(),
        labels: names,
    })
}

/// Whether much of this may be of processes that came and went between two samples and are in no row: they used this part of the CPU time.
fn misses_many(metrics: &Metrics, metric: &str) -> bool {
    let unseen = metrics.measured("process.unseen_cpu.ratio", "").map_or(0.0, |stats| stats.mean);
    COUNTED_WHILE_SEEN.contains(&metric) && unseen > MOST_UNSEEN
}

/// What threads of the kernel that do the same work are called without their number: `ksoftirqd/0` and `ksoftirqd/1`.
fn family(name: &str) -> &str {
    match name.rsplit_once('/') {
        Some((family, number))
            if !family.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            family
        }
        _ => name,
    }
}

/// The subject that the kernel log names most often in a class of lines, if that is at least every second time: one of six victims is
/// no culprit. Processes of one name are one.
pub(super) fn named_by_log(subjects: &[String]) -> Option<Culprit> {
    let mut counts: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for subject in subjects {
        let name = subject.rsplit_once(" (pid ").map_or(subject.as_str(), |(name, _)| name);
        counts.entry(name).or_insert((0, subject)).0 += 1;
    }
    let (name, (count, first)) = counts.into_iter().max_by_key(|(_, (count, _))| *count)?;
    if count * 2 < subjects.len() {
        return None;
    }
    let same = subjects.iter().all(|subject| subject == first || !subject.starts_with(name));
    let name = if same { first } else { name };
    Some(Culprit {
        kind: "log".into(),
        name: name.to_owned(),
        pids: Vec::new(),
        count,
        share: Some(count as f64 / subjects.len().max(1) as f64),
        value: None,
        unit: None,
        metric: None,
        deed: DeedOfMetric::default(),
        labels: BTreeMap::new(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::{OTHERS, family, named_by_log, top};
    use rdiag_model::{Metrics, Reading, Stats, Unit};

    /// CPU time of processes: id, name, seconds.
    pub(in crate::rules) fn metrics(processes: &[(&str, &str, f64)]) -> Metrics {
        let stats = |seconds: f64| Ok(Stats::constant(seconds));
        let instances = processes.iter().map(|(pid, _, seconds)| ((*pid).to_owned(), stats(*seconds))).collect();
        let reading = Reading::Measured {
            unit: Unit::Seconds,
            dimension: Some("process".into()),
            source: "a test".into(),
            rank: 0,
            instances,
        };
        let label = |(pid, name, _): &(&str, &str, f64)| {
            let labels = [("name", *name), ("pid", *pid)].map(|(key, value)| (key.to_owned(), value.to_owned()));
            ((*pid).to_owned(), BTreeMap::from(labels))
        };
        let labels = BTreeMap::from([("process".to_owned(), processes.iter().map(label).collect())]);
        Metrics { readings: BTreeMap::from([("cpu".to_owned(), reading)]), labels, ..Metrics::default() }
    }

    #[test]
    fn the_culprit_is_the_largest_family_with_its_largest_first_and_its_share_is_of_all() {
        let all =
            [("10", "web", 1.0), ("20", "web", 4.0), ("30", "web", 2.0), ("40", "db", 5.0), (OTHERS, OTHERS, 8.0)];
        let culprit = top(&metrics(&all), "cpu", None, &[]).unwrap();
        assert_eq!((culprit.name.as_str(), culprit.count), ("web", 3));
        assert_eq!(culprit.pids, [20, 30, 10]);
        assert_eq!((culprit.value, culprit.share), (Some(7.0), Some(0.35)), "7 of 20: the small rows count too");
    }

    #[test]
    fn the_share_of_a_function_is_of_all_code_and_not_of_its_kind() {
        let mut metrics = metrics(&[("1", "a", 2.0), ("2", "b", 6.0)]);
        let mut labels = metrics.labels.remove("process").unwrap();
        labels.get_mut("1").unwrap().insert("mode".to_owned(), "kernel".to_owned());
        metrics.labels.insert("function".to_owned(), labels);
        if let Some(Reading::Measured { dimension, .. }) = metrics.readings.get_mut("cpu") {
            *dimension = Some("function".to_owned());
        }
        let culprit = top(&metrics, "cpu", None, &[("mode".to_owned(), "kernel".to_owned())]).unwrap();
        assert_eq!((culprit.name.as_str(), culprit.share), ("a", Some(0.25)), "2 of 8, and not all of the kernel's");
    }

    /// Threads of four processes, of which the group of the first ones was read, and of the group itself.
    fn in_a_group(read: usize, own: f64) -> Metrics {
        let mut all = metrics(&[("1", "sh", 1.0), ("2", "sleep", 1.0), ("3", "sleep", 1.0), ("4", "dd", 60.0)]);
        for process in all.labels.get_mut("process").unwrap().values_mut().take(read) {
            process.insert("cgroup".to_owned(), "/g/below".to_owned());
        }
        if let Some(cpu) = all.readings.remove("cpu") {
            all.readings.insert("process.threads.count".to_owned(), cpu);
        }
        let instances = [("/g".to_owned(), Ok(Stats::constant(own)))].into();
        let (unit, dimension, source) = (Unit::Count, Some("cgroup".to_owned()), "a test".to_owned());
        let reading = Reading::Measured { unit, dimension, source, rank: 0, instances };
        all.readings.insert("cgroup.pids.current.count".to_owned(), reading);
        all
    }

    #[test]
    fn of_a_group_nobody_is_named_as_long_as_the_largest_may_be_one_whose_group_was_not_read() {
        let of = |read: usize, own: f64| {
            let found = top(&in_a_group(read, own), "process.threads.count", Some("/g"), &[]);
            found.map(|culprit| (culprit.name, culprit.share))
        };
        assert_eq!(of(1, 62.0), None, "sh has 1 of 62, and not all of it");
        assert_eq!(of(3, 63.0), None, "sleep has 2 of 63");
        assert_eq!(of(4, 63.0), Some(("dd".to_owned(), Some(60.0 / 63.0))));
        assert_eq!(of(3, 3.0), Some(("sleep".to_owned(), Some(2.0 / 3.0))), "dd is elsewhere");
        assert_eq!(of(3, 3.5), Some(("sleep".to_owned(), None)), "half a thread more makes sh no larger");
        assert_eq!(of(0, 3.0), None);
    }

    #[test]
    fn of_what_short_lived_processes_do_nobody_has_a_share() {
        let of = |metric: &str, unseen: f64| {
            let mut all = metrics(&[("1", "sh", 9.0), ("2", "ls", 1.0)]);
            if let Some(cpu) = all.readings.remove("cpu") {
                all.readings.insert(metric.to_owned(), cpu);
            }
            let instances = [(String::new(), Ok(Stats::constant(unseen)))].into();
            let (unit, dimension, source) = (Unit::Ratio, None, "a test".to_owned());
            let reading = Reading::Measured { unit, dimension, source, rank: 0, instances };
            all.readings.insert("process.unseen_cpu.ratio".to_owned(), reading);
            top(&all, metric, None, &[]).unwrap().share
        };
        assert_eq!(of("process.minor_faults.count", 0.6), None);
        assert_eq!(of("process.minor_faults.count", 0.05), Some(0.9));
        assert_eq!(of("process.cpu.seconds", 0.6), Some(0.9), "they have a row of their own there");
        assert_eq!(of("process.resident.bytes", 0.6), Some(0.9));
    }

    #[test]
    fn one_of_six_victims_is_no_culprit_and_six_of_one_name_are() {
        let named = |subjects: &[&str]| {
            let subjects: Vec<String> = subjects.iter().map(|subject| (*subject).to_owned()).collect();
            named_by_log(&subjects).map(|culprit| (culprit.name, culprit.count))
        };
        assert_eq!(named(&["a (pid 1)", "b (pid 2)", "c (pid 3)"]), None);
        assert_eq!(named(&["dd (pid 1)", "dd (pid 2)", "sh (pid 3)"]), Some(("dd".to_owned(), 2)));
        assert_eq!(named(&["sda", "sda", "sdb"]), Some(("sda".to_owned(), 2)));
        assert_eq!(named(&["java (pid 8)"]), Some(("java (pid 8)".to_owned(), 1)));
        assert_eq!(named(&[]), None);
    }

    #[test]
    fn threads_of_the_kernel_are_taken_together_without_their_number_and_no_other_names_are() {
        assert_eq!(family("ksoftirqd/12"), "ksoftirqd");
        for other in ["kworker/0:1-events", "jbd2/vda1-8", "postgres", "a/", "/", "/7"] {
            assert_eq!(family(other), other);
        }
    }
}
