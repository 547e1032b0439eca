//! Servers of databases: how their processes are named, and the functions by which their statements are known. What kind of server a
//! program is, its functions tell.
//!
//! PostgreSQL has marks (USDT), but only about one of its two protocols; the function by which its processes report what they do is called
//! in both. MariaDB has no marks, but exports its functions.

use std::collections::BTreeMap;

use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::Moments;
use rdiag_kernel::mechanism::points::{self, Point, PointError};
use rdiag_model::{Reason, Unavailable};

/// As many different programs of servers are watched: versions, and containers.
const PROGRAMS: usize = 16;

/// A function of a server, and the programs of the object that look at it.
struct Function {
    name: &'static str,
    programs: &'static str,
    moments: Moments,
}

const fn entry(name: &'static str, programs: &'static str) -> Function {
    Function { name, programs, moments: Moments::Entry }
}

/// A kind of server.
struct Kind {
    /// Names of its processes.
    processes: &'static [&'static str],
    /// What it calls for each statement.
    reports: Function,
    /// What tells more about statements, where the program has it.
    tells: &'static [Function],
}

/// The compiler's names of functions in C++ give the types of their arguments: another version whose function has this name passes
/// the same.
const KINDS: [Kind; 2] = [
    Kind { processes: &["postgres"], reports: entry("pgstat_report_activity", "activity"), tells: &[] },
    Kind {
        processes: &["mariadbd", "mysqld"],
        reports: Function {
            name: "_Z16dispatch_command19enum_server_commandP3THDPcjb",
            programs: "command",
            moments: Moments::Both,
        },
        tells: &[
            entry("_ZN18Prepared_statement7prepareEPKcj", "prepare"),
            entry("_ZN18Prepared_statement12execute_loopEP6StringbPhS2_", "execute"),
            entry("_ZN18Prepared_statement17execute_bulk_loopEP6StringbPhS2_", "execute"),
        ],
    },
];

/// Where an object's programs are to be attached.
pub(super) struct Watched {
    pub(super) programs: &'static str,
    pub(super) moments: Moments,
    pub(super) point: Point,
}

/// What was found, and what the reader must know of the rest.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) watched: Vec<Watched>,
    pub(super) notes: Vec<String>,
}

impl Servers {
    /// Whether statements may be prepared long before they are executed.
    pub(super) fn prepare(&self) -> bool {
        self.watched.iter().any(|watched| watched.programs == "prepare")
    }
}

/// The functions of one program, which a process may see at another place.
pub(super) fn of_program(host: &Host, program: &str, process: Option<u32>) -> Result<Servers, Unavailable> {
    let mut reasons = Vec::new();
    for kind in &KINDS {
        match of_kind(host, kind, program, process) {
            Ok(watched) => return Ok(Servers { watched, notes: Vec::new() }),
            Err(error) if error.reason == Reason::Absent => reasons.push(error),
            Err(error) => return Err(error.gap()),
        }
    }
    // A file that is not there is missing in the same words for all.
    reasons.dedup_by(|one, other| one.message == other.message);
    if let [_] = reasons[..] {
        return Err(reasons.remove(0).gap());
    }
    let names = KINDS.map(|kind| kind.reports.name).join(" nor ");
    let why = format!("{program} has neither {names}, so it is no server of PostgreSQL or MariaDB that is understood");
    Err(Unavailable::new(Reason::Absent, why)
        .with_remedy("name such a server's program; of MySQL ask its slow query log"))
}

/// The functions of all servers that run, or of those processes that are wanted.
pub(super) fn of_running(host: &Host, wanted: &[u32]) -> Result<Servers, Unavailable> {
    let mut ids = wanted.to_vec();
    if ids.is_empty() {
        host.processes()?.list("", &mut ids)?;
        ids.retain(|pid| {
            let name = host.read_line(&format!("proc/{pid}/comm"));
            name.is_ok_and(|name| KINDS.iter().any(|kind| kind.processes.contains(&name.as_str())))
        });
    }
    // A program is known by its path and the mounts that its process sees, so that it is searched once.
    let program = |pid: &u32| {
        let link = |name: &str| host.link(&format!("proc/{pid}/{name}")).ok();
        Some(((link("exe")?, link("ns/mnt")?), *pid))
    };
    let programs: BTreeMap<(String, String), u32> = ids.iter().filter_map(program).collect();
    if programs.is_empty() {
        let names = KINDS.map(|kind| kind.processes.join(", ")).join(", ");
        let why = format!("no process named {names} runs, so there is no server to look at");
        return Err(Unavailable::new(Reason::Absent, why)
            .with_remedy("start it, or name its program: --param program=/usr/lib/postgresql/17/bin/postgres"));
    }
    let (mut found, mut first) = (Servers::default(), None);
    for ((path, _), pid) in programs.into_iter().take(PROGRAMS) {
        match of_program(host, &path, Some(pid)) {
            Ok(servers) => found.watched.extend(servers.watched),
            Err(gap) => {
                found.notes.push(format!("statements of process {pid} are not seen: {}", gap.why));
                first.get_or_insert(gap);
            }
        }
    }
    match first {
        Some(gap) if found.watched.is_empty() => Err(gap),
        _ => Ok(found),
    }
}

fn of_kind(host: &Host, kind: &'static Kind, program: &str, process: Option<u32>) -> Result<Vec<Watched>, PointError> {
    let find = |function: &Function| {
        let points = points::functions(host, &format!("{program}:{}", function.name), process)?;
        let watched = |point| Watched { programs: function.programs, moments: function.moments, point };
        Ok::<Vec<Watched>, PointError>(points.into_iter().map(watched).collect())
    };
    let reports = find(&kind.reports)?;
    // These come first, so that they see what a statement that is seen needs.
    Ok(kind.tells.iter().filter_map(|function| find(function).ok()).flatten().chain(reports).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_known_server_is_told_from_one_that_is_not_there() {
        let (host, own) = (Host::live(std::path::Path::new("/")), std::env::current_exe().unwrap());
        let why = |program: &str| of_program(&host, program, None).err().map(|gap| (gap.reason, gap.why));
        let (reason, said) = why(own.to_str().unwrap()).unwrap();
        assert_eq!(reason, Reason::Absent);
        assert!(said.contains("neither pgstat_report_activity nor _Z16dispatch_command"), "{said}");
        let (_, said) = why("/not/there").unwrap();
        assert_eq!(said, "there is no file \"/not/there\"");
    }
}
