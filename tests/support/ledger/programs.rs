//! The programs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::meter::{self, Meter, now};
use super::together::{
    births, blocked, condvar_pool, epoll_server, futex_convoy, mix, pipe_ping_pong, tcp_client, threads,
};
use super::{Truth, memory};

type Program = fn(&Run);

/// All programs, and what their time goes into.
pub const PROGRAMS: &[(&str, Program)] = &[
    // cpu.user
    ("spin", spin),
    // cpu.sys for the most part: one system call after the other
    ("getpid", getpid),
    // wait.sleep in pauses of 10 ms
    ("sleep", sleep),
    // wait.sleep: of 100 pauses of 2 ms one is of 200 ms
    ("skewed-sleep", skewed_sleep),
    // io.block.read: O_DIRECT, blocks of 64 KiB; `path` is a file or a block device
    ("direct-read", direct_read),
    // io.block.sync: a page written and synced
    ("fsync", fsync),
    // lock.user 75 % and cpu 25 %, about: four threads and one lock that is held for 2 ms
    ("futex-convoy", futex_convoy),
    // wait.futex: eight threads wait for work that never comes
    ("condvar-pool", condvar_pool),
    // ipc.pipe: two threads and one byte
    ("pipe-ping-pong", pipe_ping_pong),
    // wait.poll in the thread `server`, which works 2 ms on each of the requests; wait.sleep and ipc.unix in `client`
    ("epoll-server", epoll_server),
    // net.recv in `client`: a server answers after 10 ms
    ("tcp-client", tcp_client),
    // fault.file: a mapped file is read page by page; `path` as above
    ("fault-file", fault_file),
    // cpu.sys: fresh memory is touched page by page
    ("fault-anonymous", fault_anonymous),
    // wait.child: one child after the other, each of them sleeps 50 ms
    ("children", children),
    // wait.futex in 199 threads, cpu.user in one
    ("threads", threads),
    // wait.futex in `main`; threads `mayfly` live for 100 ms, of which they sleep 60 ms and spin 40 ms
    ("births", births),
    // ipc.pipe: a thread that sees no event at all while it is observed
    ("blocked", blocked),
    // 20 ms cpu.user, 30 ms wait.sleep, 25 ms ipc.pipe, again and again
    ("mix", mix),
];

/// What a program was started with.
pub struct Run {
    stop: Arc<AtomicBool>,
    until: f64,
    params: BTreeMap<String, String>,
}

impl Run {
    pub(super) fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || now() > self.until
    }

    /// Says that it is under way.
    fn ready() {
        println!("ready");
        let _ = std::io::stdout().flush();
    }

    /// The file `path`, or a scratch file that has no name any more.
    fn file(&self, bytes: usize, flags: rustix::fs::OFlags) -> File {
        let mut options = File::options();
        options.read(true).custom_flags(flags.bits().cast_signed());
        if let Some(path) = self.params.get("path") {
            return options.open(path).unwrap();
        }
        let folder = self.params.get("folder").map_or_else(std::env::temp_dir, PathBuf::from);
        let path = folder.join(format!("rdiag-ledger-{}", std::process::id()));
        let mut made = File::create(&path).unwrap();
        made.write_all(&vec![7; bytes]).unwrap();
        made.sync_all().unwrap();
        let file = options.write(true).open(&path);
        std::fs::remove_file(&path).unwrap();
        file.unwrap()
    }
}

/// Runs the program of this name and prints its truth; the exit status.
pub fn run(name: &str, words: impl Iterator<Item = String>) -> i32 {
    let Some((_, program)) = PROGRAMS.iter().find(|(known, _)| *known == name) else {
        println!("there is no program {name:?}");
        return 2;
    };
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let params: BTreeMap<String, String> =
        words.filter_map(|word| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))).collect();
    if params.contains_key(super::ON_ONE_CPU) {
        let mut here = rustix::thread::CpuSet::new();
        here.set(rustix::thread::sched_getcpu());
        rustix::thread::sched_setaffinity(None, &here).unwrap();
    }
    let seconds = params.get("seconds").and_then(|value| value.parse().ok()).unwrap_or(60.0);
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop)).unwrap();
    let began = now();
    program(&Run { stop, until: began + seconds, params });
    let truth = Truth { pid: std::process::id(), began, ended: now(), threads: meter::accounts() };
    println!("{}", serde_json::to_string(&truth).unwrap());
    0
}

/// The main thread measures itself.
pub(super) fn main_thread(work: impl FnOnce(&mut Meter)) {
    let mut meter = Meter::start("main");
    Run::ready();
    work(&mut meter);
    meter.end();
}

fn spin(run: &Run) {
    main_thread(|meter| {
        while !run.stop() {
            meter.spin(0.01);
        }
    });
}

fn getpid(run: &Run) {
    main_thread(|_| {
        while !run.stop() {
            for _ in 0..1000 {
                std::hint::black_box(rustix::process::getppid());
            }
        }
    });
}

fn sleep(run: &Run) {
    main_thread(|meter| {
        while !run.stop() {
            meter.sleep(0.01);
        }
    });
}

fn skewed_sleep(run: &Run) {
    main_thread(|meter| {
        for turn in 0_u32.. {
            if run.stop() {
                break;
            }
            meter.sleep(if turn % 100 == 50 { 0.2 } else { 0.002 });
        }
    });
}

/// A buffer that O_DIRECT takes.
#[repr(align(4096))]
struct Aligned([u8; 65536]);

fn direct_read(run: &Run) {
    let bytes = 32 << 20;
    let file = run.file(bytes, rustix::fs::OFlags::DIRECT);
    let mut buffer = Box::new(Aligned([0; 65536]));
    main_thread(|meter| {
        for turn in 0_u64.. {
            if run.stop() {
                break;
            }
            let offset = turn * 65536 % bytes as u64;
            meter.wait("io.block.read", || file.read_at(&mut buffer.0, offset).unwrap());
        }
    });
}

fn fsync(run: &Run) {
    let file = run.file(1 << 20, rustix::fs::OFlags::empty());
    main_thread(|meter| {
        for turn in 0_u64.. {
            if run.stop() {
                break;
            }
            file.write_at(&[turn as u8; 4096], turn * 4096 % (1 << 20)).unwrap();
            meter.wait("io.block.sync", || file.sync_all().unwrap());
        }
    });
}

fn fault_file(run: &Run) {
    let bytes = 16 << 20;
    let file = run.file(bytes, rustix::fs::OFlags::empty());
    main_thread(|meter| {
        while !run.stop() {
            memory::read_mapped(meter, &file, bytes, &|| run.stop());
        }
    });
}

fn fault_anonymous(run: &Run) {
    main_thread(|_| {
        while !run.stop() {
            memory::touch_fresh(4 << 20);
        }
    });
}

fn children(run: &Run) {
    main_thread(|meter| {
        while !run.stop() {
            meter.wait("wait.child", || {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args([super::ARGUMENT, "sleep", "seconds=0.05"]).stdout(Stdio::null());
                command.status().unwrap()
            });
        }
    });
}
