#!/usr/bin/env python3
"""Runs a command where something is denied to it: deny.py KIND -- COMMAND…

    container      what Docker denies: its seccomp profile, its capabilities, /proc/sys and /sys read-only, some files masked
    user           everything that the user nobody may not do
    hidepid        the same, with a /proc that shows nobody's processes but their own
    files:SEED     to read a third of the files of /proc and /sys that rdiag may want, to the user nobody
    labels:SEED    the same to root, who may do all else, as a security module would
    EPERM, ENOSYS  all calls of the kernel that a sandbox may refuse, with this error; EPERM:statx that call alone
"""

import ctypes
import errno
import glob
import os
import random
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
NOBODY = 65534
NEWNS, BIND, REMOUNT, RDONLY, REC, PRIVATE = 0x20000, 4096, 32, 1, 16384, 1 << 18
SET_NO_NEW_PRIVS, SET_SECCOMP, CAPBSET_DROP = 38, 22, 24
DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2
# Docker's: chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap
CONTAINER = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
# x86-64
CALLS = {
    "container": "bpf 321 perf_event_open 298 userfaultfd 323 keyctl 250 add_key 248 request_key 249 mount 165 umount2 166 unshare 272 setns 308 "
    "swapon 167 swapoff 168 syslog 103 reboot 169 open_by_handle_at 304 init_module 175 finit_module 313 delete_module 176 acct 163 "
    "quotactl 179 fanotify_init 300 io_uring_setup 425 io_uring_enter 426 io_uring_register 427 kcmp 312 process_vm_readv 310 "
    "process_vm_writev 311 move_pages 279 mbind 237 set_mempolicy 238 get_mempolicy 239 lookup_dcookie 212 iopl 172 ioperm 173 "
    "settimeofday 164 clock_settime 227 vhangup 153 pivot_root 155 open_tree 428 move_mount 429 fsopen 430 mount_setattr 442 ptrace 101",
    "sandbox": "bpf 321 perf_event_open 298 ptrace 101 process_vm_readv 310 kcmp 312 unshare 272 setns 308 mount 165 statx 332 faccessat2 439 "
    "openat2 437 close_range 436 pidfd_open 434 pidfd_send_signal 424 pidfd_getfd 438 memfd_create 319 sched_setscheduler 144 "
    "sched_setattr 314 sched_getattr 315 sched_setaffinity 203 setpriority 141 getpriority 140 prlimit64 302 setrlimit 160 "
    "inotify_init1 294 timerfd_create 283 signalfd4 289 renameat2 316 seccomp 317 landlock_create_ruleset 444 landlock_add_rule 445 "
    "landlock_restrict_self 446 capset 126 capget 125 sysinfo 99 splice 275 copy_file_range 326 fallocate 285 statfs 137 fstatfs 138 "
    "ioprio_set 251 getrandom 318 mlock 149 mlockall 151 membarrier 324 name_to_handle_at 303 getxattr 191 lgetxattr 192 fgetxattr 193 "
    "readlinkat 267 flock 73 fadvise64 221 times 100 getrusage 98 setsid 112 setpgid 109 syslog 103 rseq 334 clone3 435 socketpair 53",
}
WANTED = (
    "/proc/[a-z]* /proc/pressure/* /proc/sys/kernel/* /proc/sys/vm/* /proc/sys/fs/* /sys/block /sys/class/block /sys/class/net /sys/fs/cgroup "
    "/sys/fs/cgroup/* /sys/devices/system/cpu /sys/devices/system/cpu/* /sys/devices/system/node /sys/kernel/tracing /sys/kernel/debug "
    "/sys/kernel/btf/vmlinux /sys/kernel/mm/* /sys/devices/system/clocksource /sys/dev/block /sys/module /sys/class/dmi /sys/bus/event_source"
)
# Without these no program runs.
NEVER = {"/proc/self", "/proc/thread-self", "/proc/sys", "/proc/fs", "/proc/bus", "/proc/net", "/proc/mounts"}


