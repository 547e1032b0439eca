//! Who ran when, as the page shows it: a strip for each CPU, and one for each of the busiest tasks.

use serde::Serialize;

use crate::schedule as words;
use crate::shown::{Html, Shown};
use crate::svg::{self, Area};
use rdiag_model::quantity::seconds;
use rdiag_model::schedule::{CpuStrip, Layer, Runner, Strips, TaskStrip};

/// Height of a strip.
const HEIGHT: u32 = 14;

/// Classes of the busiest tasks in the style sheet.
const CLASSES: [&str; words::TASKS] = ["k-0", "k-1", "k-2", "k-3", "k-4", "k-5", "k-6", "k-7"];

#[derive(Serialize)]
pub(super) struct ScheduleView {
    rows: Vec<RowView>,
    legend: Vec<Item>,
    begins: String,
    ends: String,
    hidden: String,
}

#[derive(Serialize)]
struct RowView {
    name: String,
    svg: Shown<Html>,
}

#[derive(Serialize)]
struct Item {
    class: &'static str,
    word: &'static str,
}

impl ScheduleView {
    pub(super) fn of(strips: &Strips) -> Self {
        let cpu = |cpu: &CpuStrip| RowView { name: format!("CPU {}", cpu.cpu), svg: drawn(&of_cpu(cpu)) };
        let task = |(at, task): (u32, &TaskStrip)| RowView {
            name: format!("{}, {}", words::named(task, at), seconds(task.seconds)),
            svg: drawn(&of_task(task, at)),
        };
        let mut legend = vec![Item { class: "t-run", word: "waiting for a CPU" }];
        let draws = |of| strips.cpus.iter().flat_map(|cpu| &cpu.layers).any(|layer| layer.of == of);
        for of in [Runner::Others, Runner::Unknown].into_iter().filter(|of| draws(*of)) {
            legend.push(Item { class: class(of), word: title(of) });
        }
        Self {
            rows: strips.cpus.iter().map(cpu).chain((0..).zip(&strips.tasks).map(task)).collect(),
            legend,
            begins: seconds(strips.from.max(0.0)),
            ends: seconds(strips.until.max(0.0)),
            hidden: words::hidden(strips).unwrap_or_default(),
        }
    }
}

fn class(of: Runner) -> &'static str {
    match of {
        Runner::Task(at) => CLASSES.get(at as usize).copied().unwrap_or("k-other"),
        Runner::Others => "k-other",
        Runner::Unknown => "k-unknown",
    }
}

fn title(of: Runner) -> &'static str {
    match of {
        Runner::Task(_) => "one of the tasks below",
        Runner::Others => "another task",
        Runner::Unknown => "not known",
    }
}

fn of_cpu(cpu: &CpuStrip) -> Vec<(&'static str, &'static str, &[f64])> {
    cpu.layers.iter().map(|Layer { of, shares }| (class(*of), title(*of), shares.as_slice())).collect()
}

fn of_task(task: &TaskStrip, at: u32) -> Vec<(&'static str, &'static str, &[f64])> {
    vec![(class(Runner::Task(at)), "on a CPU", &task.ran), ("t-run", "waiting for a CPU", &task.waited)]
}

/// Layers upon one another, each as high in a piece as its share of it.
fn drawn(layers: &[(&'static str, &'static str, &[f64])]) -> Shown<Html> {
    let mut floors: Vec<f64> = Vec::new();
    let areas: Vec<Area> = layers
        .iter()
        .map(|(class, title, shares)| {
            floors.resize(floors.len().max(shares.len()), 1.0);
            let mut boxes: Vec<[f64; 4]> = Vec::new();
            for (at, (share, floor)) in
                shares.iter().zip(&mut floors).enumerate().filter(|(_, (share, _))| **share > 0.0)
            {
                let (from, until) = (at as f64 / shares.len() as f64, (at + 1) as f64 / shares.len() as f64);
                let top = (*floor - share).clamp(0.0, 1.0);
                match boxes.last_mut() {
                    Some([_, end, over, under])
                        if (*end - from).abs() < 1e-9
                            && (*over - top).abs() < 0.005
                            && (*under - *floor).abs() < 0.005 =>
                    {
                        *end = until;
                    }
                    _ => boxes.push([from, until, top, *floor]),
                }
                *floor = top;
            }
            Area { class, title, boxes }
        })
        .collect();
    svg::areas(&areas, HEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_stand_upon_one_another_and_equal_pieces_are_one_box() {
        let svg = drawn(&[("k-0", "x", &[1.0, 1.0, 0.5, 0.0]), ("k-1", "y", &[0.0, 0.0, 0.5, 0.25])]);
        assert!(svg.contains("M0.0 0.0H500.0V14.0H0.0zM500.0 7.0H750.0V14.0H500.0z"), "{svg}");
        assert!(svg.contains("M500.0 0.0H750.0V7.0H500.0zM750.0 10.5H1000.0V14.0H750.0z"), "{svg}");
    }

    #[test]
    fn every_task_has_its_colour_and_wrong_numbers_none_of_them() {
        let classes: std::collections::BTreeSet<_> = (0..8).map(|at| class(Runner::Task(at))).collect();
        assert_eq!(classes.len(), 8);
        assert_eq!(class(Runner::Task(99)), "k-other");
        let strips = Strips { cpus: vec![CpuStrip::default()], ..Strips::default() };
        assert_eq!(ScheduleView::of(&strips).rows.len(), 1);
        assert!(drawn(&[("k-0", "x", &[f64::NAN, -3.0, 7.0])]).starts_with("<svg"));
    }
}
