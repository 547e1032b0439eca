//! Completion scripts, run by the shells that they are for.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use crate::support::{Need, has, rdiag};

fn script(shell: &str) -> String {
    let output = rdiag().args(["completions", shell]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What bash offers for the last of these words.
fn offered(script: &str, words: &[&str]) -> Vec<String> {
    let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let body = format!(
        "{script}\nCOMP_WORDS=({line}); COMP_CWORD={}; _rdiag rdiag '{last}' '{before}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1
    );
    let output = assert_cmd::Command::new("bash").args(["--norc", "-c", &body]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_the_names_of_playbooks_probes_rules_and_exercises() {
    if !has(&[Need::Tool("bash")]) {
        return;
    }
    let script = script("bash");
    for (words, expected) in [
        (&["rdiag", "run", "use"][..], "use-method"),
        (&["rdiag", "record", "meth"], "method-r"),
        (&["rdiag", "run", "-d", "3s", "cpu-h"], "cpu-hot"),
        (&["rdiag", "analyze", "--playbook", "cpu-e"], "cpu-efficiency"),
        (&["rdiag", "probe", "runqsl"], "runqslower"),
        (&["rdiag", "explain", "cpu.saturation.run_q"], "cpu.saturation.run_queue_latency"),
        (&["rdiag", "explain", "biosn"], "biosnoop"),
        (&["rdiag", "lab", "start", "33"], "33-missing"),
        (&["rdiag", "lab", "lesson", "mem"], "memory"),
        (&["rdiag", "comp"], "completions"),
    ] {
        assert_eq!(offered(&script, words), [expected], "{words:?}");
    }
    // What is not the name of a shipped playbook may be that of a file: bash's own completion follows.
    assert!(offered(&script, &["rdiag", "run", "./my"]).is_empty());
    assert!(script.contains("-o bashdefault -o default"), "{script}");
}

#[test]
fn a_playbook_of_ones_own_is_completed_too_and_its_words_do_nothing() {
    if !has(&[Need::Tool("bash")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let playbooks = folder.path().join("rdiag");
    std::fs::create_dir_all(&playbooks).unwrap();
    let touched = folder.path().join("touched");
    let text = std::fs::read_to_string(crate::support::path("tests/playbooks/valid/minimal.yaml")).unwrap();
    let title = format!("\"$(touch {0}) `touch {0}` ' ; touch {0}\"", touched.display());
    let text = text.replace("Are the CPUs busy?\nparams", &format!("{title}\nparams"));
    std::fs::write(playbooks.join("minimal.yaml"), text).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = rdiag().env("XDG_CONFIG_HOME", folder.path()).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("minimal"), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!script.contains("$(touch") && !script.contains("`touch"), "{shell}");
        if shell == "bash" {
            assert_eq!(offered(&script, &["rdiag", "run", "mini"]), ["minimal"]);
        }
    }
    assert!(!touched.exists());
}

#[test]
fn zsh_and_fish_are_given_the_same_names() {
    for shell in ["zsh", "fish"] {
        let script = script(shell);
        for name in ["use-method", "runqslower", "cpu.saturation.run_queue_latency", "33-missing"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
        // Where the shell is there, it reads it.
        if assert_cmd::Command::new(shell).arg("--version").output().is_ok() {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("script");
            std::fs::write(&file, &script).unwrap();
            assert_cmd::Command::new(shell).arg("-n").arg(&file).assert().success();
        }
    }
}
