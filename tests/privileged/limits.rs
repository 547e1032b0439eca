//! Limits at which something is refused at once: local ports, processes of a user. What has to do with the network lives in a network
//! namespace that the test makes and removes.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report, rdiag, report_told, wait_until,
};

/// A network namespace with loopback and with a neighbour, 10.9.8.2, that takes packets and answers none.
pub(super) struct Cell {
    name: String,
}

impl Cell {
    pub(super) fn new() -> Self {
        let cell = Self { name: format!("rdiag-cell-{}", std::process::id()) };
        let name = cell.name.as_str();
        for args in [
            &["netns", "add", name][..],
            &["-n", name, "link", "set", "lo", "up"],
            &["-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"],
            &["-n", name, "address", "add", "10.9.8.1/24", "dev", "v0"],
            &["-n", name, "link", "set", "v0", "up"],
            &["-n", name, "link", "set", "v1", "up"],
            &[
                "-n",
                name,
                "neighbour",
                "add",
                "10.9.8.2",
                "lladdr",
                "02:00:00:00:00:02",
                "dev",
                "v0",
                "nud",
                "permanent",
            ],
        ] {
            let output = Command::new("ip").args(args).output().unwrap();
            assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        cell
    }

    /// A program that runs in it until it ends.
    fn within(&self, program: &str, args: &[&str]) -> Output {
        Command::new("ip").args(["netns", "exec", &self.name, program]).args(args).output().unwrap()
    }

    /// A Python program that stays.
    pub(super) fn load(&self, script: &str) -> Load {
        Load::start(1, "ip", &["netns", "exec", &self.name, "python3", "-c", script])
    }

    pub(super) fn report(&self, seconds: u32) -> Value {
        let program = rdiag().get_program().to_str().unwrap().to_owned();
        let duration = format!("{seconds}s");
        let output =
            self.within(&program, &["run", "use-method", "--format", "json", "--out", "-", "--duration", &duration]);
        report_told(&output)
    }

    /// How many sockets are in this state.
    pub(super) fn sockets(&self, state: &str) -> usize {
        let table = self.within("cat", &["/proc/net/tcp"]).stdout;
        String::from_utf8_lossy(&table).lines().filter(|line| line.split_whitespace().nth(3) == Some(state)).count()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
    }
}

/// A server on every address, port 7000, and a client beside it with so many connections to each of some destinations.
fn connections(destinations: &[&str], each: usize) -> String {
    format!(
        "
import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('0.0.0.0', 7000)); s.listen(512)
kept = []
for to in {destinations:?}:
    for _ in range({each}):
        c = socket.socket(); c.connect((to, 7000)); kept.append((c, s.accept()))
time.sleep(60)
"
    )
}

/// Exits with 3 if no port is left for a connection to this address.
const ONE_MORE: &str = "
import errno, socket, sys
try: socket.create_connection((sys.argv[1], 7000))
except OSError as error: sys.exit(3 if error.errno == errno.EADDRNOTAVAIL else 1)
";

/// Twelve: of an odd number the kernel may leave one untried, as it tries every other one from some place on, and then the rest.
const NARROW: &str = "net.ipv4.ip_local_port_range=40000 40011";

