//! What a file descriptor is open on, as far as waiting on it goes.

/// What a file descriptor is open on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileClass {
    /// Not known, or the call has none.
    #[default]
    Unknown,
    /// A regular file or a directory.
    File,
    /// A file that the kernel makes up, of proc, sysfs, a control group and the like: no disk is behind it.
    Kernel,
    /// A block device.
    Block,
    /// A socket of a family that is not known, or of none of those below.
    Socket,
    /// An IPv4 or IPv6 socket.
    Inet,
    /// A unix socket.
    Unix,
    /// A netlink socket.
    Netlink,
    /// A pipe or FIFO.
    Pipe,
    /// eventfd, signalfd, inotify, fanotify, userfaultfd, pidfd: a source of events.
    Event,
    /// A timerfd.
    Timer,
    /// A terminal.
    Terminal,
    /// The daemon's end of a FUSE file system.
    Fuse,
    /// A character device.
    Character,
    /// A device, character or block.
    Device,
    /// An epoll instance.
    Epoll,
    /// An io_uring.
    Ring,
}

impl FileClass {
    /// The word in tables: `read(socket)`; "" where there is nothing to say.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::File => "file",
            Self::Kernel => "kernel file",
            Self::Block => "block device",
            Self::Socket => "socket",
            Self::Inet => "inet",
            Self::Unix => "unix",
            Self::Netlink => "netlink",
            Self::Pipe => "pipe",
            Self::Event => "event",
            Self::Timer => "timer",
            Self::Terminal => "terminal",
            Self::Fuse => "fuse",
            Self::Character | Self::Device => "device",
            Self::Epoll => "epoll",
            Self::Ring => "io_uring",
        }
    }

    /// From what /proc/PID/fd/N points to. Families of sockets stand elsewhere: see [`of_protocol`]. A FIFO with a name
    /// looks like a file here.
    #[must_use]
    pub fn of_link(target: &str) -> Self {
        if let Some(rest) = target.strip_prefix("anon_inode:") {
            let name = rest.trim_start_matches('[').trim_end_matches(']');
            return match name {
                "eventfd" | "signalfd" | "inotify" | "fanotify" | "userfaultfd" | "pidfd" => Self::Event,
                "timerfd" => Self::Timer,
                "eventpoll" => Self::Epoll,
                "io_uring" => Self::Ring,
                _ if name.starts_with("kvm") => Self::Character,
                _ => Self::Unknown,
            };
        }
        if target.starts_with("socket:[") {
            return Self::Socket;
        }
        if target.starts_with("pipe:[") {
            return Self::Pipe;
        }
        let Some(device) = target.strip_prefix("/dev/") else {
            return match target {
                _ if ["/proc/", "/sys/"].iter().any(|tree| target.starts_with(tree)) => Self::Kernel,
                _ if target.starts_with('/') => Self::File,
                _ => Self::Unknown,
            };
        };
        match device {
            "fuse" => Self::Fuse,
            "console" | "ptmx" => Self::Terminal,
            "null" | "zero" | "full" | "random" | "urandom" | "kmsg" => Self::Character,
            _ if device.starts_with("tty") || device.starts_with("pts/") => Self::Terminal,
            _ if device.starts_with("shm/") || device.starts_with("mqueue/") || device.starts_with("hugepages/") => {
                Self::File
            }
            _ => Self::Device,
        }
    }
}

/// From the kernel's name of a socket's protocol (the attribute `system.sockprotoname` of its file).
#[must_use]
pub fn of_protocol(name: &str) -> FileClass {
    const INET: &[&str] = &["TCP", "UDP", "RAW", "PING", "SCTP", "MPTCP", "DCCP"];
    match name {
        _ if name.starts_with("UNIX") => FileClass::Unix,
        "NETLINK" => FileClass::Netlink,
        _ if INET.iter().any(|protocol| name.starts_with(protocol)) => FileClass::Inet,
        _ => FileClass::Socket,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_tell_what_is_behind_them() {
        for (target, class) in [
            ("socket:[1234]", FileClass::Socket),
            ("pipe:[99]", FileClass::Pipe),
            ("anon_inode:[eventpoll]", FileClass::Epoll),
            ("anon_inode:[eventfd]", FileClass::Event),
            ("anon_inode:inotify", FileClass::Event),
            ("anon_inode:[timerfd]", FileClass::Timer),
            ("anon_inode:[io_uring]", FileClass::Ring),
            ("anon_inode:kvm-vcpu:0", FileClass::Character),
            ("anon_inode:[perf_event]", FileClass::Unknown),
            ("/dev/pts/3", FileClass::Terminal),
            ("/dev/tty", FileClass::Terminal),
            ("/dev/fuse", FileClass::Fuse),
            ("/dev/null", FileClass::Character),
            ("/dev/vda1", FileClass::Device),
            ("/dev/shm/x", FileClass::File),
            ("/var/log/syslog", FileClass::File),
            ("/sys/fs/cgroup/a/cgroup.procs", FileClass::Kernel),
            ("/tmp/gone (deleted)", FileClass::File),
            ("", FileClass::Unknown),
            ("nonsense", FileClass::Unknown),
        ] {
            assert_eq!(FileClass::of_link(target), class, "{target}");
        }
        for (name, class) in [
            ("TCPv6", FileClass::Inet),
            ("UDP", FileClass::Inet),
            ("UDPLITE", FileClass::Inet),
            ("UNIX-STREAM", FileClass::Unix),
            ("UNIX", FileClass::Unix),
            ("NETLINK", FileClass::Netlink),
            ("PACKET", FileClass::Socket),
            ("", FileClass::Socket),
        ] {
            assert_eq!(of_protocol(name), class, "{name}");
        }
    }
}
