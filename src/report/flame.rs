//! Stacks as a flame graph: one SVG that loads nothing, runs nothing and can be read without a pointer.
//!
//! The layout is inferno's. Its picture brings scripts, addresses and colours at random, which a report must not have, so
//! only the rectangles and names are taken from it and written anew. Colours fit dark text, on a light page and on a dark one.

use std::fmt::Write as _;

use inferno::flamegraph::{self, Options};

use super::escape::{html, visible_within};
use crate::model::probe::{Frame, Stack, Stacks};
use crate::model::quantity;

/// Stacks that are drawn at most, the largest.
const MAX_STACKS: usize = 1000;
/// Frames of a stack that are drawn at most, from its root.
const MAX_DEPTH: usize = 200;
/// Longest name in a picture.
const MAX_NAME: usize = 160;
/// A picture in a report is no larger; frames that are too narrow to matter give way.
const MAX_BYTES: usize = 90_000;
/// Narrowest frames that are drawn, in percent of the width, until the picture is small enough.
const NARROWEST: [f64; 6] = [0.1, 0.3, 1.0, 2.0, 4.0, 8.0];
/// The whole in inferno's whole numbers: shares are exact enough, and no sum overflows whatever a file says.
const WHOLE: f64 = 1e9;
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
/// Stands for a space, at which inferno would look for numbers.
const SPACE: char = '\u{e000}';
/// What the names of kernel frames end with.
const KERNEL: &str = " [kernel]";

/// The flame graph for a page; none if there is nothing to draw.
#[must_use]
pub fn svg(stacks: &Stacks) -> Option<String> {
    picture(stacks, "")
}

/// The flame graph as a file of its own.
#[must_use]
pub fn file(stacks: &Stacks) -> Option<String> {
    let drawn = picture(stacks, " xmlns=\"http://www.w3.org/2000/svg\" style=\"background:#fff;color:#1d2126\"")?;
    Some(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{drawn}\n"))
}

fn picture(stacks: &Stacks, attributes: &str) -> Option<String> {
    let drawn: Vec<&Stack> = stacks.stacks.iter().filter(|stack| is_real(stack.value)).take(MAX_STACKS).collect();
    let whole: f64 = drawn.iter().map(|stack| stack.value).sum();
    if drawn.is_empty() {
        return None;
    }
    let names: Vec<String> = stacks.frames.iter().map(frame_name).collect();
    let lines: Vec<String> = drawn.iter().map(|stack| line(&names, stack, whole)).collect();
    let mut svg = String::new();
    for narrowest in NARROWEST {
        let frames = layout(&lines, narrowest)?;
        svg = write(stacks, &frames, whole, &left_out(stacks, &drawn, narrowest), attributes);
        if svg.len() <= MAX_BYTES {
            break;
        }
    }
    Some(svg)
}

/// A value that a measurement can give; a file may say anything.
fn is_real(value: f64) -> bool {
    value > 0.0 && value < 1e18
}

fn frame_name(frame: &Frame) -> String {
    clean(&frame.name) + &if frame.kernel { KERNEL.replace(' ', &SPACE.to_string()) } else { String::new() }
}

/// A stack as inferno reads it.
fn line(names: &[String], stack: &Stack, whole: f64) -> String {
    let mut line = clean(&stack.owner);
    for name in stack.frames.iter().take(MAX_DEPTH).filter_map(|at| names.get(*at as usize)) {
        line.push(';');
        line.push_str(name);
    }
    let _ = write!(line, " {:.0}", (stack.value / whole * WHOLE).round());
    line
}

/// A name in which nothing separates frames, starts a number, or cannot stand in XML.
fn clean(name: &str) -> String {
    let of = |c: char| match c {
        ';' => ':',
        SPACE | '\u{fffe}' | '\u{ffff}' => '?',
        c if c.is_whitespace() => SPACE,
        c => c,
    };
    let name: String = visible_within(name, MAX_NAME).chars().map(of).collect();
    if name.is_empty() { "?".to_owned() } else { name }
}

/// A rectangle; shares and rows as numbers, texts already escaped.
struct Rect {
    left: f64,
    width: f64,
    bottom: f64,
    title: String,
    label: String,
}

fn layout(lines: &[String], narrowest: f64) -> Option<Vec<Rect>> {
    let mut options = Options::default();
    options.min_width = narrowest;
    options.image_width = Some(WIDTH as usize);
    options.frame_height = ROW as usize;
    options.deterministic = true;
    options.no_javascript = true;
    let mut drawn = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut drawn).ok()?;
    let drawn = String::from_utf8(drawn).ok()?;
    // Names are escaped in there, so none of them can look like a tag.
    Some(drawn.split("<g>").skip(1).filter_map(rect).collect())
}

