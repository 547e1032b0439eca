//! Who reads what a control group's memory does not hold.

use rdiag_model::{Culprit, DeedOfMetric, Facts, Finding};

use super::mean;

const REFAULTS: &str = "cgroup.saturation.refaults";
/// A read that the kernel charged to a process is behind the refaults if all of them together are at least this part of what came back.
const LEAST: f64 = 0.5;

/// Names the group alone where the reads of the processes that were seen explain too little: of a sparse file nothing is read from
/// storage, and a process that ended took its count along.
pub(super) fn complete(finding: &mut Finding, host: &Facts) {
    let Some(culprit) = finding.culprit.as_ref().filter(|_| finding.id == REFAULTS) else { return };
    let is_of_reads = culprit.metric.as_deref() == Some("process.read.bytes");
    let Some(value) = culprit.value.filter(|_| is_of_reads) else { return };
    // Without a share it is not known what others of the group read: what is seen is what was read.
    let read = culprit.share.filter(|share| *share > 0.0).map_or(value, |share| value / share);
    let Some(refaults) = mean(finding, "cgroup.memory.refaults.per_second") else { return };
    let came_back = refaults * finding.window_seconds * host.page_size as f64;
    if read < LEAST * came_back {
        finding.culprit = finding.instance.clone().map(of_group);
    }
}

fn of_group(name: String) -> Culprit {
    Culprit {
        kind: "cgroup".into(),
        name,
        pids: Vec::new(),
        count: 1,
        share: None,
        value: None,
        unit: None,
        metric: None,
        deed: DeedOfMetric::default(),
        labels: std::collections::BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::stress;
    use super::super::tests::having;
    use super::*;
    use rdiag_model::Status;

    /// Who is named for 1000 pages of 4 KiB per second in ten seconds, 40.96 MB.
    fn named(metric: &str, megabytes: f64, share: f64) -> String {
        let read = [("cgroup.memory.refaults.per_second", 1000.0, 0.0)];
        let mut finding = having(REFAULTS, Status::Warning, &read);
        finding.instance = Some("/web".into());
        let (value, share) = (Some(megabytes * 1e6), Some(share));
        finding.culprit = Some(Culprit { value, share, metric: Some(metric.into()), ..stress() });
        complete(&mut finding, &Facts { page_size: 4096, ..Facts::default() });
        finding.culprit.map(|culprit| culprit.name).unwrap_or_default()
    }

    #[test]
    fn a_process_is_named_only_if_what_was_read_explains_the_refaults() {
        assert_eq!(named("process.read.bytes", 0.008, 1.0), "/web");
        assert_eq!(named("process.read.bytes", 19.0, 1.0), "/web");
        assert_eq!(named("process.read.bytes", 22.0, 1.0), "stress-ng");
        assert_eq!(named("process.read.bytes", 12.0, 0.5), "stress-ng", "all of them read 24 MB");
        assert_eq!(named("process.resident.bytes", 0.008, 1.0), "stress-ng");
    }
}
