//! What somebody else traces goes on undisturbed, whatever rdiag does with the kernel's tracing meanwhile.

use std::fs;
use std::path::PathBuf;

use super::probes_instead::without_programs;
use super::probing::program;
use crate::support::{Need, alone, has};

const TRACING: &str = "/sys/kernel/tracing";
const EVENT: &str = "events/sched/sched_process_exec";

/// Somebody's tracing of one program's starts: in an instance of his own, and in the tracing that all share.
struct Other {
    places: [PathBuf; 2],
}

impl Other {
    fn start(program: &str) -> Self {
        let instance = PathBuf::from(format!("{TRACING}/instances/test-of-others-{}", std::process::id()));
        fs::create_dir(&instance).unwrap();
        let other = Self { places: [instance, TRACING.into()] };
        for place in &other.places {
            fs::write(place.join(EVENT).join("filter"), format!("filename ~ \"*{program}\"")).unwrap();
            fs::write(place.join(EVENT).join("enable"), "1").unwrap();
        }
        other
    }

    /// How he has set it up.
    fn settings(&self) -> Vec<String> {
        let files = ["current_tracer", "tracing_on", "trace_clock", "set_event", "set_event_pid", "buffer_size_kb"];
        let of_event = ["enable", "filter", "trigger"].map(|file| format!("{EVENT}/{file}"));
        let paths = |place: &PathBuf| -> Vec<PathBuf> {
            let files = files.iter().map(|file| place.join(file));
            files.chain(of_event.iter().map(|file| place.join(file))).collect()
        };
        self.places.iter().flat_map(paths).map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    /// How often his event is in each of the two.
    fn seen(&self, program: &str) -> [usize; 2] {
        let trace = |place: &PathBuf| fs::read_to_string(place.join("trace")).unwrap();
        let is_his = |line: &&str| line.contains("sched_process_exec: ") && line.contains(program);
        self.places.each_ref().map(|place| trace(place).lines().filter(is_his).count())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = fs::write(format!("{TRACING}/{EVENT}/enable"), "0");
        let _ = fs::write(format!("{TRACING}/{EVENT}/filter"), "0");
        let [own, _] = &self.places;
        let _ = fs::remove_dir(own);
    }
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_what_others_trace_goes_on_as_they_set_it_up() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/tracing/instances")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = format!("only-here-{}", std::process::id());
    let started = folder.path().join(&name);
    fs::copy("/bin/true", &started).unwrap();
    let other = Other::start(&name);
    let before = other.settings();
    let mut expected = 0;
    for (with_programs, args) in [
        (true, &["events", "--param", "event=sched:*", "--param", "stop_when=sched:sched_process_exit"][..]),
        (true, &["functions", "--function", "vfs_read"]),
        (true, &["graph", "--function", "vfs_read"]),
        (false, &["count", "--param", "function=vfs_read"]),
    ] {
        let mut command = if with_programs { program() } else { without_programs() };
        let output = command.arg("probe").args(args).arg("--").arg(&started).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // Not every kernel can do all of it; a command whose measurement cannot begin is not started.
        match output.status.code() {
            Some(0) => expected += 1,
            code => assert_eq!(code, Some(3), "{args:?}: {told}"),
        }
        assert_eq!(other.settings(), before, "{args:?}");
        assert_eq!(other.seen(&name), [expected; 2], "{args:?}: {told}");
    }
    assert!(expected > 0, "nothing was traced");
}
