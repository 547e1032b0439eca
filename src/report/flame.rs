//! Stacks as a flame graph: one SVG that loads nothing and can be read without a pointer and without a script.
//!
//! The picture holds the widest frames, as many as it has room for, and says what it leaves out. Where scripts run, a small one
//! adds zoom and search to what is drawn.

use super::calls::{Calls, Family, Function, LeftOut, MAX_DEPTH, Node, is_real};
use super::escape::visible_within;
use super::shade::Shade;
use super::shown::{Html, Shown};
use super::svg::element;
use crate::shown;
use rdiag_model::probe::Stacks;
use rdiag_model::quantity;
use rdiag_model::{Component, Unit};

/// A picture.
type Svg = Shown<Html>;

/// How frames look, on a page and in a file.
pub(super) const STYLE: &str = include_str!("../../reports/templates/flame.css");
/// Zoom and search.
pub(super) const SCRIPT: &str = include_str!("../../reports/templates/flame.js");
/// Frames of a picture in a report.
const ON_PAGE: usize = 900;
/// Frames of a picture in a file of its own.
const IN_FILE: usize = 5000;
/// Narrowest frame, as a share of the width.
const NARROWEST: f64 = 0.0001;
/// Longest name in a picture.
const MAX_NAME: usize = 160;
/// Pictures are so many units wide, and rows so high.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
/// Width of a letter.
const LETTER: f64 = 7.3;
/// Shades for the objects in user space, and for differences.
const SHADES: usize = 6;

/// The flame graph for a page; none if there is nothing to draw.
#[must_use]
pub fn svg(stacks: &Stacks) -> Option<Svg> {
    Picture::of(stacks).on_page()
}

/// The flame graph as a file of its own.
#[must_use]
pub fn file(stacks: &Stacks) -> Option<Svg> {
    Picture::of(stacks).in_file()
}

/// The same of stacks that belong to components of response time, in the colours of these.
pub(super) fn waits(stacks: &Stacks) -> Option<Svg> {
    Picture { meaning: Meaning::Waits, ..Picture::of(stacks) }.on_page()
}

/// What is drawn, and how.
pub(super) struct Picture {
    pub(super) calls: Calls,
    pub(super) title: String,
    /// What 100 % is.
    pub(super) whole: f64,
    pub(super) meaning: Meaning,
    /// What is left out beside frames that are too narrow.
    pub(super) left_out: Vec<String>,
}

/// What widths and colours mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Values in this unit; a colour for each kind of code.
    Values(Unit),
    /// Seconds; a colour for each kind of component, which is the owner, and darker ones for the kernel.
    Waits,
    /// Two sides, each with half of the whole; a colour for more and for less.
    Difference,
}

impl Picture {
    fn of(stacks: &Stacks) -> Self {
        let calls = Calls::of(stacks);
        let mut left_out = Vec::new();
        for (value, what) in [(stacks.others, "other stacks"), (stacks.missing, "stacks that could not be taken")] {
            if is_real(value) {
                left_out.push(format!("{what} ({})", quantity::with_unit(value, stacks.unit)));
            }
        }
        let whole = calls.whole() + if is_real(stacks.others) { stacks.others } else { 0.0 };
        Self { calls, title: stacks.title.clone(), whole, meaning: Meaning::Values(stacks.unit), left_out }
    }

    pub(super) fn on_page(&self) -> Option<Svg> {
        let (attributes, drawn) = self.draw(ON_PAGE)?;
        Some(element("flame", &attributes, &drawn))
    }

