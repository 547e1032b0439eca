//! JSON stays JSON: values change, come twice, go, or change places.

use libfuzzer_sys::fuzzer_mutate;
use serde_json::{Map, Value};

use super::{Chance, put};

const TEXTS: &[&str] = &[
    "",
    "x",
    "<rdiagx onload=1>",
    "\"><rdiagx>",
    "\u{1b}[2J",
    "\u{9b}31m",
    "\u{202e}gnp",
    "a\nb\r",
    "\u{0}",
    "```\n# x",
    "|x|",
    "{{ 7*7 }}",
    "../../x",
    "/etc/shadow",
    "cpu.busy.ratio",
    "use-method",
    "method-r",
    "sda",
    "(others)",
    "disk.await.seconds",
    "1e999",
    "-0",
    "NaN",
    "running",
    "histogram",
    "stacks",
    "schedule",
    "table",
    "events",
    "calls",
    "seconds",
    "ratio",
    "critical",
    "warning",
    "ok",
    "unknown",
];

/// One document, or several with a byte of 0 between them.
pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let mut chance = Chance::new(seed);
    if chance.below(4) == 0 {
        return fuzzer_mutate(data, size, most);
    }
    let mut parts: Vec<Vec<u8>> = data[..size].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let at = chance.below(parts.len());
    let Ok(mut value) = serde_json::from_slice::<Value>(&parts[at]) else { return fuzzer_mutate(data, size, most) };
    for _ in 0..=chance.below(4) {
        let spare = any_below(&value, &mut chance).clone();
        let mut steps = 1 + chance.below(24);
        change(&mut value, &spare, &mut steps, &mut chance);
    }
    let Ok(bytes) = serde_json::to_vec(&value) else { return size };
    if bytes.len() > most {
        return fuzzer_mutate(data, size, most);
    }
    parts[at] = bytes;
    put(&parts.join(&0), data, most)
}

/// Any value below this one.
fn any_below<'v>(value: &'v Value, chance: &mut Chance) -> &'v Value {
    let mut at = value;
    for _ in 0..chance.below(12) {
        at = match at {
            Value::Array(list) if !list.is_empty() => chance.of(list),
            Value::Object(map) if !map.is_empty() => map.values().nth(chance.below(map.len())).unwrap_or(at),
            _ => break,
        };
    }
    at
}

/// Goes down some steps and changes what is there.
fn change(value: &mut Value, spare: &Value, steps: &mut usize, chance: &mut Chance) {
    *steps = steps.saturating_sub(1);
    let ends = *steps == 0;
    match value {
        Value::Array(list) if !list.is_empty() && !ends => {
            let at = chance.below(list.len());
            change(&mut list[at], spare, steps, chance);
        }
        Value::Object(map) if !map.is_empty() && !ends => {
            let at = chance.below(map.len());
            if let Some(below) = map.values_mut().nth(at) {
                change(below, spare, steps, chance);
            }
        }
        Value::Array(list) => in_list(list, spare, chance),
        Value::Object(map) => in_map(map, spare, chance),
        scalar => *scalar = other(scalar, spare, chance),
    }
}

fn in_list(list: &mut Vec<Value>, spare: &Value, chance: &mut Chance) {
    let (at, other) = (chance.below(list.len()), chance.below(list.len()));
    match chance.below(6) {
        0 if !list.is_empty() => drop(list.remove(at)),
        1 if !list.is_empty() => list.swap(at, other),
        2 if !list.is_empty() => {
            let times = 1 + chance.below(8);
            let again = list[at].clone();
            list.extend(std::iter::repeat_n(again, times));
        }
        3 => list.truncate(at),
        _ => list.insert(at, spare.clone()),
    }
}

fn in_map(map: &mut Map<String, Value>, spare: &Value, chance: &mut Chance) {
    let at = chance.below(map.len());
    let Some((key, value)) = map.iter().nth(at).map(|(key, value)| (key.clone(), value.clone())) else {
        map.insert((*chance.of(TEXTS)).to_owned(), spare.clone());
        return;
    };
    match chance.below(4) {
        0 => drop(map.remove(&key)),
        1 => drop(map.insert((*chance.of(TEXTS)).to_owned(), value)),
        2 => drop(map.insert(key, spare.clone())),
        _ => {
            map.remove(&key);
            map.insert(text(&key, chance), value);
        }
    }
}

fn other(value: &Value, spare: &Value, chance: &mut Chance) -> Value {
    match value {
        _ if chance.below(12) == 0 => spare.clone(),
        _ if chance.below(30) == 0 => Value::Null,
        Value::Bool(is) => Value::Bool(!is),
        Value::Number(number) => match chance.below(5) {
            0 => serde_json::json!(*chance.of(&[-1.0, -0.0, 0.5, 1e-300, 1e300, 1.7e308, -1e9, 5e-324, 1e15])),
            1 => serde_json::json!((chance.number(number.as_u64().unwrap_or(0))).cast_signed()),
            2 => serde_json::json!(number.as_f64().unwrap_or(0.0) * *chance.of(&[-1.0, 0.1, 10.0, 1e6, 1e-6])),
            _ => serde_json::json!(chance.number(number.as_u64().unwrap_or(0))),
        },
        Value::String(text_) => Value::String(text(text_, chance)),
        _ => match chance.below(3) {
            0 => Value::String((*chance.of(TEXTS)).to_owned()),
            1 => serde_json::json!(chance.number(0)),
            _ => spare.clone(),
        },
    }
}

fn text(old: &str, chance: &mut Chance) -> String {
    match chance.below(5) {
        0 => format!("{old}{}", chance.of(TEXTS)),
        1 => old.chars().take(chance.below(old.len() + 1)).collect(),
        2 if old.len() < 2000 => old.repeat(1 + chance.below(40)),
        3 => old.chars().rev().collect(),
        _ => (*chance.of(TEXTS)).to_owned(),
    }
}