#[test]
#[ignore = "needs: root, a quiet machine, ip, sysctl, python3"]
fn local_ports_that_are_out_name_the_destination_and_who_holds_them() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("ip"), Need::Tool("sysctl"), Need::Tool("python3")]) {
        return;
    }
    let cell = Cell::new();
    assert!(cell.within("sysctl", &["-w", NARROW]).status.success());
    let load = cell.load(&connections(&["127.0.0.1"], 12));
    assert!(wait_until(10, || cell.sockets("01") == 24), "the connections are there");
    let one_more = |to: &str| cell.within("python3", &["-c", ONE_MORE, to]).status.code();
    assert_eq!(
        (one_more("127.0.0.1"), one_more("127.0.0.2")),
        (Some(3), Some(0)),
        "connect fails, and only to the one"
    );
    let report = cell.report(4);
    let ports = finding(&report, "network.utilization.ports", None);
    assert_eq!(ports["status"], "critical", "{ports:#}");
    assert_eq!(ports["culprit"]["name"], "python3 to 127.0.0.1:7000", "{ports:#}");
    assert_eq!(ports["culprit"]["pids"][0], load.pids()[0]);
    assert!(ports["summary"].as_str().unwrap().starts_with("12 of 12 ephemeral ports"), "{ports:#}");
    assert_nothing_else_fired(&report, &["network.utilization.ports", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, sysctl, python3"]
fn more_connections_than_ports_are_no_finding_where_each_destination_has_few() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("ip"), Need::Tool("sysctl"), Need::Tool("python3")]) {
        return;
    }
    let cell = Cell::new();
    assert!(cell.within("sysctl", &["-w", NARROW]).status.success());
    let _load = cell.load(&connections(&["127.0.0.1", "127.0.0.2", "127.0.0.3"], 8));
    assert!(wait_until(10, || cell.sockets("01") == 48), "the connections are there");
    let report = cell.report(3);
    let ports = finding(&report, "network.utilization.ports", None);
    assert_eq!((ports["status"].as_str(), ports["value"].as_f64()), (Some("ok"), Some(8.0 / 12.0)), "{ports:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// Forty connections to a peer that answers none.
const UNANSWERED: &str = "
import socket, time
waiting = []
for _ in range(40):
    c = socket.socket(); c.setblocking(False); waiting.append(c)
    try: c.connect(('10.9.8.2', 81))
    except BlockingIOError: pass
time.sleep(60)
";

/// Connections that are refused, twenty a second.
const REFUSED: &str = "
import socket, time
while True:
    try: socket.create_connection(('127.0.0.1', 81))
    except ConnectionRefusedError: time.sleep(0.05)
";

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn connections_that_nobody_answers_name_who_waits_for_whom() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("ip"), Need::Tool("python3")]) {
        return;
    }
    let cell = Cell::new();
    let load = cell.load(UNANSWERED);
    assert!(wait_until(10, || cell.sockets("02") == 40), "the requests are sent");
    let report = cell.report(6);
    let unanswered = finding(&report, "network.errors.unanswered", None);
    assert_eq!(
        (unanswered["status"].as_str(), unanswered["value"].as_f64()),
        (Some("warning"), Some(40.0)),
        "{unanswered:#}"
    );
    assert_eq!(unanswered["culprit"]["name"], "python3 to 10.9.8.2:81", "{unanswered:#}");
    assert_eq!(unanswered["culprit"]["pids"][0], load.pids()[0]);
    assert_nothing_else_fired(&report, &["network.errors.unanswered", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3"]
fn connections_that_are_refused_were_answered() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("ip"), Need::Tool("python3")]) {
        return;
    }
    let cell = Cell::new();
    let _load = cell.load(REFUSED);
    let report = cell.report(4);
    assert_eq!(finding(&report, "network.errors.unanswered", None)["status"], "ok");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// A shell under a limit of 60 that wants 80 children: from the sixtieth on it tries again for half a minute.
const AT_THE_LIMIT: &str = "ulimit -u 60; for n in {1..80}; do sleep 60 & done; wait";

#[test]
#[ignore = "needs: root, a quiet machine, bash, setpriv"]
fn a_user_with_sixty_of_sixty_processes_is_named_with_them() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("bash"), Need::Tool("setpriv")]) {
        return;
    }
    let user = ["--reuid", "4243", "--regid", "4243", "--clear-groups", "bash", "-c"];
    let load = Load::start(1, "setpriv", &[&user[..], &[AT_THE_LIMIT]].concat());
    let pid = load.pids()[0];
    let children = format!("/proc/{pid}/task/{pid}/children");
    let full = || std::fs::read_to_string(&children).is_ok_and(|all| all.split_whitespace().count() == 59);
    assert!(wait_until(20, full), "the processes could not be started");
    let report = live_report(3);
    let of_user = finding(&report, "tasks.utilization.user", Some("4243"));
    assert_eq!((of_user["status"].as_str(), of_user["value"].as_f64()), (Some("critical"), Some(1.0)), "{of_user:#}");
    let said = of_user["summary"].as_str().unwrap();
    assert!(
        said.starts_with("User 4243 has 60 processes and threads (59 sleep, 1 bash); the limit of bash is 60"),
        "{said}"
    );
    assert_nothing_else_fired(&report, &["tasks.utilization.user"]);
}

#[test]
#[ignore = "needs: root, a quiet machine, bash, setpriv"]
fn as_many_processes_without_a_low_limit_are_no_finding() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("bash"), Need::Tool("setpriv")]) {
        return;
    }
    let script = AT_THE_LIMIT.replace("ulimit -u 60", "ulimit -u 600");
    let user = ["--reuid", "4244", "--regid", "4244", "--clear-groups", "bash", "-c"];
    let _load = Load::start(1, "setpriv", &[&user[..], &[script.as_str()]].concat());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let report = live_report(2);
    let own = findings(&report, "tasks.utilization.user").into_iter().find(|finding| finding["instance"] == "4244");
    assert_eq!(own.unwrap()["status"], "ok", "{own:#?}");
    assert_nothing_else_fired(&report, &[]);
}
