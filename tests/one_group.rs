//! `--cgroup` and `--pod`: one control group on its host.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{finding, findings, path, rdiag};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "8e2a6bcb-5b49-4b71-9a9c-0d9a0f1f5d3e";
const THROTTLING: &str = "cgroup.saturation.throttling";

fn judged(root: &Path, option: &str, value: &str) -> Value {
    let mut run = rdiag();
    run.args(["run", "use-method", option, value, "--format", "json", "--out", "-", "--root"]).arg(root);
    let output = run.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_group_is_judged_by_its_own_limits_and_neighbours_are_not() {
    let root = path("tests/fixtures/hosts/cgroup-v2-throttled");
    for typed in ["/system.slice/api.service", "system.slice/api.service", "/sys/fs/cgroup/system.slice/api.service"] {
        let report = judged(&root, "--cgroup", typed);
        assert_eq!(finding(&report, THROTTLING, Some("/system.slice/api.service"))["status"], "critical");
        assert_eq!(report["window"]["cgroup"], typed.trim_start_matches("/sys/fs/cgroup"));
        assert_eq!(finding(&report, "cpu.saturation", None)["status"], "ok", "the host around it is judged as ever");
    }
    // The one that is throttled is a neighbour of this one, and says nothing about it.
    let report = judged(&root, "--cgroup", "/system.slice/ssh.service");
    let throttling = findings(&report, THROTTLING);
    assert!(throttling.iter().all(|own| own["status"] == "skipped" || own["status"] == "ok"), "{throttling:#?}");
    assert!(!report["verdict"]["headline"].as_str().unwrap().contains("api"), "{}", report["verdict"]);
    // Of the slice above, its use counts.
    let report = judged(&root, "--cgroup", "/system.slice");
    assert_eq!(finding(&report, THROTTLING, Some("/system.slice/api.service"))["status"], "critical");
}

#[test]
fn a_kill_in_a_neighbour_is_neither_its_own_nor_one_that_nobody_sees() {
    let root = path("tests/fixtures/hosts/cgroup-hybrid");
    let critical = |report: &Value, id: &str| findings(report, id).iter().any(|own| own["status"] == "critical");
    assert!(critical(&judged(&root, "--cgroup", "/system.slice/search.service"), "cgroup.errors.oom"));
    let report = judged(&root, "--cgroup", "/user.slice");
    assert!(!critical(&report, "cgroup.errors.oom") && !critical(&report, "cgroup.errors.oom_unseen"));
}

#[test]
fn a_recording_of_one_group_is_analysed_for_it_and_the_report_says_whose_it_is() {
    let root = path("tests/fixtures/hosts/cgroup-v2-throttled");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut run = rdiag();
    run.args(["run", "use-method", "--cgroup", "/system.slice/ssh.service", "--root"]).arg(root).arg("--out").arg(&out);
    let told = String::from_utf8(run.output().unwrap().stdout).unwrap();
    let whose = "control group /system.slice/ssh.service on its host";
    assert!(told.contains(whose), "{told}");
    for file in ["report.md", "report.html"] {
        let text = std::fs::read_to_string(out.join(file)).unwrap();
        assert!(text.replace('`', "").contains(whose), "{file}");
    }
    let mut again = rdiag();
    again.arg("analyze").arg(out.join("recording.json.gz")).args(["--print", "findings"]);
    let again: Value = serde_json::from_slice(&again.output().unwrap().stdout).unwrap();
    let fired = again.as_array().unwrap().iter().any(|own| own["id"] == THROTTLING && own["status"] == "critical");
    assert!(!fired, "{again:#}");
}

#[test]
fn its_requests_stand_beside_its_limits() {
    let root = path("tests/fixtures/hosts/cgroup-v2-throttled");
    let allotted = |root: &Path, option, value| judged(root, option, value)["window"]["allotted"].clone();
    // What was not recorded is not said.
    assert_eq!(allotted(&root, "--cgroup", "/system.slice/api.service"), "limits: 0.5 CPUs and 2.0 GiB of memory");
    assert_eq!(allotted(&root, "--cgroup", "/"), Value::Null);
    let folder = tempfile::tempdir().unwrap();
    node(folder.path());
    let container = find(&folder.path().join("t0/sys/fs/cgroup"), &format!("cri-containerd-{ID}.scope"));
    for (file, text) in [("cpu.weight", "20\n"), ("memory.min", "134217728\n"), ("memory.low", "0\n")] {
        std::fs::write(container.join(file), text).unwrap();
    }
    let mut run = rdiag();
    run.args(["run", "use-method", "--pod", "shop/web-1/app", "--format", "md", "--out", "-", "--root"]);
    let told = String::from_utf8(run.arg(folder.path()).output().unwrap().stdout).unwrap();
    let cpu = "cpu.weight 20 (a request of about 0.5 CPUs, or 0.12 by runc from 1.3.2 and crun from 1.23 on)";
    let expected = format!("(requests: {cpu} and memory.min 128.0 MiB; limits: 0.5 CPUs and 2.0 GiB of memory)");
    assert!(told.contains(&expected), "{told}");
    // Of a playbook that judges no groups it is not asked.
    let mut record = rdiag();
    record.args([
        "run",
        "cpu-hot",
        "--cgroup",
        "/system.slice/api.service",
        "--format",
        "json",
        "--out",
        "-",
        "--root",
    ]);
    let report: Value = serde_json::from_slice(&record.arg(root).output().unwrap().stdout).unwrap();
    assert_eq!(report["window"]["allotted"], Value::Null);
}

/// The folder of this name below another one.
fn find(top: &Path, name: &str) -> PathBuf {
    let below = std::fs::read_dir(top).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut folders: Vec<PathBuf> = below.collect();
    while let Some(folder) = folders.pop() {
        if folder.ends_with(name) {
            return folder;
        }
        folders
            .extend(std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
    }
    panic!("no {name} below {}", top.display());
}

/// Copies a tree, with another name for the service and its group.
fn renamed(from: &Path, to: &Path, group: &str) {
    const OLD: &str = "system.slice/api.service";
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        let place = Path::new(&place.display().to_string().replace(OLD, group)).to_owned();
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        if entry.file_type().unwrap().is_dir() {
            renamed(&entry.path(), &place, group);
        } else if entry.file_name() == "cgroup" {
            std::fs::write(place, std::fs::read_to_string(entry.path()).unwrap().replace(OLD, group)).unwrap();
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// A recorded host on which the throttled service is a container of a pod.
fn node(folder: &Path) {
    let pod = format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    let group = format!("{pod}/cri-containerd-{ID}.scope");
    renamed(&path("tests/fixtures/hosts/cgroup-v2-throttled"), folder, &group);
    let logs = folder.join("t0/var/log");
    std::fs::create_dir_all(logs.join("containers")).unwrap();
    std::fs::write(logs.join(format!("containers/web-1_shop_app-{ID}.log")), "").unwrap();
    for name in [format!("shop_web-1_{UID}"), "shop_db-0_11111111-5b49-4b71-9a9c-0d9a0f1f5d3e".to_owned()] {
        std::fs::create_dir_all(logs.join("pods").join(name)).unwrap();
    }
}

#[test]
fn a_pod_is_found_by_its_name_and_judged_by_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    node(folder.path());
    for (asked, ends) in [("web-1", ".slice"), ("shop/web-1", ".slice"), ("shop/web-1/app", ".scope")] {
        let report = judged(folder.path(), "--pod", asked);
        assert!(report["window"]["cgroup"].as_str().unwrap().ends_with(ends), "{}", report["window"]);
        let own = findings(&report, THROTTLING);
        assert_eq!(own.iter().filter(|own| own["status"] == "critical").count(), 1, "{own:#?}");
        assert!(own[0]["summary"].as_str().unwrap().contains("pod shop/web-1, container app"), "{own:#?}");
    }
    for (asked, said) in [
        ("web-2", "no pod web-2 runs here; there are shop/db-0, shop/web-1"),
        ("shop/db-0", "none on this host belongs to the pod, which may have ended"),
        ("shop/web-1/nosuch", "no pod shop/web-1/nosuch runs here"),
        ("../../etc", "no pod ../../etc runs here"),
    ] {
        let refused =
            rdiag().args(["run", "use-method", "--pod", asked, "--root"]).arg(folder.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && stderr.contains(said), "{asked}: {stderr}");
    }
}

#[test]
fn a_group_that_is_not_there_is_refused_before_time_is_spent() {
    let root = path("tests/fixtures/hosts/cgroup-v2-throttled");
    for typed in ["/no/such", "/system.slice/../system.slice", "system.slice//api.service", "system.slice/cgroup.procs"]
    {
        let mut run = rdiag();
        run.args(["run", "use-method", "--cgroup", typed, "--root"]).arg(&root);
        let refused = run.output().unwrap();
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(
            refused.status.code() == Some(2) && stderr.contains(&format!("there is no control group {typed:?}")),
            "{stderr}"
        );
    }
}
