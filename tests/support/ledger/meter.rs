//! How a thread measures itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use super::{Account, Waited};

static ACCOUNTS: Mutex<Vec<Account>> = Mutex::new(Vec::new());

/// All accounts so far.
pub fn accounts() -> Vec<Account> {
    std::mem::take(&mut ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A thread that measures itself from here on.
pub struct Meter {
    name: String,
    began: f64,
    cpu: f64,
    runnable: f64,
    /// See [`ticks`].
    ticks: Vec<(f64, f64)>,
    /// Wall-clock time around the waits.
    waits: BTreeMap<&'static str, Waited>,
}

pub fn now() -> f64 {
    seconds(ClockId::Monotonic)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds in which this thread waited for a CPU so far.
fn runnable() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}

/// Ticks of each CPU that this thread may use: busy, and taken away by a hypervisor (/proc/stat).
fn ticks() -> Vec<(f64, f64)> {
    let Ok(own) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_cpu = |line: &str| {
        let (cpu, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
        let fields: Vec<f64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, _, _, irq, softirq, stolen, ..] = fields[..] else { return None };
        own.is_set(cpu.parse().ok()?).then_some((user + nice + system + irq + softirq, stolen))
    };
    text.lines().filter_map(of_cpu).collect()
}

/// Seconds that a thread with so much CPU time can have lost since then: all that was taken, and not more than twice what was
/// taken for each second of work on the CPU that lost most.
fn lost_since(before: &[(f64, f64)], cpu: f64) -> f64 {
    let (mut all, mut most) = (0.0, 0.0_f64);
    for ((busy_0, stolen_0), (busy, stolen)) in before.iter().zip(ticks()) {
        all += (stolen - stolen_0) / 100.0;
        most = most.max((stolen - stolen_0) / (busy - busy_0).max(1.0));
    }
    (2.0 * cpu * most).min(all).max(0.0)
}

impl Meter {
    pub fn start(name: &str) -> Self {
        let _ = rustix::thread::set_name(&std::ffi::CString::new(name).unwrap_or_default());
        let ticks = ticks();
        let cpu = seconds(ClockId::ThreadCPUTime);
        Self { name: name.to_owned(), began: now(), cpu, runnable: runnable(), ticks, waits: BTreeMap::new() }
    }

    /// A wait of this component.
    pub fn wait<T>(&mut self, component: &'static str, wait: impl FnOnce() -> T) -> T {
        let before = now();
        let answer = wait();
        let waited = self.waits.entry(component).or_default();
        waited.seconds += now() - before;
        waited.count += 1;
        answer
    }

    /// Keeps a CPU busy until this time has passed, by the clock on the wall.
    pub fn spin(&self, seconds: f64) {
        let end = now() + seconds;
        while now() < end {
            for _ in 0..100 {
                std::hint::spin_loop();
            }
        }
    }

    pub fn sleep(&mut self, seconds: f64) {
        self.wait("wait.sleep", || std::thread::sleep(std::time::Duration::from_secs_f64(seconds)));
    }

    /// Ends the account. What is neither CPU time nor waiting for a CPU was spent in the waits: they are scaled to it.
    pub fn end(self) {
        let (ended, cpu) = (now(), seconds(ClockId::ThreadCPUTime) - self.cpu);
        let runnable = runnable() - self.runnable;
        let off = (ended - self.began - cpu - runnable).max(0.0);
        let around: f64 = self.waits.values().map(|waited| waited.seconds).sum();
        let scale = if around > 0.0 { off / around } else { 0.0 };
        let scaled = |(component, waited): (&str, Waited)| {
            (component.to_owned(), Waited { seconds: waited.seconds * scale, ..waited })
        };
        let account = Account {
            tid: rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(),
            name: self.name,
            began: self.began,
            ended,
            cpu,
            runnable,
            stolen: lost_since(&self.ticks, cpu),
            waits: self.waits.into_iter().map(scaled).collect(),
        };
        ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner).push(account);
    }
}
