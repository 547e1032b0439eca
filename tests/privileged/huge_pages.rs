//! Memory that was set aside for huge pages.

use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report, wait_until};

const POOL: &str = "/proc/sys/vm/nr_hugepages";
const NEEDS: &[Need] = &[Need::Root, Need::Tool("python3"), Need::Path(POOL)];

/// A pool of an eighth of the memory, which goes with the test.
struct Pool {
    before: String,
}

impl Pool {
    fn of_an_eighth() -> Self {
        let pool = Self { before: std::fs::read_to_string(POOL).unwrap() };
        let pages = field("MemTotal:") / field("Hugepagesize:") / 8;
        std::fs::write(POOL, pages.to_string()).unwrap();
        assert_eq!(field("HugePages_Total:"), pages, "memory is free and in one piece");
        pool
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = std::fs::write(POOL, self.before.trim());
    }
}

/// A figure of /proc/meminfo.
fn field(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Uses one of them.
const USE: &str = "
import mmap, time
page = mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
page[0] = 1
time.sleep(60)
";

#[test]
#[ignore = "needs: root, a quiet machine, python3"]
fn a_pool_of_huge_pages_of_which_none_is_used_is_worth_knowing_and_one_in_use_is_not() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let pool = Pool::of_an_eighth();
    let unused = live_report(2);
    let found = finding(&unused, "memory.utilization.huge_pages", None);
    assert_eq!(found["status"], "info", "{found:#}");
    assert!((0.12..0.126).contains(&found["value"].as_f64().unwrap()), "{found:#}");
    assert_nothing_else_fired(&unused, &["cpu."]);
    let load = Load::start(1, "python3", &["-c", USE]);
    assert!(wait_until(10, || field("HugePages_Free:") < field("HugePages_Total:")), "a page is used");
    let used = live_report(2);
    drop((load, pool));
    let found = finding(&used, "memory.utilization.huge_pages", None);
    assert_eq!(found["status"], "ok", "{found:#}");
}
