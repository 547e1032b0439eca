//! What the probes on block requests share: names of devices and operations, the filter by device, the hooks.

use std::collections::BTreeMap;

use crate::def::{Context, ParamDef, ParamKind};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Kernel, Object, words};
use rdiag_model::{Reason, Unavailable};
use rdiag_proc::DiskLine;

pub(super) const DEVICE: ParamDef = ParamDef {
    name: "device",
    kind: ParamKind::Text,
    default: "",
    help: "only this block device or partition (vda, nvme0n1p1)",
};

/// Bits of a device number that are the minor.
const MINOR_BITS: u32 = 20;
/// As many devices as an error lists.
const LISTED: usize = 12;

/// Block devices by number as the programs have it (major << 20 | minor), with the I/Os that have ended there so far.
#[derive(Debug, Default)]
pub(super) struct Devices(BTreeMap<u32, (String, u64)>);

impl Devices {
    /// From /proc/diskstats, which also has devices that were never used. Without it, numbers are shown.
    pub(super) fn read(host: &Host) -> Self {
        Self::parse(&host.read("proc/diskstats").unwrap_or_default())
    }

    fn parse(diskstats: &str) -> Self {
        let device = |line: &str| {
            let line = DiskLine::parse(line)?;
            let number = number(line.major.parse().ok()?, line.minor.parse().ok()?);
            Some((number, (line.name.to_owned(), line.ended())))
        };
        Self(diskstats.lines().filter_map(device).collect())
    }

    /// I/Os that ended since an earlier look and are not among those that a program has seen, by device. Only devices
    /// with requests of their own count: no partitions, and none that hand on what they get.
    pub(super) fn unseen(&self, host: &Host, before: &Self, filter: u32, seen: impl Fn(u32) -> u64) -> u64 {
        let wanted = self.0.iter().filter(|(device, _)| filter == 0 || filter == **device);
        let with_requests =
            wanted.filter(|(_, (name, _))| host.exists(&format!("sys/block/{}/mq", name.replace('/', "!"))));
        let missing = |(device, (_, now)): (&u32, &(String, u64))| {
            let (_, then) = before.0.get(device)?;
            Some(now.saturating_sub(*then).saturating_sub(seen(*device)))
        };
        with_requests.filter_map(missing).sum()
    }

