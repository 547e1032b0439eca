//! Random fleets: nothing is invented over healthy ones, whatever the shape of their figures, and what was planted is found.

use super::*;

/// A number from 0 to 1, from a seed: fleets must be the same on each run.
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// Nearly normal: mean 0, deviation 1.
fn noise(state: &mut u64) -> f64 {
    (0..12).map(|_| random(state)).sum::<f64>() - 6.0
}

/// A fleet of hosts that do the same work, each a little differently, with the long tails that rates have.
fn healthy(hosts: usize, seed: u64) -> Vec<Host> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let units = [Unit::Ratio, Unit::Seconds, Unit::Bytes, Unit::Count, Unit::PerSecond, Unit::BytesPerSecond];
    let shapes: Vec<(f64, f64)> = (0..60).map(|_| (3.0 * noise(&mut state), 0.05 + random(&mut state))).collect();
    let mut all = quiet(hosts);
    for host in &mut all {
        for (n, (middle, width)) in shapes.iter().enumerate() {
            let unit = units[n % units.len()];
            let value = match unit {
                Unit::Ratio => (0.4 + 0.1 * width * noise(&mut state)).clamp(0.0, 1.0),
                Unit::Seconds => 1e-3 * (middle + width * noise(&mut state)).exp(),
                Unit::Count => (middle + width * noise(&mut state)).exp().round(),
                _ => 1e4 * (middle + width * noise(&mut state)).exp(),
            };
            host.readings.push(reading(&format!("m{n}"), unit, value));
        }
    }
    all
}

#[test]
fn nothing_is_invented_over_200_healthy_fleets() {
    for seed in 0..200 {
        let hosts = [1, 3, 4, 5, 7, 12, 40, 100][seed as usize % 8];
        let fleet = rolled(healthy(hosts, seed));
        assert!(fleet.common.is_empty() && fleet.some.is_empty(), "seed {seed}");
        assert_eq!(odd_names(&fleet), Vec::<&str>::new(), "seed {seed}, {hosts} hosts: {:?}", fleet.odd);
        assert_eq!(fleet.status, Status::Ok);
    }
}

/// Distances are judged by what is improbable, so that some healthy host will be called odd some day: in one of 2000 fleets of 60 readings.
#[test]
fn few_healthy_fleets_have_an_odd_host() {
    let odd = |seed: u64| !rolled(healthy([10, 12, 20, 40][seed as usize % 4], 1000 + seed)).odd.is_empty();
    let named = (0..2000).filter(|seed| odd(*seed)).count();
    assert!(named <= 1, "{named} of 2000");
}

/// What figures of healthy hosts look like beside bells.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Two populations, as of small and large machines, each with a spread of its own, the smaller one larger than what may be odd.
    TwoParts,
    /// Many small figures and few large ones: exponential.
    Skewed,
    /// The same for all, and one more for one of them: the resolution of the figure.
    OneMore,
    /// Orders of magnitude above and below the median, with a probability that falls slower than that of a bell.
    HeavyTailed,
}

/// The larger of two draws in either direction: an exponential tail.
fn tail(state: &mut u64) -> f64 {
    -(1.0 - random(state)).ln()
}

/// A figure of a unit: `x` spreads around 0 by about 1, the middle is on a logarithmic scale.
fn figure(unit: Unit, middle: f64, width: f64, x: f64) -> f64 {
    match unit {
        Unit::Ratio => (0.4 + 0.05 * width * x).clamp(0.0, 1.0),
        Unit::Seconds => 1e-3 * (middle + width * x).exp(),
        Unit::Count => (middle + width * x).exp().round(),
        Unit::Bytes => 1e8 * (middle + width * x).exp(),
        _ => 1e4 * (middle + width * x).exp(),
    }
}

/// A healthy fleet of which `shaped` of 60 figures have a shape, the others that of [`healthy`].
fn shaped(count: usize, seed: u64, shape: Shape, shaped: usize) -> Vec<Host> {
    let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let mut all = healthy(count, seed);
    // More than a tenth of the hosts, and than one: else they are odd.
    let small = (count / 10 + 2).max((count as f64 * (0.12 + 0.38 * random(&mut state))) as usize).min(count);
    for n in 0..shaped {
        let (middle, width) = (3.0 * noise(&mut state), 0.05 + random(&mut state));
        let distance = 20.0 * random(&mut state) * if random(&mut state) < 0.5 { -1.0 } else { 1.0 };
        let (other_width, one) = (0.1 + 3.0 * random(&mut state), (random(&mut state) * count as f64) as usize);
        for (at, host) in all.iter_mut().enumerate() {
            let unit = host.readings[n].unit;
            host.readings[n].value = match shape {
                Shape::TwoParts if at < small => {
                    figure(unit, middle, width, distance + other_width * noise(&mut state))
                }
                Shape::TwoParts => figure(unit, middle, width, noise(&mut state)),
                Shape::HeavyTailed => {
                    let sign = if random(&mut state) < 0.5 { -1.0 } else { 1.0 };
                    figure(unit, middle, width, sign * tail(&mut state))
                }
                Shape::Skewed => match unit {
                    Unit::Ratio => (0.1 * width * tail(&mut state)).min(1.0),
                    _ => figure(unit, middle, width, 0.0) * tail(&mut state),
                },
                Shape::OneMore => {
                    let more = f64::from(at == one);
                    match unit {
                        Unit::Ratio => 0.2 + 0.04 * more,
                        Unit::Seconds => 9e-4 * more,
                        Unit::Bytes => 1_048_576.0 * (1000.0 + 60.0 * more),
                        Unit::BytesPerSecond => 1_000_000.0 * more,
                        Unit::Count | Unit::PerSecond => middle.round() + more,
                    }
                }
            };
        }
    }
    all
}

