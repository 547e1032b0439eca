//! The protocol counters of this network namespace: /proc/net/snmp, /proc/net/netstat, /proc/net/snmp6.
//!
//! Columns are found by name: kernels add new ones in the middle.

mod metrics;
mod series;

use std::collections::{HashMap, HashSet};

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::{Reason, SeriesDef, SeriesKind, Unavailable};
use rdiag_proc::protocols::columns;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "tcp_udp",
    help: "What TCP, UDP and IP counted: retransmissions, timeouts, overflows, drops, from /proc/net/snmp, netstat, snmp6.",
    cadence: Cadence::Interval,
    series: series::SERIES,
    metrics: metrics::METRICS,
    overhead: "three reads per interval, whatever the number of connections (about 100 µs)",
    start: |_| Box::new(TcpUdp { wanted: wanted(), seen: HashSet::new() }),
};

struct TcpUdp {
    /// Series by group and column.
    wanted: HashMap<(&'static str, &'static str), &'static SeriesDef>,
    /// Series of which a value was found.
    seen: HashSet<&'static str>,
}

/// The source of each series names its group and column last: `/proc/net/netstat, TcpExt TCPTimeouts`.
fn wanted() -> HashMap<(&'static str, &'static str), &'static SeriesDef> {
    let key = |series: &'static SeriesDef| series.source.rsplit_once(", ")?.1.split_once(' ');
    series::SERIES.iter().filter_map(|series| Some((key(series)?, series))).collect()
}

impl Collect for TcpUdp {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        // netstat first: retransmitted SYNs (there) are a part of the retransmissions (in snmp), and what is subtracted
        // must not be the newer of the two.
        let netstat = host.read("proc/net/netstat");
        let snmp = host.read("proc/net/snmp")?;
        let mut seen = self.record(columns(&snmp), out);
        match netstat {
            Ok(text) => {
                self.record(columns(&text), out);
            }
            Err(error) => {
                for series in series::SERIES.iter().filter(|series| series.source.contains("netstat")) {
                    out.gap(series.name, "", error.gap());
                }
            }
        }
        // Without IPv6 this file is not there, and then there is nothing to add.
        if let Ok(text) = host.read("proc/net/snmp6") {
            seen += self.record(lines(&text), out);
        }
        if seen == 0 {
            return Err(Unavailable::new(Reason::Malformed, "/proc/net/snmp holds no counter that is known"));
        }
        Ok(())
    }

    fn finish(&mut self, _: &Host, out: &Sink) {
        let missing = series::SERIES.iter().filter(|series| !self.seen.contains(series.name));
        // Without IPv6 nothing is missing.
        for series in missing.filter(|series| !series.source.contains("snmp6")) {
            let (file, column) = series.source.split_once(", ").unwrap_or((series.source, series.name));
            let why = format!("{file} has no value for {column}: this kernel does not count it");
            out.gap(series.name, "", Unavailable::new(Reason::Absent, why));
        }
    }
}

impl TcpUdp {
    fn record<'t>(&mut self, values: impl Iterator<Item = (&'t str, &'t str, u64)>, out: &Sink) -> usize {
        let mut seen = 0;
        for (group, column, value) in values {
            if let Some(series) = self.wanted.get(&(group, column)) {
                seen += 1;
                self.seen.insert(series.name);
                match series.kind {
                    SeriesKind::Gauge => out.level(series.name, "", value as f64),
                    _ => out.count(series.name, "", value),
                }
            }
        }
        seen
    }
}

/// Group, column and value, from lines of a name and a value: `Udp6InErrors 3` is column InErrors of group Udp6.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        let (group, column) = name.split_at_checked(name.find('6')? + 1)?;
        Some((group, column, value.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests;
