//! Waits in poll, select and io_uring, whose programs know what they waited for: a name server that does not answer, a server that takes
//! its time.

use std::net::{TcpListener, UdpSocket};
use std::process::Command;

use serde_json::Value;

use super::response::NEEDS;
use crate::support::{Need, alone, has, rdiag, skip};

/// What the account of a command says of its waits for events, the longest first: name, seconds and number.
fn waits(command: &[&str]) -> Vec<(String, f64, u64)> {
    let output = rdiag()
        .args(["run", "method-r", "--no-guided", "--format", "json", "--out", "-", "--budget", "100%", "--"])
        .args(command)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = report.get("profile").expect("a profile");
    assert_eq!(profile["level"], "L3", "{profile:#}");
    let polls = profile["components"].as_array().unwrap().iter().find(|row| row["id"] == "wait.poll");
    let keys = polls.and_then(|row| row["keys"].as_array()).cloned().unwrap_or_default();
    let figures = |key: &Value| {
        (key["name"].as_str().unwrap().to_owned(), key["seconds"].as_f64().unwrap(), key["count"].as_u64().unwrap_or(0))
    };
    keys.iter().map(figures).collect()
}

/// A server's socket at a port below those that clients get: of two ports the lower one is taken for the service's.
fn service() -> TcpListener {
    let at = |port: u16| TcpListener::bind(("127.0.0.1", port)).ok();
    (20_000..30_000).find_map(at).expect("a port is free")
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn a_name_server_that_does_not_answer_and_a_slow_server_are_named_as_what_is_polled_for() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("python3")]) {
        return;
    }
    let Ok(_silent) = UdpSocket::bind("127.77.53.53:53") else {
        return skip("there is a name server on all addresses");
    };
    let slow = service();
    let port = slow.local_addr().unwrap().port();
    let script = format!(
        "import select, socket\n\
         dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         dns.connect(('127.77.53.53', 53))\n\
         dns.send(b'who')\n\
         poll = select.poll()\n\
         poll.register(dns, select.POLLIN)\n\
         for attempt in range(2): poll.poll(900)\n\
         server = socket.create_connection(('127.0.0.1', {port}))\n\
         select.select([server], [], [], 0.7)\n"
    );
    let waits = waits(&["python3", "-S", "-c", &script]);
    let [dns, server, rest @ ..] = waits.as_slice() else { panic!("{waits:#?}") };
    assert!(dns.0 == "127.77.53.53:53 (DNS)" && (dns.1 - 1.8).abs() < 0.1 && dns.2 == 2, "{waits:#?}");
    assert!(server.0 == format!("127.0.0.1:{port}") && (server.1 - 0.7).abs() < 0.1 && server.2 == 1, "{waits:#?}");
    assert!(rest.iter().map(|(_, seconds, _)| seconds).sum::<f64>() < 0.05, "{waits:#?}");
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn an_event_loop_waits_for_any_of_its_descriptors() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("python3")]) {
        return;
    }
    let slow = service();
    let port = slow.local_addr().unwrap().port();
    let script = format!(
        "import os, select, socket\n\
         server = socket.create_connection(('127.0.0.1', {port}))\n\
         reader, writer = os.pipe()\n\
         loop = select.epoll()\n\
         for one in (server, reader): loop.register(one, select.EPOLLIN)\n\
         loop.poll(1.2)\n"
    );
    let waits = waits(&["python3", "-S", "-c", &script]);
    let (name, seconds, _) = waits.first().expect("a wait");
    assert!(name.starts_with(&format!("127.0.0.1:{port} or pipe:[")) && (seconds - 1.2).abs() < 0.1, "{waits:#?}");
}

