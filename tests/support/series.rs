//! A growing figure that is read again and again while a test measures: how much it grew within any window of a length, when nobody knows
//! where within the run that window was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(20);

/// Reads until it is ended, in a thread of its own.
pub struct Series {
    over: Arc<AtomicBool>,
    reader: JoinHandle<Vec<(f64, f64)>>,
}

impl Series {
    pub fn of(read: impl Fn() -> f64 + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let reader = std::thread::spawn(move || {
            let began = Instant::now();
            let mut points = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                points.push((began.elapsed().as_secs_f64(), read()));
                std::thread::sleep(EVERY);
            }
            points.push((began.elapsed().as_secs_f64(), read()));
            points
        });
        Self { over, reader }
    }

    /// The least and the most by which it grew within a window of so many seconds.
    pub fn within(self, seconds: f64) -> (f64, f64) {
        self.over.store(true, Ordering::Relaxed);
        bounds(&self.reader.join().unwrap(), seconds)
    }
}

/// Each window begins between two points; what is certain is what lies between the points inside, what is possible between those around.
fn bounds(points: &[(f64, f64)], seconds: f64) -> (f64, f64) {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    let last = points.last().map_or(0.0, |(at, _)| *at);
    for pair in points.windows(2) {
        let [(from, before), (to, after)] = pair else { continue };
        if *from + seconds > last && least.is_finite() {
            break;
        }
        let inside = points.iter().rev().find(|(at, _)| *at <= from + seconds).map_or(*after, |(_, value)| *value);
        let around = points.iter().find(|(at, _)| *at >= to + seconds).or(points.last()).map_or(*after, |(_, v)| *v);
        (least, most) = (least.min((inside - after).max(0.0)), most.max(around - before));
    }
    (if least.is_finite() { least } else { 0.0 }, most)
}

/// How late a thread that only sleeps is woken while a test measures: by as much others may be late who are not to blame for it.
pub struct Lateness {
    over: Arc<AtomicBool>,
    sleeper: JoinHandle<Vec<f64>>,
}

impl Lateness {
    /// On the first CPU, so that a load on the last one does not count.
    pub fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let sleeper = std::thread::spawn(move || {
            let mut first = rustix::thread::CpuSet::new();
            first.set(0);
            let _ = rustix::thread::sched_setaffinity(None, &first);
            let mut late = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(EVERY);
                late.push((began.elapsed() - EVERY).as_secs_f64());
            }
            late
        });
        Self { over, sleeper }
    }

    /// The longest delay, and the mean.
    pub fn end(self) -> (f64, f64) {
        self.over.store(true, Ordering::Relaxed);
        let late = self.sleeper.join().unwrap();
        let longest = late.iter().copied().fold(0.0, f64::max);
        (longest, late.iter().sum::<f64>() / late.len().max(1) as f64)
    }
}

#[test]
fn what_grew_within_an_unknown_window_lies_between_two_bounds() {
    // A quarter each second, and all of it at once in the fourth.
    let steady: Vec<(f64, f64)> = (0..=80).map(|at| (f64::from(at) * 0.1, f64::from(at) * 0.025)).collect();
    let (least, most) = bounds(&steady, 4.0);
    assert!((0.95..=1.0).contains(&least) && (1.0..=1.05).contains(&most), "{least} {most}");
    let burst: Vec<(f64, f64)> = (0..=80).map(|at| (f64::from(at) * 0.1, if at < 40 { 0.0 } else { 1.0 })).collect();
    assert_eq!(bounds(&burst, 2.0), (0.0, 1.0));
    assert_eq!(bounds(&burst, 6.0), (1.0, 1.0), "any window of six seconds has the fourth in it");
    assert_eq!(bounds(&[], 1.0), (0.0, 0.0));
}
