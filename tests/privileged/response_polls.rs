//! Waits in poll and select, whose programs know what they waited for: a name server that does not answer, a server that takes its time.

use std::net::{TcpListener, UdpSocket};

use serde_json::Value;

use super::response::NEEDS;
use crate::support::{Need, alone, has, rdiag, skip};

/// What the account of a script of Python says of its waits for events, the longest first: name, seconds and number.
fn waits(script: &str) -> Vec<(String, f64, u64)> {
    let output = rdiag()
        .args(["run", "method-r", "--no-guided", "--format", "json", "--out", "-", "--budget", "100%", "--"])
        .args(["python3", "-S", "-c", script])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = &report["profile"];
    assert_eq!(profile["level"], "L3", "{profile:#}");
    let polls = profile["components"].as_array().unwrap().iter().find(|row| row["id"] == "wait.poll");
    let keys = polls.and_then(|row| row["keys"].as_array()).cloned().unwrap_or_default();
    let figures = |key: &Value| {
        (key["name"].as_str().unwrap().to_owned(), key["seconds"].as_f64().unwrap(), key["count"].as_u64().unwrap_or(0))
    };
    keys.iter().map(figures).collect()
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
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
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
    let waits = waits(&script);
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
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = slow.local_addr().unwrap().port();
    let script = format!(
        "import os, select, socket\n\
         server = socket.create_connection(('127.0.0.1', {port}))\n\
         reader, writer = os.pipe()\n\
         loop = select.epoll()\n\
         for one in (server, reader): loop.register(one, select.EPOLLIN)\n\
         loop.poll(1.2)\n"
    );
    let waits = waits(&script);
    let (name, seconds, _) = waits.first().expect("a wait");
    assert!(name.starts_with(&format!("127.0.0.1:{port} or pipe:[")) && (seconds - 1.2).abs() < 0.1, "{waits:#?}");
}