/// A request to a disk, and then a wait of 1.5 s for a socket through an io_uring.
const RING: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int pair[2];
static void *answer(void *none)
{
    struct timespec nap = { 1, 500000000 };
    nanosleep(&nap, 0);
    return write(pair[1], "x", 1) == 1 ? none : 0;
}
int main(int count, char **arguments)
{
    struct io_uring_params made = { 0 };
    int ring = syscall(__NR_io_uring_setup, 4, &made);
    if (ring < 0 || count < 2) return 77;
    int flags = MAP_SHARED | MAP_POPULATE, rights = PROT_READ | PROT_WRITE;
    char *queue = mmap(0, made.sq_off.array + made.sq_entries * 4, rights, flags, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries = mmap(0, made.sq_entries * sizeof(*entries), rights, flags, ring, IORING_OFF_SQES);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pthread_t other;
    pthread_create(&other, 0, answer, 0);
    int file = open(arguments[1], O_RDWR | O_CREAT | O_DIRECT, 0600);
    void *block;
    if (posix_memalign(&block, 4096, 4096) || pwrite(file, memset(block, 1, 4096), 4096, 0) != 4096) return 77;
    fsync(file);
    static char got[8];
    entries[0] = (struct io_uring_sqe){ .opcode = IORING_OP_RECV, .fd = pair[0], .addr = (unsigned long)got, .len = 1 };
    *(unsigned *)(queue + made.sq_off.array) = 0;
    unsigned *tail = (unsigned *)(queue + made.sq_off.tail);
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    return syscall(__NR_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) != 1;
}
"#;

#[test]
#[ignore = "needs: root, eBPF, cc, io_uring, /var/tmp on a disk"]
fn an_io_uring_that_waits_for_a_socket_after_a_request_to_a_disk_waits_for_no_disk() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (source, program, file) = (path("ring.c"), path("ring"), path("file"));
    std::fs::write(&source, RING).unwrap();
    assert!(Command::new("cc").args(["-O1", "-pthread", "-o", &program, &source]).status().unwrap().success());
    if Command::new(&program).arg(&file).status().unwrap().code() == Some(77) {
        return skip("io_uring is switched off, or /var/tmp takes no direct writes");
    }
    let waits = waits(&[&program, &file]);
    let (name, seconds, count) = waits.first().expect("a wait");
    assert!(name == "io_uring: recv" && (seconds - 1.5).abs() < 0.1 && *count == 1, "{waits:#?}");
}

/// A poll of 1.2 s for a pipe, whose list is taken out of memory meanwhile: who reads it waits for the program itself.
const GONE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *list;
static int owner;
static void *take_away(void *none)
{
    struct uffdio_register own = { { (unsigned long)list, 4096 }, UFFDIO_REGISTER_MODE_MISSING, 0 };
    usleep(10000);
    if (ioctl(owner, UFFDIO_REGISTER, &own) || madvise(list, 4096, MADV_DONTNEED)) _exit(77);
    usleep(1150000);
    close(owner);
    return none;
}
int main(void)
{
    struct uffdio_api api = { UFFD_API, 0, 0 };
    int ends[2];
    owner = syscall(__NR_userfaultfd, O_CLOEXEC);
    list = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (owner < 0 || ioctl(owner, UFFDIO_API, &api) || list == MAP_FAILED || pipe(ends)) return 77;
    *(struct pollfd *)list = (struct pollfd){ ends[0], POLLIN, 0 };
    pthread_t other;
    pthread_create(&other, 0, take_away, 0);
    return poll(list, 1, 1200);
}
"#;

#[test]
#[ignore = "needs: root, eBPF, cc, userfaultfd"]
fn a_list_of_poll_that_has_gone_from_memory_is_known_and_holds_nothing_up() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (source, program) = (path("gone.c"), path("gone"));
    std::fs::write(&source, GONE).unwrap();
    assert!(Command::new("cc").args(["-O1", "-pthread", "-o", &program, &source]).status().unwrap().success());
    if Command::new(&program).status().unwrap().code() == Some(77) {
        return skip("there is no userfaultfd");
    }
    let waits = waits(&[&program]);
    let (name, seconds, count) = waits.first().expect("a wait");
    assert!(name.starts_with("pipe:[") && (seconds - 1.2).abs() < 0.1 && *count == 1, "{waits:#?}");
}
