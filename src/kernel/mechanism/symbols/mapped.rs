//! What processes have mapped, remembered for a moment: reading /proc/PID/maps costs some 50 µs, and a busy process shows new
//! addresses at every look.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::bounded::Bounded;
use super::maps::Maps;
use super::process::{self, Process};
use crate::host::Host;
use crate::mechanism::tracefs::private;

/// As long, in seconds, a process is taken to have mapped what it had. Libraries that come are noticed at once, since their
/// addresses are in nothing that is known; what comes in the very place of another is not.
const HOLDS: f64 = 1.0;
/// As many processes are remembered.
const MAX_PROCESSES: usize = 512;
/// So many reasons are told.
const MAX_WHYS: usize = 8;

/// What a process has mapped.
#[derive(Debug, Clone)]
pub(super) struct Mapped {
    pub(super) maps: Arc<Maps>,
    /// Whether paths lead it to the same files as rdiag.
    pub(super) same_mounts: bool,
    /// The program that it runs: another one has other mappings.
    program: Option<String>,
    read_at: f64,
}

/// What the processes have mapped that were looked at lately.
#[derive(Debug, Default)]
pub(super) struct Lately {
    known: HashMap<Process, Mapped>,
    bounded: Bounded,
    /// Why something is not known.
    whys: BTreeSet<String>,
}

impl Lately {
    /// What a process has mapped, if that is known so well that these addresses need no new look; else it is read. None if the
    /// process has ended, or may not be looked at.
    pub(super) fn of(&mut self, host: &Host, process: Process, addresses: &[u64]) -> Option<Mapped> {
        let program = host.link(&format!("proc/{}/exe", process.pid)).ok();
        let known = self.known.get(&process).filter(|known| {
            host.now() - known.read_at < HOLDS
                && program.is_some()
                && known.program == program
                && addresses.iter().all(|address| known.maps.settles(*address))
        });
        if let Some(known) = known {
            return Some(known.clone());
        }
        if !process::is_same(host, process) {
            return None;
        }
        let maps = Maps::read(host, process.pid, &self.bounded).unwrap_or_else(|why| {
            if self.whys.len() < MAX_WHYS {
                self.whys.insert(format!("names are missing: {why}"));
            }
            None
        })?;
        let mapped = Mapped {
            maps: Arc::new(maps),
            same_mounts: in_same_mounts(host, process.pid),
            program,
            read_at: host.now(),
        };
        if self.known.len() >= MAX_PROCESSES {
            self.known.clear();
        }
        self.known.insert(process, mapped.clone());
        Some(mapped)
    }

    /// Why of some processes it is not known what they have mapped.
    pub(super) fn whys(&self) -> impl Iterator<Item = &str> {
        self.whys.iter().map(String::as_str)
    }
}

/// Whether paths lead a process to the same files as rdiag.
fn in_same_mounts(host: &Host, pid: u32) -> bool {
    let of = |who: &str| host.link(&format!("proc/{who}/ns/mnt")).ok();
    let (own, other) = (of("self"), of(&pid.to_string()));
    // rdiag may have a namespace of its own for the sake of tracefs, with all that is mounted where it came from.
    own.is_some() && (own == other || (other.is_some() && other.as_deref() == private::left()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_process(host: &Host) -> Process {
        Process::of(host, std::process::id()).unwrap()
    }

    #[test]
    fn addresses_in_files_need_no_second_look_and_others_do() {
        let host = Host::live(std::path::Path::new("/"));
        let process = this_process(&host);
        let code = this_process as fn(&Host) -> Process as usize as u64;
        let mut lately = Lately::default();
        let first = lately.of(&host, process, &[code]).unwrap();
        assert!(first.same_mounts && first.maps.kind(code).is_some());
        let again = lately.of(&host, process, &[code, 1, u64::MAX]).unwrap();
        assert!(Arc::ptr_eq(&first.maps, &again.maps));
        let elsewhere = lately.of(&host, process, &[code, 1 << 40]).unwrap();
        assert!(!Arc::ptr_eq(&first.maps, &elsewhere.maps), "something may have been mapped there since");
    }

    #[test]
    fn what_another_program_had_mapped_or_an_ended_process_is_not_believed() {
        let host = Host::live(std::path::Path::new("/"));
        let process = this_process(&host);
        let mut lately = Lately::default();
        let first = lately.of(&host, process, &[]).unwrap();
        lately.known.get_mut(&process).unwrap().program = Some("/another".into());
        assert!(!Arc::ptr_eq(&first.maps, &lately.of(&host, process, &[]).unwrap().maps));
        let ended = Process { pid: u32::MAX, born: 1 };
        lately.known.insert(ended, Mapped { program: None, ..first });
        assert!(lately.of(&host, ended, &[]).is_none());
    }
}
