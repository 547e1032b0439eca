//! One host after the other, each reduced to what is compared.

use std::collections::{BTreeMap, HashMap};

use rdiag_model::{Confidence, Kind, Resource, Status, Unit};

use super::contrast::Tally;
use super::document::{Compared, Fleet, Group, HostRow, NotJudged, Why};
use super::names::{Names, cut};
use super::{FORMAT_VERSION, Host, clusters, culprits, headline, outliers, votes};

/// Findings and readings of one host that are looked at: no playbook has so many.
const MOST: usize = 20_000;

/// Hosts that were judged so far, and those that were not.
#[derive(Debug, Default)]
pub struct Gathering {
    pub(crate) hosts: Vec<Row>,
    pub(crate) names: Names,
    pub(crate) rules: BTreeMap<u32, RuleInfo>,
    /// What the readings of a series are, by its number.
    pub(crate) series: Vec<Series>,
    series_numbers: HashMap<(u32, u32), u32>,
    not_judged: Vec<NotJudged>,
    groups: Vec<String>,
    began: Option<(String, String)>,
    playbooks: BTreeMap<String, usize>,
    /// Names that several recordings have, and how many.
    repeated: BTreeMap<String, usize>,
}

/// A host, as far as it is compared.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    file: String,
    report: Option<String>,
    pub(crate) group: usize,
    verdict: Status,
    headline: String,
    resources: BTreeMap<Resource, Status>,
    /// The worst status for each rule, by its number, in order.
    pub(crate) rules: Box<[(u32, Status)]>,
    /// What is at warning or worse.
    pub(crate) fired: Box<[Fired]>,
    /// By the number of the series, in order. Half the precision is enough to be compared.
    pub(crate) values: Box<[(u32, f32)]>,
    /// Name and value, by their numbers, in order.
    pub(crate) facts: Box<[(u32, u32)]>,
}

/// A finding at warning or worse.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) rule: u32,
    pub(crate) role: u32,
    pub(crate) status: Status,
    pub(crate) confidence: Confidence,
    pub(crate) culprit: Option<u32>,
    pub(crate) summary: Box<str>,
}

/// What a rule is about.
#[derive(Debug)]
pub(crate) struct RuleInfo {
    pub(crate) title: String,
    pub(crate) resource: Resource,
    pub(crate) kind: Kind,
}

/// What a series of readings is.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) metric: u32,
    pub(crate) role: u32,
    pub(crate) unit: Unit,
    pub(crate) is_error: bool,
}

impl Gathering {
    /// A host that was judged. One of which what matters could not be measured is listed as not judged as well.
    pub fn add(&mut self, host: Host) {
        let group = self.group(&host.group);
        if host.verdict == Status::Unknown {
            let (name, detail) = (cut(&host.name).to_owned(), cut(&host.headline).to_owned());
            self.not_judged.push(NotJudged { host: name, why: Why::Unknown, detail });
        }
        self.note_when(&host.started);
        *self.playbooks.entry(cut(&host.playbook).to_owned()).or_default() += 1;
        let (rules, fired, resources) = self.findings(&host);
        let values = self.values(&host);
        let mut facts: Vec<(u32, u32)> = Vec::new();
        for (fact, value) in host.facts.iter().take(MOST) {
            facts.push((self.names.number(fact), self.names.number(value)));
        }
        facts.sort_unstable();
        self.hosts.push(Row {
            name: cut(&host.name).to_owned(),
            file: cut(&host.file).to_owned(),
            report: host.report,
            group,
            verdict: host.verdict,
            headline: cut(&host.headline).to_owned(),
            resources,
            rules,
            fired,
            values,
            facts: facts.into(),
        });
    }

    /// A host that was not judged.
    pub fn absent(&mut self, host: NotJudged) {
        let NotJudged { host, why, detail } = host;
        self.not_judged.push(NotJudged { host: cut(&host).to_owned(), why, detail: cut(&detail).to_owned() });
    }

    fn group(&mut self, name: &str) -> usize {
        let name = cut(name);
        self.groups.iter().position(|known| known == name).unwrap_or_else(|| {
            self.groups.push(name.to_owned());
            self.groups.len() - 1
        })
    }

