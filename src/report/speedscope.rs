//! Stacks as a file for speedscope: its documented JSON format, with one sampled profile.

use serde::Serialize;

use super::calls::{MAX_DEPTH, is_real};
use super::shown::{self, Json, Shown};
use crate::error::ReportError;
use rdiag_model::Unit;
use rdiag_model::probe::{Frame, Stacks};

#[derive(Serialize)]
struct File<'s> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'s str,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    shared: Shared<'s>,
    profiles: [Profile<'s>; 1],
}

#[derive(Serialize)]
struct Shared<'s> {
    frames: Vec<SharedFrame<'s>>,
}

#[derive(Serialize)]
struct SharedFrame<'s> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
struct Profile<'s> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'s str,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: f64,
    #[serde(rename = "endValue")]
    end: f64,
    /// Indices of frames, outermost first.
    samples: Vec<Vec<usize>>,
    weights: Vec<f64>,
}

/// The file. Whose a stack is stands as its outermost frame.
///
/// # Errors
///
/// When it cannot be serialised.
pub fn speedscope(stacks: &Stacks) -> Result<Shown<Json>, ReportError> {
    let mut frames: Vec<SharedFrame<'_>> = stacks.frames.iter().map(frame).collect();
    let mut owners: Vec<&str> = stacks.stacks.iter().map(|stack| stack.owner.as_str()).collect();
    owners.sort_unstable();
    owners.dedup();
    let first_owner = frames.len();
    frames.extend(owners.iter().map(|owner| SharedFrame { name: (*owner).to_owned(), file: None, line: None }));
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for stack in stacks.stacks.iter().filter(|stack| is_real(stack.value)) {
        let owner = owners.binary_search(&stack.owner.as_str()).map(|at| first_owner + at);
        let known = stack.frames.iter().map(|at| *at as usize).filter(|at| *at < first_owner).take(MAX_DEPTH);
        samples.push(owner.into_iter().chain(known).collect());
        weights.push(stack.value);
    }
    let unit = match stacks.unit {
        Unit::Seconds => "seconds",
        Unit::Bytes => "bytes",
        _ => "none",
    };
    let end = weights.iter().fold(0.0, |sum, weight| sum + weight);
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: concat!("rdiag ", env!("CARGO_PKG_VERSION")),
        name: &stacks.title,
        active: 0,
        shared: Shared { frames },
        profiles: [Profile { kind: "sampled", name: &stacks.title, unit, start: 0.0, end, samples, weights }],
    };
    Ok(shown::json(&file)?)
}

fn frame(frame: &Frame) -> SharedFrame<'_> {
    let mark = if frame.kernel { " [kernel]" } else { "" };
    let line = frame.line.as_deref().and_then(|line| line.rsplit_once(':'));
    SharedFrame {
        name: format!("{}{mark}", frame.name),
        file: line.map(|(file, _)| file).or(frame.object.as_deref()),
        line: line.and_then(|(_, number)| number.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Stack;
    use serde_json::{Value, json};

    #[test]
    fn the_file_has_what_the_format_requires_and_every_stack_with_its_weight() {
        let frame = |name: &str, kernel, line: Option<&str>| Frame {
            name: name.into(),
            object: Some("app".into()),
            line: line.map(str::to_owned),
            kernel,
        };
        let stack = |owner: &str, frames: &[u32], value| Stack {
            owner: owner.into(),
            frames: frames.to_vec(),
            value,
            ..Stack::default()
        };
        let stacks = Stacks {
            title: "Time\u{202e}".into(),
            unit: Unit::Seconds,
            frames: vec![frame("main", false, Some("/src/a:b.c:12")), frame("sys_read", true, None)],
            stacks: vec![stack("b", &[0, 1, 7], 1.5), stack("a", &[0], 0.5), stack("a", &[0], f64::NAN)],
            ..Stacks::default()
        };
        let text = speedscope(&stacks).unwrap();
        assert!(!text.contains('\u{202e}'), "{text}");
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
        assert_eq!(
            file["shared"]["frames"],
            json!([
                {"name": "main", "file": "/src/a:b.c", "line": 12},
                {"name": "sys_read [kernel]", "file": "app"},
                {"name": "a"},
                {"name": "b"},
            ])
        );
        let expected = json!({
            "type": "sampled", "name": "Time\u{202e}", "unit": "seconds", "startValue": 0.0, "endValue": 2.0,
            "samples": [[3, 0, 1], [2, 0]], "weights": [1.5, 0.5],
        });
        assert_eq!(file["profiles"], json!([expected]));
    }
}
