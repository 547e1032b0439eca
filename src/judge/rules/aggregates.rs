//! Figures over all instances of a metric: what `highest(…)` and `sum(…)` of expressions give.

use super::culprit::OTHERS;
use rdiag_model::{Metrics, Reading};

/// The largest mean over all instances but `beside`, or over those whose labels are as given.
pub(super) fn highest(
    metrics: &Metrics,
    metric: &str,
    beside: Option<&str>,
    wanted: &[(String, String)],
) -> Option<f64> {
    let Some(Reading::Measured { dimension, instances, .. }) = metrics.readings.get(metric) else { return None };
    let labels = dimension.as_ref().and_then(|of| metrics.labels.get(of));
    let fits = |instance: &str| {
        let own = labels.and_then(|all| all.get(instance));
        wanted.iter().all(|(key, value)| match key.as_str() {
            "instance" => instance == value,
            _ => own.and_then(|own| own.get(key)) == Some(value),
        })
    };
    // What a table sums up of its small rows is no culprit, and may be more than its largest row.
    let is_meant = |instance: &str| instance != OTHERS && beside != Some(instance) && fits(instance);
    let named = instances.iter().filter(|(instance, _)| is_meant(instance));
    let measured = named.filter_map(|(_, stats)| stats.as_ref().ok());
    measured.map(|stats| stats.mean).max_by(f64::total_cmp)
}

/// The totals of all instances together, or of those whose labels are as given, and of which another metric counted something. Where that
/// one was not measured of an instance, it may have.
pub(super) fn sum(metrics: &Metrics, metric: &str, counted: Option<&str>, wanted: &[(String, String)]) -> Option<f64> {
    let Some(Reading::Measured { dimension, instances, .. }) = metrics.readings.get(metric) else { return None };
    let labels = dimension.as_ref().and_then(|of| metrics.labels.get(of));
    let fits = |instance: &str| {
        let own = labels.and_then(|all| all.get(instance));
        wanted.iter().all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
    };
    let has_counted = |instance: &str| {
        counted.and_then(|id| metrics.measured(id, instance)).is_none_or(|counted| counted.total > 0.0)
    };
    let chosen = instances.iter().filter(|(instance, _)| fits(instance) && has_counted(instance));
    let measured: Vec<f64> = chosen.filter_map(|(_, stats)| Some(stats.as_ref().ok()?.total)).collect();
    let is_measured = instances.values().any(Result::is_ok);
    is_measured.then(|| measured.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::super::culprit::tests::metrics;
    use super::{OTHERS, highest, sum};
    use rdiag_model::{Metrics, Reading, Stats, Unit};

    #[test]
    fn the_highest_is_the_largest_of_all_named_and_no_mean() {
        let all = [("10", "a", 1.0), ("20", "b", 4.0), ("30", "c", 2.0), (OTHERS, OTHERS, 8.0)];
        assert_eq!(highest(&metrics(&all), "cpu", None, &[]), Some(4.0));
    }

    #[test]
    fn a_sum_is_of_all_instances_or_of_those_of_which_another_metric_counted_something() {
        let mut all = metrics(&[("/a", "a", 2.0), ("/b", "b", 3.0), ("/c", "c", 4.0)]);
        let instances = [("/a", 0.0), ("/b", 7.0)];
        let instances = instances.map(|(name, value)| (name.to_owned(), Ok(Stats::constant(value)))).into();
        let reading = Reading::Measured {
            unit: Unit::Count,
            dimension: Some("process".into()),
            source: "a test".into(),
            rank: 0,
            instances,
        };
        all.readings.insert("limit".to_owned(), reading);
        let added = |counted: Option<&str>, wanted: &[(String, String)]| sum(&all, "cpu", counted, wanted);
        assert_eq!(added(None, &[]), Some(9.0));
        assert_eq!(added(Some("limit"), &[]), Some(7.0), "of /c it is not known");
        assert_eq!(added(Some("nothing"), &[]), Some(9.0));
        assert_eq!(added(None, &[("name".to_owned(), "b".to_owned())]), Some(3.0));
        assert_eq!(added(None, &[("name".to_owned(), "x".to_owned())]), Some(0.0));
        assert_eq!(sum(&Metrics::default(), "cpu", None, &[]), None, "what was not measured is no 0");
    }

    #[test]
    fn of_one_instance_the_highest_is_its_own_figure_and_of_an_unknown_one_there_is_none() {
        let all = metrics(&[("10", "a", 1.0), ("20", "b", 4.0)]);
        let of = |instance: &str| highest(&all, "cpu", None, &[("instance".to_owned(), instance.to_owned())]);
        assert_eq!((of("10"), of("20"), of("30")), (Some(1.0), Some(4.0), None));
    }

    #[test]
    fn beside_an_instance_the_highest_is_that_of_the_others() {
        let beside = |all: &[_], instance| highest(&metrics(all), "cpu", Some(instance), &[]);
        let two = [("10", "a", 1.0), ("20", "b", 4.0)];
        assert_eq!((beside(&two, "10"), beside(&two, "20"), beside(&two, "30")), (Some(4.0), Some(1.0), Some(4.0)));
        assert_eq!(beside(&two[..1], "10"), None, "there is no other one");
    }
}
