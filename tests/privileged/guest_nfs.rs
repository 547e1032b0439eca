//! NFS whose server takes its time, in guests: the client is the kernel's own, and the server a program that answers as slowly as it
//! is told. The kernel's own server (nfsd) would need the tools that export a folder, and could be slowed down by its disk alone.

mod agreement;

use std::process::Command;

use super::guest_log::{KernelLog, Setting};
use super::kernels::modprobe;
use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report_every, wait_until};

/// A server of NFS 3 over TCP, with the protocol that mounts it, on one port: a folder that holds `file`. To 127.0.0.1 it answers after
/// an eighth of a second, to 127.0.0.2 a read takes seconds.
const SERVER: &str = "
import socket, struct, threading, time
pack = struct.pack
GETATTR, LOOKUP, ACCESS, READ, WRITE = 1, 3, 4, 6, 7
SLOW = {('127.0.0.1', READ): 0.125, ('127.0.0.1', WRITE): 0.125, ('127.0.0.1', GETATTR): 0.125, ('127.0.0.1', LOOKUP): 0.125,
    ('127.0.0.1', ACCESS): 0.125, ('127.0.0.2', READ): 2.5}
def opaque(data): return pack('>I', len(data)) + data + bytes(-len(data) % 4)
def attributes(handle):
    kind, mode, size, number = (2, 0o755, 4096, 1) if handle == b'root' else (1, 0o644, 64 << 20, 2)
    return pack('>5I2Q2I2Q6I', kind, mode, 1, 0, 0, size, size, 0, 0, 7, number, 1, 0, 1, 0, 1, 0)
def after(handle): return pack('>I', 1) + attributes(handle)
def changed(handle): return pack('>I', 0) + after(handle)
def nfs(procedure, handle, rest):
    ok = pack('>I', 0)
    if procedure == 0: return b''
    if procedure == GETATTR: return ok + attributes(handle)
    if procedure == 2: return ok + changed(handle)
    if procedure == LOOKUP:
        length = struct.unpack_from('>I', rest)[0]
        if rest[4:4 + length] != b'file': return pack('>I', 2) + after(handle)
        return ok + opaque(b'file') + after(b'file') + after(handle)
    if procedure == ACCESS: return ok + after(handle) + rest[:4]
    if procedure == READ:
        count = struct.unpack_from('>QI', rest)[1]
        return ok + after(handle) + pack('>II', count, 0) + opaque(bytes(count))
    if procedure == WRITE: return ok + changed(handle) + pack('>II', struct.unpack_from('>QI', rest)[1], 2) + b'verifier'
    if procedure == 18: return ok + after(handle) + pack('>6QI', 1 << 40, 1 << 39, 1 << 39, 1 << 20, 1 << 19, 1 << 19, 0)
    if procedure == 19:
        return ok + after(handle) + pack('>7IQ3I', 65536, 65536, 4096, 65536, 65536, 4096, 4096, 1 << 40, 0, 1, 0x1b)
    if procedure == 20: return ok + after(handle) + pack('>6I', 32, 255, 1, 1, 0, 1)
    if procedure == 21: return ok + changed(handle) + b'verifier'
    return None
def answer(call, address):
    number, _, _, program, _, procedure = struct.unpack_from('>6I', call)
    at = 24
    for _ in range(2): at += 8 + (struct.unpack_from('>I', call, at + 4)[0] + 3 & ~3)
    body = None
    if program == 100005: body = pack('>I', 0) + opaque(b'root') + pack('>2I', 1, 1) if procedure == 1 else b''
    if program == 100003:
        time.sleep(SLOW.get((address, procedure), 0))
        length = struct.unpack_from('>I', call, at)[0] if procedure else 0
        body = nfs(procedure, call[at + 4:at + 4 + length], call[at + 4 + (length + 3 & ~3):])
    return pack('>6I', number, 1, 0, 0, 0, 0 if body is not None else 1) + (body or b'')
def exactly(client, length):
    data = b''
    while len(data) < length:
        more = client.recv(length - len(data))
        if not more: raise SystemExit
        data += more
    return data
def serve(client):
    address, lock = client.getsockname()[0], threading.Lock()
    def one(call):
        said = answer(call, address)
        with lock: client.sendall(pack('>I', 1 << 31 | len(said)) + said)
    while True:
        length = struct.unpack('>I', exactly(client, 4))[0] & 0x7fffffff
        threading.Thread(target=one, args=(exactly(client, length),), daemon=True).start()
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(('0.0.0.0', 20490)); server.listen(16)
while True: threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
";