fn rect(text: &str) -> Option<Rect> {
    let between = |start: &str, end: &str| text.split_once(start)?.1.split_once(end).map(|(inner, _)| inner);
    let percent = |name: &str| between(name, "%\"")?.parse::<f64>().ok();
    let label = text.split_once("<text ")?.1.split_once('>')?.1.split_once("</text>")?.0;
    Some(Rect {
        left: percent("<rect x=\"")? / 100.0,
        width: percent(" width=\"")? / 100.0,
        bottom: between(" y=\"", "\"")?.parse().ok()?,
        // inferno adds its own figures in brackets.
        title: between("<title>", "</title>")?.rsplit_once(" (")?.0.replace(SPACE, " "),
        label: label.replace(SPACE, " "),
    })
}

/// What the picture does not show, as a sentence.
fn left_out(stacks: &Stacks, drawn: &[&Stack], narrowest: f64) -> String {
    let mut parts = Vec::new();
    let beyond: Vec<f64> =
        stacks.stacks.iter().map(|stack| stack.value).filter(|value| is_real(*value)).skip(drawn.len()).collect();
    if !beyond.is_empty() {
        let sum = quantity::with_unit(beyond.iter().sum(), stacks.unit);
        parts.push(format!("{} smaller stacks ({sum})", beyond.len()));
    }
    for (value, what) in [(stacks.others, "other stacks"), (stacks.missing, "stacks that could not be taken")] {
        if is_real(value) {
            parts.push(format!("{what} ({})", quantity::with_unit(value, stacks.unit)));
        }
    }
    if drawn.iter().any(|stack| stack.frames.len() > MAX_DEPTH) {
        parts.push(format!("frames beyond the first {MAX_DEPTH}"));
    }
    parts.push(format!("frames below {narrowest}% of the width"));
    format!("Not drawn: {}.", parts.join(", "))
}

fn write(stacks: &Stacks, frames: &[Rect], whole: f64, left_out: &str, attributes: &str) -> String {
    let top = frames.iter().map(|rect| rect.bottom).fold(f64::INFINITY, f64::min);
    let root = frames.iter().map(|rect| rect.bottom).fold(0.0, f64::max);
    let height = root - top + 3.0 * ROW;
    let title = html(&visible_within(&stacks.title, MAX_NAME));
    let mut svg = format!(
        "<svg class=\"flame\"{attributes} viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Flame graph: {title}\" \
         font-family=\"monospace\" font-size=\"12\">"
    );
    for rect in frames {
        let value = quantity::with_unit(whole * rect.width, stacks.unit);
        let share = quantity::percent(rect.width);
        let (x, y) = (rect.left * WIDTH, rect.bottom - top);
        // The root is the whole; the row above it tells whose the stacks are.
        let (name, fill) = match root - rect.bottom {
            above if above < ROW / 2.0 => ("all", "#d9dce0"),
            above if above < ROW * 1.5 => (rect.title.as_str(), "#c3ccd6"),
            _ => (rect.title.as_str(), colour(&rect.title)),
        };
        let label = if name == "all" { name } else { rect.label.as_str() };
        let _ = write!(
            svg,
            "<g><title>{name}: {value}, {share}</title><rect x=\"{x:.2}\" y=\"{y:.0}\" width=\"{:.2}\" height=\"{}\" \
             fill=\"{fill}\"/>",
            (rect.width * WIDTH - 0.5).max(0.1),
            ROW - 1.0
        );
        if !label.is_empty() {
            let _ = write!(svg, "<text x=\"{:.2}\" y=\"{:.0}\" fill=\"#1d2126\">{label}</text>", x + 3.0, y + 12.0);
        }
        svg.push_str("</g>");
    }
    let note = html(&visible_within(left_out, 300));
    let _ = write!(svg, "<text x=\"3\" y=\"{:.0}\" fill=\"currentColor\">{note}</text></svg>", height - 6.0);
    svg
}

