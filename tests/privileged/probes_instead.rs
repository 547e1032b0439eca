//! What is measured where the kernel lets no program in.
#![expect(unsafe_code, reason = "system calls are forbidden between fork and exec")]

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::probing::{Script, assert_nothing_lost, probed_by, program, ready, rows};
use crate::support::{Need, alone, has};

/// The shipped program, to which bpf(2) is forbidden as filters of containers forbid it.
fn without_programs() -> Command {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let filter = [
        // The number of the call comes first.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_bpf as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let forbid = move || {
        let mut filter = filter;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the filter lives until the call returns, and nothing is allocated between fork and exec.
        match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let mut command = program();
    // SAFETY: see above.
    unsafe { command.pre_exec(forbid) };
    command
}

const WORK: &str = "
import fcntl
for i in range(77): os.close(os.open('/etc/passwd', os.O_RDONLY))
r, w = os.pipe()
for i in range(50):
    fcntl.fcntl(w, 1031, 64 << 12)
    fcntl.fcntl(w, 1031, 16 << 12)
";

fn rdiags() -> usize {
    let entries = std::fs::read_dir("/sys/kernel/tracing/instances").unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("rdiag-")).count()
}

#[test]
#[ignore = "needs: root, tracefs with histogram triggers, python3, a kernel of the matrix"]
fn vm_tracepoints_are_counted_in_tables_of_the_kernel_where_no_program_may_be_in_it() {
    let _alone = alone();
    if !ready() || !has(&[Need::Path("/sys/kernel/tracing/events/kmem/kmalloc/hist")]) {
        return;
    }
    let before = rdiags();
    let seen = |args: &[&str]| {
        let mut script = Script::start(WORK);
        let pid = script.pid().to_string();
        let args = [&["count", "--pid", &pid, "--param"], args].concat();
        let readings = probed_by(&mut without_programs(), &args, || drop(script.work()));
        assert_nothing_lost(&readings);
        let attached = &readings[0]["attached"][0];
        assert_eq!(attached["back_end"], "tracefs histogram trigger", "{attached}");
        assert!(attached["refused"][0].as_str().unwrap().contains("refused"), "{attached}");
        rows(&readings, "table", "counts")
    };
    let found = seen(&["tracepoint=syscalls:sys_enter_openat", "--param", "key=comm,dfd"]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (&found[0]["name"], &found[0]["dfd"], &found[0]["count"]),
        (&"python3".into(), &"-100".into(), &77.0.into())
    );
    let filter = ["--param", "filter=bytes_req > 1000", "--param", "key=bytes_req", "--param", "value=bytes_alloc"];
    let found = seen(&[&["tracepoint=kmem:kmalloc"], &filter[..]].concat());
    let large = found.iter().find(|row| row["bytes_req"] == "2560").unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!((&large["count"], &large["mean"]), (&50.0.into(), &4096.0.into()), "{found:#?}");
    assert!(found.iter().all(|row| row["bytes_req"].as_str().unwrap().parse::<u64>().unwrap() > 1000), "{found:#?}");
    assert_eq!(rdiags(), before, "nothing is left behind");
    // What tables cannot tell is refused as before.
    let args = ["probe", "count", "--duration", "1s", "--param", "tracepoint=kmem:kmalloc", "--param", "key=stack"];
    let output = without_programs().args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("without programs in the kernel: stacks are not kept"), "{told}");
}
