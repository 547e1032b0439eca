//! Writes the rules of playbooks/rules as JSON, without their tests, for the start of a run: reading YAML takes many times as long, and
//! tests and the situations that they are about are more than half of it.
#![expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

const FOLDER: &str = "playbooks/rules";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut files: BTreeMap<String, serde_json::Value> = BTreeMap::new();
    for entry in fs::read_dir(FOLDER).map_err(|error| format!("{FOLDER}: {error}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // What an editor leaves beside a file begins with a dot.
        if name.starts_with('.') || !name.ends_with(".yaml") {
            continue;
        }
        let wrong = |error: &dyn Error| format!("{FOLDER}/{name}: {error}");
        let text = fs::read_to_string(Path::new(FOLDER).join(&name)).map_err(|error| wrong(&error))?;
        let mut rules: serde_json::Value = serde_yaml::from_str(&text).map_err(|error| wrong(&error))?;
        for rule in rules.as_array_mut().into_iter().flatten().filter_map(serde_json::Value::as_object_mut) {
            rule.remove("false_if");
            rule.insert("tests".into(), serde_json::Value::Array(Vec::new()));
        }
        files.insert(name, rules);
    }
    let to = Path::new(&env::var("OUT_DIR")?).join("rules.json");
    Ok(fs::write(to, serde_json::to_string(&files)?)?)
}
