//! Whether rdiag and nfsiostat agree over the same seconds: `benches/agreement.py`, which compares other programs on the host, on a mount
//! that only a guest has.

use std::process::Command;

use super::super::kernels::modprobe;
use crate::privileged::guest_nfs::{Mounted, SERVER};
use crate::support::{Load, Need, alone, has, path, rdiag, wait_until};

/// Eight that read and four that write 4 KiB, each every 0.8 seconds of an absolute timer and one after the other: 10 reads and 5 writes
/// a second, however slow the CPU is. Sixty requests a second were too many for a debug build.
const PACED: &str = "
import mmap, os, sys, threading, time
path, began = sys.argv[1] + '/file', time.monotonic() + 1
def work(number, is_read):
    page = mmap.mmap(-1, 4096)
    disk = os.open(path, (os.O_RDONLY if is_read else os.O_WRONLY) | os.O_DIRECT)
    at = began + number / 15
    while True:
        time.sleep(max(0, at - time.monotonic()))
        (os.preadv if is_read else os.pwritev)(disk, [page], 0)
        at += 0.8
for number in range(12): threading.Thread(target=work, args=(number, number % 3 < 2)).start()
";

/// How many requests of a kind the only mount has had answered.
fn answered(kind: &str) -> u64 {
    let stats = std::fs::read_to_string("/proc/self/mountstats").unwrap();
    let mut lines = stats.lines().filter_map(|line| line.trim_start().strip_prefix(kind));
    lines.next().and_then(|line| line.split_whitespace().next()).map_or(0, |number| number.parse().unwrap())
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, python3, nfsiostat"]
fn vm_rates_of_a_mount_are_those_that_nfsiostat_prints() {
    let _alone = alone();
    let tools = ["modprobe", "python3", "mount", "nfsiostat"].map(Need::Tool);
    if !has(&[Need::Root]) || !has(&tools) {
        return;
    }
    modprobe(&["nfsv3"]);
    // rdiag and nfsiostat go first (nice -20), so these do too, lest they lose their pace while those read.
    let server = Load::start(1, "nice", &["-n", "-20", "python3", "-c", SERVER]);
    assert!(wait_until(60, || std::net::TcpStream::connect("127.0.0.1:20490").is_ok()), "the server listens");
    // The server takes an eighth of a second, beside which an emulated CPU's own time is little.
    let mounted = Mounted::new("127.0.0.1", "timeo=600");
    let load = Load::start(1, "nice", &["-n", "-20", "python3", "-c", PACED, mounted.path()]);
    assert!(wait_until(60, || answered("READ:") > 30), "the load has its pace");

    // Few samples: each takes the only CPU from the server. The limits are those of the host.
    let mut compare = Command::new("python3");
    compare.arg(path("benches/agreement.py")).arg("--rdiag").arg(rdiag().get_program());
    let output =
        compare.args(["--only", "nfsiostat", "--no-load", "--seconds", "30", "--interval", "5s"]).output().unwrap();
    let place = mounted.path().to_owned();
    drop(load);
    drop(mounted);
    drop(server);

    let [table, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    println!("{table}{errors}");
    assert!(output.status.success(), "not within the limits");
    for what in ["reads/s", "writes/s"] {
        let row = table.lines().find(|line| line.contains(&format!("{place} {what} |")));
        assert!(row.is_some_and(|row| row.ends_with("| ok |")), "{what} is not compared");
    }
}
