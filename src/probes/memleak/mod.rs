//! `memleak`: memory of programs, or of the kernel, that was allocated and not freed, by stack. Each release is taken off the sum of the
//! stack that allocated, in the kernel. Blocks of the kernel are noted by their address alone, since the task that frees one need not
//! belong to the process for which it was allocated.

mod tables;

use std::collections::{HashMap, HashSet};

use super::named_stacks::{self, NamedStacks};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Kernel, Moments, Object, include_bytes_aligned, words};
use rdiag_kernel::mechanism::points;
use rdiag_kernel::mechanism::symbols::{Piece, Process, Sample, Summary, Symbols, summarize};
use rdiag_model::probe::Output;
use rdiag_model::{Reason, Unavailable, Unit};
use tables::{Key, Outstanding};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "memleak",
    question: "Which code of a program, or of the kernel, allocates memory that it does not free, and does that grow?",
    attach: "malloc, calloc, realloc, memalign, aligned_alloc, posix_memalign and free of the C library, or of another one that \
             has them. Of the kernel: kmalloc, kmem_cache_alloc (kmalloc_node and kmem_cache_alloc_node where there are such), kfree and \
             kmem_cache_free.",
    output: "Bytes and blocks that were allocated since the start and are not freed, by process, by the function that called the \
             allocator, and by stack; how many bytes were allocated in all, and by how many bytes per second the outstanding ones grew \
             in the last quarter of the time or more.",
    caveats: "Not freed yet is no leak: look at what keeps growing. Blocks from before the start are not seen, nor is their release; \
              memory that a program takes by mmap(2), by brk(2) or with an allocator of its own is not either. What a process \
              had when it ended is listed once, in the reading in which it ended. Stacks need frame pointers: without them \
              they end early or miss callers. With `one_in` blocks are drawn by chance and the figures are estimates. \
              Of the kernel: by the process for which it was allocated, which need not be what it is kept for; an interrupt counts for the \
              process that \
              it interrupts. What is allocated or freed in bulk, by pages or by vmalloc is not seen: caches of packets and what is freed \
              after a grace period may \
              seem to grow. Compare with /proc/slabinfo.",
    overhead: "A program stops twice for each allocation and once for each release, whether or not the block is followed: the \
               programs that run there take 0.7 µs on average, the stop itself comes on top, so a program that allocates much \
               becomes much slower. Of the kernel: one program run for each allocation and release on the whole host, and a stack for \
               each block that is followed: 0.5 µs a run with `one_in=10`.",
    params: &[
        ParamDef {
            name: "kernel",
            kind: ParamKind::Flag,
            default: "false",
            help: "memory of the kernel instead of programs",
        },
        ParamDef {
            name: "library",
            kind: ParamKind::Text,
            default: "libc",
            help: "the library or program whose malloc and free are watched: libc, libjemalloc, /path/to/program",
        },
        ParamDef {
            name: "one_in",
            kind: ParamKind::Count { min: 1, max: 100_000 },
            default: "1",
            help: "follow one of so many blocks; fewer stacks are taken and less room is needed",
        },
        ParamDef {
            name: "top",
            kind: ParamKind::Count { min: 1, max: 5000 },
            default: "200",
            help: "how many stacks to keep; tables have a tenth, at least 20",
        },
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Always,
    metrics: &[],
    start,
};

/// Functions of an allocator: without the first and the last there is nothing to see, the others not every one has.
const ALLOCATIONS: [&str; 6] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"];

/// Events of the kernel's allocator; releases first, and those last that not every kernel has.
const OF_KERNEL: [&str; 6] =
    ["kfree", "kmem_cache_free", "kmalloc", "kmem_cache_alloc", "kmalloc_node", "kmem_cache_alloc_node"];

