//! The lines `cpu` and `cpuN` of /proc/stat.

/// CPU time since boot in ticks, of one CPU or of all. Guest time is in user and nice already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Field 1: user mode, un-niced.
    pub user: u64,
    /// Field 2: user mode of niced tasks.
    pub nice: u64,
    /// Field 3: the kernel, on behalf of tasks.
    pub system: u64,
    /// Field 4: nothing to run.
    pub idle: u64,
    /// Field 5: nothing to run, and a task waits for a disk. May step back.
    pub iowait: u64,
    /// Field 6: hard interrupts.
    pub irq: u64,
    /// Field 7: soft interrupts.
    pub softirq: u64,
    /// Field 8: taken away by a hypervisor.
    pub steal: u64,
}

impl CpuTimes {
    /// A line with a field missing or broken is none, so that a ratio never mixes what was read with what was not.
    fn parse(fields: &str) -> Option<Self> {
        let mut fields = fields.split_ascii_whitespace();
        let mut next = || fields.next()?.parse().ok();
        Some(Self {
            user: next()?,
            nice: next()?,
            system: next()?,
            idle: next()?,
            iowait: next()?,
            irq: next()?,
            softirq: next()?,
            steal: next()?,
        })
    }

    /// The fields in their order.
    #[must_use]
    pub fn all(&self) -> [u64; 8] {
        [self.user, self.nice, self.system, self.idle, self.iowait, self.irq, self.softirq, self.steal]
    }

    /// All of it together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.all().iter().fold(0, |sum, ticks| sum.saturating_add(*ticks))
    }
}

/// What a line of /proc/stat says of CPU time: which CPU, "" for all of them. None for another line.
#[must_use]
pub fn cpu_line(line: &str) -> Option<(&str, CpuTimes)> {
    let (cpu, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
    if !cpu.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    Some((cpu, CpuTimes::parse(fields)?))
}

/// The times of all CPUs together: the first line of /proc/stat.
#[must_use]
pub fn host_cpu(stat: &str) -> Option<CpuTimes> {
    cpu_line(stat.lines().next()?).filter(|(cpu, _)| cpu.is_empty()).map(|(_, times)| times)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMES: CpuTimes = CpuTimes { user: 1, nice: 2, system: 3, idle: 4, iowait: 5, irq: 6, softirq: 7, steal: 8 };

    #[test]
    fn a_line_names_its_cpu_and_guest_time_is_left_out() {
        assert_eq!(cpu_line("cpu  1 2 3 4 5 6 7 8 9 10"), Some(("", TIMES)));
        assert_eq!(cpu_line("cpu12 1 2 3 4 5 6 7 8"), Some(("12", TIMES)));
        assert_eq!(TIMES.all(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(TIMES.sum(), 36);
        assert_eq!(CpuTimes { idle: u64::MAX, ..TIMES }.sum(), u64::MAX);
    }

    #[test]
    fn a_line_that_breaks_off_or_is_another_is_none() {
        for line in [
            "cpu",
            "cpu ",
            "cpu  1 2 3 4 5 6 7",
            "cpu  1 2 x 4 5 6 7 8",
            "cpu0 1 2 3 4 5 6 7 99999999999999999999999",
            "cpux 1 2 3 4 5 6 7 8",
            "intr 1 2 3 4 5 6 7 8",
        ] {
            assert_eq!(cpu_line(line), None, "{line}");
        }
    }

    #[test]
    fn the_host_is_the_first_line_and_no_other() {
        assert_eq!(host_cpu("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0 0 0 0 0 0 0 0\n"), Some(TIMES));
        assert_eq!(host_cpu("cpu0 1 2 3 4 5 6 7 8\n"), None);
        assert_eq!(host_cpu(""), None);
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(text in ".{0,200}") {
            let _ = (cpu_line(&text), cpu_line(&format!("cpu{text}")), host_cpu(&text));
        }
    }
}
