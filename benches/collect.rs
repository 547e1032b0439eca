//! What a collector costs on this machine: CPU time per sample, and per process and sample.
//!
//! `cargo bench --bench collect -- processes 20` samples /proc twenty times without a pause. Start a known number of
//! idle processes first; the figures of an idle host and of a busy one differ by the gate (see the collector).

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for the developer's terminal")]

use rdiag_collectors::{Sink, find};
use rdiag_kernel::host::{Host, own_usage};

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
    let id = words.next().unwrap_or_else(|| "processes".into());
    let samples: u32 = words.next().and_then(|word| word.parse().ok()).unwrap_or(20).max(2);
    let host = Host::live(std::path::Path::new("/"));
    let Some(def) = find(&id) else {
        println!("no collector is called {id}");
        return;
    };
    let out = Sink::new(def.series);
    let mut collector = (def.start)(&host);
    let cpu = || own_usage().0;
    let (begin, mut first) = (cpu(), 0.0);
    for at in 0..samples {
        collector.sample(&host, &out).unwrap();
        out.end_sample(f64::from(at), false);
        if at == 0 {
            first = cpu() - begin;
        }
    }
    let steady = (cpu() - begin - first) / f64::from(samples - 1);
    let before = cpu();
    collector.finish(&host, &out);
    let finish = cpu() - before;
    drop(collector);
    let processes = out.into_record().processes.len().max(1) as f64;
    let each = |seconds: f64| format!("{:.0} µs ({:.2} per process)", seconds * 1e6, seconds * 1e6 / processes);
    println!("{id}: {processes} processes");
    println!("first sample {}\neach further sample {}\nfinish {}", each(first), each(steady), each(finish));
    println!("largest resident memory {:.1} MiB", own_usage().1 as f64 / 1048576.0);
}