struct MemLeak {
    object: Object,
    /// Memory of the kernel instead of programs.
    of_kernel: bool,
    symbols: Symbols,
    stacks: NamedStacks,
    sums: HashMap<Key, Outstanding>,
    marks: Marks,
    one_in: u64,
    top: usize,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/memleak/memleak.bpf.o"));
    let (host, kernel) = (context.host, context.kernel()?);
    let one_in = context.params.count("one_in");
    let mut globals = context.filter.globals(host)?;
    globals.push(Global::u32("one_in", u32::try_from(one_in).unwrap_or(1)));
    let mut object = kernel.load(bytes, globals, &[])?;
    let of_kernel = context.params.flag("kernel");
    if of_kernel {
        attach_to_kernel(&mut object, kernel)?;
    } else {
        attach_to_library(context, &mut object)?;
    }
    Ok(Box::new(MemLeak {
        object,
        of_kernel,
        symbols: Symbols::new(host, Some(kernel)),
        stacks: if of_kernel { NamedStacks::default() } else { NamedStacks::at_return() },
        sums: HashMap::new(),
        marks: Marks::new(host.now()),
        one_in,
        top: context.params.count("top") as usize,
    }))
}

fn attach_to_kernel(object: &mut Object, kernel: &Kernel) -> Result<(), Unavailable> {
    for (at, event) in OF_KERNEL.into_iter().enumerate() {
        if at < 4 || kernel.has_tracepoint(event) {
            object.attach(kernel, Hook::Tracepoint(event))?;
        }
    }
    Ok(())
}

fn attach_to_library(context: &Context<'_>, object: &mut Object) -> Result<(), Unavailable> {
    let host = context.host;
    let library = context.params.text("library").unwrap_or("libc");
    let pids = &context.filter.pids;
    let find = |name: &str| points::functions(host, &format!("{library}:{name}"), pids.first().copied());
    // Releases first: a block whose release is not seen would stay.
    for point in find("free").map_err(points::PointError::gap)? {
        object.attach_point_to(host, "free", &point, Moments::Entry, pids)?;
    }
    for name in ALLOCATIONS {
        match find(name) {
            Ok(found) => {
                for point in found {
                    object.attach_point_to(host, name, &point, Moments::Both, pids)?;
                }
            }
            Err(error) if name != "malloc" && error.reason == Reason::Absent => {}
            Err(error) => return Err(error.gap()),
        }
    }
    Ok(())
}

impl Probe for MemLeak {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.sums.clear();
        let sums = self.object.hash::<Key, [u64; 6]>("sums")?;
        // What a process had before it became another program went with that.
        let mut programs: HashMap<u64, u64> = HashMap::new();
        for ([tgid, _, program], _) in &sums {
            let last = programs.entry(*tgid).or_default();
            *last = (*last).max(*program);
        }
        for (key, words) in sums {
            let sum = Outstanding::of(words, self.one_in);
            let [tgid, stack, program] = key;
            if !self.of_kernel && programs.get(&tgid) != Some(&program) {
                self.object.forget::<Key, [u64; 6]>("sums", &key)?;
                continue;
            }
            let process = (!self.of_kernel).then_some(Process { pid: tgid as u32, born: sum.born });
            self.stacks.learn(host, &self.object, &mut self.symbols, process, stack);
            if self.of_kernel {
                self.symbols.learn(host, None, [program]);
            }
            self.sums.insert(key, sum);
        }
        self.marks.pass(host.now(), &self.sums);
        Ok(())
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        self.symbols.settle(host);
        let (base, seconds) = self.marks.base(host.now());
        let rows = (self.top / 10).max(20);
        let processes = tables::processes(&self.sums, base, seconds, rows);
        let code = tables::code(&self.sums, base, seconds, rows, |[tgid, stack, from], sum| {
            if self.of_kernel {
                return self.symbols.name(None, *from).map(str::to_owned);
            }
            self.stacks.innermost(&self.symbols, Process { pid: *tgid as u32, born: sum.born }, *stack)
        });
        let sample = |([tgid, stack, _], sum): (&Key, &Outstanding)| {
            let process = Process { pid: *tgid as u32, born: sum.born };
            let frames = if self.of_kernel {
                Piece::Frames { process: None, part: self.stacks.kernel_part(&self.symbols, *stack), reversed: false }
            } else {
                Piece::Frames { process: Some(process), part: self.stacks.part(*stack), reversed: false }
            };
            Sample {
                owner: words::text_of_words(&sum.comm),
                pid: Some(process.pid),
                pieces: vec![frames],
                value: sum.bytes as f64,
                count: sum.blocks.max(0).cast_unsigned(),
            }
        };
        let samples: Vec<Sample<'_>> = self.sums.iter().filter(|(_, sum)| sum.bytes > 0).map(sample).collect();
        let title = "Bytes that were allocated and not freed by stack";
        let of = Summary { id: "stacks", title, unit: Unit::Bytes, top: self.top, depth: named_stacks::DEPTH };
        let stacks = summarize(host, &mut self.symbols, &samples, of);
        drop(samples);
        // What the kernel has allocated stays when the process ends.
        if !self.of_kernel {
            self.forget_ended(host)?;
        }
        let lost = self.object.take_counts("lost")?;
        let lost = ["blocks of more stacks, or more blocks, than the tables hold", "stacks that found no room"]
            .into_iter()
            .zip(lost)
            .collect();
        Ok(Taken {
            outputs: vec![Output::Table(processes), Output::Table(code), Output::Stacks(stacks)],
            lost,
            notes: self.symbols.notes().map(str::to_owned).collect(),
        })
    }
}

