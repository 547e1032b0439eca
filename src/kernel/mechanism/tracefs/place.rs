//! Where tracefs is, and what prevents its use.

use crate::host::Host;
use crate::mechanism::obstacles;
use rdiag_model::{Reason, Unavailable};

/// Where it is mounted today, and where debugfs shows it.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Its directory.
pub(super) fn find(host: &Host) -> Result<&'static str, Unavailable> {
    let mut denied = None;
    for place in PLACES {
        match host.list(place) {
            Ok(names) if !names.is_empty() => return Ok(place),
            Err(error) if error.reason == Reason::Denied => denied = Some(place),
            _ => {}
        }
    }
    Err(match denied {
        Some(place) => Unavailable::new(Reason::Denied, format!("this user may not enter /{place}"))
            .with_remedy("run rdiag as root"),
        None => Unavailable::new(Reason::Absent, "tracefs is not mounted")
            .with_remedy("mount -t tracefs nodev /sys/kernel/tracing"),
    })
}

/// What is known to stand in the way of tracing before anything is tried.
pub(super) fn obstacle(host: &Host) -> Result<(), Unavailable> {
    if host.is_recorded() || host.is_seen_from_outside() {
        return Err(Unavailable::new(Reason::NotVisible, "a recorded tree has no running kernel to trace"));
    }
    obstacles::lockdown(host, "tracing")?;
    obstacles::pid_namespace(host, "the kernel's tracing does")
}