    pub(super) fn in_file(&self) -> Option<Svg> {
        let (attributes, mut drawn) = self.draw(IN_FILE)?;
        drawn.push(shown!(
            "<style>svg {{ background: #fff; color: #1d2126 }}\n{}</style><script><![CDATA[\n{}]]></script>",
            STYLE,
            SCRIPT
        ));
        let attributes = shown!("xmlns=\"http://www.w3.org/2000/svg\" {}", attributes);
        Some(shown!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", element("flame", &attributes, &drawn)))
    }

    /// The attributes of the picture, and what is in it.
    fn draw(&self, most: usize) -> Option<(Svg, Svg)> {
        let drawn = self.calls.whole();
        if !is_real(drawn) {
            return None;
        }
        let (nodes, cut) = self.calls.nodes(NARROWEST * drawn, most);
        let rows = nodes.iter().map(|node| node.depth).max().unwrap_or(0) + 2;
        let root = (rows - 1) as f64 * ROW;
        let height = root + 3.6 * ROW;
        let title = escaped(&self.title);
        let attributes = shown!(
            "viewBox=\"0 0 {} {:.0}\" role=\"img\" aria-label=\"Flame graph: {}\" font-family=\"monospace\" font-size=\"12\"",
            WIDTH,
            height,
            title
        );
        let mut svg = Svg::new();
        let all = nodes.iter().filter(|node| node.parent.is_none());
        let all = all.fold([0.0; 2], |sum, node| [sum[0] + node.values[0], sum[1] + node.values[1]]);
        frame(&mut svg, Svg::of("a"), "all", &self.figures("all", all), "", (0.0, WIDTH, root));
        // The outermost function below each node; parents stand before their children.
        let mut owners: Vec<u32> = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let owner = node.parent.and_then(|at| owners.get(at).copied()).unwrap_or(node.function);
            owners.push(owner);
            let Some(function) = self.calls.function(node.function) else { continue };
            let name = name(function);
            let width = node.values.iter().sum::<f64>() / drawn * WIDTH;
            let place = (node.left / drawn * WIDTH, width, root - (node.depth + 1) as f64 * ROW);
            let (class, sign) = self.class(function, node, self.calls.function(owner));
            frame(&mut svg, class, &name, &self.figures(&name, node.values), &sign, place);
        }
        for (line, text) in [self.legend().to_owned(), self.not_drawn(&cut, drawn)].iter().enumerate() {
            let y = root + ROW * (line as f64 + 2.2);
            let text = Svg::text_within(text, 300);
            svg.push(shown!("<text x=\"3\" y=\"{:.0}\" fill=\"currentColor\">{}</text>", y, text));
        }
        Some((attributes, svg))
    }

    /// What stands in a frame's title behind its name.
    fn figures(&self, name: &str, values: [f64; 2]) -> String {
        let sum: f64 = values.iter().sum();
        let value =
            |unit| format!("{name}: {}, {}", quantity::with_unit(sum, unit), quantity::percent(sum / self.whole));
        match self.meaning {
            Meaning::Values(unit) => value(unit),
            Meaning::Waits => value(Unit::Seconds),
            Meaning::Difference => {
                let [before, after] = values.map(|value| value / self.whole * 2.0);
                let (from, to) = (quantity::percent(before), quantity::percent(after));
                format!("{name}: {from} before, {to} after, {}", points(after - before))
            }
        }
    }

    /// How a frame looks, and what stands before its name.
    fn class(&self, function: &Function, node: &Node, owner: Option<&Function>) -> (Svg, String) {
        match self.meaning {
            Meaning::Values(_) => (look(function), String::new()),
            Meaning::Waits => (look_of_wait(function, owner), String::new()),
            Meaning::Difference => {
                let change = (node.values[1] - node.values[0]) / self.whole * 2.0;
                let steps = [0.001, 0.005, 0.02, 0.05, 0.1];
                let level = steps.iter().filter(|step| change.abs() >= **step).count();
                match level {
                    0 => (Svg::of("d0"), String::new()),
                    _ if change > 0.0 => (shown!("m{}", level), format!("{} ", signed(change))),
                    _ => (shown!("l{}", level), format!("{} ", signed(change))),
                }
            }
        }
    }