impl MemLeak {
    /// What belonged to processes that have ended makes room.
    fn forget_ended(&mut self, host: &Host) -> Result<(), Unavailable> {
        let processes: HashSet<(u64, u64)> = self.sums.iter().map(|([tgid, ..], sum)| (*tgid, sum.born)).collect();
        let lives = |tgid: u64| u32::try_from(tgid).ok().and_then(|pid| Process::of(host, pid)).is_some();
        let ended: HashSet<u64> = processes.into_iter().map(|(tgid, _)| tgid).filter(|tgid| !lives(*tgid)).collect();
        if ended.is_empty() {
            return Ok(());
        }
        for key in self.sums.keys().filter(|[tgid, ..]| ended.contains(tgid)) {
            self.object.forget::<Key, [u64; 6]>("sums", key)?;
        }
        for (place, _) in self.object.hash::<[u64; 2], [u64; 4]>("blocks")? {
            let [tgid, _] = place;
            if ended.contains(&tgid) {
                self.object.forget::<[u64; 2], [u64; 4]>("blocks", &place)?;
            }
        }
        Ok(())
    }
}

/// What was outstanding at moments of the past, each about twice as long after the start as the one before, so that there is
/// always one from which growth can be told.
struct Marks {
    began: f64,
    at: Vec<(f64, HashMap<Key, i64>)>,
}

impl Marks {
    fn new(began: f64) -> Self {
        Self { began, at: vec![(began, HashMap::new())] }
    }

    fn pass(&mut self, now: f64, sums: &HashMap<Key, Outstanding>) {
        let last = self.at.last().map_or(self.began, |(at, _)| *at);
        if now > last && now - self.began >= 2.0 * (last - self.began) {
            self.at.push((now, sums.iter().map(|(key, sum)| (*key, sum.bytes)).collect()));
            if self.at.len() > 2 {
                self.at.remove(0);
            }
        }
    }

    /// The latest that is at least a quarter of the time ago, and how many seconds.
    fn base(&self, now: f64) -> (&HashMap<Key, i64>, f64) {
        static NONE: std::sync::LazyLock<HashMap<Key, i64>> = std::sync::LazyLock::new(HashMap::new);
        let far = |at: f64| now - at >= 0.25 * (now - self.began);
        let found = self.at.iter().rev().find(|(at, _)| far(*at));
        let (at, bytes) = found.map_or((self.began, &*NONE), |(at, bytes)| (*at, bytes));
        (bytes, (now - at).max(1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_from_a_moment_at_least_a_quarter_of_the_time_ago() {
        let mut marks = Marks::new(100.0);
        let mut seen = Vec::new();
        for second in 1..=10_i64 {
            let sum = Outstanding { bytes: second, ..Outstanding::default() };
            marks.pass(100.0 + second as f64, &HashMap::from([([1, 2, 3], sum)]));
            let (base, seconds) = marks.base(100.0 + second as f64);
            seen.push((base.get(&[1, 2, 3]).copied().unwrap_or(0), seconds));
        }
        assert_eq!(seen[0], (0, 1.0));
        assert_eq!(seen[2], (2, 1.0));
        assert_eq!(seen[9], (4, 6.0));
        assert!(marks.at.len() == 2);
    }
}
