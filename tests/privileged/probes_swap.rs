//! What comes back from swap: counted exactly on compressed memory, and waited for on a slow disk.

use super::kernels::{Group, modprobe};
use super::probes_files::SlowDisk;
use super::probing::{Script, rows, watched};
use crate::support::{Load, Need, alone, finding, has, live_report, wait_until};

/// Swap space in compressed memory, one page of which is read at a time; it goes away with the test.
struct Swap;

impl Swap {
    const DEVICE: &str = "/dev/zram0";

    fn new() -> Self {
        modprobe(&["zram", "num_devices=1"]);
        std::fs::write("/sys/block/zram0/disksize", "64M").unwrap();
        std::fs::write("/proc/sys/vm/page-cluster", "0").unwrap();
        run("mkswap", Self::DEVICE);
        run("swapon", Self::DEVICE);
        Self
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        run("swapoff", Self::DEVICE);
        let _ = std::fs::write("/proc/sys/vm/page-cluster", "3");
        modprobe(&["--remove", "zram"]);
    }
}

fn run(program: &str, argument: &str) {
    let output = std::process::Command::new(program).arg(argument).output().unwrap();
    assert!(output.status.success(), "{program} {argument}: {}", String::from_utf8_lossy(&output.stderr));
}

const FOR_SWAP: [Need; 5] =
    [Need::Root, Need::Tool("python3"), Need::Tool("modprobe"), Need::Tool("mkswap"), Need::Tool("swapon")];

/// Small pages, so many; they differ, since pages of one word need no room in swap.
const PAGES: &str = "
import mmap
region = mmap.mmap(-1, number * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
region.madvise(15) # MADV_NOHUGEPAGE
pages = range(0, number * 4096, 4096)
for page in pages: region[page:page + 8] = os.urandom(8)
";

/// Sends them all away, touches them, and says how long that took, how long the same takes of pages that are there, and how many
/// pages the host read meanwhile.
const COME_BACK: &str = "
def swapped(): return [int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmSwap:')][0]
for turn in range(100):
    region.madvise(21) # MADV_PAGEOUT
    if swapped() >= number * 4: break
    time.sleep(0.05)
else: exit('the pages stay')
done(); go()
def read(): return [int(line.split()[1]) for line in open('/proc/vmstat') if line.startswith('pswpin ')][0]
def touch():
    began = time.monotonic()
    for page in pages: region[page]
    return time.monotonic() - began
before = read()
says = f'{touch()} {touch()} {read() - before}'
";

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules"]
fn vm_what_a_process_needs_back_from_swap_is_counted_and_timed() {
    let _alone = alone();
    if !has(&FOR_SWAP) {
        return;
    }
    let swap = Swap::new();
    let mut script = Script::start(&["number = 2000", PAGES, COME_BACK].concat());
    script.work();
    let (readings, says) = watched(&mut script, &["swapin"]);
    let truth: Vec<f64> = says.split(' ').map(|word| word.parse().unwrap()).collect();
    let [with, without, read] = truth[..] else { panic!("{says}") };
    let rows = rows(&readings, "table", "processes");
    let [row] = &rows[..] else { panic!("{rows:#?}") };
    let figure = |column: &str| row[column].as_f64().unwrap();
    assert_eq!(row["name"], "python3");
    // Some of the interpreter's own may have gone too.
    assert!((2000.0..=2020.0).contains(&figure("faults")), "2000 pages were away: {row:#?}");
    let pages = figure("bytes") / 4096.0;
    assert!((2000.0..=read).contains(&pages), "the kernel itself counts {read} pages: {row:#?}");
    // What is left is the way into the kernel and back, and the programs of the probe.
    let (time, truth) = (figure("time"), with - without);
    assert!(time > 0.3 * truth && time <= with, "{time} s, and the script says {truth} s: {row:#?}");
    assert!(figure("max") > 0.0 && figure("max") < time, "{row:#?}");
    drop((script, swap));
}

/// Swap space on a disk that takes some milliseconds for each request.
struct SlowSwap {
    _disk: SlowDisk,
}

impl SlowSwap {
    fn new(nanoseconds: &str) -> Self {
        let disk = SlowDisk::new(nanoseconds);
        run("mkswap", SlowDisk::NODE);
        run("swapon", SlowDisk::NODE);
        Self { _disk: disk }
    }
}

impl Drop for SlowSwap {
    fn drop(&mut self) {
        run("swapoff", SlowDisk::NODE);
    }
}

/// Writes to 64 MiB, and then looks at pages of them without end, in no order.
const LOOKS: &str = "
import mmap, random
size = 64 << 20
region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
region.madvise(15) # MADV_NOHUGEPAGE
for page in range(0, size, 4096): region[page] = 1
while True: region[random.randrange(0, size, 4096)]
";

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules and a pure cgroup v2 tree"]
fn vm_who_waits_for_memory_on_a_slow_swap_disk_is_named() {
    let _alone = alone();
    if !has(&FOR_SWAP) || !has(&[Need::Path("/sys/fs/cgroup/cgroup.controllers")]) {
        return;
    }
    let swap = SlowSwap::new("3000000");
    let group = Group::new("rdiag-swap", &[("memory.max", "50331648")]);
    let script = "echo $$ > \"$1\"/cgroup.procs; exec python3 -c \"$2\"";
    let load = Load::start(1, "sh", &["-c", script, "sh", group.0.to_str().unwrap(), LOOKS]);
    let pid = load.pids()[0];
    // `VmSwap:     8192 kB`
    let swapped = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let words = status.lines().find_map(|line| line.strip_prefix("VmSwap:")).unwrap_or("0");
        words.trim().trim_end_matches(" kB").parse::<u64>().unwrap() > 16_000
    };
    assert!(wait_until(60, swapped), "what finds no room in the group goes to the disk");
    let report = live_report(5);
    drop((load, group, swap));
    // How much comes back in a second is up to the emulated CPU.
    let read = finding(&report, "memory.saturation.swap_in", None);
    assert!(["info", "warning"].contains(&read["status"].as_str().unwrap()), "{read:#}");
    let waits = finding(&report, "memory.saturation.swap_waits", None);
    assert_eq!(waits["status"], "info", "{waits:#}");
    let culprit = &read["culprit"];
    assert_eq!((&culprit["name"], &culprit["pids"][0]), (&"python3".into(), &pid.into()), "{read:#}");
    assert!(waits["summary"].as_str().unwrap().contains("python3 waited the most"), "{waits:#}");
    // One task, that does nothing else for most of the time.
    let share = waits["value"].as_f64().unwrap();
    assert!((0.3..1.05).contains(&share), "{waits:#}");
    // Whether its wait or the limit of the group comes first, the verdict names the process.
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert!(headline.contains("python3"), "{headline}");
}
