//! The committed schemas are those of the types, and what rdiag writes follows them.
//! `RDIAG_BLESS=1 cargo test schema` writes them anew.

use rdiag_fleet::Fleet;
use rdiag_lab::Scenario;
use rdiag_lab::lesson::Lesson;
use rdiag_model::comparison::Comparison;
use rdiag_model::rows::Row;
use rdiag_model::{Recording, Report};
use rdiag_playbook::{Playbook, RuleFile};
use schemars::{Schema, schema_for};
use serde_json::Value;

use crate::support::{path, rdiag};

fn schemas() -> [(&'static str, Schema); 9] {
    [
        ("playbook", schema_for!(Playbook)),
        ("rules", schema_for!(RuleFile)),
        ("recording", schema_for!(Recording)),
        ("report", schema_for!(Report)),
        ("comparison", schema_for!(Comparison)),
        ("fleet", schema_for!(Fleet)),
        ("rows", schema_for!(Row)),
        ("lab", schema_for!(Scenario)),
        ("lesson", schema_for!(Lesson)),
    ]
}

pub fn validate(schema: &str, instance: &Value) {
    let text = std::fs::read_to_string(path(&format!("reports/schema/{schema}.schema.json"))).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let validator = jsonschema::validator_for(&schema).expect("the schema is a schema");
    let errors: Vec<String> =
        validator.iter_errors(instance).take(5).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn the_committed_schemas_are_fresh() {
    for (name, schema) in schemas() {
        let file = path(&format!("reports/schema/{name}.schema.json"));
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("RDIAG_BLESS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(committed == text, "{} is stale; run RDIAG_BLESS=1 cargo test schema", file.display());
    }
}

#[test]
fn a_run_writes_a_report_and_a_recording_that_follow_the_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    rdiag()
        .args(["run", "use-method", "--duration", "300ms", "--interval", "100ms", "--out"])
        .arg(&out)
        .assert()
        .success();
    let report: Value = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    validate("report", &report);
    let packed = std::fs::read(out.join("recording.json.gz")).unwrap();
    let recording = rdiag_session::read_recording(&packed).unwrap();
    validate("recording", &serde_json::to_value(recording).unwrap());
}
