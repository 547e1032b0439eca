//! /proc/interrupts: interrupts by line and by CPU, and the rows of errors.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};

use crate::def::{Cadence, Collect, CollectorDef, Sink, unless_virtual};
use rdiag_kernel::host::{Host, SourceError};
use rdiag_model::metric::{Formula, MetricDef, ProcessField, SeriesDef, optional, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "interrupts",
    help: "Interrupts by line and by CPU, and interrupt errors, from /proc/interrupts.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "one read at each end of the window; its length is CPUs times interrupt lines (megabytes on large machines)",
    start: |_| Box::new(Interrupts::default()),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter("interrupts.line", RawUnit::Count, "/proc/interrupts, one row, summed over CPUs"),
    SeriesDef::counter("interrupts.cpu", RawUnit::Count, "/proc/interrupts, one column, summed over rows"),
    SeriesDef::counter("interrupts.tlb", RawUnit::Count, "/proc/interrupts, row TLB, summed over CPUs"),
    SeriesDef::counter("interrupts.machine_checks", RawUnit::Count, "/proc/interrupts, row MCE, summed over CPUs"),
    SeriesDef::counter("interrupts.errors", RawUnit::Count, "/proc/interrupts, row ERR"),
    SeriesDef::counter("interrupts.misrouted", RawUnit::Count, "/proc/interrupts, row MIS"),
];

const MACHINE_CHECKS: &str =
    "One error may raise the exception on each CPU. Corrected errors raise none. Only x86 counts them.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "interrupts.line.per_second",
        unit: Unit::PerSecond,
        dimension: Some("interrupt"),
        help: "Interrupts per second of one line, over all CPUs.",
        sources: &[Formula::rate(&[term("interrupts.line")])],
        caveat: "Counts, not time: one storage interrupt may cost more than a hundred of the timer's.",
        manual: "watch -d cat /proc/interrupts",
        deed: Some(Deed { verb: "raised", of: "the interrupts", ..Deed::USUAL }),
    },
    MetricDef {
        id: "interrupts.core.per_second",
        unit: Unit::PerSecond,
        dimension: Some("cpu"),
        help: "Interrupts per second on one CPU, of all lines.",
        sources: &[Formula::rate(&[term("interrupts.cpu")])],
        caveat: "Counts, not time.",
        manual: "mpstat -I SUM -P ALL 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "interrupts.tlb_shootdown.per_second",
        unit: Unit::PerSecond,
        help: "Interrupts per second by which CPUs make each other forget address translations.",
        sources: &[Formula::rate(&[term("interrupts.tlb")])],
        caveat: "Only on machines that need interrupts for it.",
        manual: "grep TLB /proc/interrupts; sleep 10; grep TLB /proc/interrupts",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.machine_checks.count",
        unit: Unit::Count,
        help: "Machine check exceptions within the window, over all CPUs.",
        sources: &[Formula::change(&[term("interrupts.machine_checks")])],
        caveat: MACHINE_CHECKS,
        manual: "grep MCE /proc/interrupts; sleep 10; grep MCE /proc/interrupts",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.machine_checks_since_boot.count",
        unit: Unit::Count,
        help: "Machine check exceptions since boot, over all CPUs.",
        sources: &[Formula::level(&[term("interrupts.machine_checks")])],
        caveat: MACHINE_CHECKS,
        manual: "grep MCE /proc/interrupts",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "interrupts.error.count",
        unit: Unit::Count,
        help: "Erroneous and misrouted interrupts within the window.",
        sources: &[Formula::change(&[term("interrupts.errors"), optional("interrupts.misrouted")])],
        caveat: "Errors of the interrupt controller itself, not of devices.",
        manual: "grep -iE 'ERR|MIS' /proc/interrupts; sleep 10; grep -iE 'ERR|MIS' /proc/interrupts",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "interrupts.error_since_boot.count",
        unit: Unit::Count,
        help: "Erroneous and misrouted interrupts since boot.",
        sources: &[Formula::level(&[term("interrupts.errors"), optional("interrupts.misrouted")])],
        caveat: "A few may come from the start of the machine.",
        manual: "grep -iE 'ERR|MIS' /proc/interrupts",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "interrupts.ksoftirqd.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu"),
        help: "Share of one CPU that its thread for postponed soft interrupts used.",
        sources: &[Formula::kernel_threads("ksoftirqd/", ProcessField::Cpu)],
        caveat: "Soft interrupts that run at once are not in it.",
        manual: "pidstat -C ksoftirqd 1 10",
        deed: Some(Deed { verb: "used", of: "the CPU time of ksoftirqd", ..Deed::USUAL }),
    },
];

