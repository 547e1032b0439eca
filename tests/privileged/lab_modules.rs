//! Exercises with kernel modules: only in virtual machines that are set aside for them.

use std::time::Duration;

use serde_json::Value;

use crate::privileged::probing;
use crate::support::{alone, findings, live_report, rdiag, skip};

/// The lab in a virtual machine that is set aside for kernel modules.
struct ModuleLab(tempfile::TempDir);

/// A module that is left would be the next try's.
impl Drop for ModuleLab {
    fn drop(&mut self) {
        self.say(&["stop"]);
    }
}

impl ModuleLab {
    fn new() -> Self {
        Self(tempfile::tempdir_in("/var/tmp").unwrap())
    }

    fn say(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = rdiag();
        // On an emulated CPU a compiler takes its time.
        command.timeout(Duration::from_secs(280));
        let output = command.env("XDG_STATE_HOME", self.0.path()).arg("lab").args(args).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), said)
    }

    /// The run as the lab keeps it, once the module is there.
    fn start(&self, exercise: &str, variant: &str) -> Value {
        let (code, said) =
            self.say(&["start", exercise, "--variant", variant, "--seed", "5", "--force", "--for", "300s"]);
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_slice(&std::fs::read(self.0.path().join("rdiag/lab/run.json")).unwrap()).unwrap()
    }

    /// Gives answers and has them checked; so many must be wrong.
    fn answer(&self, answers: &[(&str, String)], wrong: usize) {
        let words: Vec<String> = answers.iter().map(|(key, value)| format!("{key}={value}")).collect();
        self.say(&[&["answer"], &words.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
        let (code, said) = self.say(&["check"]);
        assert_eq!((code, said.matches("not yet ").count()), (Some(i32::from(wrong > 0)), wrong), "{said}");
    }

    fn stop(&self, name: &str) {
        let (code, said) = self.say(&["stop"]);
        assert_eq!(code, Some(0), "{said}");
        let loaded = std::fs::read_to_string("/proc/modules").unwrap();
        assert!(!loaded.contains(name) && !loaded.contains("null_blk "), "{loaded}");
    }
}

fn has_headers() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    std::path::Path::new("/lib/modules").join(release.trim()).join("build/Makefile").exists()
}

/// A parameter of a loaded module.
fn parameter(module: &str, of: &str) -> f64 {
    std::fs::read_to_string(format!("/sys/module/{module}/parameters/{of}")).unwrap().trim().parse().unwrap()
}

#[test]
#[ignore = "needs: a guest"]
fn vm_every_kernel_refuses_a_module_where_its_headers_are_missing() {
    if has_headers() {
        return skip("the headers of this kernel are here");
    }
    for exercise in ["06", "07"] {
        let (code, said) = ModuleLab::new().say(&["start", exercise, "--force"]);
        assert!(code != Some(0) && said.contains("the headers of this kernel"), "{said}");
        assert!(said.contains("apt install make gcc linux-headers"), "{said}");
    }
}

#[test]
#[ignore = "needs: a guest with the headers of its kernel"]
fn vm_a_module_holds_the_cpus_only_while_the_exercise_runs() {
    let _alone = alone();
    if !has_headers() {
        return skip("the headers of this kernel are not here");
    }
    let lab = ModuleLab::new();
    for (variant, other) in [("timer", "thread"), ("thread", "timer")] {
        let run = lab.start("06", variant);
        let name = run["jobs"][0]["name"].as_str().unwrap();
        let busy = run["jobs"][0]["task"]["poll"]["busy"].as_f64().unwrap() * 1e3;
        let (begun, before) = (std::time::Instant::now(), parameter(name, "rounds"));
        lab.answer(
            &[("context", other.into()), ("who", "kworker".into()), ("turn", "1".into()), ("rate", "9999".into())],
            4,
        );
        if variant == "timer" {
            // No task is charged for it: only a profile of the whole host can name it.
            let readings = probing::probed(&["profile"], || std::thread::sleep(Duration::from_secs(4)));
            let functions = probing::rows(&readings, "table", "functions");
            assert_eq!(functions[0]["name"], format!("{name}_poll"), "{functions:#?}");
        }
        let rate = (parameter(name, "rounds") - before) / begun.elapsed().as_secs_f64();
        let rate = rate.to_string();
        lab.answer(&[("context", variant.into()), ("who", name.into()), ("turn", busy.to_string()), ("rate", rate)], 0);
        if variant == "timer" {
            // The watcher process cannot unload it any more.
            let pid = run["keeper"]["pid"].as_u64().unwrap().to_string();
            assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        }
        lab.stop(name);
    }
}

#[test]
#[ignore = "needs: a guest with the headers of its kernel"]
fn vm_threads_of_a_module_that_wait_are_found_with_what_they_wait_for() {
    let _alone = alone();
    if !has_headers() {
        return skip("the headers of this kernel are not here");
    }
    let lab = ModuleLab::new();
    for (variant, other, rule) in
        [("disk", "lock", "disk.saturation.pressure"), ("lock", "disk", "tasks.saturation.blocked")]
    {
        let run = lab.start("07", variant);
        let (name, task) = (run["jobs"][0]["name"].as_str().unwrap(), &run["jobs"][0]["task"]["fetch"]);
        let [threads, at_once] = ["threads", "at_once"].map(|key| task[key].as_u64().unwrap());
        lab.answer(
            &[("cause", other.into()), ("who", "kworker".into()), ("blocked", "1".into()), ("served", "99".into())],
            4,
        );
        let report = live_report(5);
        let found = findings(&report, rule);
        // Of a lock the threads that wait are named, and no process is blamed.
        let names = |finding: &&Value| match variant {
            "disk" => finding["culprit"]["name"].as_str().is_some_and(|who| who.starts_with(name)),
            _ => finding["summary"].as_str().is_some_and(|said| said.contains(&format!(" {name}"))),
        };
        assert!(found.iter().any(names), "{found:#?}");
        let served = at_once.to_string();
        lab.answer(
            &[("cause", variant.into()), ("who", name.into()), ("blocked", threads.to_string()), ("served", served)],
            0,
        );
        if variant == "disk" {
            let pid = run["keeper"]["pid"].as_u64().unwrap().to_string();
            assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        }
        lab.stop(name);
    }
}
