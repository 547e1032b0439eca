//! A report never says two things that cannot both be true: over every recorded host, every capture, and captures put together at random
//! from the sources of several, with figures moved around the thresholds of rules, as each symptom is asked about.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

mod claims;
mod mixes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rdiag_model::answer::Outcome;
use rdiag_model::{Recording, Report};
use rdiag_session as session;

use crate::support::{path, rdiag};
use claims::contradictions;
use mixes::Random;

/// The playbooks that start from a symptom, and the checklist.
const PLAYBOOKS: [&str; 11] = [
    "use-method",
    "slow-system",
    "high-load",
    "high-latency",
    "io-stall",
    "memory-pressure",
    "network-loss",
    "cannot-fork",
    "disk-full",
    "slow-container",
    "sixty-seconds",
];
/// CPU time that is spent on mixes, and how many there are at least.
const SECONDS: i64 = 7;
const MIXES: usize = 60;

fn report(arguments: &[&std::ffi::OsStr]) -> Report {
    let output = rdiag().args(arguments).args(["--format", "json", "--out", "-"]).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn entries(folder: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(path(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn captures() -> Vec<PathBuf> {
    let folders = entries("tests/captures").into_iter().filter(|entry| entry.is_dir());
    folders.flat_map(|folder| entries(&folder.to_string_lossy())).collect()
}

/// Reports by any playbook, from the built-in files alone.
struct Judge(BTreeMap<&'static str, session::NamedPlaybook>);

impl Judge {
    fn new() -> Self {
        let sources = session::Sources::default();
        Self(PLAYBOOKS.into_iter().map(|name| (name, session::resolve_among(name, &sources).unwrap())).collect())
    }

    fn report(&self, recording: &Recording, playbook: &str) -> Report {
        let plan = self.0[playbook].plan_of(recording).unwrap();
        session::document(recording, &session::analyze(recording, &plan), &plan, &BTreeMap::new())
    }
}

#[test]
fn no_recorded_host_gives_a_report_that_contradicts_itself() {
    for (host, playbook) in entries("tests/fixtures/hosts").iter().flat_map(|host| [(host, 0), (host, 1)]) {
        // Each host by the checklist and by one of the symptoms.
        let at = host.to_string_lossy().bytes().map(usize::from).sum::<usize>() % (PLAYBOOKS.len() - 1) + 1;
        let playbook = PLAYBOOKS[at * playbook];
        let report = report(&["run".as_ref(), playbook.as_ref(), "--root".as_ref(), host.as_os_str()]);
        let found = contradictions(&report);
        assert!(found.is_empty(), "{playbook} of {}: {found:#?}", host.display());
    }
    let judge = Judge::new();
    for (at, capture) in captures().iter().enumerate() {
        let recording = mixes::read(capture).recording;
        for playbook in [recording.playbook.as_str(), PLAYBOOKS[at % (PLAYBOOKS.len() - 1) + 1]] {
            let Some(playbook) = PLAYBOOKS.iter().find(|name| **name == playbook) else { continue };
            let found = contradictions(&judge.report(&recording, playbook));
            assert!(found.is_empty(), "{playbook} of {}: {found:#?}", capture.display());
        }
    }
}

fn cpu_seconds() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec
}

fn environment_number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Another seed tries others: `RDIAG_SEED=7 cargo test contradict`, for longer with `RDIAG_MIX_SECONDS=600`.
#[test]
fn no_recording_put_together_at_random_gives_a_report_that_contradicts_itself() {
    let seed = environment_number("RDIAG_SEED").unwrap_or(19);
    let seconds = environment_number("RDIAG_MIX_SECONDS").map_or(SECONDS, |seconds| seconds as i64);
    println!("RDIAG_SEED={seed}");
    let judge = Judge::new();
    let thresholds = mixes::thresholds(&judge.0["use-method"].library);
    assert!(thresholds.len() > 150, "{} thresholds", thresholds.len());
    // Those of this host have something to contradict.
    let is_host = |file: &&PathBuf| file.parent().is_some_and(|folder| folder.ends_with(Path::new("host")));
    let files: Vec<PathBuf> = captures().iter().filter(is_host).cloned().collect();
    let all: Vec<mixes::Source> = files.iter().map(mixes::read).collect();
    let mut random = Random(seed);
    let end = cpu_seconds() + seconds;
    let (mut causes, mut there) = (0, 0);
    let mut failed = Vec::new();
    let mut mixed = 0;
    while mixed < MIXES || cpu_seconds() < end {
        let (base, other) = (random.below(all.len()), random.below(all.len()));
        let (recording, moved) = mixes::mixed(&all[base], &all[other], &thresholds, &mut random);
        let playbook = PLAYBOOKS[mixed % PLAYBOOKS.len()];
        let report = judge.report(&recording, playbook);
        causes += report.answer.iter().flat_map(|answer| &answer.causes).count();
        there += report.answer.iter().flat_map(|answer| answer.with(Outcome::Found)).count();
        let found = contradictions(&report);
        if !found.is_empty() {
            let name = |at: usize| files[at].file_name().unwrap_or_default().to_string_lossy();
            failed.push(format!("mix {mixed}, {playbook}: {} + {}, {moved:?}: {found:#?}", name(base), name(other)));
        }
        mixed += 1;
    }
    println!("{mixed} mixes, {causes} causes judged, {there} of them found");
    assert!(causes > 8 * mixed && there > mixed / 4, "{there} of {causes} causes found in {mixed} mixes");
    assert!(failed.is_empty(), "RDIAG_SEED={seed}, {} of {mixed} mixes: {}", failed.len(), failed.join("\n"));
}