    fn note_when(&mut self, started: &str) {
        let started = cut(started);
        match &mut self.began {
            None => self.began = Some((started.to_owned(), started.to_owned())),
            Some((first, _)) if started < first.as_str() => started.clone_into(first),
            Some((_, last)) if started > last.as_str() => started.clone_into(last),
            Some(_) => {}
        }
    }

    #[expect(clippy::type_complexity, reason = "it is taken apart where it is asked for")]
    fn findings(&mut self, host: &Host) -> (Box<[(u32, Status)]>, Box<[Fired]>, BTreeMap<Resource, Status>) {
        let (mut rules, mut resources) = (BTreeMap::new(), BTreeMap::new());
        let mut fired = Vec::new();
        for finding in host.findings.iter().take(MOST) {
            let rule = self.names.number(&finding.rule);
            self.rules.entry(rule).or_insert_with(|| RuleInfo {
                title: cut(&finding.title).to_owned(),
                resource: finding.resource,
                kind: finding.kind,
            });
            for worst in [
                rules.entry(rule).or_insert(finding.status),
                resources.entry(finding.resource).or_insert(finding.status),
            ] {
                *worst = (*worst).max(finding.status);
            }
            if finding.status >= Status::Warning {
                fired.push(Fired {
                    rule,
                    role: self.names.number(&finding.role),
                    status: finding.status,
                    confidence: finding.confidence,
                    culprit: finding.culprit.as_ref().map(|name| self.names.number(name)),
                    summary: cut(&finding.summary).into(),
                });
            }
        }
        // The worst instance of a rule stands for the host.
        fired.sort_by(|a, b| (a.rule, b.status, b.confidence).cmp(&(b.rule, a.status, a.confidence)));
        (rules.into_iter().collect(), fired.into(), resources)
    }

    fn values(&mut self, host: &Host) -> Box<[(u32, f32)]> {
        let mut values: BTreeMap<u32, f32> = BTreeMap::new();
        for reading in host.readings.iter().take(MOST) {
            let value = reading.value as f32;
            if !value.is_finite() {
                continue;
            }
            let (metric, role) = (self.names.number(&reading.metric), self.names.number(&reading.role));
            let next = self.series.len();
            let number = *self.series_numbers.entry((metric, role)).or_insert(u32::try_from(next).unwrap_or(u32::MAX));
            if number as usize == next {
                self.series.push(Series { metric, role, unit: reading.unit, is_error: false });
            }
            if let Some(series) = self.series.get_mut(number as usize) {
                series.is_error |= reading.is_error;
            }
            values.entry(number).or_insert(value);
        }
        values.into_iter().collect()
    }

    /// What follows from all of them.
    #[must_use]
    pub fn conclude(mut self) -> Fleet {
        self.tell_names_apart();
        let counted = votes::count(&self);
        let (found, mut compared) = outliers::find(&self);
        compared.verdicts =
            self.hosts.iter().map(|host| host.rules.iter().filter(|(_, status)| is_judged(*status)).count()).sum();
        let (common, some) = votes::faults(&self, &counted);
        let tally = Tally::of(&self);
        let odd = votes::odd(&self, &tally, &counted, &found);
        let odd_at: std::collections::BTreeSet<usize> = odd.iter().map(|(at, _)| *at).collect();
        let odd: Vec<_> = odd.into_iter().map(|(_, odd)| odd).collect();
        let mut fleet = Fleet {
            format_version: FORMAT_VERSION,
            headline: String::new(),
            status: Status::Ok,
            judged: self.hosts.iter().filter(|host| host.verdict != Status::Unknown).count(),
            not_judged: std::mem::take(&mut self.not_judged),
            notes: Vec::new(),
            groups: self.sizes(),
            common,
            odd,
            some,
            culprits: culprits::common(&self),
            clusters: clusters::of(&self, &tally),
            compared,
            hosts: Vec::new(),
        };
        fleet.not_judged.sort();
        fleet.notes = self.notes(&fleet.compared, &fleet.groups);
        (fleet.status, fleet.headline) = headline::of(&fleet);
        fleet.hosts = self.rows(&odd_at, &found.unusual);
        fleet
    }

