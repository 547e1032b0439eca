//! Writes the rules of playbooks/rules in two forms: as JSON without their tests, for the start of a run (reading YAML takes many times as
//! long, and tests and the situations that they are about are more than half of it), and as they stand, packed, to be checked and shown.
#![expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

const FOLDER: &str = "playbooks/rules";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let (mut texts, mut for_run) = (BTreeMap::new(), BTreeMap::new());
    for entry in fs::read_dir(FOLDER).map_err(|error| format!("{FOLDER}: {error}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // What an editor leaves beside a file begins with a dot.
        if name.starts_with('.') || !name.ends_with(".yaml") {
            continue;
        }
        let wrong = |error: &dyn Error| format!("{FOLDER}/{name}: {error}");
        let text = fs::read_to_string(Path::new(FOLDER).join(&name)).map_err(|error| wrong(&error))?;
        let rules = serde_yaml::from_str(&text).map_err(|error| wrong(&error))?;
        for_run.insert(name.clone(), without_tests(rules));
        texts.insert(name, text);
    }
    let to = env::var("OUT_DIR")?;
    fs::write(Path::new(&to).join("rules.json"), serde_json::to_string(&for_run)?)?;
    let mut packed = GzEncoder::new(File::create(Path::new(&to).join("rules.gz"))?, Compression::best());
    serde_json::to_writer(&mut packed, &texts)?;
    packed.finish()?;
    Ok(())
}

fn without_tests(mut rules: Value) -> Value {
    for rule in rules.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        rule.remove("false_if");
        rule.insert("tests".into(), Value::Array(Vec::new()));
    }
    rules
}
