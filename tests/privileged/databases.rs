//! Slow statements of databases from Debian's packages, in both protocols of each.

#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::probing::{assert_nothing_lost, probed, rows};
use crate::support::{Need, alone, has};

pub(super) const BTF: Need = Need::Path("/sys/kernel/btf/vmlinux");

pub(super) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A database cluster of its own below a folder, gone with the test.
pub(super) struct Postgres {
    folder: tempfile::TempDir,
    programs: PathBuf,
}

impl Postgres {
    pub(super) fn start() -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let programs = versions.flatten().map(|version| version.path().join("bin")).max()?;
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        run(Command::new("chown").arg("postgres").arg(folder.path()));
        let cluster = Self { folder, programs };
        let data = cluster.data();
        run(cluster.program("initdb").args(["--auth=trust", "-D"]).arg(&data));
        let settings = format!(
            "listen_addresses=''\nport=5544\nunix_socket_directories='{}'\ntrack_wal_io_timing=on\nmax_wal_size=4GB\n\
             autovacuum=off\n",
            cluster.folder.path().display()
        );
        std::fs::write(data.join("postgresql.auto.conf"), settings).unwrap();
        let log = cluster.folder.path().join("log");
        run(cluster.program("pg_ctl").args(["-w", "start", "-D"]).arg(&data).arg("-l").arg(&log).stdout(Stdio::null()));
        run(&mut cluster.client("createdb", &["bench"]));
        run(&mut cluster.client("pgbench", &["--initialize", "--quiet", "--scale=2", "bench"]));
        Some(cluster)
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A program of the server, as the user that it wants.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(self.programs.join(name));
        command.current_dir(self.folder.path());
        command
    }

    pub(super) fn client(&self, name: &str, args: &[&str]) -> Command {
        let mut command = self.program(name);
        command.arg("--host").arg(self.folder.path()).arg("--port=5544").args(args);
        command
    }

    /// Seconds in fdatasync of the log, as the server counts them itself.
    pub(super) fn sync_seconds(&self) -> f64 {
        let query = "select wal_sync_time / 1e3 from pg_stat_wal";
        run(&mut self.client("psql", &["--tuples-only", "--no-align", "--command", query, "bench"]))
            .trim()
            .parse()
            .unwrap()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.program("pg_ctl").args(["-m", "immediate", "stop", "-D"]).arg(self.data()).output();
    }
}

/// A server of MariaDB with nothing of its own but a folder, gone with the test.
struct MariaDb {
    folder: tempfile::TempDir,
    process: Child,
}

