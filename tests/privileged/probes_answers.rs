//! Questions that a general probe answers: the commands of the map of old tools, on work whose answer is known.

use std::process::Command;

use super::probing::{Script, assert_nothing_lost, probed, ready, rows, watched};
use crate::support::{Need, alone, has, rdiag, skip};

/// A program of which one function touches 500 pages for the first time.
const TOUCHES: &str = r"
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) static void touches(volatile char *at) { for (int i = 0; i < 500; i++) at[i * 4096] = 1; }
int main(void)
{
	char *at = mmap(0, 500 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(at, 500 * 4096, MADV_NOHUGEPAGE);
	touches(at);
	sleep(1);
	return 0;
}
";

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn page_faults_are_counted_by_the_stack_that_touched_the_memory() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Path("/sys/kernel/tracing/events/exceptions")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("touches.c"), folder.path().join("touches"));
    std::fs::write(&source, TOUCHES).unwrap();
    let flags = ["-O0", "-fno-omit-frame-pointer", "-o"];
    assert!(Command::new("cc").args(flags).arg(&binary).arg(&source).status().unwrap().success());
    let mut command = rdiag();
    command.args(["probe", "count", "--param", "tracepoint=exceptions:page_fault_user", "--param", "key=user_stack"]);
    let output = command.args(["--format", "folded", "--"]).arg(&binary).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folded = String::from_utf8_lossy(&output.stdout);
    let stack = folded.lines().find(|line| line.contains(";main;touches "));
    assert_eq!(stack.and_then(|line| line.rsplit(' ').next()), Some("500"), "{folded}");
}

/// Four stretches of small pages become huge ones where the kernel does that when asked (Linux 6.1).
const COLLAPSES: &str = "
import mmap
region = mmap.mmap(-1, 10 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
region.madvise(15) # MADV_NOHUGEPAGE
for page in range(0, 10 << 20, 4096): region[page] = 1
import ctypes
at = ctypes.addressof(ctypes.c_char.from_buffer(region))
begin = -at % (2 << 20)
region.madvise(14) # MADV_HUGEPAGE
try: region.madvise(25, begin, 8 << 20) # MADV_COLLAPSE
except OSError as error: says = error
";

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn pages_that_become_huge_ones_are_counted_by_task_and_outcome() {
    let _alone = alone();
    if !ready() || !has(&[Need::Path("/sys/kernel/tracing/events/huge_memory")]) {
        return;
    }
    let point = "tracepoint=huge_memory:mm_collapse_huge_page";
    let by_the_kernel = || {
        let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed");
        text.ok().and_then(|text| text.trim().parse::<f64>().ok()).unwrap_or(0.0)
    };
    let before = by_the_kernel();
    let (readings, error) =
        watched(&mut Script::start(COLLAPSES), &["count", "--param", point, "--param", "key=comm,status"]);
    if !error.is_empty() {
        return skip(&format!("this kernel makes no huge pages when asked: {error}"));
    }
    let rows = rows(&readings, "table", "counts");
    assert!(rows.iter().all(|row| row["name"] == "python3"), "{rows:#?}");
    let done = rows.iter().find(|row| row["status"] == "1").unwrap_or_else(|| panic!("{rows:#?}"));
    // The kernel's own thread for it is woken when somebody asks for huge pages, and may be quicker with some: that counts them. What failed
    // because it was in the way was tried again.
    let least = (4.0 - (by_the_kernel() - before)).max(1.0);
    assert!((least..=4.0).contains(&done["count"].as_f64().unwrap()), "at least {least}: {rows:#?}");
}

/// The queue of a device has room for some of the datagrams.
const FULL_QUEUE: &str = "
import socket, subprocess
def run(*words): return subprocess.run(words, check=True, capture_output=True, text=True).stdout
run('ip', 'link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'v1')
run('ip', 'address', 'add', '10.9.7.1/24', 'dev', 'v0')
for device in 'lo', 'v0', 'v1': run('ip', 'link', 'set', device, 'up')
run('ip', 'neighbour', 'add', '10.9.7.2', 'lladdr', '02:00:00:00:00:01', 'dev', 'v0', 'nud', 'permanent')
run(*'tc qdisc add dev v0 root tbf rate 100kbit burst 2kb limit 4kb'.split())
done(); go()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(300): s.sendto(b'x' * 500, ('10.9.7.2', 9))
says = run('tc', '-s', 'qdisc', 'show', 'dev', 'v0').split('dropped ')[1].split(',')[0]
";

#[test]
#[ignore = "needs: root, eBPF, python3, ip, tc"]
fn what_a_queueing_discipline_drops_is_told_with_its_reason() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip"), Need::Tool("tc")]) {
        return;
    }
    let mut script = Script::start(&[OWN_NETWORK, FULL_QUEUE].concat());
    script.work();
    let mut says = String::new();
    let readings = probed(&["drops"], || says = script.work());
    assert_nothing_lost(&readings);
    let rows = rows(&readings, "table", "drops");
    let of_queue = rows.iter().filter(|row| row["reason"].as_str().is_some_and(|reason| reason.starts_with("QDISC_")));
    let dropped: f64 = of_queue.map(|row| row["packets"].as_f64().unwrap()).sum();
    assert!(dropped > 100.0, "{rows:#?}");
    assert_eq!(dropped, says.parse::<f64>().unwrap(), "{rows:#?}");
}

