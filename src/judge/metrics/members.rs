//! Which control groups processes were in at the end of the window, by the lists that collectors of groups make of those they report. A
//! process's own file tells that, too, and is read of few.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::recording::{CollectorRecord, Window};

/// The groups of each process: several where each controller has its own hierarchy.
pub(super) struct Members<'w>(BTreeMap<u32, BTreeSet<&'w str>>);

impl<'w> Members<'w> {
    pub(super) fn of(window: &'w Window) -> Self {
        let mut groups: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
        let labels = window.collectors.values().flat_map(|record| record.labels.values());
        for line in labels.filter_map(|own| own.get(CollectorRecord::MEMBERS)).flat_map(|text| text.lines()) {
            let Some(path) = line.find('/').and_then(|at| line.get(at..)) else { continue };
            for pid in line.split(' ').map_while(|word| word.parse().ok()) {
                groups.entry(pid).or_default().insert(path);
            }
        }
        Self(groups)
    }

    /// Adds the groups of a process to its names, if it is in one that was listed.
    pub(super) fn add_labels(&self, pid: u32, labels: &mut BTreeMap<String, String>) {
        let mut found = self.0.get(&pid).into_iter().flatten().copied();
        let Some(group) = found.next() else { return };
        labels.insert("cgroup".into(), group.to_owned());
        let others: Vec<&str> = found.collect();
        if !others.is_empty() {
            labels.insert("other_cgroups".into(), others.join("\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::metric::{Formula, ProcessField};
    use rdiag_model::recording::{Process, ProcessPoint};
    use rdiag_model::{Facts, MetricDef, Metrics, Unit};

    const THREADS: MetricDef = MetricDef {
        id: "process.threads.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "Threads.",
        sources: &[Formula::process(ProcessField::Threads)],
        ..MetricDef::EMPTY
    };

    /// Three processes at the end of two samples and one that was there at the first only; the second one's own file was read.
    fn metrics(lists: &[&str]) -> Metrics {
        let point = |at: u16| ProcessPoint { at, threads: 1, state: 'S', ..ProcessPoint::default() };
        let process = |(pid, last): (u32, u16)| Process {
            pid,
            last,
            cgroup: (pid == 2).then(|| "/read".to_owned()),
            points: vec![point(0)],
            ..Process::default()
        };
        let processes = [(1, 1), (2, 1), (3, 1), (4, 0)].map(process).into();
        let mut collectors = BTreeMap::new();
        for (at, list) in lists.iter().enumerate() {
            let label = BTreeMap::from([(CollectorRecord::MEMBERS.to_owned(), (*list).to_owned())]);
            let labels = BTreeMap::from([("/g".to_owned(), label)]);
            collectors.insert(format!("groups{at}"), CollectorRecord { labels, ..CollectorRecord::default() });
        }
        let record = CollectorRecord { times: vec![0.0, 1.0], processes, ..CollectorRecord::default() };
        collectors.insert("processes".to_owned(), record);
        let window = Window {
            steps: Vec::new(),
            begins: 0.0,
            seconds: 1.0,
            interval_seconds: 1.0,
            suspended_seconds: 0.0,
            collectors,
            probes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
        };
        super::super::evaluate(&window, &Facts::default(), &[("processes", &THREADS)])
    }

    #[test]
    fn a_list_tells_the_group_of_those_whose_own_file_was_not_read() {
        let metrics = metrics(&["1 2 4 /g/a b\n", "1 /m\n9 /m/c\n"]);
        let label = |pid: u32, key: &str| metrics.labels["process"][&format!("{pid}:0")].get(key).map(String::as_str);
        assert_eq!((label(1, "cgroup"), label(1, "other_cgroups")), (Some("/g/a b"), Some("/m")));
        assert_eq!((label(2, "cgroup"), label(2, "other_cgroups")), (Some("/read"), None));
        assert_eq!(label(3, "cgroup"), None);
        assert!(!metrics.labels["process"].contains_key("4:0"), "4 was gone, and is another one now");
    }

    #[test]
    fn no_text_can_stop_the_reader_of_lists() {
        for text in ["", "\n", "/", "1", "1 2\n", "x /a", "99999999999 /a", "1 /\u{e9}\u{0}"] {
            let _ = metrics(&[text]);
        }
    }
}
