//! Readings far from those of the other hosts, and counts of errors where the others have none.

use std::collections::BTreeMap;

use super::document::{Compared, ErrorCount, Outlier};
use super::gather::Gathering;
use super::spread::Spread;
use super::votes::few;

/// Fewer hosts are no group to be unlike of.
pub(crate) const LEAST_HOSTS: usize = 5;
/// From so many robust standard deviations on, a reading is called far. At 8, some host was odd in 3 of 9000 healthy fleets of 60 readings
/// whose logarithms are normal, and in 2 of 200 with twelve readings of heavier tails.
pub const FAR: f64 = 10.0;
/// In smaller groups the deviation itself is poorly known, so that the distance must be larger by as much as the group is smaller.
const ENOUGH_HOSTS: f64 = 30.0;
/// An odd host is so many times as far from the median as any host on its side of it that is not odd. Else it is the end of a long tail, or
/// of the smaller part of a group of two: by distance alone 2 % of generated readings of such groups had an odd host.
const APART: f64 = 4.0;
/// From so many on, it only ranks.
const UNUSUAL: f64 = 3.5;
/// A count of errors is odd where so many of the others have none.
const WITHOUT_ERRORS: f64 = 0.95;

/// What is odd about hosts, by their place.
#[derive(Debug, Default)]
pub(crate) struct Outliers {
    pub(crate) readings: BTreeMap<usize, Vec<Outlier>>,
    pub(crate) errors: BTreeMap<usize, Vec<ErrorCount>>,
    /// How many readings are unusual.
    pub(crate) unusual: BTreeMap<usize, usize>,
}

pub(crate) fn find(all: &Gathering) -> (Outliers, Compared) {
    let (mut found, mut compared) = (Outliers::default(), Compared::default());
    for group in all.groups() {
        let mut columns: Vec<Vec<(u32, f32)>> = vec![Vec::new(); all.series.len()];
        for (at, host) in all.hosts.iter().enumerate().filter(|(_, host)| host.group == group) {
            for (series, value) in &host.values {
                if let Some(column) = columns.get_mut(*series as usize) {
                    column.push((u32::try_from(at).unwrap_or(u32::MAX), *value));
                }
            }
        }
        for (series, column) in all.series.iter().zip(columns) {
            if column.len() < LEAST_HOSTS {
                continue;
            }
            compared.readings += column.len();
            let metric = || (all.names.name(series.metric).to_owned(), all.names.name(series.role).to_owned());
            if series.is_error {
                for (at, value) in errors(&column) {
                    let (metric, role) = metric();
                    found.errors.entry(at).or_default().push(ErrorCount { metric, role, unit: series.unit, value });
                }
                continue;
            }
            let values: Vec<f64> = column.iter().map(|(_, value)| f64::from(*value)).collect();
            let Some(spread) = Spread::of(&values, series.unit) else { continue };
            let least = FAR * (ENOUGH_HOSTS / column.len() as f64).max(1.0);
            let (mut far, mut distances) = (Vec::new(), Vec::with_capacity(column.len()));
            for (at, value) in column.iter().map(|(at, value)| (*at as usize, f64::from(*value))) {
                let z = spread.z(value);
                distances.push(z);
                if z.abs() >= UNUSUAL {
                    *found.unusual.entry(at).or_default() += 1;
                }
                if z.abs() >= least && spread.is_material(value) {
                    far.push((at, value, z));
                }
            }
            // So many are no odd hosts but the other half of the group.
            if far.len() > few(column.len()) {
                compared.split += 1;
                continue;
            }
            for (at, value, z) in apart(far, distances) {
                let (metric, role) = metric();
                let outlier = Outlier { metric, role, unit: series.unit, value, median: spread.median, z, also: 0 };
                found.readings.entry(at).or_default().push(outlier);
            }
        }
    }
    (found, compared)
}

/// A reading that is far: the host's place, the value and its distance.
type FarReading = (usize, f64, f64);

/// Those of the far ones that stand apart from all others on their side of the median, with those beyond them. Distance and difference
/// grow together, so that no host beyond a far one is not far.
fn apart(far: Vec<FarReading>, mut distances: Vec<f64>) -> Vec<FarReading> {
    if far.is_empty() {
        return far;
    }
    distances.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let edge = |is_above: bool| {
        let is_there = |z: f64| (z > 0.0) == is_above;
        let nearest =
            far.iter().map(|(_, _, z)| *z).filter(|z| is_there(*z)).map(f64::abs).fold(f64::INFINITY, f64::min);
        let mut before = 0.0;
        for z in distances.iter().copied().filter(|z| is_there(*z)).map(f64::abs) {
            if z >= nearest && z >= APART * before {
                return z;
            }
            before = z;
        }
        f64::INFINITY
    };
    let edges = (edge(true), edge(false));
    far.into_iter().filter(|(_, _, z)| z.abs() >= if *z > 0.0 { edges.0 } else { edges.1 }).collect()
}

/// Those that are not 0, if 95 % of the others are.
fn errors(column: &[(u32, f32)]) -> Vec<(usize, f64)> {
    let some: Vec<(usize, f64)> =
        column.iter().filter(|(_, value)| *value > 0.0).map(|(at, value)| (*at as usize, f64::from(*value))).collect();
    let others = column.len().saturating_sub(1);
    let without = column.len() - some.len();
    if without as f64 >= WITHOUT_ERRORS * others as f64 { some } else { Vec::new() }
}
