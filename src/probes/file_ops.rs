//! What the probes on operations on files share (`fileops.h`): which operations there are, how they are seen, the type of file system, the
//! path of a file.
//!
//! They are seen where all file systems meet, at entry and return of the kernel's `vfs_` functions; where trampolines are refused, at
//! system calls, whose descriptor leads to the same file, so one body serves both. A file system on another one may call these functions
//! again, so an operation is known by thread and file. fsync is looked at in its system calls: compilers build copies of the common
//! function into them (seen on 5.10 and 7.2).

use super::calls;
use crate::def::{Context, ParamDef, ParamKind};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Kernel, Object, words};
use rdiag_model::{Reason, Unavailable};

pub(super) const TYPE: ParamDef = ParamDef {
    name: "type",
    kind: ParamKind::Text,
    default: "",
    help: "only file systems of this type (ext4, xfs, nfs4)",
};

/// Takes the second way where the first one would do.
pub(super) const AT_CALLS: ParamDef = ParamDef {
    name: "calls",
    kind: ParamKind::Flag,
    default: "false",
    help: "measure at system calls even where functions of the kernel can be hooked",
};

pub(super) const ATTACH: &str = "vfs_read, vfs_readv, vfs_write, vfs_writev, do_filp_open (do_file_open), and the functions \
    of the system calls fsync and fdatasync, at entry and return; sys_enter and sys_exit where these cannot be hooked.";

pub(super) const CAVEATS: &str = "Files and directories only: pipes, sockets and devices have no file system. Opening includes \
    looking up the path, and only what could be opened counts. At functions of the kernel, what the kernel opens, reads and writes for \
    itself by them counts too; at system calls it does not. Reads through memory maps, sendfile, splice and io_uring are in neither. The \
    time \
    is that of the whole operation: copying, locks, waiting for a CPU and for the disk. What has not ended is not in it.";

/// Bytes of a type's name with its NUL.
const TYPE_NAME: usize = 16;
/// As many types as an error lists.
const LISTED: usize = 12;
/// An operation: its name, the functions that do it, each by all its names, and the system calls that ask for it.
struct Operation(&'static str, &'static [&'static [&'static str]], &'static [&'static str]);

/// As the program numbers them.
const OPERATIONS: [Operation; 4] = [
    Operation("read", &[&["vfs_read"], &["vfs_readv"]], &["read", "pread64", "readv", "preadv", "preadv2"]),
    Operation("write", &[&["vfs_write"], &["vfs_writev"]], &["write", "pwrite64", "writev", "pwritev", "pwritev2"]),
    Operation("open", &[&["do_filp_open", "do_file_open"]], &["open", "openat", "openat2", "creat"]),
    Operation(
        "fsync",
        &[&["__x64_sys_fsync", "__arm64_sys_fsync"], &["__x64_sys_fdatasync", "__arm64_sys_fdatasync"]],
        &["fsync", "fdatasync"],
    ),
];

/// How many kinds of operations there are.
pub(super) const KINDS: usize = OPERATIONS.len();

/// The name of an operation by the program's number.
pub(super) fn operation(kind: u64) -> &'static str {
    usize::try_from(kind).ok().and_then(|at| OPERATIONS.get(at)).map_or("other", |operation| operation.0)
}

