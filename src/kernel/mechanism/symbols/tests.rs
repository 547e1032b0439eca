use super::stacks::{Part, Piece, Sample, Summary, calls, summarize};
use super::*;
use rdiag_model::Unit;

/// A live host, whose processes are those of the test.
fn host() -> Host {
    Host::live(std::path::Path::new("/"))
}

fn this_process(host: &Host) -> Process {
    let stat = host.read("proc/self/stat").unwrap();
    let ticks: u64 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    Process { pid: std::process::id(), born: ticks * 1_000_000_000 / host.facts().ticks_per_second }
}

/// A number of its own, since a compiler that optimises makes one function of two that are the same; and it calls nothing, since
/// what is called may become a part of it, with another name.
#[inline(never)]
fn a_function_with_a_name_of_its_own(number: u64) -> u64 {
    number ^ 0x5a17_0f5e_7e57
}

const SUMMARY: Summary<'_> = Summary { id: "s", title: "t", unit: Unit::Seconds, top: 2, depth: 127 };

fn name_of(symbols: &mut Symbols, process: Process, address: u64) -> String {
    let At::Frames(frames, _) = symbols.at(Some(process), address) else { return "no code".into() };
    frames.iter().map(|frame| symbols.frames()[*frame as usize].name.clone()).collect::<Vec<_>>().join(";")
}

#[test]
fn a_function_of_a_running_process_has_its_demangled_name_and_binary() {
    let host = host();
    let process = this_process(&host);
    let address = a_function_with_a_name_of_its_own as fn(u64) -> u64 as usize as u64;
    let mut symbols = Symbols::default();
    symbols.learn(&host, Some(process), [address, address]);
    symbols.settle(&host);
    assert!(name_of(&mut symbols, process, address).contains("symbols::tests::a_function_with_a_name_of_its_own"));
    let At::Frames(frames, named) = symbols.at(Some(process), address) else { panic!("no code") };
    let frame = &symbols.frames()[frames[0] as usize];
    assert!(
        named && !frame.kernel && frame.object.as_deref().is_some_and(|object| object.starts_with("rdiag")),
        "{frame:?}"
    );
    assert!(frame.line.as_deref().is_some_and(|line| line.contains("symbols/tests.rs:")), "{frame:?}");
}

#[test]
fn what_has_no_name_stays_an_address_and_nothing_fails() {
    let host = host();
    let process = this_process(&host);
    let mut symbols = Symbols::default();
    let ended = Process { pid: u32::MAX, born: 1 };
    let reused = Process { born: process.born + 60_000_000_000, ..process };
    symbols.learn(&host, Some(process), [0, 1, u64::MAX]);
    symbols.learn(&host, Some(ended), [0x1000]);
    symbols.learn(&host, Some(reused), [a_function_with_a_name_of_its_own as fn(u64) -> u64 as usize as u64]);
    symbols.settle(&host);
    assert_eq!(name_of(&mut symbols, process, u64::MAX), "no code");
    assert_eq!(name_of(&mut symbols, ended, 0x1000), "0x1000");
    assert!(
        symbols.known.values().all(|known| matches!(known, Known::Unnamed(_) | Known::NoCode)),
        "{:?}",
        symbols.known
    );
}

#[expect(clippy::disallowed_methods, reason = "the test plays the process that compiles")]
#[test]
fn code_that_was_compiled_at_run_time_has_the_name_that_its_process_wrote_down_in_a_file_not_a_link() {
    let host = host();
    let process = this_process(&host);
    let path = format!("/tmp/perf-{}.map", process.pid);
    std::fs::write(&path, "7f0000001000 100 jit::compiled_function\n").unwrap();
    let mut symbols = Symbols::default();
    let nameless = symbols.compiled_at_run_time(&host, process, &[0x7f00_0000_1010, 0x7f00_0000_2000]);
    assert_eq!(nameless, [0x7f00_0000_2000]);
    assert_eq!(name_of(&mut symbols, process, 0x7f00_0000_1010), "jit::compiled_function");
    assert_eq!(name_of(&mut symbols, process, 0x7f00_0000_2000), "0x7f0000002000");
    let moved = format!("{path}.moved");
    std::fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &path).unwrap();
    let mut maps = perf_map::PerfMaps::default();
    assert!(maps.of(&host, process).is_none(), "it is a link");
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&moved, &path).unwrap();
    assert!(maps.of(&host, process).is_none(), "it is not looked for again so soon");
    let mut maps = perf_map::PerfMaps::default();
    let another = Process { born: process.born + 1_000_000_000, ..process };
    assert!(maps.of(&host, another).is_none(), "that of a process that had this number before");
    let first = maps.of(&host, process).unwrap();
    std::fs::write(&path, "7f0000001000 100 jit::compiled_again\n").unwrap();
    assert!(Arc::ptr_eq(&first, &maps.of(&host, process).unwrap()), "it is not looked for again so soon");
    std::thread::sleep(std::time::Duration::from_millis(1050));
    let second = maps.of(&host, process);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(second.unwrap().name(0x7f00_0000_1010), Some("jit::compiled_again"));
}

#[test]
fn addresses_to_return_to_are_looked_up_at_the_call_before_them() {
    let user = Some(Process { pid: 1, born: 0 });
    assert_eq!(calls(user, &[100, 200, 0]).collect::<Vec<_>>(), [100, 199, 0]);
    assert_eq!(calls(None, &[100, 200]).collect::<Vec<_>>(), [99, 199]);
}

