//! Writes what is built in twice: as JSON for the start of a run, since reading YAML takes many times as long (playbooks, each by itself,
//! and all rules without their tests, which are more than half of them), and as it stands, packed, to be checked and shown.
#![expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

const PLAYBOOKS: &str = "../../playbooks";
const RULES: &str = "../../playbooks/rules";

fn main() -> Result<(), Box<dyn Error>> {
    let to = env::var("OUT_DIR")?;
    let to = Path::new(&to);
    let (mut texts, mut for_run) = (BTreeMap::new(), BTreeMap::new());
    for (name, (text, playbook)) in yaml_files(PLAYBOOKS)? {
        for_run.insert(name.clone(), playbook.to_string());
        texts.insert(name, text);
    }
    fs::write(to.join("playbooks.json"), serde_json::to_string(&for_run)?)?;
    let mut rules_for_run = BTreeMap::new();
    for (name, (text, rules)) in yaml_files(RULES)? {
        rules_for_run.insert(name.clone(), without_tests(rules));
        texts.insert(format!("rules/{name}"), text);
    }
    fs::write(to.join("rules.json"), serde_json::to_string(&rules_for_run)?)?;
    let mut packed = GzEncoder::new(File::create(to.join("texts.gz"))?, Compression::best());
    serde_json::to_writer(&mut packed, &texts)?;
    packed.finish()?;
    Ok(())
}

/// The YAML files of a folder by their names: text, and what that says.
fn yaml_files(folder: &str) -> Result<BTreeMap<String, (String, Value)>, Box<dyn Error>> {
    println!("cargo::rerun-if-changed={folder}");
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // What an editor leaves beside a file begins with a dot.
        if name.starts_with('.') || !name.ends_with(".yaml") {
            continue;
        }
        let wrong = |error: &dyn Error| format!("{folder}/{name}: {error}");
        let text = fs::read_to_string(Path::new(folder).join(&name)).map_err(|error| wrong(&error))?;
        let value = serde_yaml::from_str(&text).map_err(|error| wrong(&error))?;
        files.insert(name, (text, value));
    }
    Ok(files)
}

fn without_tests(mut rules: Value) -> Value {
    for rule in rules.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        rule.remove("false_if");
        rule.insert("tests".into(), Value::Array(Vec::new()));
    }
    rules
}
