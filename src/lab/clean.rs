//! Undoing what the journal says was done. Safe to be called at any time, any number of times, after any crash.

use super::census;
use super::error::LabError;
use super::limit;
use super::module;
use super::place::{Place, Undo};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::boot_id;
use rdiag_own as own;

/// How long ended processes may take to be gone, in seconds: a task that waits for a disk ends when the disk has answered.
const PATIENCE_SECONDS: f64 = 8.0;

/// What was cleaned up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Processes that still ran.
    pub processes: usize,
    /// Folders that were still there.
    pub folders: usize,
}

/// Ends what still runs, removes what still lies about, and forgets the run.
pub fn clean(host: &Host, place: &Place) -> Result<Cleaned, LabError> {
    let journal = place.journal()?;
    // After a reboot the numbers are other processes'.
    let boot = boot_id();
    let processes: Vec<_> = journal
        .iter()
        .filter_map(|undo| match undo {
            Undo::Process(process) => Some(process).filter(|process| process.boot == boot),
            _ => None,
        })
        .collect();
    // What the keeper has started ends with it, maybe before it is looked at.
    let ended = processes.iter().filter(|process| process.is_alive()).count();
    // The keeper was noted before what it started: it must be gone before it sees a program end.
    for process in processes.iter().filter(|process| process.is_alive()) {
        process.kill().map_err(LabError::failed(format!("killing process {}", process.pid)))?;
    }
    let groups: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    let begun = host.now();
    let never = std::sync::atomic::AtomicBool::new(false);
    while !groups.is_empty() {
        let left: u64 = census::look(host, &groups, false).groups.values().map(|group| group.processes).sum();
        if left == 0 {
            break;
        }
        if host.now() - begun > PATIENCE_SECONDS {
            return Err(LabError {
                trouble: super::error::Trouble::Failed,
                message: format!("{left} processes of the exercise have not exited yet; they wait inside the kernel"),
                hint: Some("wait a little, and try `rdiag lab stop` again".into()),
            });
        }
        host.wait(host.now() + 0.05, 0, &never);
    }
    module::remove(place)?;
    remove_groups(host, place)?;
    let folders = remove_folders(place)?;
    place.forget()?;
    Ok(Cleaned { processes: ended, folders })
}

/// Removes the control groups of the run. A task that has ended may hold its group for another moment.
pub fn remove_groups(host: &Host, place: &Place) -> Result<(), LabError> {
    let never = std::sync::atomic::AtomicBool::new(false);
    for undo in place.journal()? {
        let Undo::Group(directory) = undo else { continue };
        let begun = host.now();
        while let Err(error) = limit::remove(host, &directory) {
            if host.now() - begun > PATIENCE_SECONDS {
                return Err(LabError::failed(format!("removing the control group /{directory}"))(error));
            }
            host.wait(host.now() + 0.05, 0, &never);
        }
    }
    Ok(())
}

/// Removes the folders of the run; returns how many there were.
pub fn remove_folders(place: &Place) -> Result<usize, LabError> {
    let mut removed = 0;
    for undo in place.journal()?.iter().rev() {
        // It was noted after the folder that it lies in.
        if let Undo::Mount(room) = undo
            && room.parent().is_some_and(|folder| place.is_scratch(folder))
        {
            own::unmount(room).map_err(LabError::failed(format!("unmounting {}", room.display())))?;
        }
        if let Undo::Swap(space) = undo
            && space.parent().is_some_and(|folder| place.is_scratch(folder))
            && space.symlink_metadata().is_ok()
        {
            own::remove_swap(space).map_err(LabError::failed(format!("disabling swap on {}", space.display())))?;
        }
        if let Undo::Folder(folder) = undo {
            removed += usize::from(place.remove_scratch(folder)?);
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_own::Identity;

    #[test]
    fn only_folders_of_the_lab_are_removed_and_a_second_time_finds_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        std::fs::create_dir(temporary.path().join("lab")).unwrap();
        let place = Place::existing(&temporary.path().join("lab")).unwrap();
        let (own, other) = (place.scratch(7), temporary.path().join("scratch-1"));
        for folder in [&own, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        place.note(&Undo::Folder(own.clone())).unwrap();
        place.note(&Undo::Folder(other.clone())).unwrap();
        place.note(&Undo::Folder(place.folder().join("../scratch-1"))).unwrap();
        let host = Host::live(std::path::Path::new("/"));
        assert_eq!(clean(&host, &place).unwrap(), Cleaned { processes: 0, folders: 1 });
        assert!(!own.exists() && other.exists());
        assert_eq!(clean(&host, &place).unwrap(), Cleaned::default());
    }

    #[test]
    fn a_number_from_before_a_reboot_is_no_process_and_a_line_that_was_cut_off_is_left_out() {
        let temporary = tempfile::tempdir().unwrap();
        let place = Place::existing(temporary.path()).unwrap();
        let own = Identity::own().unwrap();
        place.note(&Undo::Process(Identity { boot: "earlier".into(), ..own })).unwrap();
        let journal = std::fs::OpenOptions::new().append(true).open(temporary.path().join("journal"));
        std::io::Write::write_all(&mut journal.unwrap(), b"{\"process\":{\"pid\":1,").unwrap();
        let host = Host::live(std::path::Path::new("/"));
        assert_eq!(clean(&host, &place).unwrap(), Cleaned::default());
    }
}
