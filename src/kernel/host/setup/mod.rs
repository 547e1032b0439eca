//! How the host is set up: what may explain that it behaves unlike another. Read once, before the first window.
//!
//! Every file here is one that an ordinary user may read and that asks no device anything (`/sys/class/net/*/speed` does, so it is not
//! read). Facts that differ on every host, such as serial numbers and UUIDs, explain nothing; what may hold a secret is not taken: of the
//! kernel's command line only parameters of a fixed list, of mounts no options that name hosts or accounts.

mod clock;
mod containers;
mod cpus;
mod devices;
mod kernel;
mod mounts;
mod roles;

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use rdiag_model::Setup;

use super::{Host, SharedHost};

/// Facts of one host, and characters of one of them.
const MOST: usize = 600;
const LONGEST: usize = 200;
/// A file that does not answer costs a run no more than this.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is read, in this order: what comes first is known even if a device below does not answer.
const PARTS: [fn(&Host, &mut Setup); 7] = [
    |host, setup| setup.clock = clock::read(host),
    kernel::read,
    cpus::read,
    roles::read,
    mounts::read,
    devices::read,
    containers::read,
];

/// What could be read within two seconds. A file that hangs is left behind with the thread that reads it.
#[must_use]
pub fn read(host: &SharedHost) -> Setup {
    let (sender, receiver) = mpsc::channel();
    let host = std::sync::Arc::clone(host);
    let reading = std::thread::Builder::new().name("setup".into()).spawn(move || {
        let mut setup = Setup::default();
        for part in PARTS {
            part(&host, &mut setup);
            if sender.send(setup.clone()).is_err() {
                return;
            }
        }
    });
    let mut known = Setup::default();
    if reading.is_ok() {
        while let Ok(more) = receiver.recv_timeout(PATIENCE) {
            known = more;
        }
    }
    known
}

/// All of it, however long that takes: for trees, of which no file hangs, and for a thread that may be left behind.
#[must_use]
pub fn read_all(host: &Host) -> Setup {
    let mut setup = Setup::default();
    PARTS.iter().for_each(|part| part(host, &mut setup));
    setup
}

/// The ids of this machine and of this boot, as the host has them: they are to be hashed before they leave it.
#[must_use]
pub fn ids(host: &Host) -> (Option<String>, Option<String>) {
    let line = |path| host.read_line(path).ok().filter(|text| !text.is_empty());
    (line("etc/machine-id"), line("proc/sys/kernel/random/boot_id"))
}

/// Notes a fact: one line, bounded.
fn note(facts: &mut BTreeMap<String, String>, name: impl Into<String>, value: &str) {
    if value.is_empty() || facts.len() >= MOST {
        return;
    }
    let words: Vec<&str> = value.split_whitespace().collect();
    facts.insert(name.into(), words.join(" ").chars().take(LONGEST).collect());
}

/// Notes what a file says, if it can be read.
fn note_file(host: &Host, facts: &mut BTreeMap<String, String>, name: impl Into<String>, path: &str) {
    if let Ok(text) = host.read_line(path) {
        note(facts, name, &text);
    }
}

/// The choice in `always [madvise] never`; the whole line if none is marked.
fn chosen(line: &str) -> &str {
    line.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(line, |(chosen, _)| chosen)
}

/// The last part of where a link points to.
fn link_name(host: &Host, path: &str) -> Option<String> {
    let target = host.link(path).ok()?;
    target.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