/// Symbols that know names by fiat.
fn fixed(names: &[(Option<Process>, u64, &str)]) -> Symbols {
    let mut symbols = Symbols::default();
    for (process, address, name) in names {
        let frame = symbols.intern(Frame { name: (*name).into(), kernel: process.is_none(), ..Frame::default() });
        symbols.known.insert((*process, *address), Known::Named(vec![frame]));
    }
    symbols
}

#[test]
fn sums_of_the_same_names_are_added_and_the_shares_tell_what_is_wrong() {
    let user = Some(Process { pid: 7, born: 1 });
    let mut symbols = fixed(&[
        (user, 10, "read"),
        (user, 19, "main"),
        (user, 29, "_start"),
        (None, 99, "schedule"),
        (None, 199, "do_read"),
    ]);
    let sample = |user_part, kernel_part, value| Sample {
        owner: "app".into(),
        pid: Some(7),
        pieces: vec![
            Piece::Frames { process: user, part: user_part, reversed: false },
            Piece::Frames { process: None, part: kernel_part, reversed: false },
        ],
        value,
        count: 1,
    };
    let kernel = Part::Taken(&[100, 200]);
    let stacks = summarize(
        &host(),
        &mut symbols,
        &[
            sample(Part::Taken(&[10, 20, 30]), kernel, 4.0),
            sample(Part::Taken(&[10, 20, 30]), kernel, 4.0),
            sample(Part::Taken(&[10, 20]), kernel, 2.0),
            sample(Part::Taken(&[10, 55, 30]), kernel, 1.0),
            sample(Part::None, Part::Missing, 0.5),
            sample(Part::Missing, kernel, 0.25),
        ],
        SUMMARY,
    );
    let names = |at: usize| -> Vec<&str> {
        stacks.stacks[at].frames.iter().map(|frame| stacks.frames[*frame as usize].name.as_str()).collect()
    };
    assert_eq!(names(0), ["_start", "main", "read", "do_read", "schedule"]);
    assert_eq!((stacks.stacks[0].value, stacks.stacks[0].count, stacks.stacks.len()), (8.0, 2, 2));
    assert_eq!(stacks.others, 1.25);
    assert_eq!((stacks.unresolved, stacks.truncated, stacks.missing), (1.0, 2.25, 0.5));
}

#[test]
fn a_stack_of_the_greatest_depth_counts_as_cut() {
    let user = Some(Process { pid: 7, born: 1 });
    let mut symbols = fixed(&[(user, 10, "f"), (user, 9, "_start")]);
    let pieces = vec![Piece::Frames { process: user, part: Part::Taken(&[10, 10]), reversed: false }];
    let sample = Sample { owner: "app".into(), pid: None, pieces, value: 1.0, count: 1 };
    let stacks = |depth| {
        summarize(
            &host(),
            &mut fixed(&[(user, 10, "f"), (user, 9, "_start")]),
            std::slice::from_ref(&sample),
            Summary { depth, ..SUMMARY },
        )
    };
    assert_eq!((stacks(3).truncated, stacks(2).truncated), (0.0, 1.0));
    assert_eq!(summarize(&host(), &mut symbols, &[], SUMMARY).stacks, []);
}

#[test]
fn what_lies_beyond_an_address_without_code_is_not_believed() {
    let user = Some(Process { pid: 7, born: 1 });
    let mut symbols = fixed(&[(user, 10, "f"), (user, 29, "_start")]);
    symbols.known.insert((user, 19), Known::NoCode);
    let pieces = vec![Piece::Frames { process: user, part: Part::Taken(&[10, 20, 30]), reversed: false }];
    let sample = Sample { owner: "app".into(), pid: None, pieces, value: 1.0, count: 1 };
    let stacks = summarize(&host(), &mut symbols, &[sample], SUMMARY);
    assert_eq!((stacks.frames.len(), stacks.frames[0].name.as_str()), (1, "f"));
    assert_eq!((stacks.truncated, stacks.unresolved), (1.0, 0.0));
}

/// With a value to begin with, so that it lies in the file.
static A_VARIABLE_WITH_A_NAME_OF_ITS_OWN: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0x5a17);

#[test]
fn a_variable_of_a_running_process_has_its_name_and_what_is_on_the_heap_has_none() {
    let host = host();
    let process = this_process(&host);
    let variable = std::ptr::from_ref(&A_VARIABLE_WITH_A_NAME_OF_ITS_OWN) as u64;
    let heap = Box::new(7_u64);
    let heap = std::ptr::from_ref(heap.as_ref()) as u64;
    let mut symbols = Symbols::default();
    symbols.learn_variables(&host, process, [variable, variable, heap]);
    symbols.settle(&host);
    let name = symbols.variable(process, variable).unwrap_or_default();
    assert!(name.ends_with("A_VARIABLE_WITH_A_NAME_OF_ITS_OWN"), "{name}");
    assert_eq!(symbols.variable(process, heap), None);
    let ended = Process { pid: u32::MAX, born: 1 };
    symbols.learn_variables(&host, ended, [variable]);
    assert_eq!(symbols.variable(ended, variable), None);
}