    /// Hosts of the same name are distinguished by their files; that there are some is worth knowing.
    fn tell_names_apart(&mut self) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for host in &self.hosts {
            *seen.entry(host.name.clone()).or_default() += 1;
        }
        for host in &mut self.hosts {
            if seen.get(&host.name).is_some_and(|count| *count > 1) {
                host.name = format!("{} ({})", host.name, host.file);
            }
        }
        seen.retain(|_, count| *count > 1);
        self.repeated = seen;
    }

    fn sizes(&self) -> Vec<Group> {
        let size = |at| self.hosts.iter().filter(|host| host.group == at).count();
        let mut groups: Vec<Group> =
            self.groups.iter().enumerate().map(|(at, name)| Group { name: name.clone(), hosts: size(at) }).collect();
        groups.sort_by(|a, b| b.hosts.cmp(&a.hosts).then_with(|| a.name.cmp(&b.name)));
        groups
    }

    fn notes(&self, compared: &Compared, groups: &[Group]) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some((first, last)) = self.began.as_ref().filter(|(first, last)| first != last) {
            notes.push(format!(
                "The recordings began between {first} and {last}: a fault that does not last may be in some of them only."
            ));
        }
        let unsynchronized = self.with_fact("clock synchronized", "no");
        if unsynchronized > 0 {
            notes.push(format!(
                "The clocks of {unsynchronized} hosts are not synchronized: their recordings may be of other seconds than they say."
            ));
        }
        for (name, count) in self.repeated.iter().take(5) {
            notes.push(format!(
                "{count} recordings are of a host called {name}: each counts, distinguished by its file."
            ));
        }
        if self.playbooks.len() > 1 {
            let each = self.playbooks.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>();
            notes.push(format!("Not all were judged by the same playbook: {}.", each.join(", ")));
        }
        let small = groups.iter().filter(|group| group.hosts < outliers::LEAST_HOSTS).count();
        if small > 0 && !self.hosts.is_empty() {
            notes.push(match groups {
                [_] => format!("Fewer than {} hosts: no host is called odd.", outliers::LEAST_HOSTS),
                _ => format!(
                    "{small} groups have fewer than {} hosts: none of theirs is called odd.",
                    outliers::LEAST_HOSTS
                ),
            });
        }
        if compared.split > 0 {
            notes.push(format!(
                "In {} metrics a group falls into two parts, so that no host of it is odd: compare smaller groups.",
                compared.split
            ));
        }
        notes
    }

    /// Hosts with this value of a fact.
    fn with_fact(&self, fact: &str, value: &str) -> usize {
        let (Some(fact), Some(value)) = (self.names.known(fact), self.names.known(value)) else { return 0 };
        self.hosts.iter().filter(|host| host.facts.binary_search(&(fact, value)).is_ok()).count()
    }

    fn rows(self, odd: &std::collections::BTreeSet<usize>, unusual: &BTreeMap<usize, usize>) -> Vec<HostRow> {
        let groups = self.groups;
        let row = |(at, host): (usize, Row)| HostRow {
            host: host.name,
            file: host.file,
            report: host.report,
            group: groups.get(host.group).cloned().unwrap_or_default(),
            verdict: host.verdict,
            headline: host.headline,
            resources: host.resources,
            is_odd: odd.contains(&at),
            unusual: unusual.get(&at).copied().unwrap_or_default(),
        };
        let mut rows: Vec<HostRow> = self.hosts.into_iter().enumerate().map(row).collect();
        rows.sort_by(|a, b| {
            (b.verdict, b.is_odd, b.unusual).cmp(&(a.verdict, a.is_odd, a.unusual)).then_with(|| a.host.cmp(&b.host))
        });
        rows
    }

    pub(crate) fn group_name(&self, group: usize) -> &str {
        self.groups.get(group).map_or("", String::as_str)
    }

    /// The groups, by number.
    pub(crate) fn groups(&self) -> std::ops::Range<usize> {
        0..self.groups.len()
    }
}

/// Whether a status is an answer.
pub(crate) fn is_judged(status: Status) -> bool {
    !matches!(status, Status::Unknown | Status::Skipped)
}
