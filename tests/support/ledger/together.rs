//! The programs of several threads, which wait for each other.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use rustix::thread::futex;

use super::meter::Meter;
use super::programs::{Run, main_thread};

/// A thread that measures itself.
fn thread(name: &str, work: impl FnOnce(&mut Meter) + Send + 'static) -> JoinHandle<()> {
    let name = name.to_owned();
    std::thread::spawn(move || {
        let mut meter = Meter::start(&name);
        work(&mut meter);
        meter.end();
    })
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

pub(super) fn futex_convoy(run: &Run) {
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

pub(super) fn condvar_pool(run: &Run) {
    let (workers, close) = pool(8);
    main_thread(|meter| {
        while !run.stop() {
            meter.sleep(0.02);
        }
        close();
        workers.into_iter().for_each(|worker| join(meter, worker));
    });
}

pub(super) fn pipe_ping_pong(run: &Run) {
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

pub(super) fn epoll_server(run: &Run) {
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

pub(super) fn tcp_client(run: &Run) {
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

pub(super) fn threads(run: &Run) {
    let (workers, close) = pool(199);
    main_thread(|meter| {
        while !run.stop() {
            meter.spin(0.01);
        }
        close();
        workers.into_iter().for_each(|worker| join(meter, worker));
    });
}

pub(super) fn births(run: &Run) {
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

pub(super) fn blocked(run: &Run) {
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

pub(super) fn mix(run: &Run) {
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
