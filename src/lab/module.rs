//! Kernel modules of exercises: where they may be used, how they are made, and how they go.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use super::error::LabError;
use super::load::task::Task;
use super::place::{Place, Run, Undo};
use rdiag_kernel::host::{Host, files};
use rdiag_model::{Reason, Unavailable};
use rdiag_own::kernel_module;

/// The source of the module that polls.
const POLLER: &str = include_str!("../../lab-scenarios/modules/poller.c");
/// The source of the module whose threads wait.
const FETCHER: &str = include_str!("../../lab-scenarios/modules/fetcher.c");

/// A module of this size would hold more than it should.
const MAX_MODULE_BYTES: u64 = 4 << 20;

/// On the kernel's command line it says that this virtual machine is reserved for loading kernel modules.
const PERMISSION: &str = "rdiag.lab=modules";

/// Whether modules can be built and loaded here, and why not. A fault in one takes the whole machine down.
pub(super) fn allowed(host: &Host) -> Result<(), Unavailable> {
    let words = host.read("proc/cmdline").unwrap_or_default();
    let cpuinfo = host.read("proc/cpuinfo").unwrap_or_default();
    let is_virtual = rdiag_proc::cpuinfo(&cpuinfo, "flags").is_some_and(|flags| flags.contains(" hypervisor"));
    if !is_virtual || !words.split_whitespace().any(|word| word == PERMISSION) {
        let why = "it loads a kernel module, which is done only in a virtual machine that was set aside for it";
        return Err(Unavailable::new(Reason::Disabled, why).with_remedy(format!(
            "in a virtual machine that you can afford to crash, add {PERMISSION} to the kernel command line (GRUB_CMDLINE_LINUX in \
             /etc/default/grub, then update-grub) and reboot it"
        )));
    }
    if host.facts().uid != 0 {
        let why = "it loads a kernel module, which only root may do";
        return Err(Unavailable::new(Reason::Denied, why).with_remedy("start it as root: sudo rdiag lab start …"));
    }
    let lockdown = host.read("sys/kernel/security/lockdown").unwrap_or_default();
    let signed = host.read("sys/module/module/parameters/sig_enforce").unwrap_or_default();
    if signed.trim() == "Y" || (!lockdown.is_empty() && !lockdown.contains("[none]")) {
        let why = "it loads a kernel module, and this kernel accepts only signed ones";
        return Err(
            Unavailable::new(Reason::Disabled, why).with_remedy("switch Secure Boot off in the virtual machine")
        );
    }
    let headers = kernel_module::headers();
    let tools = ["/usr/bin/make", "/usr/bin/gcc"];
    let missing = |path: &Path| !path.exists();
    if missing(&headers.join("Makefile")) || tools.iter().any(|tool| missing(Path::new(tool))) {
        let why = format!(
            "it builds a kernel module, and make, gcc or the headers of this kernel ({}) are not there",
            headers.display()
        );
        return Err(Unavailable::new(Reason::Absent, why)
            .with_remedy("on Debian and Ubuntu: apt install make gcc linux-headers-$(uname -r)"));
    }
    Ok(())
}

/// Builds the modules of a run, and puts down how they go before any of them is loaded. What was built once for a kernel is kept in the
/// lab's folder, as a compiler takes its time.
pub(super) fn prepare(host: &Host, place: &Place, run: &Run) -> Result<(), LabError> {
    for job in &run.jobs {
        let Some(module) = job.task.module() else { continue };
        // The function that a stack shows is named after the module.
        let (source, define) = match job.task {
            Task::Fetch { .. } => (FETCHER, format!("FETCH={module}_fetch")),
            _ => (POLLER, format!("POLL={module}_poll")),
        };
        let failed = || LabError::failed(format!("building the kernel module {module}"));
        place.note(&Undo::Module { name: module.to_owned(), run: mark(&run.scratch) })?;
        let kept = kept(host, place, module, source);
        if !kept.exists() {
            let built = kernel_module::build(&run.scratch.join("build"), module, source, &define);
            let bytes = built.and_then(|file| files::read_named(&file, MAX_MODULE_BYTES)).map_err(failed())?;
            files::write_atomically(&kept, |out| out.write_all(&bytes)).map_err(failed())?;
        }
        files::link_to(&kept, &file(&run.scratch, module)).map_err(failed())?;
    }
    Ok(())
}

/// Where a module is kept: under the name of the kernel and of what it was built from.
fn kept(host: &Host, place: &Place, name: &str, source: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    place.folder().join(format!("{name}-{}-{:016x}.ko", host.facts().kernel, hasher.finish()))
}

/// Unloads what a run has loaded; a module of the same name that is not of this run stays. The module that reads the disk goes before the
/// disk.
pub(super) fn remove(place: &Place) -> Result<(), LabError> {
    let journal = place.journal()?;
    for undo in &journal {
        if let Undo::Module { name, run } = undo
            && is_loaded(name, *run)
        {
            kernel_module::unload(name).map_err(LabError::failed(format!("unloading the kernel module {name}")))?;
        }
    }
    for undo in &journal {
        if let Undo::SlowDisk { wait_ns } = undo
            && kernel_module::slow_disk_wait() == Some(*wait_ns)
        {
            kernel_module::remove_slow_disk().map_err(LabError::failed("removing the in-memory disk".to_owned()))?;
        }
    }
    Ok(())
}

/// Whether a disk in memory can be made here, and why not.
pub(super) fn slow_disk_can_be_made(host: &Host) -> Result<(), Unavailable> {
    if slow_disk(host).is_some() {
        let why = "it needs its own in-memory disk (null_blk), and one is already in use";
        return Err(
            Unavailable::new(Reason::Disabled, why).with_remedy("if it is no longer needed: modprobe -r null_blk")
        );
    }
    kernel_module::has_slow_disk().map_err(|error| {
        Unavailable::new(
            Reason::Absent,
            format!("it needs an in-memory disk (null_blk), which this kernel does not have: {error}"),
        )
        .with_remedy("boot the distribution's default kernel, not its cloud kernel")
    })
}

/// Makes the disk in memory of a run, and puts down before how it goes.
pub(super) fn make_slow_disk(place: &Place, scratch: &Path, wait: f64, at_once: u32) -> std::io::Result<()> {
    // What it is recognized by: no other user would ask for exactly this number of nanoseconds.
    let wait_ns = (wait * 1e9) as u64 + mark(scratch) % 100_000;
    place.note(&Undo::SlowDisk { wait_ns }).map_err(std::io::Error::other)?;
    kernel_module::make_slow_disk(wait_ns, at_once)
}

/// The device number of a disk in memory, if there is one: major and minor.
#[must_use]
pub(super) fn slow_disk(host: &Host) -> Option<(u32, u32)> {
    let text = host.read("sys/block/nullb0/dev").ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether a module of this run is loaded.
#[must_use]
pub(super) fn is_loaded(name: &str, run: u64) -> bool {
    kernel_module::parameter(name, "run") == Some(run)
}

/// The number by which a module tells whose it is: the seed, of which the run's folder is named.
#[must_use]
pub(super) fn mark(scratch: &Path) -> u64 {
    let name = scratch.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-').and_then(|(_, seed)| u64::from_str_radix(seed, 16).ok()).unwrap_or_default()
}

/// What is loaded.
#[must_use]
pub(super) fn file(scratch: &Path, name: &str) -> PathBuf {
    scratch.join(format!("{name}.ko"))
}