    fn legend(&self) -> &'static str {
        match self.meaning {
            Meaning::Values(_) => {
                "Dark: kernel. Dashed edge: compiled at run time. Each program and library has its shade."
            }
            Meaning::Waits => {
                "Lowest: what was waited for, in the colours of the table. Above it the thread and its code. Dark: kernel."
            }
            Meaning::Difference => {
                "Width: mean of both. Red and +: more in the second. Blue and −: less. In points of a hundredth of the whole; each side \
                    has 100."
            }
        }
    }

    fn not_drawn(&self, cut: &LeftOut, drawn: f64) -> String {
        let mut parts = self.left_out.clone();
        if self.calls.has_deeper {
            parts.push(format!("frames beyond the first {MAX_DEPTH}"));
        }
        if cut.branches > 0 {
            let many = quantity::number(cut.branches as f64);
            let (sum, widest) = (quantity::percent(cut.value / drawn), quantity::percent(cut.largest / drawn));
            parts.push(format!("{many} narrower branches ({sum} of the width together, none above {widest})"));
        }
        if parts.is_empty() { String::new() } else { format!("Not drawn: {}.", parts.join(", ")) }
    }
}

/// `+3.2 points`.
pub(super) fn points(change: f64) -> String {
    format!("{} points", signed(change))
}

/// Points of a hundredth with their sign.
fn signed(change: f64) -> String {
    let points = change * 100.0;
    let sign = if points < 0.0 { '−' } else { '+' };
    if points.abs() < 0.05 { "±0.0".into() } else { format!("{sign}{:.1}", points.abs()) }
}

/// One frame: its class, the text it shows if there is room, its title, and where it stands.
fn frame(svg: &mut Svg, class: Svg, name: &str, title: &str, sign: &str, (x, width, y): (f64, f64, f64)) {
    svg.push(shown!(
        "<g class=\"{}\"><title>{}</title><rect x=\"{:.2}\" y=\"{:.0}\" width=\"{:.2}\" height=\"16\"/>",
        class,
        Svg::text(title),
        x,
        y,
        (width - 0.4).max(0.1)
    ));
    let room = ((width - 6.0) / LETTER).max(0.0) as usize;
    let label = format!("{sign}{name}");
    if room >= 3 {
        let shown: String = if label.chars().count() <= room {
            label
        } else {
            label.chars().take(room - 2).chain("..".chars()).collect()
        };
        svg.push(shown!("<text x=\"{:.2}\" y=\"{:.0}\">{}</text>", x + 3.0, y + 12.0, Svg::text(&shown)));
    }
    svg.push("</g>");
}

/// A name in which nothing acts on its surroundings, or cannot stand in XML; the kernel is marked by more than a colour.
fn name(function: &Function) -> String {
    let mark = if function.family == Family::Kernel { " [kernel]" } else { "" };
    let name = visible_within(&function.name, MAX_NAME).replace(['\u{fffe}', '\u{ffff}'], "?");
    if name.trim().is_empty() { format!("?{mark}") } else { format!("{name}{mark}") }
}

fn escaped(text: &str) -> Svg {
    Svg::text(visible_within(text, MAX_NAME).replace(['\u{fffe}', '\u{ffff}'], "?"))
}

/// The class of a kind of code; programs and libraries differ by shade, and one looks the same everywhere.
fn look(function: &Function) -> Svg {
    match function.family {
        Family::Owner => Svg::of("o"),
        Family::Kernel => Svg::of("k"),
        Family::RunTime => Svg::of("j"),
        Family::User => {
            let object = function.object.as_deref().unwrap_or_default();
            let sum = object.bytes().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
            shown!("u{}", sum % SHADES)
        }
    }
}

/// The class of a component's kind, and whether it is the kernel.
fn look_of_wait(function: &Function, owner: Option<&Function>) -> Svg {
    let component = owner.and_then(|owner| Component::find(&owner.name));
    let class = component.map_or("t-none", |component| Shade::of(component).class());
    if function.family == Family::Kernel { shown!("{} k", class) } else { Svg::of(class) }
}

#[cfg(test)]
#[path = "flame_tests.rs"]
mod tests;
