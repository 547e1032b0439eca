//! What comes back from swap, counted exactly on compressed memory.

use super::kernels::modprobe;
use super::probing::{Script, rows, watched};
use crate::support::{Need, alone, has};

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
