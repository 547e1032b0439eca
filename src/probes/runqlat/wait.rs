//! The two ways to measure a wait for a CPU (`wait.h`), and which of them is taken.
//!
//! By the kernel's own account (`run_delay`), which is followed to the nanosecond, a wake-up that pre-empts at once counts as a wait of 0:
//! the kernel skips the update of the run queue's clock between such a wake-up and the switch, which leaves out a few microseconds. A wait
//! that is cut by a move to another CPU is settled piece by piece; `last_queued` alone shows the last piece.

use crate::def::{Context, ParamDef, ParamKind};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Object};
use rdiag_model::Unavailable;

/// As in `wait.h`.
const STAMPS: u32 = 16_384;

/// Takes the second way where the first one would do.
pub(crate) const STAMPED: ParamDef = ParamDef {
    name: "stamps",
    kind: ParamKind::Flag,
    default: "false",
    help: "measure by time stamps at wake-ups even where the kernel keeps account of the waits",
};

/// Loads an object that includes `wait.h` and attaches it. By the kernel's own account if there is one, by time stamps
/// otherwise; then the note says why.
pub(crate) fn attach(
    context: &Context<'_>,
    bytes: &[u8],
    globals: &[Global],
) -> Result<(Object, Option<String>), Unavailable> {
    let load = |stamps: u32| -> Result<Object, Unavailable> {
        let mut all = context.filter.globals(context.host)?;
        all.extend_from_slice(globals);
        context.kernel()?.load(bytes, all, &[("stamps", stamps)])
    };
    let why = if context.params.flag(STAMPED.name) {
        "asked for".to_owned()
    } else if !keeps_account(context.host) {
        "this kernel keeps no account of waits (/proc/self/schedstat)".to_owned()
    } else {
        let mut object = load(1)?;
        match object.attach(context.kernel()?, Hook::Tracepoint("sched_switch")) {
            Ok(()) => return Ok((object, None)),
            Err(gap) => gap.why,
        }
    };
    let mut object = load(STAMPS)?;
    for event in ["sched_wakeup", "sched_wakeup_new"] {
        object.attach(context.kernel()?, Hook::Tracepoint(event))?;
    }
    object.attach(context.kernel()?, Hook::TracepointBy { event: "sched_switch", program: "switch_by_stamps" })?;
    Ok((object, Some(format!("measured by time stamps at wake-ups: {why}"))))
}

/// Whether the kernel counts how often this task got a CPU, and with that how long it waited. Without CONFIG_SCHED_INFO
/// the file does not exist; with `nodelayacct` on some old kernels it holds zeros only.
fn keeps_account(host: &Host) -> bool {
    host.read_line("proc/self/schedstat").is_ok_and(|line| counts(&line))
}

fn counts(schedstat: &str) -> bool {
    schedstat.split_whitespace().nth(2).and_then(|times| times.parse::<u64>().ok()).is_some_and(|times| times > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_does_not_count_how_often_a_task_ran_keeps_no_account() {
        assert!(counts("40157301 1202 7"));
        assert!(!counts("0 0 0"));
        assert!(!counts("40157301"));
        assert!(!counts("not for us"));
    }
}
