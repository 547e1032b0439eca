//! Ending early.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cli::exit::Failure;

/// A flag that SIGINT, SIGTERM and SIGHUP set, and others too: the end of a command that is measured. A second SIGINT or SIGTERM ends the
/// program at once, should the first not be enough. SIGHUP does not: when an ssh session drops, the kernel and the shell send one each, and
/// what was measured is still to be written. Nor does a first signal when the command has ended already.
pub(super) fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let (stop, signalled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&signalled))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&signalled)))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(Failure::io("installing the signal handler"))?;
    }
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&stop))
        .map_err(Failure::io("installing the signal handler"))?;
    Ok(stop)
}

/// From here on the first Ctrl-C ends the program: all is written, and what waits for an answer would wait on.
pub(super) fn leave_on_interrupt() -> Result<(), Failure> {
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, Arc::new(AtomicBool::new(true)))
        .map(drop)
        .map_err(Failure::io("installing the signal handler"))
}