/// A network of its own, and mounts that nobody else sees.
const OWN_NETWORK: &str = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x40020000): exit(os.strerror(ctypes.get_errno())) # CLONE_NEWNET | CLONE_NEWNS
";

/// A resolver that takes 200 ms for names that begin with slow, and knows none that begins with no.
const RESOLVER: &str = "
import socket, subprocess, tempfile, threading
def run(*words): subprocess.run(words, check=True)
run('ip', 'link', 'set', 'lo', 'up')
run('mount', '--make-rprivate', '/')
with tempfile.NamedTemporaryFile('w') as file:
    file.write('nameserver 127.0.0.1\\nsearch invalid\\noptions attempts:1\\n')
    file.flush()
    run('mount', '--bind', file.name, '/etc/resolv.conf')
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(('127.0.0.1', 53))
def answer():
    while True:
        data, client = server.recvfrom(512)
        name = data[13:]
        if name.startswith(b'slow'): time.sleep(0.2)
        question = data[12:data.index(0, 12) + 5]
        if name.startswith(b'no'): server.sendto(data[:2] + bytes.fromhex('8183 0001 0000 0000 0000') + question, client)
        else: server.sendto(data[:2] + bytes.fromhex('8180 0001 0001 0000 0000') + question +
            bytes.fromhex('c00c 0001 0001 0000003c 0004 0a090701'), client)
threading.Thread(target=answer, daemon=True).start()
done(); go()
took = []
for name in 'slow.rdiag.test', 'quick.rdiag.test', 'no.rdiag.test':
    began = time.monotonic()
    try: socket.getaddrinfo(name, 80, socket.AF_INET)
    except OSError: pass
    took.append(str(time.monotonic() - began))
says = ' '.join(took)
";

#[test]
#[ignore = "needs: root, eBPF, python3, ip"]
fn names_that_are_looked_up_are_told_with_latency_and_result() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip"), Need::Tool("mount")]) {
        return;
    }
    let mut script = Script::start(&[OWN_NETWORK, RESOLVER].concat());
    script.work();
    let look = ["log", "--param", "function=libc:getaddrinfo", "--param", "value=arg1:string,return:s32,latency"];
    let (readings, says) = watched(&mut script, &look);
    let rows = rows(&readings, "events", "events");
    let names: Vec<&str> = rows.iter().map(|row| row["arg1"].as_str().unwrap()).collect();
    assert_eq!(names, ["slow.rdiag.test", "quick.rdiag.test", "no.rdiag.test"]);
    for (row, truth) in rows.iter().zip(says.split(' ')) {
        let (latency, truth) = (row["latency"].as_f64().unwrap(), truth.parse::<f64>().unwrap());
        assert!(latency <= truth, "{latency} s, and the script says {truth} s: {row:#?}");
        assert_eq!(latency > 0.2, row["arg1"] == "slow.rdiag.test", "{row:#?}");
    }
    let results: Vec<&str> = rows.iter().map(|row| row["return"].as_str().unwrap()).collect();
    // EAI_NONAME.
    assert_eq!(results, ["0", "0", "-2"]);
}

/// Asks the kernel 300 times for something small of which one function allocates each.
const ALLOCATES: &str = "
import ctypes
libc = ctypes.CDLL(None)
for i in range(300): os.close(libc.eventfd(0, 0))
";

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn allocations_of_the_kernel_are_summed_up_by_the_function_that_asked() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let point = ["--param", "tracepoint=kmem:kmalloc", "--param", "key=call_site:ksym", "--param", "value=bytes_alloc"];
    let (readings, _) = watched(&mut Script::start(ALLOCATES), &[&["count"], &point[..]].concat());
    let rows = rows(&readings, "table", "counts");
    let of_eventfd = rows.iter().filter(|row| row["call_site"].as_str().unwrap().contains("eventfd"));
    let sums: Vec<[f64; 2]> =
        of_eventfd.map(|row| ["count", "sum"].map(|column| row[column].as_f64().unwrap())).collect();
    let [[count, bytes]] = sums[..] else { panic!("{rows:#?}") };
    assert_eq!(count, 300.0);
    // A count, a queue of waiting tasks, an id: that has been between 56 and 96 bytes.
    assert!((300.0 * 32.0..=300.0 * 128.0).contains(&bytes), "{bytes} bytes");
}