def must(done: int, what: str) -> None:
    if done != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    must(libc.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()), f"mounting on {target}")


def own_mounts() -> None:
    must(libc.unshare(NEWNS), "unshare")
    mount("none", "/", None, REC | PRIVATE)


def refuse(calls: dict[int, int]) -> None:
    """A filter that lets calls of other numbers through."""
    load, equal, give = 0x20, 0x15, 0x06
    steps = [(load, 0, 0, 0)]
    for number, error in calls.items():
        steps += [(equal, 0, 1, number), (give, 0, 0, 0x00050000 | error)]
    steps.append((give, 0, 0, 0x7FFF0000))
    step = ctypes.c_uint64 * len(steps)
    packed = step(*(code | true << 16 | false << 24 | k << 32 for code, true, false, k in steps))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    program = Program(len(steps), ctypes.cast(packed, ctypes.c_void_p))
    must(libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    must(libc.prctl(SET_SECCOMP, 2, ctypes.byref(program), 0, 0), "seccomp")


def numbers(group: str, error: int, only: str = "") -> dict[int, int]:
    words = CALLS[group].split()
    return {int(number): error for name, number in zip(words[::2], words[1::2]) if only in ("", name)}


def drop(capabilities: set[int]) -> None:
    last = int(open("/proc/sys/kernel/cap_last_cap").read())
    for capability in sorted(capabilities):
        if capability <= last:
            must(libc.prctl(CAPBSET_DROP, capability, 0, 0, 0), f"dropping capability {capability}")


def become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def hide(paths: list[str]) -> None:
    """Puts something that may not be read in their place, for the command alone."""
    own_mounts()
    folder = tempfile.mkdtemp()
    mount("none", folder, "tmpfs", 0)
    os.mkdir(f"{folder}/folder", 0o000)
    os.close(os.open(f"{folder}/file", os.O_CREAT | os.O_WRONLY, 0o000))
    os.chown(f"{folder}/file", 1, 1)
    os.chown(f"{folder}/folder", 1, 1)
    for path in paths:
        kind = "folder" if os.path.isdir(path) else "file"
        try:
            mount(f"{folder}/{kind}", path, None, BIND)
        except OSError:
            pass  # Some cannot be mounted on.


def third(seed: str) -> list[str]:
    paths = sorted(path for pattern in WANTED.split() for path in glob.glob(pattern) if path not in NEVER and not os.path.islink(path))
    return random.Random(seed).sample(paths, len(paths) // 3)


def read_only(path: str) -> None:
    mount(path, path, None, BIND | REC)
    mount("none", path, None, BIND | REMOUNT | RDONLY)


def deny(kind: str) -> None:
    kind, _, seed = kind.partition(":")
    match kind:
        case "container":
            masked = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/proc/acpi", "/sys/firmware", "/sys/kernel/tracing"]
            hide([path for path in masked if os.path.exists(path)])
            for path in ("/proc/sys", "/sys"):
                read_only(path)
            drop(set(range(64)) - CONTAINER)
            refuse(numbers("container", errno.EPERM) | {435: errno.ENOSYS})
        case "user":
            become_nobody()
        case "hidepid":
            own_mounts()
            mount("proc", "/proc", "proc", 0, "hidepid=2")
            become_nobody()
        case "files":
            hide(third(seed))
            become_nobody()
        case "labels":
            drop({DAC_OVERRIDE, DAC_READ_SEARCH})
            hide(third(seed))
        case "EPERM" | "ENOSYS":
            # The C library starts threads by the older call only where there is none of the newer.
            refuse(numbers("sandbox", getattr(errno, kind), seed) | ({435: errno.ENOSYS} if not seed else {}))
        case _:
            sys.exit(__doc__)


def main() -> None:
    kind, dashes, *command = sys.argv[1:]
    if dashes != "--" or not command:
        sys.exit(__doc__)
    deny(kind)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
