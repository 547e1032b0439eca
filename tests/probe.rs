//! `rdiag probe` as far as it goes without root: wrong usage, and hosts where programs may not enter the kernel.

use crate::support::{is_root, rdiag, skip};

fn fails_with(args: &[&str], code: i32, says: &[&str]) {
    let output = rdiag().arg("probe").args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
    assert!(output.stdout.is_empty(), "{args:?} printed results");
    for text in says {
        assert!(told.contains(text), "{args:?} should say {text:?}: {told}");
    }
}

#[test]
fn wrong_usage_is_told_with_what_would_be_right() {
    fails_with(&["runqlt"], 2, &["no probe named \"runqlt\"", "did you mean `runqlat`"]);
    fails_with(&["runqlat", "--param", "tpo=3"], 2, &["no parameter \"tpo\"", "it has top"]);
    fails_with(&["runqlat", "--top", "0"], 2, &["between 1 and"]);
    fails_with(&["runqlat", "--pid", "4194305"], 2, &["there is no process 4194305"]);
    fails_with(&["runqlat", "--duration", "soon"], 2, &["no duration", "10s"]);
    fails_with(&["runqlat", "--interval", "1ms"], 2, &["at least 100ms"]);
    fails_with(&["runqlat", "--budget", "lots"], 2, &["no share"]);
}

#[test]
fn a_list_needs_a_name_and_a_probe_takes_none() {
    fails_with(&["list"], 2, &["say what to list", "rdiag probe list tcp_sendmsg"]);
    fails_with(&["runqlat", "tcp_sendmsg"], 2, &["after the probe's name", "--param"]);
    fails_with(&["list", "x", "--format", "svg"], 2, &["a list has no stacks"]);
    let tracing = std::fs::read_dir("/sys/kernel/tracing").map(drop);
    if tracing.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
        fails_with(&["list", "kmem:kmalloc"], 3, &["permission denied", "run rdiag as root"]);
    }
    fails_with(&["list", "/no/such/file:main"], 2, &["no file \"/no/such/file\""]);
    fails_with(&["list", "/etc/passwd:a:b"], 2, &["/etc/passwd cannot be searched"]);
}

#[test]
fn functions_of_a_program_are_listed_with_what_can_be_read_and_marked_places_are_not_made_up() {
    let own = assert_cmd::cargo::cargo_bin!("rdiag").display().to_string();
    let output = rdiag().args(["probe", "list", &format!("{own}:main")]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.starts_with(&format!("{own}:main: function of a program or library\n")), "{told}");
    assert!(told.contains("arg1") && told.contains("return"), "{told}");
    let many = rdiag().args(["probe", "list", &format!("{own}:ma*n"), "--format", "json"]).output().unwrap();
    let listing: serde_json::Value = serde_json::from_slice(&many.stdout).unwrap();
    assert!(
        listing["points"].as_array().unwrap().iter().any(|point| point["name"] == format!("{own}:main")),
        "{listing:#}"
    );
    fails_with(&["list", &format!("{own}:mian")], 2, &["has no function \"mian\"", "did you mean `main`"]);
    fails_with(&["list", &format!("{own}:no_such_*")], 2, &["no function of", "fits \"no_such_*\""]);
    fails_with(&["list", &format!("{own}:p:n")], 2, &["has no places that its developers marked"]);
}

#[test]
fn what_probes_of_any_point_cannot_be_told_is_said_before_the_machine_is_asked() {
    for (probe, params, says) in [
        ("count", &[][..], "say what to look at"),
        ("count", &["function=libc:malloc", "tracepoint=kmem:kmalloc"], "not several"),
        ("log", &["usdt=python3:gc__start"], "write FILE:PROVIDER:NAME"),
        ("count", &["tracepoint=kmalloc"], "write group:event"),
        ("count", &["function=libc:"], "no function"),
        ("count", &["function=libc:malloc", "filter=arg1 > many"], "no whole number"),
        ("count", &["function=libc:malloc", "key=a,b,c,d"], "at most 3"),
        ("hist", &["function=libc:malloc", "value=arg1:int"], "there is no type \"int\""),
        ("hist", &["function=libc:malloc", "value=stack"], "no value to sum up"),
    ] {
        let params = params.iter().flat_map(|param| ["--param", param]);
        let args: Vec<&str> = [probe].into_iter().chain(params).collect();
        fails_with(&args, 2, &[says]);
    }
}

#[test]
fn a_command_that_cannot_be_started_is_told_before_anything_is_measured() {
    fails_with(&["runqlat", "--", "no-such-program"], 2, &["there is no program \"no-such-program\"", "after --"]);
    fails_with(&["runqlat", "--", "/proc/version"], 2, &["\"/proc/version\" cannot be executed"]);
    fails_with(&["runqlat", "--pid", "1", "--", "true"], 2, &["cannot be used with"]);
}

#[test]
fn a_wrong_list_of_events_is_told_with_what_was_meant() {
    let events = |list: &str| ["stat".to_owned(), "--param".into(), format!("events={list}")];
    for (list, says) in [
        ("cylces", ["no event \"cylces\"", "did you mean `cycles`"]),
        ("context-swiches", ["no event", "did you mean `context-switches`"]),
        ("cycles:x", ["no modifier", "rdiag list events"]),
        ("sofware/x/", ["no counters of a device", "rdiag list events"]),
        ("", ["empty", "rdiag list events"]),
    ] {
        let args = events(list);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        fails_with(&args, 2, &says);
    }
}

#[test]
fn events_are_listed_with_what_they_count_and_whether_they_can_be_counted_here() {
    let output = rdiag().args(["list", "events", "--json"]).output().unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let find =
        |name: &str| events.iter().find(|event| event["name"] == name).unwrap_or_else(|| panic!("{name} is missing"));
    for (name, kind) in [("context-switches", "software"), ("cycles", "hardware"), ("LLC-load-misses", "cache")] {
        let event = find(name);
        assert_eq!(event["kind"], kind);
        assert!(!event["help"].as_str().unwrap().is_empty());
        if let Some(gap) = event["unavailable"].as_object() {
            assert!(!gap["why"].as_str().unwrap().is_empty(), "{event}");
        }
    }
    let output = rdiag().args(["list", "events"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().any(|line| line.starts_with("cycles or cpu-cycles")), "{text}");
}

#[test]
fn every_probe_is_listed_and_explained() {
    let listed = rdiag().args(["list", "probes", "--json"]).output().unwrap();
    let probes: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
    assert!(!probes.is_empty());
    for probe in probes {
        let id = probe["id"].as_str().unwrap();
        let output = rdiag().args(["explain", id]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for part in [probe["question"].as_str().unwrap(), "Attaches to", "Caveats", "Overhead"] {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words(&text).contains(&words(part)), "explain {id} lacks {part:?}");
        }
    }
}

#[test]
fn an_ordinary_user_is_told_the_least_right_that_would_help() {
    // As root the right is given up; an ordinary user has none.
    let mut command = assert_cmd::Command::new("setpriv");
    if is_root() {
        command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--reuid=65534", "--clear-groups"]);
    } else {
        command = assert_cmd::Command::new("env");
    }
    let binary = assert_cmd::cargo::cargo_bin!("rdiag");
    let output = command.arg(binary).args(["probe", "runqlat", "--duration", "1s"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if told.contains("failed to execute") {
        return skip("the binary is out of reach for another user");
    }
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("CAP_BPF") && told.contains("CAP_PERFMON"), "{told}");
}