    /// The name, or `MAJOR:MINOR` of a device that is gone; requests to a controller itself have no device.
    pub(super) fn name(&self, device: u32) -> String {
        if device == 0 {
            return "(controller)".to_owned();
        }
        let numbers = || format!("{}:{}", device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
        self.0.get(&device).map_or_else(numbers, |(name, _)| name.clone())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn listed(&self) -> String {
        let names: Vec<&str> = self.0.values().map(|(name, _)| name.as_str()).collect();
        let shown = names.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
        match names.len() {
            0 => "none can be seen".to_owned(),
            count if count > LISTED => format!("there are {shown} and {} more", count - LISTED),
            _ => format!("there are {shown}"),
        }
    }
}

fn number(major: u32, minor: u32) -> u32 {
    major << MINOR_BITS | minor
}

/// The constants that put filters and the parameter `device` in force.
pub(super) fn globals(context: &Context<'_>) -> Result<Vec<Global>, Unavailable> {
    let mut globals = context.filter.globals(context.host)?;
    let place = context.params.text("device").map(|name| find(context.host, name)).transpose()?.unwrap_or_default();
    globals.push(Global::u32("filter_device", place.device));
    globals.push(Global::u64("filter_sector_first", place.first));
    globals.push(Global::u64("filter_sector_end", place.end));
    Ok(globals)
}

/// The device whose I/Os /proc/diskstats counts as the program does: 0 for all, none if only a partition is looked at.
pub(super) fn counted_device(context: &Context<'_>) -> Option<u32> {
    let place =
        context.params.text("device").map(|name| find(context.host, name)).transpose().ok()?.unwrap_or_default();
    (place.end == 0).then_some(place.device)
}

/// A device, or the sectors of it that are a partition (0 to 0: all).
#[derive(Debug, Default, PartialEq, Eq)]
struct Place {
    device: u32,
    first: u64,
    end: u64,
}

/// Requests name whole devices, so a partition is looked for as what it is: a stretch of its device.
fn find(host: &Host, name: &str) -> Result<Place, Unavailable> {
    let name = name.strip_prefix("/dev/").unwrap_or(name);
    // Directories hold the slashes of names (cciss/c0d0) as exclamation marks; others must not lead out of here.
    let entry = name.replace('/', "!");
    let folder = format!("sys/class/block/{entry}");
    if entry.starts_with('.') || entry.is_empty() || !host.exists(&folder) {
        let why = format!("there is no block device {name:?}; {}", Devices::read(host).listed());
        return Err(Unavailable::new(Reason::Absent, why).with_remedy("name one of /sys/class/block"));
    }
    if !host.exists(&format!("{folder}/partition")) {
        must_have_requests(host, name, &folder)?;
        return Ok(Place { device: device_number(host, &folder)?, ..Place::default() });
    }
    // A partition's folder lies in that of its device.
    let target = host.link(&folder)?;
    let parent = target.rsplit('/').nth(1).unwrap_or_default();
    must_have_requests(host, name, &format!("sys/class/block/{parent}"))?;
    let first = host.read_u64(&format!("{folder}/start"))?;
    let sectors = host.read_u64(&format!("{folder}/size"))?;
    let device = device_number(host, &format!("sys/class/block/{parent}"))?;
    Ok(Place { device, first, end: first.saturating_add(sectors) })
}

/// Devices that are made of others (device mapper, md) and some without a driver's queue (zram) get their I/O without requests:
/// a program that watches requests would see nothing there, which must not be taken for no I/O.
fn must_have_requests(host: &Host, name: &str, folder: &str) -> Result<(), Unavailable> {
    if host.exists(&format!("{folder}/mq")) {
        return Ok(());
    }
    let below = host.list(&format!("{folder}/slaves")).unwrap_or_default();
    let passed =
        if below.is_empty() { String::new() } else { format!(": what it gets it hands on to {}", below.join(", ")) };
    let gap = Unavailable::new(Reason::NotApplicable, format!("{name:?} has no requests of its own{passed}"));
    Err(match below.first() {
        Some(first) => gap.with_remedy(format!("name a device below it, such as {first}")),
        None => gap,
    })
}

fn device_number(host: &Host, folder: &str) -> Result<u32, Unavailable> {
    let text = host.read_line(&format!("{folder}/dev"))?;
    let numbers = text.split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = numbers.ok_or_else(|| {
        Unavailable::new(Reason::Malformed, format!("/{folder}/dev holds {text:?}, which is no device number"))
    })?;
    Ok(number(major, minor))
}

/// Attaches to an event whose argument is a request. The queue stood before it until Linux 5.11, and not in every kernel
/// before that, so the release does not tell. A program for both arguments is refused where there is only one; that it
/// was, is no loss, so nothing says so.
pub(super) fn attach_request(object: &mut Object, kernel: &Kernel, event: &str) -> Result<(), Unavailable> {
    let program = format!("{event}_queue");
    let with_queue = object.attach(kernel, Hook::TracepointBy { event, program: &program });
    with_queue.or_else(|_| object.attach(kernel, Hook::Tracepoint(event)))
}

/// For probes that tell I/Os by task.
pub(super) const OWNER_ATTACH: &str =
    "block_io_start (block_rq_insert where the kernel lacks it, before 6.5), block_rq_issue and block_rq_complete.";
pub(super) const OWNER_CAVEATS: &str = "The task is the one that began the request: for background writes a kernel thread \
    (kworker), for merged requests that of the first. Where block_io_start is missing, it may be a kernel thread that only \
    passed the request on. A write of 0 bytes is a flush that the task waits for; the device's own flush is an I/O of the \
    kernel. Devices without requests of their own (device mapper, md, zram) do not appear; the disks below them do. \
    A loop device's I/O appears there and, as its worker's, on the disk that its file lies on.";

/// Stands in records for a time that is not known.
const UNKNOWN: u64 = u64::MAX;

/// Loads a program that notes the owners of requests (owner.h), with one constant of its own, and attaches it.
pub(super) fn load_with_owners(
    context: &Context<'_>,
    bytes: &[u8],
    own: Global,
    entries: &[(&'static str, u32)],
) -> Result<Object, Unavailable> {
    let kernel = context.kernel()?;
    let has_start = kernel.has_tracepoint("block_io_start");
    let mut globals = globals(context)?;
    globals.extend([own, Global::u32("issuer_is_owner", (!has_start).into())]);
    let mut object = kernel.load(bytes, globals, entries)?;
    // Ends first: a beginning whose end is not seen would stay in the map.
    object.attach(kernel, Hook::Tracepoint("block_rq_complete"))?;
    attach_request(&mut object, kernel, "block_rq_issue")?;
    if has_start {
        object.attach(kernel, Hook::Tracepoint("block_io_start"))?;
    } else {
        attach_request(&mut object, kernel, "block_rq_insert")?;
    }
    Ok(object)
}

/// The task of a request; one that was begun before the probe, or without its notice, has none.
pub(super) struct Owner {
    /// Process << 32 | thread.
    pub(super) ids: u64,
    pub(super) comm: [u64; 2],
}

impl Owner {
    pub(super) fn name(&self) -> String {
        if self.ids == 0 { "(beginning not seen)".to_owned() } else { words::text_of_words(&self.comm) }
    }

    pub(super) fn pid(&self) -> Option<String> {
        (self.ids != 0).then(|| (self.ids >> 32).to_string())
    }

    pub(super) fn tid(&self) -> Option<String> {
        (self.ids != 0).then(|| (self.ids & 0xffff_ffff).to_string())
    }
}

/// Nanoseconds as seconds, where they are known.
pub(super) fn time(nanoseconds: u64) -> Option<f64> {
    (nanoseconds != UNKNOWN).then_some(nanoseconds as f64 * 1e-9)
}

/// REQ_OP_ numbers that mean the same in every kernel, and the bits of block.h.
pub(super) fn operation(kind: u32) -> String {
    let operation = match kind & 0xff {
        0 => "read".to_owned(),
        1 => "write".to_owned(),
        2 => "flush".to_owned(),
        3 => "discard".to_owned(),
        5 => "secure erase".to_owned(),
        9 => "write zeroes".to_owned(),
        32.. => "command".to_owned(),
        other => format!("operation {other}"),
    };
    let flags = ["sync", "meta", "read-ahead", "fua"].iter().enumerate();
    let set = flags.filter(|(bit, _)| kind >> (8 + bit) & 1 == 1).map(|(_, name)| *name);
    std::iter::once(operation.as_str()).chain(set).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_kernel::host::HostSpec;

    #[test]
    fn devices_are_named_as_in_diskstats_and_by_number_once_they_are_gone() {
        let devices = Devices::parse(" 254 0 vda 1 2 3\n 259 1048575 nvme0n1 0\ngarbage\n7 x loop0\n7 0\n");
        assert_eq!(devices.len(), 2);
        assert_eq!(devices.0[&number(254, 0)].1, 1, "fields that are missing count for nothing");
        assert_eq!(devices.name(number(254, 0)), "vda");
        assert_eq!(devices.name(number(259, 1_048_575)), "nvme0n1");
        assert_eq!(devices.name(number(8, 17)), "8:17");
        assert_eq!(devices.name(0), "(controller)");
    }

    #[test]
    fn operations_and_flags_are_words() {
        assert_eq!(operation(0), "read");
        assert_eq!(operation(1 | 1 << 8 | 1 << 9 | 1 << 11), "write sync meta fua");
        assert_eq!(operation(1 << 10), "read read-ahead");
        assert_eq!(operation(34), "command");
        assert_eq!(operation(13), "operation 13");
    }

    #[expect(clippy::disallowed_methods, reason = "a made-up tree, not the host")]
    fn tree() -> (tempfile::TempDir, Host) {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = tree.path().join("t0").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sys/devices/vda/dev", "254:0\n");
        write("sys/devices/vda/mq/0/nr_tags", "128\n");
        write("sys/devices/dm-0/dev", "253:0\n");
        write("sys/devices/dm-0/slaves/vda2/dev", "254:2\n");
        write("sys/devices/zram0/dev", "252:0\n");
        write("sys/devices/vda/vda2/dev", "254:2\n");
        write("sys/devices/vda/vda2/partition", "2\n");
        write("sys/devices/vda/vda2/start", "2048\n");
        write("sys/devices/vda/vda2/size", "1000\n");
        write("proc/diskstats", "254 0 vda 10 0 0 0 5 0 0 0 0 0 0 2 0 0 0 1 0\n254 2 vda2 10\n");
        write("sys/block/vda/mq/0/nr_tags", "128\n");
        let class = tree.path().join("t0/sys/class/block");
        std::fs::create_dir_all(&class).unwrap();
        std::os::unix::fs::symlink("../../devices/vda", class.join("vda")).unwrap();
        std::os::unix::fs::symlink("../../devices/vda/vda2", class.join("vda2")).unwrap();
        std::os::unix::fs::symlink("../../devices/dm-0", class.join("dm-0")).unwrap();
        std::os::unix::fs::symlink("../../devices/zram0", class.join("zram0")).unwrap();
        let host = Host::recorded(tree.path(), HostSpec::default());
        (tree, host)
    }

    #[test]
    fn a_partition_is_a_stretch_of_its_device() {
        let (_tree, host) = tree();
        let device = number(254, 0);
        assert_eq!(find(&host, "vda").unwrap(), Place { device, first: 0, end: 0 });
        assert_eq!(find(&host, "/dev/vda2").unwrap(), Place { device, first: 2048, end: 3048 });
    }

    #[test]
    fn a_device_that_hands_its_io_on_is_refused_with_what_lies_below_it() {
        let (_tree, host) = tree();
        let gap = find(&host, "dm-0").unwrap_err();
        assert_eq!(gap.why, "\"dm-0\" has no requests of its own: what it gets it hands on to vda2");
        assert_eq!(gap.remedy.as_deref(), Some("name a device below it, such as vda2"));
        assert_eq!(find(&host, "zram0").unwrap_err().why, "\"zram0\" has no requests of its own");
    }

    #[test]
    fn what_the_kernel_counted_and_no_program_saw_is_told_for_devices_that_have_requests() {
        let (_tree, host) = tree();
        let before = Devices::parse("254 0 vda 4 0 0 0 5\n254 2 vda2 1");
        let now = Devices::read(&host);
        assert_eq!(now.unseen(&host, &before, 0, |_| 6), 3, "18 less 9 less 6, and no partition");
        assert_eq!(now.unseen(&host, &before, 0, |_| 99), 0);
        assert_eq!(now.unseen(&host, &before, number(8, 0), |_| 0), 0);
        assert_eq!(now.unseen(&host, &Devices::default(), 0, |_| 0), 0, "a device that came meanwhile");
    }

    #[test]
    fn a_device_that_does_not_exist_is_an_error_that_lists_those_that_do() {
        let (_tree, host) = tree();
        for name in ["vdb", "", "../block/vda", ".", "vda/../vda"] {
            let gap = find(&host, name).unwrap_err();
            assert!(gap.why.contains("there are vda, vda2"), "{name}: {}", gap.why);
        }
    }
}