/// Of so many fleets of a shape, those with an odd host, as their seeds.
fn invented(shape: Shape, figures: usize, sizes: &[usize], fleets: u64) -> Vec<(u64, usize, String)> {
    let mut found = Vec::new();
    for seed in 0..fleets {
        let count = sizes[seed as usize % sizes.len()];
        let fleet = rolled(shaped(count, 5000 + seed, shape, figures));
        assert!(fleet.common.is_empty() && fleet.some.is_empty() && fleet.status == Status::Ok, "seed {seed}");
        found.extend(fleet.odd.iter().map(|odd| (seed, count, format!("{:?}", odd.readings))));
    }
    found
}

const SIZES: [usize; 9] = [5, 6, 7, 10, 12, 20, 40, 100, 500];

#[test]
fn nothing_is_invented_in_groups_of_two_parts() {
    assert_eq!(invented(Shape::TwoParts, 60, &SIZES, 200), []);
}

#[test]
fn nothing_is_invented_where_one_host_has_one_more() {
    assert_eq!(invented(Shape::OneMore, 60, &SIZES, 200), []);
}

#[test]
fn nothing_is_invented_where_some_figures_are_skewed() {
    assert_eq!(invented(Shape::Skewed, 12, &SIZES, 200), []);
}

#[test]
fn nothing_is_invented_where_some_figures_have_heavy_tails() {
    assert_eq!(invented(Shape::HeavyTailed, 12, &SIZES, 200), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever fleet: a planted common fault, a planted odd host and a planted odd reading are all found, and no host is odd that was
    /// not odd before.
    #[test]
    fn what_was_planted_is_found(count in 5_usize..=500, seed: u64, at in 0_usize..5) {
        let mut hosts = healthy(count, seed);
        let before = rolled(healthy(count, seed));
        let most = count.div_ceil(2).max(3);
        for host in hosts.iter_mut().rev().take(most) {
            host.findings[1].status = Status::Warning;
        }
        for host in &mut hosts {
            host.findings.push(judgement("memory.errors.oom", "", Status::Ok));
            host.readings.push(reading("planted", Unit::PerSecond, 1000.0));
        }
        hosts[at].findings[2].status = Status::Critical;
        let other = (at + 1) % 5;
        hosts[other].readings.last_mut().unwrap().value = 50_000.0;
        let (odd, far) = (hosts[at].name.clone(), hosts[other].name.clone());
        let fleet = rolled(hosts);
        prop_assert_eq!(fleet.common.len(), 1);
        prop_assert_eq!(fleet.common[0].reach.hosts, most);
        let planted = [odd.as_str(), far.as_str()];
        let (found, others): (Vec<&str>, Vec<&str>) = odd_names(&fleet).into_iter().partition(|name| planted.contains(name));
        prop_assert_eq!(found, planted);
        prop_assert!(others.iter().all(|name| odd_names(&before).contains(name)), "{:?}", others);
        let far = fleet.odd.iter().find(|host| host.host == far).unwrap();
        prop_assert!(far.readings.iter().any(|reading| &*reading.metric == "planted"));
    }

    /// Any numbers and texts: no panic, every host is accounted for, and no share is out of bounds.
    #[test]
    fn any_fleet_is_accounted_for(
        values in proptest::collection::vec((any::<f64>(), ".{0,8}", 0_usize..6), 0..30),
        gone in 0_usize..4,
    ) {
        let mut all = Gathering::default();
        for (value, name, status) in &values {
            let mut one = host(name);
            let statuses =
                [Status::Skipped, Status::Ok, Status::Unknown, Status::Info, Status::Warning, Status::Critical];
            one.verdict = statuses[*status];
            one.findings.push(judgement("cpu.saturation", name, statuses[*status]));
            one.readings.push(reading("x", Unit::Seconds, *value));
            one.readings.push(Measure { is_error: true, ..reading("e", Unit::Count, *value) });
            all.add(one);
        }
        for n in 0..gone {
            all.absent(NotJudged { host: n.to_string(), why: Why::Unreadable, detail: String::new() });
        }
        let fleet = all.conclude();
        prop_assert_eq!(fleet.hosts.len(), values.len());
        prop_assert_eq!(fleet.hosts_total(), values.len() + gone);
        for fault in fleet.common.iter().chain(&fleet.some) {
            prop_assert!(fault.reach.share.0 >= 0.0 && fault.reach.share.1 <= 1.0);
            prop_assert!(fault.reach.hosts <= fault.reach.judged);
        }
    }
}
