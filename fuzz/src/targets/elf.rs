//! Programs and libraries, which belong to whoever runs them: by the process that reads symbols, and by what finds functions and markers.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rdiag_kernel::host::{Host, HostSpec};
use rdiag_kernel::mechanism::symbols::fuzzed;
use rdiag_kernel::mechanism::{btf, points};

/// Functions inlined into each other, and themselves: more is not told of one address.
const MOST_FUNCTIONS: usize = 51;
/// Functions of a program that are looked at: each has its file read.
const MOST_POINTS: usize = 4;
/// Characters of a name.
const MOST_NAME: usize = 500;

/// What the process that reads symbols does with one file. Offsets are everywhere in it.
pub fn symbols(data: &[u8]) -> bool {
    let mut file = memory();
    file.write_all(data).expect("a file in memory");
    let step = (data.len() as u64 / 64).max(1);
    let offsets: Vec<u64> = (0..64).map(|at| at * step).chain([u64::MAX, data.len() as u64]).collect();
    let mut named = 0;
    for lines in [false, true] {
        let Ok(names) = fuzzed::names(&file, &offsets, lines) else { continue };
        assert_eq!(names.len(), offsets.len());
        named += names.iter().filter(|functions| !functions.is_empty()).count();
        for functions in names {
            assert!(functions.len() <= MOST_FUNCTIONS, "{} functions at one address", functions.len());
            for (name, line) in functions {
                let longest = name.chars().count().max(line.map_or(0, |line| line.chars().count()));
                assert!(longest <= MOST_NAME, "a name of {longest} characters");
            }
        }
    }
    let callers = fuzzed::rows(&file, &offsets).unwrap_or(0);
    assert!(callers <= offsets.len());
    let has_interpreter = fuzzed::interpreter(&file, [8, 11, 12, 13, 14]);
    named + callers > 0 || has_interpreter
}

fn memory() -> std::fs::File {
    rustix::fs::memfd_create("fuzzed", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory").into()
}

/// What a probe finds in a program: functions by name, and markers. Types of the kernel (BTF) are read by the same name.
pub fn points(data: &[u8]) -> bool {
    if let Some(types) = btf::Types::parse(data.to_vec()) {
        types.numbers().take(1000).for_each(|number| {
            let _ = (types.name(number), types.members(number), types.words(number).count(), types.lead(number));
        });
        let _ = types.find(btf::STRUCT, "task_struct");
    }
    // Each thread has its own.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static ROOT: (tempfile::TempDir, u64) = (
            tempfile::Builder::new().prefix("rdiag-elf-").tempdir_in("/dev/shm").expect("a folder in memory"),
            COUNT.fetch_add(1, Ordering::Relaxed),
        );
    }
    ROOT.with(|(root, _)| {
        let place = root.path().join("t0/x");
        std::fs::create_dir_all(place.parent().unwrap_or(Path::new("/"))).expect("a folder in memory");
        std::fs::write(&place, data).expect("a file in memory");
        let host = Host::recorded(root.path(), HostSpec { times: vec![0.0], ..HostSpec::default() });
        let mut found = 0;
        for text in ["/x:main", "/x:*", "/x:m*n"] {
            for point in points::functions(&host, text, None).unwrap_or_default().iter().take(MOST_POINTS) {
                found += 1;
                // Of a program of Go: where its goroutines move, and why.
                if let Ok(Some(scheduler)) = points::Scheduler::of(point, point) {
                    assert!(scheduler.reasons.len() < 256 && scheduler.lays_down.len() >= 4);
                }
            }
        }
        for text in ["/x:*:*", "/x:a:b"] {
            for point in points::markers(&host, text, None).unwrap_or_default() {
                found += 1;
                assert!(point.fields.len() <= 64, "a marker with {} arguments", point.fields.len());
            }
        }
        found > 0
    })
}

/// What a process has mapped, and what it says of code that it compiled: `maps`, a first byte of 0, then `perf-PID.map`.
pub fn maps(data: &[u8]) -> bool {
    let at = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (maps, compiled) = data.split_at(at);
    let (maps, compiled) = (String::from_utf8_lossy(maps), String::from_utf8_lossy(compiled));
    let addresses = [0, 1, 0x1000, 0x40_0000, 0x7f00_0000_0000, 0x7fff_ffff_ffff, u64::MAX];
    fuzzed::maps(&maps, &addresses);
    fuzzed::compiled(&compiled, &addresses);
    !maps.is_empty()
}
