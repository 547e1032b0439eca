//! Which descriptors a thread in poll, select or epoll waits for, and what they stand for.
//!
//! The list of poll and the sets of select lie in the program's memory, from where the programs in the kernel note them when the thread
//! goes out; of one that slept before the observation began they are not known. Of an epoll instance the kernel tells what is in it
//! (/proc/PID/fdinfo/N), at any time.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};

use super::objects;
use super::polls::Asleep;
use rdiag_kernel::classify::{Abi, FileClass, calls};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::Object;

/// More descriptors than these are no answer to what is waited for.
const MAX_MEMBERS: usize = 16;
/// Of each table of sockets so much is read at most.
const MAX_TABLE: u64 = 4 << 20;
/// Names that are written out.
const MAX_NAMES: usize = 3;
/// Bytes of `struct pollfd`.
const POLLFD: usize = 8;
/// Words of `struct polled` that follow `since` and `count`, and of one set of select.
const LIST_WORDS: usize = 16;
const SET_WORDS: usize = LIST_WORDS / 2;

/// What a descriptor is open on, as its link says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Member {
    /// A socket with this inode.
    Socket(u64),
    /// A pipe, by its link.
    Pipe(String),
    /// The requests of an io_uring.
    Ring(String),
    /// What has no name but what it is.
    Other(&'static str),
}

/// What a thread waits for that is asleep; none where that cannot be seen, or they are too many.
pub(super) fn members(host: &Host, object: &Object, own: &Asleep) -> Option<Vec<Member>> {
    let pid = own.pid;
    let descriptors = match calls::name(Abi::Native, own.call.cast_signed())? {
        "poll" | "ppoll" => {
            let (count, list) = polled(object, own)?;
            of_poll(list.get(..count.checked_mul(POLLFD)?)?)
        }
        "select" | "pselect6" => {
            let (highest, sets) = polled(object, own)?;
            of_select(&sets, highest)
        }
        name if name.starts_with("epoll_") => {
            of_epoll(&host.read(&format!("proc/{pid}/fdinfo/{}", own.argument as u32)).ok()?)
        }
        _ => return None,
    };
    if descriptors.len() > MAX_MEMBERS {
        return None;
    }
    descriptors.into_iter().map(|fd| member(&host.link(&format!("proc/{pid}/fd/{fd}")).ok()?)).collect()
}

/// What the programs noted when this wait began: how many, and the list or the two sets.
fn polled(object: &Object, own: &Asleep) -> Option<(usize, Vec<u8>)> {
    let [since, count, list @ ..]: [u64; 2 + LIST_WORDS] = object.element("polled", own.slot).ok()?;
    let list = list.iter().flat_map(|word| word.to_ne_bytes()).collect();
    (since == own.since).then_some((usize::try_from(count).ok()?, list))
}

/// Descriptors of a list of `struct pollfd`; a negative one is left out by the kernel, too.
fn of_poll(list: &[u8]) -> Vec<u32> {
    let fd = |entry: &[u8; POLLFD]| {
        let [a, b, c, d, ..] = *entry;
        u32::try_from(i32::from_ne_bytes([a, b, c, d])).ok()
    };
    list.as_chunks::<POLLFD>().0.iter().filter_map(fd).collect()
}

/// Descriptors in any of some `fd_set`s, each as long as the programs note them.
fn of_select(sets: &[u8], highest: usize) -> Vec<u32> {
    let sets: Vec<&[u8]> = sets.chunks(SET_WORDS * 8).collect();
    let is_in = |fd: &usize| sets.iter().any(|set| set.get(fd / 8).is_some_and(|byte| byte >> (fd % 8) & 1 != 0));
    (0..highest.min(SET_WORDS * 64)).filter(is_in).filter_map(|fd| u32::try_from(fd).ok()).collect()
}

/// Descriptors in an epoll instance, from lines such as `tfd:        5 events:       19 data: …`.
fn of_epoll(fdinfo: &str) -> Vec<u32> {
    let fd = |line: &str| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok();
    fdinfo.lines().filter_map(fd).take(MAX_MEMBERS + 1).collect()
}

/// What a link such as `socket:[4711]` stands for.
fn member(target: &str) -> Option<Member> {
    if let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
        return Some(Member::Socket(inode.parse().ok()?));
    }
    Some(match FileClass::of_link(target) {
        FileClass::Pipe => Member::Pipe(target.to_owned()),
        class => Member::Other(class.word()),
    })
}

/// Sockets by inode, with the name of what is at their other end.
#[derive(Debug, Default)]
pub(super) struct Sockets(BTreeMap<u64, String>);

impl Sockets {
    /// Looks them up in the tables of the network namespace that a process is in. UDP comes first: it has few sockets, and those of
    /// resolvers.
    pub(super) fn find(host: &Host, pid: u32, mut wanted: Vec<u64>) -> Self {
        let mut found = BTreeMap::new();
        for table in ["udp", "udp6", "tcp", "tcp6"] {
            if wanted.is_empty() {
                break;
            }
            let Ok(file) = host.open(&format!("proc/{pid}/net/{table}")) else { continue };
            let lines = BufReader::new(file.take(MAX_TABLE)).lines().map_while(Result::ok);
            for (inode, name) in lines.skip(1).filter_map(|line| socket(&line, table.starts_with("udp"))) {
                if let Some(at) = wanted.iter().position(|own| *own == inode) {
                    wanted.swap_remove(at);
                    found.insert(inode, name);
                }
            }
        }
        Self(found)
    }
}

