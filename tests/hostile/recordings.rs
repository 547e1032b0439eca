//! Recordings that were sent, with hostile texts in every field.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::read::acting;
use super::sample::Type;
use super::{ALL_IN_ONE, HOSTILE};
use crate::support::{path, rdiag};

/// Whether the shipped binary was content, and all that it said, judging a recording.
fn said(folder: &Path, recording: &Value, args: &[&str]) -> (bool, String) {
    std::fs::write(folder.join("sent.json"), recording.to_string()).unwrap();
    let output =
        rdiag().current_dir(folder).args(["analyze", "sent.json", "--color", "always"]).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// The recordings that are kept here, those of tasks and one of a host.
fn recordings() -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let root = path("tests/fixtures/hosts/whole-host-short-of-cpu");
    let mut run = rdiag();
    run.args(["run", "use-method", "--format", "json", "--out"]).arg(&made).arg("--root").arg(root).assert().success();
    let kept = std::fs::read_dir(path("tests/fixtures/recordings")).unwrap().map(|entry| entry.unwrap().path());
    kept.chain([made.join("recording.json.gz")]).map(read).collect()
}

fn read(file: PathBuf) -> Value {
    let bytes = std::fs::read(file).unwrap();
    let mut text = Vec::new();
    let packed = flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut text).is_ok();
    serde_json::from_slice(if packed { &text } else { &bytes }).unwrap()
}

/// Where texts and names of a document stand.
fn places(kind: &Type, document: &Value) -> BTreeSet<String> {
    let all = RefCell::new(BTreeSet::new());
    kind.replaced(document, &|place, text| {
        all.borrow_mut().insert(place.to_owned());
        text.to_owned()
    });
    all.into_inner()
}

#[test]
fn no_field_of_a_recording_acts_whether_it_can_be_judged_or_not() {
    let (folder, kind) = (tempfile::tempdir().unwrap(), Type::of("recording"));
    let (mut tried, mut judged) = (BTreeSet::new(), 0);
    for document in recordings() {
        for place in places(&kind, &document) {
            if !tried.insert(place.clone()) {
                continue;
            }
            let changed = kind.replaced(&document, &|at, text| if at == place { ALL_IN_ONE } else { text }.to_owned());
            let (done, said) = said(folder.path(), &changed, &[]);
            judged += usize::from(done);
            assert_eq!(acting(&said), None, "{place}");
        }
    }
    assert!(tried.len() > 60 && judged > 40, "{judged} of {} could be judged", tried.len());
}

#[test]
fn a_recording_in_which_every_text_is_hostile_is_an_error_that_does_not_act() {
    let (folder, kind) = (tempfile::tempdir().unwrap(), Type::of("recording"));
    for name in HOSTILE {
        let sent = kind.sample(&|_| (*name).to_owned());
        let (_, told) = said(folder.path(), &sent, &[]);
        assert_eq!(acting(&told), None, "{name:?}");
        // Judged by a playbook that is ours.
        let (_, told) = said(folder.path(), &sent, &["--playbook", "use-method"]);
        assert_eq!(acting(&told), None, "{name:?}");
    }
}
