//! The programs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use rustix::thread::futex;

use super::meter::{self, Meter, now};
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
    fn stop(&self) -> bool {
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

/// A thread that measures itself.
fn thread(name: &str, work: impl FnOnce(&mut Meter) + Send + 'static) -> JoinHandle<()> {
    let name = name.to_owned();
    std::thread::spawn(move || {
        let mut meter = Meter::start(&name);
        work(&mut meter);
        meter.end();
    })
}

/// The main thread measures itself.
fn main_thread(work: impl FnOnce(&mut Meter)) {
    let mut meter = Meter::start("main");
    Run::ready();
    work(&mut meter);
    meter.end();
}

fn join(meter: &mut Meter, handle: JoinHandle<()>) {
    meter.wait("wait.futex", || handle.join().unwrap());
}

fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().unwrap()
}

/// Takes a byte; `false` when the other end is closed.
fn take(from: &OwnedFd) -> bool {
    rustix::io::read(from, &mut [0_u8; 1][..]).is_ok_and(|read| read == 1)
}

fn give(to: &OwnedFd) {
    let _ = rustix::io::write(to, &[1]);
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

/// A lock as the C library makes it: 0 is free, 1 is taken, 2 is taken and waited for.
struct Lock(AtomicU32);

impl Lock {
    fn take(&self) {
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        while self.0.swap(2, Ordering::Acquire) != 0 {
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, 2, None);
        }
    }

    fn give_back(&self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }
}

fn futex_convoy(run: &Run) {
    let lock = Arc::new(Lock(AtomicU32::new(0)));
    let end = Arc::new(AtomicBool::new(false));
    let convoy: Vec<_> = (0..4)
        .map(|number| {
            let (lock, end) = (Arc::clone(&lock), Arc::clone(&end));
            thread(&format!("convoy-{number}"), move |meter| {
                while !end.load(Ordering::Relaxed) {
                    meter.wait("lock.user", || lock.take());
                    meter.spin(0.002);
                    lock.give_back();
                    // Otherwise it would take the lock again before the others are awake.
                    meter.sleep(0.0002);
                }
            })
        })
        .collect();
    main_thread(|meter| {
        while !run.stop() {
            meter.sleep(0.02);
        }
        end.store(true, Ordering::Relaxed);
        convoy.into_iter().for_each(|thread| join(meter, thread));
    });
}

/// Threads that wait for work until there is none; the handle ends them.
fn pool(count: usize) -> (Vec<JoinHandle<()>>, impl FnOnce()) {
    let closed = Arc::new((Mutex::new(false), Condvar::new()));
    let worker = |_| {
        let closed = Arc::clone(&closed);
        thread("worker", move |meter| {
            meter
                .wait("wait.futex", || drop(closed.1.wait_while(closed.0.lock().unwrap(), |closed| !*closed).unwrap()));
        })
    };
    let workers = (0..count).map(worker).collect();
    (workers, move || {
        *closed.0.lock().unwrap() = true;
        closed.1.notify_all();
    })
}

fn condvar_pool(run: &Run) {
    let (workers, close) = pool(8);
    main_thread(|meter| {
        while !run.stop() {
            meter.sleep(0.02);
        }
        close();
        workers.into_iter().for_each(|worker| join(meter, worker));
    });
}

fn pipe_ping_pong(run: &Run) {
    let (ping, pong) = (pipe(), pipe());
    let (here, there) = ((pong.0, ping.1), (ping.0, pong.1));
    let partner = thread("partner", move |meter| {
        while meter.wait("ipc.pipe", || take(&there.0)) {
            give(&there.1);
        }
    });
    main_thread(|meter| {
        while !run.stop() {
            give(&here.1);
            meter.wait("ipc.pipe", || take(&here.0));
        }
        drop(here);
        join(meter, partner);
    });
}

fn epoll_server(run: &Run) {
    use rustix::event::epoll;
    let (mut server, mut client) = UnixStream::pair().unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&end);
    let serving = thread("server", move |meter| {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        epoll::add(&poll, &server, epoll::EventData::new_u64(1), epoll::EventFlags::IN).unwrap();
        let mut events = Vec::with_capacity(4);
        loop {
            events.clear();
            let _ = meter
                .wait("wait.poll", || epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None).unwrap());
            if server.read(&mut [0]).unwrap_or(0) == 0 {
                break;
            }
            meter.spin(0.002);
            let _ = server.write_all(&[1]);
        }
    });
    let asking = thread("client", move |meter| {
        while !ended.load(Ordering::Relaxed) {
            meter.sleep(0.008);
            let _ = client.write_all(&[1]);
            let _ = meter.wait("ipc.unix", || client.read(&mut [0]));
        }
    });
    main_thread(|meter| {
        while !run.stop() {
            meter.sleep(0.02);
        }
        end.store(true, Ordering::Relaxed);
        join(meter, asking);
        join(meter, serving);
    });
}

fn tcp_client(run: &Run) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    let server = thread("server", move |meter| {
        while meter.wait("net.recv", || peer.read(&mut [0])).unwrap_or(0) == 1 {
            meter.sleep(0.01);
            let _ = peer.write_all(&[1]);
        }
    });
    main_thread(|meter| {
        while !run.stop() {
            client.write_all(&[1]).unwrap();
            let _ = meter.wait("net.recv", || client.read(&mut [0]));
        }
        drop(client);
        join(meter, server);
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

fn threads(run: &Run) {
    let (workers, close) = pool(199);
    main_thread(|meter| {
        while !run.stop() {
            meter.spin(0.01);
        }
        close();
        workers.into_iter().for_each(|worker| join(meter, worker));
    });
}

fn births(run: &Run) {
    main_thread(|meter| {
        while !run.stop() {
            let mayfly = thread("mayfly", |meter| {
                meter.sleep(0.06);
                meter.spin(0.04);
            });
            join(meter, mayfly);
        }
    });
}

fn blocked(run: &Run) {
    let (reading, writing) = pipe();
    let waiting = thread("blocked", move |meter| {
        meter.wait("ipc.pipe", || take(&reading));
    });
    main_thread(|meter| {
        while !run.stop() {
            meter.sleep(0.02);
        }
        drop(writing);
        join(meter, waiting);
    });
}

fn mix(run: &Run) {
    let (asked, answered) = (pipe(), pipe());
    let (here, there) = ((answered.0, asked.1), (asked.0, answered.1));
    let feeder = thread("feeder", move |meter| {
        while meter.wait("ipc.pipe", || take(&there.0)) {
            meter.sleep(0.025);
            give(&there.1);
        }
    });
    main_thread(|meter| {
        while !run.stop() {
            meter.spin(0.02);
            meter.sleep(0.03);
            give(&here.1);
            meter.wait("ipc.pipe", || take(&here.0));
        }
        drop(here);
        join(meter, feeder);
    });
}
