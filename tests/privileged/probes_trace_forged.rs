//! What users choose, names of files and tasks, is never taken for an event or for the name of another task.

use super::probes_trace::{count, probe, rows};
use super::tracefs::can_trace;
use crate::support::beside_others;

/// The rest of a line of the kernel's text for another event, as it would stand behind a line break.
const FORGED: &str =
    "x\n            bash-1       [000] .....     1.000000: sched_process_exec: filename=forged pid=1 old_pid=1\nx";

#[test]
#[ignore = "needs: root, tracefs"]
fn a_file_name_that_looks_like_an_event_is_part_of_the_one_that_it_is_in() {
    let _beside = beside_others();
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(FORGED);
    std::fs::copy("/bin/true", &program).unwrap();
    let starts = "import os, sys\nfor _ in range(3): os.spawnv(os.P_WAIT, sys.argv[1], ['x'])";
    let args = ["--param", "event=sched:sched_process_exec", "--", "python3", "-c", starts, program.to_str().unwrap()];
    let (readings, told) = probe(&args);
    let of_another: Vec<_> = rows(&readings, "events").filter(|cells| cells[3] == "1").collect();
    assert!(of_another.is_empty(), "an event that did not happen: {of_another:?}");
    // Its own three; those that Python itself was started by are none of them.
    assert_eq!(count(&readings, "sched:sched_process_exec"), rows(&readings, "events").count() as f64, "{told}");
    let said: Vec<_> =
        rows(&readings, "events").filter(|cells| cells[6].as_str().unwrap().contains("forged")).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    for cells in said {
        let fields = cells[6].as_str().unwrap();
        assert!(fields.starts_with("filename=/") && fields.contains(FORGED), "{fields}");
        assert_eq!(cells[2], FORGED[..15], "{cells:?}");
    }
}

#[test]
#[ignore = "needs: root, tracefs"]
fn a_task_that_is_called_like_two_lines_of_the_kernels_list_names_itself_alone() {
    let _beside = beside_others();
    if !can_trace() {
        return;
    }
    // Whose name it would be has ended, so only the list could tell it. Nobody else opens files with this mode.
    let program = "import ctypes, os, time
def mark(): os.close(os.open('/dev/null', os.O_CREAT, 0o123))
child = os.fork()
if child == 0:
    mark()
    os._exit(0)
os.waitpid(child, 0)
ctypes.CDLL(None).prctl(15, f'a\\n{child} bash'.encode())
mark()
time.sleep(0.2)";
    let filter = format!("filter=mode == {}", 0o123);
    let args = ["--param", "event=syscalls:sys_enter_openat", "--param", &filter, "--", "python3", "-c", program];
    let (readings, told) = probe(&args);
    let names: Vec<_> =
        rows(&readings, "events").map(|cells| (cells[2].as_str(), cells[3].as_str().unwrap())).collect();
    let [(child, tid), (parent, _)] = names.try_into().unwrap_or_else(|names| panic!("{names:?}: {told}"));
    assert_eq!((child, parent), (Some("python3"), Some(format!("a\n{tid} bash").as_str())), "{told}");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn events_of_all_cpus_stand_in_the_order_of_their_times() {
    let _beside = beside_others();
    if !can_trace() {
        return;
    }
    let (readings, told) = probe(&["--param", "event=sched:*", "--duration", "2500ms"]);
    let times: Vec<f64> = rows(&readings, "events").filter_map(|cells| cells[0].as_f64()).collect();
    assert!(readings.len() > 1 && times.len() > 100, "{} {}: {told}", readings.len(), times.len());
    assert!(times.is_sorted(), "{:?}", times.windows(2).find(|pair| pair[0] > pair[1]));
}
