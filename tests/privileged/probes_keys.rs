//! Keys that are no plain numbers: texts, control groups, members of what arguments point to; and functions that go by several names.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::probing::{Script, has_kprobes, rows, watched};
use crate::support::{Need, alone, has, rdiag, skip};

/// A control group in the tree of the cpu controller, gone after the test.
struct Group(PathBuf);

impl Group {
    const NAME: &str = "rdiag-test-keys";

    fn new() -> Self {
        let is_v2 = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let path = PathBuf::from(if is_v2 { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpu" }).join(Self::NAME);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn counts(readings: &[Value], keys: &[&str]) -> BTreeMap<String, f64> {
    let of = |row: Map<String, Value>| {
        let key: Vec<&str> = keys.iter().map(|key| row[*key].as_str().unwrap()).collect();
        (key.join(" "), row["count"].as_f64().unwrap())
    };
    rows(readings, "table", "counts").into_iter().map(of).collect()
}

const NAMES: &str = "
import ctypes
libc = ctypes.CDLL('libc.so.6')
for i in range(30): os.close(os.open('/etc/passwd', os.O_RDONLY))
for i in range(4):
    try: os.open('/nonexistent/x', os.O_RDONLY)
    except OSError: pass
for i in range(3): libc.getenv(b'RDIAG_NO_SUCH_NAME')
";

fn events_are_told_apart_by_text_and_by_control_group() {
    let (group, mut script) = (Group::new(), Script::start(NAMES));
    std::fs::write(group.0.join("cgroup.procs"), script.pid().to_string()).unwrap();
    let keys = ["count", "--param", "tracepoint=syscalls:sys_enter_openat", "--param", "key=filename,cgroup"];
    let (readings, _) = watched(&mut script, &keys);
    drop(script);
    let found = rows(&readings, "table", "counts");
    let of = |name: &str| found.iter().find(|row| row["filename"] == name).and_then(|row| row["count"].as_f64());
    assert_eq!((of("/etc/passwd"), of("/nonexistent/x")), (Some(30.0), Some(4.0)), "{found:#?}");
    let is_in = |row: &Map<String, Value>| row["cgroup"].as_str().unwrap().ends_with(&format!("/{}", Group::NAME));
    assert!(found.iter().all(is_in), "{found:#?}");
    let by_text = ["hist", "--param", "function=libc:getenv", "--param", "key=arg1:string"];
    let (readings, _) = watched(&mut Script::start(NAMES), &by_text);
    let rows = readings[0]["outputs"][0]["histogram"]["rows"].as_array().unwrap();
    let asked = rows.iter().find(|row| row["instance"] == "RDIAG_NO_SUCH_NAME");
    assert_eq!(asked.unwrap()["count"], 3, "{rows:#?}");
}

holds!(texts_and_groups_are_keys, vm_texts_and_groups_are_keys, events_are_told_apart_by_text_and_by_control_group);

const SENDS: &str = "
import socket, subprocess
subprocess.run(['ip', 'link', 'set', 'lo', 'up'])
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
for i in range(30): client.send(bytes(1000))
for i in range(40): os.close(os.open('/etc/passwd', os.O_RDONLY))
for i in range(7):
    if os.fork() == 0: os._exit(0)
    os.wait()
says = server.getsockname()[1]
";

#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_what_arguments_of_kernel_functions_point_to_is_read_by_its_name() {
    let _alone = alone();
    if !has_kprobes() {
        return;
    }
    let sizes = [
        "hist",
        "--param",
        "function=tcp_sendmsg",
        "--param",
        "value=size",
        "--param",
        "key=sk->__sk_common.skc_dport:be16",
        "--param",
        "filter=sk->__sk_common.skc_family == 2 and sk.sk_socket.ops.family == 2",
    ];
    let (readings, port) = watched(&mut Script::start(SENDS), &sizes);
    let [row] = &readings[0]["outputs"][0]["histogram"]["rows"].as_array().unwrap()[..] else {
        panic!("{readings:#?}")
    };
    assert_eq!(row["instance"], port.as_str());
    assert_eq!((&row["count"], &row["sum"], &row["max"]), (&30.into(), &30_000.0.into(), &1000.0.into()));
    let names = ["count", "--param", "function=vfs_open", "--param", "key=path.dentry.d_name.name:string"];
    let (readings, _) = watched(&mut Script::start(SENDS), &names);
    let found = counts(&readings, &["path.dentry.d_name.name"]);
    // On an overlay, as the root of a guest is one, the file below is opened as well.
    assert!([40.0, 80.0].contains(&found["passwd"]), "{found:?}");
    let forks = ["count", "--param", "function=wake_up_new_task", "--param", "key=p.comm,p.real_parent.tgid"];
    let mut script = Script::start(SENDS);
    let own = format!("python3 {}", script.pid());
    let (readings, _) = watched(&mut script, &forks);
    let found = counts(&readings, &["p.comm", "p.real_parent.tgid"]);
    // The command that brings the loopback device up is started as a child that shares its memory, under the same name.
    assert!([7.0, 8.0].contains(&found[&own]), "{found:?}");
    for (key, code, says) in [
        ("sk.__sk_common.skc_dprt", 2, "did you mean `skc_dport`"),
        ("sk.sk_socket.nothing", 2, "has no member \"nothing\""),
        ("size.x", 2, "leads to no structure"),
    ] {
        let key = format!("key={key}");
        let args = ["probe", "count", "--param", "function=tcp_sendmsg", "--param", &key, "--duration", "1s"];
        let output = rdiag().args(args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(says), "{told}");
    }
}

/// Touches three pages of 2 MB in a region that may have such.
const LARGE: &str = "
import ctypes, mmap
whole = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
whole.madvise(14)
at = -ctypes.addressof(ctypes.c_char.from_buffer(whole)) % (2 << 20)
for i in range(3): whole[at + (i << 21)] = 1
";

#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_large_pages_are_zeroed_by_the_function_that_the_kernel_lists() {
    let _alone = alone();
    if !has_kprobes() || !has(&[Need::Path("/sys/kernel/mm/transparent_hugepage/enabled")]) {
        return;
    }
    let listed = |name: &str| rdiag().args(["probe", "list", name]).output().unwrap().status.success();
    let function = ["clear_huge_page", "folio_zero_user"].into_iter().find(|name| listed(name));
    let function = format!("function={}", function.expect("the kernel has one of both"));
    let mut script = Script::start(LARGE);
    let (readings, _) = watched(&mut script, &["hist", "--param", &function, "--param", "key=comm"]);
    let row = &readings[0]["outputs"][0]["histogram"]["rows"][0];
    // Newer kernels that zero all memory when it is allocated do not do so once more.
    let log = std::process::Command::new("dmesg").output().unwrap();
    let log = String::from_utf8_lossy(&log.stdout);
    // It says so when it starts, which its log may have lost by now.
    if row.is_null() && (log.contains("heap alloc:on") || !log.contains("Linux version")) {
        let smaps = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", script.pid())).unwrap();
        assert!(smaps.lines().any(|line| line.starts_with("AnonHugePages:") && line.contains(" 6144 kB")), "{smaps}");
        return skip("this kernel zeroes pages where it allocates them");
    }
    assert_eq!((row["count"].as_u64(), row["instance"].as_str()), (Some(3), Some("python3")), "{readings:#?}");
    // A page of 2 MB is written at 200 GB/s at most, and at 20 MB/s even by an emulated CPU.
    let mean = row["sum"].as_f64().unwrap() / 3.0;
    assert!((10e-6..0.1).contains(&mean), "{mean} s");
}
