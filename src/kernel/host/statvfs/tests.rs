//! A fake helper that hangs, dies and talks nonsense.

use super::helper::GREETING;
use super::*;

/// A shell script in the helper's place. `$paths` holds the mount points.
fn script(text: &str) -> impl Fn() -> Command + use<> {
    let text = format!("paths=$(/usr/bin/tr '\\0' '\\n'); {text}");
    move || {
        #[expect(clippy::disallowed_methods, reason = "a fake helper")]
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&text);
        command
    }
}

fn ask(helper: impl Fn() -> Command + Send + 'static, names: &[&str], patience: f64) -> Vec<Outcome> {
    Asking::with_helper(helper, names.iter().map(PathBuf::from).collect(), patience).answers(20.0)
}

fn ok(total: u64) -> Outcome {
    Outcome::Capacity(Capacity { total, free: 1, available: 1, inodes: 1, inodes_free: 1 })
}

#[test]
fn the_helper_answers_for_each_mount_in_order() {
    let mut output = Vec::new();
    helper_main(&b"/\0/does/not/exist\0/proc\0"[..], &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], GREETING);
    assert!(matches!(Outcome::parse(lines[1]), Some(Outcome::Capacity(found)) if found.total > found.free));
    assert_eq!(Outcome::parse(lines[2]), Some(Outcome::Failed(2)));
    assert!(matches!(Outcome::parse(lines[3]), Some(Outcome::Capacity(found)) if found.total == 0));
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_hung_mount_is_reported_and_the_others_still_answer() {
    let helper = script(
        "echo 'rdiag statvfs 1'; for p in $paths; do [ $p = /dead ] && exec /bin/sleep 20; echo ok ${#p} 1 1 1 1; done",
    );
    let begin = now();
    let answers = ask(helper, &["/", "/dead", "/home"], 0.3);
    assert_eq!(answers, [ok(1), Outcome::Hung, ok(5)]);
    assert!(now() - begin < 10.0, "the sleeper was not waited for");
}

#[test]
fn a_mount_that_was_only_slow_once_is_not_hung() {
    let mark = tempfile::tempdir().unwrap();
    let mark = mark.path().join("asked");
    let place = mark.display().to_string();
    let helper = script(&format!(
        "echo 'rdiag statvfs 1'; if ! [ -e {place} ]; then : > {place}; exec /bin/sleep 20; fi; echo ok 7 1 1 1 1"
    ));
    assert_eq!(ask(helper, &["/slow"], 0.5), [ok(7)]);
}

#[test]
fn a_helper_that_is_something_else_is_not_believed() {
    let answers = ask(script("echo running 0 tests; echo ok 1 1 1 1 1"), &["/", "/home"], 0.3);
    assert!(answers.iter().all(|answer| matches!(answer, Outcome::NotAsked(..))), "{answers:?}");
    #[expect(clippy::disallowed_methods, reason = "a fake helper")]
    let missing = || Command::new("/does/not/exist");
    let answers = ask(missing, &["/"], 0.3);
    assert!(matches!(answers.as_slice(), [Outcome::NotAsked(_, why)] if why.contains("cannot be started")));
}

#[test]
fn a_helper_that_dies_or_talks_nonsense_costs_one_mount_only() {
    let helper = script(
        "echo 'rdiag statvfs 1'; for p in $paths; do case $p in /die) exit 1;; /odd) echo ok x;; *) echo error 13;; esac; done",
    );
    let answers = ask(helper, &["/die", "/odd", "/a"], 2.0);
    assert!(matches!(&answers[0], Outcome::NotAsked(_, why) if why.contains("ended early")), "{answers:?}");
    assert!(matches!(&answers[1], Outcome::NotAsked(_, why) if why.contains("no sense")), "{answers:?}");
    assert_eq!(answers[2], Outcome::Failed(13));
}

#[test]
fn more_mounts_than_a_pipe_holds_are_handed_over_in_pieces() {
    let long: Vec<PathBuf> = (0..100).map(|n| PathBuf::from(format!("/{n:0200}"))).collect();
    let helper = script("echo 'rdiag statvfs 1'; for p in $paths; do echo ok ${#p} 1 1 1 1; done");
    let answers = Asking::with_helper(helper, long, 3.0).answers(20.0);
    assert!(answers.iter().all(|answer| *answer == ok(201)), "{answers:?}");
}

proptest::proptest! {
    #[test]
    fn any_answer_is_survived(line in "\\PC*") {
        let _ = Outcome::parse(&line);
    }
}