impl MariaDb {
    fn start() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("mariadbd");
        // Without tables of users, which take seconds to make, and with the tables that take the least room.
        command.args(["--no-defaults", "--user=root", "--skip-networking", "--skip-grant-tables", "--skip-innodb"]);
        command.args(["--default-storage-engine=Aria", "--aria-pagecache-buffer-size=1M", "--key-buffer-size=64K"]);
        command.arg(format!("--datadir={}", data.display()));
        command.arg(format!("--socket={}", folder.path().join("socket").display()));
        let server = Self { folder, process: command.stdout(Stdio::null()).stderr(log).spawn().unwrap() };
        let end = Instant::now() + Duration::from_secs(120);
        while UnixStream::connect(server.socket()).is_err() {
            let said = || std::fs::read_to_string(server.folder.path().join("log")).unwrap();
            assert!(Instant::now() < end, "mariadbd did not start: {}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// What the packaged client sends: each statement as text.
    fn client(&self, statements: &str) {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=root", "--socket"]).arg(self.socket());
        run(command.args(["--execute", statements]));
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client that prepares statements, which the packaged ones do not: as much of the protocol as that takes
/// (<https://mariadb.com/kb/en/clientserver-protocol/>).
struct Preparing(UnixStream);

impl Preparing {
    fn connect(socket: &Path) -> Self {
        let mut client = Self(UnixStream::connect(socket).unwrap());
        assert_eq!(client.packet()[0], 10, "the greeting's version");
        // CLIENT_PROTOCOL_41 and CLIENT_SECURE_CONNECTION; of MariaDB's own MARIADB_CLIENT_STMT_BULK_OPERATIONS.
        let mut answer = 0x8200_u32.to_le_bytes().to_vec();
        answer.extend(0x100_0000_u32.to_le_bytes());
        answer.extend([&[33][..], &[0; 19], &4_u32.to_le_bytes(), b"root\0", &[0]].concat());
        client.send(1, &answer);
        client.good();
        client
    }

    fn send(&mut self, number: u8, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        self.0.write_all(&[&length[..3], &[number], payload].concat()).unwrap();
    }

    fn packet(&mut self) -> Vec<u8> {
        let mut head = [0; 4];
        self.0.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.0.read_exact(&mut payload).unwrap();
        payload
    }

    fn good(&mut self) -> Vec<u8> {
        let packet = self.packet();
        assert_eq!(packet[0], 0, "{}", String::from_utf8_lossy(&packet));
        packet
    }

    /// COM_STMT_PREPARE of a statement with one parameter and no rows; its number.
    fn prepare(&mut self, statement: &str) -> [u8; 4] {
        self.send(0, &[&[22], statement.as_bytes()].concat());
        let number = self.good()[1..5].try_into().unwrap();
        // The parameter, and the end of parameters.
        self.packet();
        self.packet();
        number
    }

    /// COM_STMT_EXECUTE: no cursor, once, no value is NULL, of type DOUBLE.
    fn execute(&mut self, number: [u8; 4], value: f64) {
        let rest = [0, 1, 0, 0, 0, 0, 1, 5, 0];
        self.send(0, &[&[23], &number[..], &rest, &value.to_le_bytes()].concat());
        self.good();
    }

    /// COM_STMT_BULK_EXECUTE: types are told, DOUBLE, two rows.
    fn execute_twice(&mut self, number: [u8; 4], value: f64) {
        let row = [&[0], &value.to_le_bytes()[..]].concat();
        self.send(0, &[&[250], &number[..], &[128, 0, 5, 0], &row, &row].concat());
        self.good();
    }
}

/// How long the statements of a text took, in seconds.
fn times(told: &[Map<String, Value>], text: &str) -> Vec<f64> {
    let of = told.iter().filter(|row| row["statement"].as_str().unwrap().trim_end_matches(';') == text);
    of.map(|row| row["took"].as_f64().unwrap()).collect()
}

/// Statements in the distribution.
fn counted(readings: &[Value]) -> u64 {
    let outputs = readings.iter().flat_map(|reading| reading["outputs"].as_array().unwrap());
    let rows = outputs.filter_map(|output| output.get("histogram")).map(|histogram| &histogram["rows"][0]);
    rows.map(|row| row["count"].as_u64().unwrap()).sum()
}

/// Both protocols: a statement as text, and one that is prepared.
#[test]
#[ignore = "needs: root, eBPF, PostgreSQL"]
fn slow_statements_of_a_database_are_told_in_both_protocols_and_fast_ones_are_counted() {
    let _alone = alone();
    if !has(&[Need::Root, BTF, Need::Path("/usr/lib/postgresql"), Need::Tool("setpriv")]) {
        return;
    }
    let server = Postgres::start().expect("a server");
    let script = server.folder.path().join("prepared.sql");
    std::fs::write(&script, "select pg_sleep(0.2),\n  :client_id;\n").unwrap();
    let readings = probed(&["dbslower", "--threshold", "150ms"], || {
        let commands = ["select 1", "select pg_sleep(0.3)", "select 2"].map(|query| ["--command", query]).concat();
        run(&mut server.client("psql", &[&commands[..], &["--output=/dev/null", "bench"]].concat()));
        let script = format!("--file={}", script.display());
        run(&mut server
            .client("pgbench", &["--no-vacuum", "--protocol=prepared", "--transactions=3", &script, "bench"]));
    });
    assert_nothing_lost(&readings);
    let told = rows(&readings, "events", "statements");
    let (plain, prepared) = (times(&told, "select pg_sleep(0.3)"), times(&told, "select pg_sleep(0.2), $1"));
    assert_eq!((plain.len(), prepared.len(), told.len()), (1, 3, 4), "{told:#?}");
    assert!((0.3..0.45).contains(&plain[0]), "{told:#?}");
    assert!(prepared.iter().all(|took| (0.2..0.35).contains(took)), "{told:#?}");
    let all = counted(&readings);
    // The clients ask a little more for themselves.
    assert!((6..=15).contains(&all), "{all} statements");
}

/// Statements as text; prepared ones before and while the probe runs, by number and as "the last"; and one with many rows.
#[test]
#[ignore = "needs: root, eBPF, MariaDB"]
fn slow_statements_of_mariadb_are_told_in_both_protocols_and_fast_ones_are_counted() {
    let _alone = alone();
    if !has(&[Need::Root, BTF, Need::Tool("mariadbd"), Need::Tool("mariadb")]) {
        return;
    }
    let server = MariaDb::start();
    server.client("create database d; create table d.t (x double)");
    let mut client = Preparing::connect(&server.socket());
    let before = client.prepare("do sleep(?) + 0");
    let long = format!("select sleep(0.2), '{}'", "x".repeat(300));
    let mut elapsed = 0.0;
    let readings = probed(&["dbslower", "--threshold", "150ms"], || {
        let began = Instant::now();
        server.client(&format!(
            "select 1; select sleep(0.3); {long}; prepare s from 'do sleep(?)'; set @t = 0.2; execute s using @t"
        ));
        client.execute(before, 0.2);
        let number = client.prepare("do sleep(?)\n");
        client.execute(number, 0.2);
        client.execute(number, 0.0);
        client.execute([0xff; 4], 0.2);
        let number = client.prepare("insert into d.t values (sleep(?))");
        client.execute_twice(number, 0.1);
        elapsed = began.elapsed().as_secs_f64();
    });
    assert_nothing_lost(&readings);
    let told = rows(&readings, "events", "statements");
    let pid = server.process.id().to_string();
    assert!(told.iter().all(|row| row["pid"] == *pid), "{told:#?}");
    let expected = [
        ("select sleep(0.3)", 1),
        (&long[..255], 1),
        ("execute s using @t", 1),
        ("(prepared statement 1)", 1),
        ("do sleep(?)", 2),
        ("insert into d.t values (sleep(?))", 1),
    ];
    for (text, count) in expected {
        let times = times(&told, text);
        // The server sleeps by the clock of the day, which may be set right meanwhile.
        let least = if text.ends_with("(0.3)") { 0.297 } else { 0.198 };
        assert!(times.len() == count && times.iter().all(|took| *took >= least), "{text}: {told:#?}");
    }
    // They came one after the other. Where the CPUs are overloaded, others may be slow.
    let took = told.iter().map(|row| row["took"].as_f64().unwrap());
    assert!(took.clone().sum::<f64>() < elapsed && took.clone().all(|took| took >= 0.15), "{elapsed} s: {told:#?}");
    assert!(told.len() == 7 || elapsed > 3.0, "{elapsed} s: {told:#?}");
    // Six as text, of which three are fast, and five that were prepared, of which one is.
    assert_eq!(counted(&readings), 11);
}
