//! A disk that is slow with each write, and one that stopped answering: a loop device on a file whose writes a program of the test answers
//! late or not at all. Beside them the same disk at its usual speed.

use std::path::Path;
use std::process::Command;

use super::induced::has_said_begun;
use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report_every, wait_until};

const NEEDS: &[Need] = &[
    Need::Root,
    Need::Tool("python3"),
    Need::Tool("losetup"),
    Need::Tool("unshare"),
    Need::Tool("dd"),
    Need::Path("/dev/fuse"),
];

/// A file system (FUSE) with one file, `disk`, of 64 MiB of zeros, and a loop device on it, whose name goes to a file. It answers writes at
/// once, 40 ms later, or not before another file is there.
const SERVER: &str = "
import ctypes, os, select, struct, subprocess, sys, time
folder, kind = sys.argv[1:3]
c = ctypes.CDLL(None)
fuse = os.open('/dev/fuse', os.O_RDWR)
os.mkdir(f'{folder}/files')
options = f'fd={fuse},rootmode=40000,user_id=0,group_id=0'
if c.mount(b'files', f'{folder}/files'.encode(), b'fuse', 0, options.encode()): sys.exit('no mount')
size = 64 << 20
def attributes(node):
    mode, bytes_of = (0o40755, 0) if node == 1 else (0o100600, size)
    return struct.pack('<6Q10I', node, bytes_of, bytes_of >> 9, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
def answer(unique, body=b'', error=0): os.write(fuse, struct.pack('<IiQ', 16 + len(body), error, unique) + body)
setup = subprocess.Popen(['losetup', '--find', '--show', f'{folder}/files/disk'], stdout=open(f'{folder}/device', 'w'))
held = []
while True:
    if setup.poll() is not None: c.prctl(15, b'begun')
    if os.path.exists(f'{folder}/release'):
        kind = 'quick'
        for unique, length in held: answer(unique, struct.pack('<2I', length, 0))
        held = []
    if not select.select([fuse], [], [], 0.05)[0]: continue
    request = os.read(fuse, 1 << 18)
    _, operation, unique, node = struct.unpack_from('<IIQQ', request)
    if operation == 26: answer(unique, struct.pack('<4I2H2I2H8I', 7, 31, 131072, 1 << 5, 64, 48, 131072, 1, 0, 0, *[0] * 8))
    elif operation == 1: answer(unique, struct.pack('<4Q2I', 2, 0, 3600, 3600, 0, 0) + attributes(2))
    elif operation in (3, 4): answer(unique, struct.pack('<Q2I', 3600, 0, 0) + attributes(node))
    elif operation in (14, 27): answer(unique, struct.pack('<Q2I', 0, 0, 0))
    elif operation == 15: answer(unique, bytes(struct.unpack_from('<QQI', request, 40)[2]))
    elif operation == 16:
        length = struct.unpack_from('<QQI', request, 40)[2]
        if kind == 'stuck': held.append((unique, length))
        else:
            if kind == 'slow': time.sleep(0.04)
            answer(unique, struct.pack('<2I', length, 0))
    elif operation in (18, 20, 25, 34): answer(unique)
    elif operation not in (2, 36, 42): answer(unique, error=-38)
";

/// That disk, and who writes to it; all of it goes with the test.
struct ServedDisk {
    folder: tempfile::TempDir,
    device: String,
    writer: Option<Load>,
    _server: Load,
}

impl ServedDisk {
    fn new(kind: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        // In a mount namespace of its own, so that nothing of it is left whatever happens.
        let server = Load::start(1, "unshare", &["--mount", "python3", "-c", SERVER, &path, kind]);
        assert!(has_said_begun(&server), "the file system is there");
        let device = std::fs::read_to_string(folder.path().join("device")).unwrap().trim().to_owned();
        assert!(device.starts_with("/dev/loop"), "a loop device is there: {device}");
        let mut disk = Self { folder, device, writer: None, _server: server };
        // A disk that was never used is none.
        let read = Command::new("dd").args([&format!("if={}", disk.device), "of=/dev/null", "count=8"]).output();
        assert!(read.is_ok_and(|output| output.status.success()));
        let script = "while :; do dd if=/dev/zero of=$1 bs=64k count=512 oflag=direct; done";
        disk.writer = Some(Load::start(1, "sh", &["-c", script, "sh", &disk.device]));
        disk
    }

    fn name(&self) -> String {
        self.device.trim_start_matches("/dev/").to_owned()
    }

    /// Requests that the disk was given and did not complete.
    fn in_flight(&self) -> u32 {
        let text = std::fs::read_to_string(format!("/sys/block/{}/inflight", self.name())).unwrap();
        text.split_whitespace().map(|word| word.parse::<u32>().unwrap()).sum()
    }
}

impl Drop for ServedDisk {
    fn drop(&mut self) {
        // Who waits for the disk cannot end before it answers.
        let _ = std::fs::write(self.folder.path().join("release"), "");
        self.writer = None;
        let detached = || !Path::new(&format!("/sys/block/{}/loop", self.name())).exists();
        let _ = Command::new("losetup").args(["--detach", &self.device]).output();
        wait_until(5, detached);
    }
}

#[test]
#[ignore = "needs: root, a quiet machine, losetup, unshare, python3, FUSE"]
fn a_disk_that_takes_long_for_each_write_is_a_warning_and_a_quick_one_is_not() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    for (kind, status) in [("quick", "ok"), ("slow", "warning")] {
        let disk = ServedDisk::new(kind);
        let report = live_report_every("400ms", 2);
        let name = disk.name();
        drop(disk);
        let found = finding(&report, "disk.saturation.write_latency", Some(&name));
        assert_eq!(found["status"], status, "{found:#}");
        let seconds = found["value"].as_f64().unwrap();
        assert!(if kind == "slow" { (0.04..0.06).contains(&seconds) } else { seconds < 0.02 }, "{kind}: {found:#}");
        assert_nothing_else_fired(&report, &["disk.saturation.write_latency", "disk.saturation.pressure", "cpu."]);
    }
}

#[test]
#[ignore = "needs: root, a quiet machine, losetup, unshare, python3, FUSE"]
fn a_disk_that_stopped_answering_is_not_taken_for_an_idle_one() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let disk = ServedDisk::new("stuck");
    assert!(wait_until(5, || disk.in_flight() > 0), "a request is on its way");
    let report = live_report_every("400ms", 5);
    let (name, held) = (disk.name(), disk.in_flight());
    drop(disk);
    assert!(held > 0, "it was not answered to the end");
    let found = finding(&report, "disk.saturation.stuck", Some(&name));
    assert_eq!((&found["status"], &found["culprit"]["name"]), (&"critical".into(), &name.as_str().into()), "{found:#}");
    let allowed = ["disk.saturation.stuck", "disk.saturation.pressure", "tasks.saturation.blocked", "cpu."];
    assert_nothing_else_fired(&report, &allowed);
}
