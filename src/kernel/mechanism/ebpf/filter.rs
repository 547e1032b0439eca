//! Which tasks a probe looks at: the filters of rdiag.h.

use super::Global;
use crate::host::Host;
use crate::host::launch::Watch;
use rdiag_model::ledger::Marks;
use rdiag_model::{Reason, Unavailable};

/// As many process ids as a program compares with.
pub const MAX_PIDS: usize = 16;
/// Bytes of a task's name with its NUL.
const COMM: usize = 16;

/// Which tasks a probe looks at. Conditions that are set must all hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Processes.
    pub pids: Vec<u32>,
    /// Exact name of the task.
    pub comm: Option<String>,
    /// Path of a control group below its mount point; groups below it count too.
    pub cgroup: Option<String>,
    /// Set if `pids` is one command that rdiag has started and that stands still until everything is attached: its words,
    /// for people.
    pub command: Option<String>,
    /// When that command began and ended, if it is watched.
    pub watch: Option<Watch>,
    /// Each run is measured separately, so processes come and go.
    pub each: bool,
    /// With `each`: the marks between which a thread is observed.
    pub marks: Option<Marks>,
    /// One of `pids` that only starts what is observed, and is no part of it.
    pub starter: Option<u32>,
}

impl Filter {
    /// The constants that put it in force. An error says what does not exist.
    pub fn globals(&self, host: &Host) -> Result<Vec<Global>, Unavailable> {
        let mut globals = vec![
            Global::u32("own_tgid", host.facts().pid),
            Global::u32("filter_tgids", self.pids.len().min(MAX_PIDS) as u32),
        ];
        let mut ids: Vec<u8> = self.pids.iter().take(MAX_PIDS).flat_map(|pid| pid.to_ne_bytes()).collect();
        ids.resize(MAX_PIDS * 4, 0);
        globals.push(Global::bytes("filter_tgid", ids));
        // A command is measured with all that it starts.
        globals.push(Global::u32("filter_children", u32::from(self.command.is_some())));
        let mut name: Vec<u8> = self.comm.iter().flat_map(|comm| comm.bytes()).take(COMM - 1).collect();
        name.resize(COMM, 0);
        globals.push(Global::u32("filter_comm_on", u32::from(self.comm.is_some())));
        globals.push(Global::bytes("filter_comm", name));
        let (inode, controller) = self.cgroup.as_deref().map_or(Ok((0, -1)), |path| cgroup(host, path))?;
        globals.push(Global::u64("filter_cgroup", inode));
        globals.push(Global::bytes("filter_cgroup_v1", controller.to_ne_bytes().to_vec()));
        Ok(globals)
    }
}

/// Inode of a control group's directory, and the number of its controller in a v1 tree (-1 in the v2 tree).
fn cgroup(host: &Host, path: &str) -> Result<(u64, i32), Unavailable> {
    let path = path.trim_start_matches("/sys/fs/cgroup").trim_matches('/');
    for (tree, controller) in
        [("", None), ("unified", None), ("cpu", Some("cpu")), ("cpu,cpuacct", Some("cpu")), ("memory", Some("memory"))]
    {
        let place = format!("sys/fs/cgroup/{tree}/{path}").replace("//", "/");
        let Some((_, inode)) = host.owner_and_inode(&place) else { continue };
        match controller {
            None if host.exists(&format!("{place}/cgroup.controllers")) => return Ok((inode, -1)),
            None => {}
            Some(name) => return Ok((inode, controller_number(host, name)?)),
        }
    }
    Err(Unavailable::new(Reason::Absent, format!("there is no control group {path:?}"))
        .with_remedy("give its path below /sys/fs/cgroup, as /proc/PID/cgroup shows it"))
}

/// The kernel's number of a controller of control groups: their order in /proc/cgroups.
pub fn controller_number(host: &Host, controller: &str) -> Result<i32, Unavailable> {
    let text = host.read("proc/cgroups")?;
    let at = rdiag_proc::controllers(&text).position(|own| own.name == controller);
    at.and_then(|at| i32::try_from(at).ok())
        .ok_or_else(|| Unavailable::new(Reason::Absent, format!("/proc/cgroups has no controller {controller}")))
}