/// What is longer than this is no table of interrupts.
const MAX_BYTES: u64 = 128 << 20;

#[derive(Default)]
struct Interrupts {
    cpus: Vec<String>,
}

impl Collect for Interrupts {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        const PATH: &str = "proc/interrupts";
        let broken = |error: std::io::Error| SourceError::io(PATH, &error);
        // Line by line: with a thousand CPUs the whole text is too large to hold for a few sums.
        let mut reader = BufReader::with_capacity(1 << 16, host.open(PATH)?.take(MAX_BYTES));
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).map_err(broken)?;
        let cpus = header(&String::from_utf8_lossy(&line));
        if cpus.is_empty() {
            return Err(Unavailable::new(Reason::Malformed, "/proc/interrupts names no CPUs"));
        }
        if self.cpus.is_empty() {
            self.cpus.clone_from(&cpus);
        }
        // A CPU that comes or goes brings or takes its whole past: the sums of two sets cannot be compared.
        let same = self.cpus == cpus;
        let mut sums = vec![0_u64; cpus.len()];
        let mut seen = BTreeSet::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line).map_err(broken)? == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            let Some(row) = Row::parse(&text, cpus.len()) else { continue };
            if !row.is_device() {
                seen.insert(row.name.to_ascii_uppercase());
            }
            record(&row, same, &mut sums, out);
        }
        if same {
            cpus.iter().zip(sums).for_each(|(cpu, sum)| out.count("interrupts.cpu", cpu, sum));
        } else {
            let changed = || Unavailable::new(Reason::Reset, "CPUs came or went within the window");
            for series in ["interrupts.line", "interrupts.cpu", "interrupts.tlb", "interrupts.machine_checks"] {
                out.gap(series, "", changed());
            }
        }
        for (row, series) in [("ERR", "interrupts.errors"), ("TLB", "interrupts.tlb")] {
            if !seen.contains(row) {
                let why = format!("/proc/interrupts has no row {row} on this architecture or kernel");
                out.gap(series, "", Unavailable::new(Reason::Absent, why));
            }
        }
        if !seen.contains("MCE") {
            let is_x86 = matches!(host.facts().arch.as_str(), "x86_64" | "x86" | "i686");
            let reason = if is_x86 { Reason::Absent } else { Reason::NotApplicable };
            let why = "/proc/interrupts has no row MCE: this architecture or kernel counts no machine checks";
            let gap = Unavailable::new(reason, why).with_remedy("a kernel with CONFIG_X86_MCE");
            let gap = unless_virtual(host.facts(), "the hypervisor, not its guest, sees machine checks", gap);
            out.gap("interrupts.machine_checks", "", gap);
        }
        Ok(())
    }
}

fn record(row: &Row<'_>, same_cpus: bool, sums: &mut [u64], out: &Sink) {
    let total = row.counts.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
    match row.name {
        "ERR" | "Err" => return out.count("interrupts.errors", "", total),
        "MIS" => return out.count("interrupts.misrouted", "", total),
        _ if !same_cpus => return,
        "TLB" => out.count("interrupts.tlb", "", total),
        "MCE" => out.count("interrupts.machine_checks", "", total),
        _ => {}
    }
    for (sum, count) in sums.iter_mut().zip(&row.counts) {
        *sum = sum.saturating_add(*count);
    }
    // CPUs are instances of this collector too: a number alone would be taken for one.
    let instance = if row.is_device() { format!("irq {}", row.name) } else { row.name.to_owned() };
    out.count("interrupts.line", &instance, total);
    if !row.what.is_empty() {
        out.label(&instance, "name", row.what.clone());
    }
}