/// Inode of a socket and the name of its peer, from a line of /proc/net/tcp, udp and their siblings of IPv6.
fn socket(line: &str, is_udp: bool) -> Option<(u64, String)> {
    let mut fields = line.split_whitespace().skip(1);
    let (own, their) = (fields.next()?, fields.next()?);
    let inode = fields.nth(6)?.parse().ok().filter(|inode| *inode != 0)?;
    let port = |end: &str| u64::from_str_radix(end.rsplit_once(':')?.1, 16).ok();
    let (own, their_port) = (port(own)?, port(their)?);
    let hex = their.rsplit_once(':')?.0;
    let mut words = [0_u32; 4];
    for (word, at) in words.iter_mut().zip((0..hex.len()).step_by(8)) {
        *word = u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?;
    }
    if is_udp && their_port == 0 {
        // Its own port is no service's, or it is one that others ask: who answers is not known.
        return Some((inode, format!("UDP from own port {own}")));
    }
    let [a, b, c, d] = words.map(u64::from);
    let pair =
        |first: u64, second: u64| if cfg!(target_endian = "big") { first << 32 | second } else { second << 32 | first };
    let family = if hex.len() > 8 { objects::IPV6 } else { 0 };
    Some((inode, objects::peer(&[pair(a, b), pair(c, d), objects::service(family, own, their_port)])))
}

/// The name of what is waited for: any of its members. Peers come first; "" where nothing has a name.
pub(super) fn name(members: &[Member], sockets: &Sockets) -> String {
    let mut names: Vec<String> = Vec::new();
    let rank = |member: &&Member| match member {
        Member::Socket(inode) if sockets.0.contains_key(inode) => 0,
        Member::Socket(_) => 1,
        Member::Pipe(_) | Member::Ring(_) => 2,
        Member::Other(_) => 3,
    };
    let mut sorted: Vec<&Member> = members.iter().collect();
    sorted.sort_by_key(rank);
    for member in sorted {
        let own = match member {
            Member::Socket(inode) => sockets.0.get(inode).cloned().unwrap_or_else(|| format!("socket:[{inode}]")),
            Member::Pipe(name) | Member::Ring(name) => name.clone(),
            Member::Other("") => "another file".to_owned(),
            Member::Other(word) => (*word).to_owned(),
        };
        if !names.contains(&own) {
            names.push(own);
        }
    }
    // One more takes no more room than to say that there is one more.
    if names.len() > MAX_NAMES + 1 {
        let others = names.len() - MAX_NAMES;
        names.truncate(MAX_NAMES);
        names.push(format!("{others} others"));
    }
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_those_of_the_list_the_sets_or_the_instance() {
        let entry = |fd: i32| [fd.to_ne_bytes(), [1, 0, 0, 0]].concat();
        assert_eq!(of_poll(&[entry(5), entry(-1), entry(1000)].concat()), [5, 1000]);
        assert_eq!(of_poll(&entry(5)[..7]), [] as [u32; 0]);
        let set = |fds: &[usize]| {
            let mut set = vec![0_u8; SET_WORDS * 8];
            fds.iter().for_each(|fd| set[fd / 8] |= 1 << (fd % 8));
            set
        };
        assert_eq!(of_select(&[set(&[3, 70]), set(&[0, 90])].concat(), 71), [0, 3, 70]);
        let fdinfo = "pos:\t0\nflags:\t02\ntfd:        5 events:       19 data: 5  pos:0 ino:1 sdev:8\ntfd:       12 events: 1\n";
        assert_eq!(of_epoll(fdinfo), [5, 12]);
    }

    #[test]
    fn sockets_are_named_by_their_peers_and_a_name_server_is_one_by_its_port() {
        let line = "  11: 0100007F:A3C5 3500007F:0035 01 00000000:00000000 00:00000000 00000000  1000        0 4711 2 ffff88 0";
        assert_eq!(socket(line, true), Some((4711, "127.0.0.53:53 (DNS)".to_owned())));
        let line = line.replace(":0035", ":1538");
        assert_eq!(socket(&line, false), Some((4711, "127.0.0.53:5432".to_owned())));
        let six =
            "0: 00000000000000000000000001000000:C001 B80D0120000000000000000001000000:01BB 01 0:0 0:0 0 0 0 12 2 f";
        assert_eq!(socket(six, false), Some((12, "[2001:db8::1]:443".to_owned())));
        let listens = "0: 00000000:1F90 00000000:0000 0A 0:0 0:0 0 0 0 13 1 f";
        assert_eq!(socket(listens, false), Some((13, "own port 8080".to_owned())));
        assert_eq!(socket(listens, true), Some((13, "UDP from own port 8080".to_owned())));
        assert_eq!(
            (socket("", true), socket("0: 1 2", true), socket("0: 0:1 zz:2 1 0 0 0 0 0 5", true)),
            (None, None, None)
        );
    }

    #[test]
    fn what_is_waited_for_is_any_of_its_members_with_peers_first() {
        let sockets = Sockets([(7, "10.0.0.1:5432".to_owned())].into());
        let of = |members: &[Member]| name(members, &sockets);
        assert_eq!(of(&[Member::Socket(7)]), "10.0.0.1:5432");
        assert_eq!(of(&[Member::Other("event"), Member::Socket(7), Member::Other("event")]), "10.0.0.1:5432 or event");
        let five: Vec<Member> = (1..=5).map(Member::Socket).collect();
        assert_eq!(of(&five), "socket:[1] or socket:[2] or socket:[3] or 2 others");
        let five: Vec<Member> = (4..=7).map(Member::Socket).collect();
        assert_eq!(of(&five), "10.0.0.1:5432 or socket:[4] or socket:[5] or socket:[6]");
        assert_eq!((of(&[]), of(&[Member::Other("")])), (String::new(), "another file".to_owned()));
    }
}