/// Four that read, three that ask for attributes and three that write, each without a pause.
const USERS: &str = "
import mmap, os, sys
page, path = mmap.mmap(-1, 4096), sys.argv[1] + '/file'
read = lambda disk: os.preadv(disk, [page], 0)
write = lambda disk: os.pwritev(disk, [page], 0)
stat = lambda disk: os.stat(path)
for work in (read, read, read, write, write, write, stat, stat, stat):
    if os.fork() == 0: break
else: work = read
disk = os.open(path, (os.O_WRONLY if work is write else os.O_RDONLY) | os.O_DIRECT)
while True: work(disk)
";

/// A mount that ends with the test.
struct Mounted {
    place: tempfile::TempDir,
}

impl Mounted {
    fn new(address: &str, more: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let ports = "vers=3,proto=tcp,port=20490,mountvers=3,mountproto=tcp,mountport=20490,nolock,noac";
        let options = format!("{ports},addr={address},{more}");
        let from = format!("{address}:/share");
        // `-i`: as the kernel mounts it, without mount.nfs.
        let output =
            Command::new("mount").args(["-i", "-t", "nfs", "-o", &options, &from]).arg(place.path()).output().unwrap();
        assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
        Self { place }
    }

    fn path(&self) -> &str {
        self.place.path().to_str().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-i", "-f", "-l"]).arg(self.place.path()).status();
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, python3"]
fn vm_an_nfs_server_that_answers_slowly_is_told_from_one_that_does_not_answer_in_time() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("modprobe"), Need::Tool("python3"), Need::Tool("mount")]) {
        return;
    }
    let log = KernelLog::new();
    modprobe(&["nfsv3"]);
    // Four requests of a mount may be outstanding at a time.
    let slots = Setting::to("/sys/module/sunrpc/parameters/tcp_max_slot_table_entries", "4");
    let server = Load::start(1, "python3", &["-c", SERVER]);
    assert!(wait_until(30, || std::net::TcpStream::connect("127.0.0.1:20490").is_ok()), "the server listens");
    let slow = Mounted::new("127.0.0.1", "timeo=600");
    // A request is sent again after half a second, and after a second the kernel says so.
    let late = Mounted::new("127.0.0.2", "timeo=5,retrans=1");
    let users = Load::start(1, "python3", &["-c", USERS, slow.path()]);
    let file = format!("if={}/file", late.path());
    let read = Load::start(1, "dd", &[&file, "of=/dev/null", "bs=4k", "iflag=direct"]);
    std::thread::sleep(std::time::Duration::from_secs(3));
    // Few samples: on an emulated CPU the server and rdiag are much for one another.
    let report = live_report_every("2s", 10);
    let stats = std::fs::read_to_string("/proc/self/mountstats").unwrap();
    let [slow_place, late_place] = [&slow, &late].map(|mount| mount.path().to_owned());
    drop((users, read));
    drop((slow, late, slots));
    drop((server, log));

    let stats: Vec<&str> = stats.lines().filter(|line| line.contains("READ:") || line.contains("xprt:")).collect();
    println!("{stats:#?}");
    for (rule, status) in [
        ("filesystem.saturation.nfs_read", "critical"),
        ("filesystem.saturation.nfs_lookup", "critical"),
        ("filesystem.saturation.nfs_write", "warning"),
        ("filesystem.saturation.nfs_queue", "critical"),
    ] {
        let found = finding(&report, rule, Some(&slow_place));
        assert_eq!(found["status"], status, "{found:#}");
        assert!(found["value"].as_f64().is_some_and(|seconds| (0.1..1.0).contains(&seconds)), "{found:#}");
    }
    // It is slow, but answers in its time.
    assert_eq!(finding(&report, "filesystem.errors.nfs_retransmits", Some(&slow_place))["status"], "ok");
    let again = finding(&report, "filesystem.errors.nfs_retransmits", Some(&late_place));
    assert_eq!((&again["status"], &again["culprit"]["name"]), (&"warning".into(), &late_place.into()), "{again:#}");
    let silent = finding(&report, "filesystem.errors.server", None);
    assert_eq!((&silent["status"], &silent["culprit"]["name"]), (&"warning".into(), &"127.0.0.2".into()), "{silent:#}");
    assert_nothing_else_fired(
        &report,
        &[
            "filesystem.saturation.nfs_read",
            "filesystem.saturation.nfs_lookup",
            "filesystem.saturation.nfs_write",
            "filesystem.saturation.nfs_queue",
            "filesystem.errors.nfs_retransmits",
            "filesystem.errors.server",
            "disk.saturation.pressure",
            // The server, rdiag and the users are much for an emulated CPU.
            "cpu.",
        ],
    );
}