/// CPU numbers of the columns.
fn header(line: &str) -> Vec<String> {
    line.split_whitespace().map_while(|word| Some(word.strip_prefix("CPU")?.to_owned())).collect()
}

/// One row: an interrupt line, an inter-processor interrupt, or an error count.
#[derive(Debug, PartialEq)]
struct Row<'t> {
    name: &'t str,
    counts: Vec<u64>,
    /// Who asked for it, or what it is.
    what: String,
}

impl<'t> Row<'t> {
    fn parse(line: &'t str, columns: usize) -> Option<Self> {
        let (name, rest) = line.split_once(':')?;
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return None;
        }
        let mut words = rest.split_whitespace().peekable();
        let mut counts = Vec::with_capacity(columns);
        while counts.len() < columns
            && let Some(count) = words.peek().and_then(|word| word.parse().ok())
        {
            counts.push(count);
            words.next();
        }
        if counts.is_empty() {
            return None;
        }
        let words: Vec<&str> = words.collect();
        let device = name.chars().all(|c| c.is_ascii_digit());
        // Chip, number at the chip, trigger; then the names of the drivers.
        let skip = words.iter().position(|word| device && is_trigger(word)).map_or(0, |at| at + 1);
        let what = words.into_iter().skip(skip).collect::<Vec<_>>().join(" ");
        Some(Self { name, counts, what: what.chars().take(80).collect() })
    }

    /// Whether it belongs to a device, not to the architecture.
    fn is_device(&self) -> bool {
        self.name.chars().all(|c| c.is_ascii_digit())
    }
}

/// The column that tells how an interrupt is signalled: `1-edge`, `9-fasteoi`, `Level`.
fn is_trigger(word: &str) -> bool {
    let word = word.rsplit('-').next().unwrap_or(word).to_ascii_lowercase();
    ["edge", "level", "fasteoi"].contains(&word.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> Option<(&str, Vec<u64>, String)> {
        Row::parse(line, 2).map(|row| (row.name, row.counts, row.what))
    }

    #[test]
    fn columns_are_named_by_their_cpus_even_if_some_are_offline() {
        assert_eq!(header("           CPU0       CPU3       \n"), ["0", "3"]);
        assert!(header("").is_empty());
    }

    #[test]
    fn a_device_is_named_by_its_drivers() {
        let line = " 36:          5      74573 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n";
        assert_eq!(row(line), Some(("36", vec![5, 74573], "virtio1-req.0".into())));
        let line = " 16:  1  2  IO-APIC  16-fasteoi   ehci_hcd:usb1, i801_smbus";
        assert_eq!(row(line), Some(("16", vec![1, 2], "ehci_hcd:usb1, i801_smbus".into())));
        let line = " 10:  1  2     GICv3  27 Level     arch_timer";
        assert_eq!(row(line), Some(("10", vec![1, 2], "arch_timer".into())));
    }

    #[test]
    fn an_interrupt_of_the_architecture_keeps_its_description() {
        assert_eq!(
            row("TLB:  16800   14462   TLB shootdowns"),
            Some(("TLB", vec![16800, 14462], "TLB shootdowns".into()))
        );
    }

    #[test]
    fn rows_of_errors_have_one_column_whatever_the_number_of_cpus() {
        assert_eq!(row("ERR:          3\n"), Some(("ERR", vec![3], String::new())));
        assert_eq!(row("MIS:          0\n"), Some(("MIS", vec![0], String::new())));
    }

    #[test]
    fn cut_and_foreign_rows_are_left_out() {
        for line in ["", "\n", " 36", " 36:", " 36: x y", ": 1 2", "a b: 1 2", "9: 99999999999999999999999"] {
            assert_eq!(row(line), None, "{line:?}");
        }
        assert_eq!(row("36: 7"), Some(("36", vec![7], String::new())));
    }
}