/// Kernel frames are blue, all others sand; neighbours differ a little, and one name looks the same everywhere.
fn colour(name: &str) -> &'static str {
    let shades =
        if name.ends_with(KERNEL) { ["#a9c8e8", "#b7d2ee", "#9dbfe2"] } else { ["#f2c38b", "#f6d0a0", "#eeb676"] };
    let sum = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    shades.get(sum % shades.len()).copied().unwrap_or("#f2c38b")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Unit;

    fn stacks(names: &[&str], list: &[(&str, &[u32], f64)]) -> Stacks {
        let stack = |(owner, frames, value): &(&str, &[u32], f64)| Stack {
            owner: (*owner).into(),
            frames: frames.to_vec(),
            value: *value,
            count: 1,
            ..Stack::default()
        };
        Stacks {
            title: "Blocked time".into(),
            unit: Unit::Seconds,
            frames: names
                .iter()
                .map(|name| Frame { name: (*name).into(), kernel: name.starts_with("sys"), ..Frame::default() })
                .collect(),
            stacks: list.iter().map(stack).collect(),
            ..Stacks::default()
        }
    }

    fn titles(svg: &str) -> Vec<&str> {
        svg.split("<title>").skip(1).filter_map(|text| text.split('<').next()).take(20).collect()
    }

    #[test]
    fn frames_have_their_share_of_the_whole_and_kernel_frames_say_so() {
        let svg = svg(&stacks(&["main", "read", "sys_read"], &[("app", &[0, 1, 2], 3.0), ("app", &[0], 1.0)])).unwrap();
        for part in [
            "<title>all: 4.00 s, 100%",
            "<title>main: 4.00 s, 100%",
            "<title>read: 3.00 s, 75.0%",
            "sys_read [kernel]: 3.00 s",
        ] {
            assert!(svg.contains(part), "{part} is not in {:?}", titles(&svg));
        }
        assert!(!svg.contains("http") && !svg.contains("style") && !svg.contains("script"), "{svg}");
    }

    #[test]
    fn without_a_value_there_is_no_picture() {
        assert_eq!(svg(&Stacks::default()), None);
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(svg(&stacks(&["main"], &[("app", &[0], value)])), None);
        }
    }

    #[test]
    fn names_are_escaped_and_their_numbers_spaces_and_semicolons_change_no_figure() {
        let names = [
            "<script>alert(1)</script>",
            "a;b",
            "worker 7",
            "# x",
            " ",
            "",
            "\u{202e}\x1b]0;",
            "f (x, 3%)",
            "\u{a0}",
            "\u{ffff}",
        ];
        let list: Vec<(&str, &[u32], f64)> = vec![
            ("# 1 2", &[0, 1, 2], 1.0),
            ("", &[3, 4, 5, 6, 7, 8, 9], 1.0),
            ("x 9", &[], 1.0),
            ("x\u{a0}", &[1], 1.0),
        ];
        let svg = file(&stacks(&names, &list)).unwrap();
        for part in [
            "&lt;script&gt;",
            "a:b: 1.00 s, 25.0%",
            "worker 7: 1.00 s, 25.0%",
            "x 9: 1.00 s, 25.0%",
            "f (x, 3%): 1.00 s",
            "# 1 2: 1.00 s",
        ] {
            assert!(svg.contains(part), "{part} is not in {:?}", titles(&svg));
        }
        assert!(!svg.contains("<script") && !svg.contains('\u{202e}') && !svg.contains('\u{ffff}'), "{svg}");
    }

    #[test]
    fn a_picture_stays_small_and_says_what_it_leaves_out() {
        let names: Vec<String> = (0..5000).map(|at| format!("function_{at:0>100}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let frames: Vec<Vec<u32>> =
            (0..1200_u32).map(|at| (0..210).map(|depth| (at + depth) % 5000).collect()).collect();
        let list: Vec<(&str, &[u32], f64)> =
            frames.iter().map(|frames| ("app", frames.as_slice(), 9.0 / f64::from(frames[0] + 1))).collect();
        let svg = svg(&stacks(&names, &list)).unwrap();
        assert!(svg.len() < 2 * MAX_BYTES, "{}", svg.len());
        assert!(svg.contains("Not drawn: 200 smaller stacks") && svg.contains("beyond the first 200"));
    }
}