/// Loads an object that includes `fileops.h` and attaches it to the first operations of the list, so many as are wanted: at the
/// kernel's functions, or, if one of them cannot be hooked, all at system calls; then the note says why.
pub(super) fn attach(
    context: &Context<'_>,
    bytes: &[u8],
    wanted: usize,
    own: &[Global],
    entries: &[(&'static str, u32)],
) -> Result<(Object, Option<String>), Unavailable> {
    let kernel = context.kernel()?;
    let mut globals = context.filter.globals(context.host)?;
    globals.extend_from_slice(own);
    globals.push(filter_type(context)?);
    globals.push(call_kinds(wanted));
    let load = || kernel.load(bytes, globals.clone(), entries);
    let refused = if context.params.flag(AT_CALLS.name) {
        "asked for".to_owned()
    } else {
        let mut object = load()?;
        let mut functions = OPERATIONS.iter().take(wanted).flat_map(|operation| operation.1);
        match functions.try_for_each(|names| attach_function(&mut object, kernel, names)) {
            Ok(()) => return Ok((object, None)),
            Err(gap) => gap.why,
        }
    };
    let mut object = load()?;
    for event in ["sys_exit", "sys_enter"] {
        object.attach(kernel, Hook::Tracepoint(event))?;
    }
    Ok((object, Some(format!("measured at system calls: {refused}"))))
}

/// Attaches to a function by the first of its names that the kernel knows.
fn attach_function(object: &mut Object, kernel: &Kernel, names: &[&str]) -> Result<(), Unavailable> {
    let known = names.iter().find(|name| kernel.has_function(name)).or(names.first());
    known.map_or(Ok(()), |name| object.attach(kernel, Hook::FunctionBy { function: name, program: name }))
}

/// The operation of each system call, by its number, as position + 1.
fn call_kinds(wanted: usize) -> Global {
    let mut kinds = vec![0; calls::CALLS];
    for (kind, operation) in (1..).zip(OPERATIONS.iter().take(wanted)) {
        for number in operation.2.iter().filter_map(|call| calls::number(call)) {
            if let Some(place) = kinds.get_mut(number as usize) {
                *place = kind;
            }
        }
    }
    Global::bytes("call_kinds", kinds)
}

/// The constant that puts the parameter `type` in force. A name that the kernel does not know would see nothing, which must not be
/// taken for nothing to see.
fn filter_type(context: &Context<'_>) -> Result<Global, Unavailable> {
    let name = context.params.text(TYPE.name).unwrap_or_default();
    if !name.is_empty() {
        must_be_known(context.host, name)?;
    }
    let mut bytes: Vec<u8> = name.bytes().take(TYPE_NAME - 1).collect();
    bytes.resize(TYPE_NAME, 0);
    Ok(Global::bytes("filter_type", bytes))
}

fn must_be_known(host: &Host, name: &str) -> Result<(), Unavailable> {
    let text = host.read("proc/filesystems")?;
    let known: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    if known.contains(&name) && name.len() < TYPE_NAME {
        return Ok(());
    }
    // Those on disks come last: the kernel's own are loaded first.
    let shown = known.iter().rev().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    let why = format!("this kernel has no type of file system {name:?} at the moment; it has {shown}, and others");
    Err(Unavailable::new(Reason::Absent, why).with_remedy("name one of /proc/filesystems"))
}

/// Parts of a path, and the bytes of each with its NUL, in `struct parts`.
const PARTS: usize = 12;
const PART: usize = 64;
/// 64-bit words of a `struct parts`.
pub(super) const PATH_WORDS: usize = 1 + PARTS * PART / 8;

/// The path of a file, from a `struct parts`: absolute if it is known up to the root, from `…/` on otherwise.
pub(super) fn path(parts: &[u8]) -> String {
    let names = parts.get(8..).unwrap_or_default().chunks(PART).take(PARTS);
    let names: Vec<String> = names.map(words::text).filter(|name| !name.is_empty()).collect();
    let start = if words::word(parts, 0) == 1 { "/" } else { "…/" };
    format!("{start}{}", names.into_iter().rev().collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(whole: u64, names: &[&str]) -> Vec<u8> {
        let mut bytes = whole.to_ne_bytes().to_vec();
        for name in names {
            let mut part = name.as_bytes().to_vec();
            part.resize(PART, 0);
            bytes.extend(part);
        }
        bytes.resize(PATH_WORDS * 8, 0);
        bytes
    }

    #[test]
    fn a_path_is_put_together_from_its_end_and_steps_over_mounts() {
        assert_eq!(path(&parts(1, &["wal", "", "data", "srv"])), "/srv/data/wal");
        assert_eq!(path(&parts(0, &["wal", "data"])), "…/data/wal");
        assert_eq!(path(&parts(1, &[])), "/");
        assert_eq!(path(&[]), "…/");
    }

    #[test]
    fn each_call_is_one_operation_and_those_beyond_what_is_wanted_are_none() {
        let kinds = |wanted| call_kinds(wanted).value().to_vec();
        let number = |call| calls::number(call).unwrap() as usize;
        let all = kinds(KINDS);
        assert_eq!([all[number("pread64")], all[number("openat")], all[number("fdatasync")]], [1, 3, 4]);
        assert_eq!(all[number("close")], 0);
        let two = kinds(2);
        assert_eq!([two[number("write")], two[number("fsync")]], [2, 0]);
        assert_eq!((operation(0), operation(3), operation(9)), ("read", "fsync", "other"));
    }
}
