//! What a lab keeps between two commands: the exercise that runs, the journal of how to undo it, and what was reached so far. All
//! of it lies in one private folder of the user; nothing else is needed to clean up, after a crash or a reboot either.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::LabError;
use super::lesson::score::Score;
use super::limit::Limit;
use super::load::task::Task;
use super::reading::Readings;
use rdiag_kernel::host::files::{self, Folder};
use rdiag_kernel::host::may_be_asked;
use rdiag_own::Identity;

/// None of these files is larger.
const MAX_BYTES: u64 = 4 << 20;

/// No description of a run is larger.
const MAX_RUN_BYTES: u64 = 256 * 1024;

/// The folder, held open: what was trusted when it was found is what is read, whatever its path leads to by then.
#[derive(Debug, Clone)]
pub struct Place(Arc<Folder>);

/// An exercise that was started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the variant.
    pub variant: String,
    /// What chose the variant, names and numbers.
    pub seed: u64,
    /// Wall-clock time, RFC 3339, UTC.
    pub started: String,
    /// The boot in which it was started.
    pub boot: String,
    /// When it ends, in monotonic seconds of that boot.
    pub until: f64,
    /// Its folder for files.
    pub scratch: PathBuf,
    /// The program that watches over the load.
    pub keeper: Option<Identity>,
    /// What runs, by role.
    pub jobs: Vec<RunJob>,
    /// What the host was like before.
    pub baseline: Readings,
    /// What the student answered so far, by key.
    pub answers: BTreeMap<String, String>,
    /// Hints that were shown.
    pub hints: usize,
    /// How often it was checked.
    pub checks: usize,
    /// Whether the solution was read.
    #[serde(default)]
    pub solution: bool,
}

/// A program of the load with its name and numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunJob {
    /// Its role in the scenario.
    pub role: String,
    /// Its name on this host.
    pub name: String,
    /// What it does.
    pub task: Task,
    /// What it may have at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

impl RunJob {
    /// By what name its process runs. A kernel module has no process: the one that loads it goes by the name of the keeper.
    #[must_use]
    pub fn process_name(&self) -> &str {
        if self.task.module().is_some() { "rdiag:lab" } else { &self.name }
    }
}

/// What a student reached in one scenario or lesson.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// Whether it was passed.
    pub passed: bool,
    /// Hints of the best try.
    pub hints: usize,
    /// Checks over all tries.
    pub checks: usize,
    /// Whether it was passed only after the solution was read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_solution: bool,
    /// When it was passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Of a lesson, what was foreseen and answered the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
}

/// By scenario or lesson.
pub type Progress = BTreeMap<String, Reached>;

/// How one change is undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// End this process.
    Process(Identity),
    /// Remove this folder; it must lie in the lab's.
    Folder(PathBuf),
    /// Unmount what is mounted here, within a run's folder.
    Mount(PathBuf),
    /// Swap to this file no more, within a run's folder.
    Swap(PathBuf),
    /// Remove this control group, once its tasks have ended.
    Group(String),
    /// Unload this kernel module, if it is the one that this run has loaded.
    Module {
        /// Its name.
        name: String,
        /// What its parameter `run` says.
        run: u64,
    },
    /// Unload the disk in memory, if it is the one that this run has made.
    SlowDisk {
        /// How long a request takes there, by which it is known. Nanoseconds.
        wait_ns: u64,
    },
}

fn users_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    Some(state.filter(|state| state.is_absolute())?.join("rdiag/lab"))
}

fn distrusted(path: &Path, why: &str) -> LabError {
    let message = format!("{} cannot hold the state of an exercise: {why}", path.display());
    LabError::usage(message, "set HOME to your own folder (as root: HOME=/root, or `sudo -H`)")
}

impl Place {
    /// The user's folder, made if it is not there: `$XDG_STATE_HOME/rdiag/lab`, or `~/.local/state/rdiag/lab`.
    pub fn of_user() -> Result<Self, LabError> {
        let Some(path) = users_folder() else {
            let message = "there is no place to keep the state of an exercise: neither XDG_STATE_HOME nor HOME is set";
            return Err(LabError::usage(message, "set HOME to a folder that you may write to"));
        };
        let attempt = format!("preparing the state folder {}", path.display());
        // Before anything is made there: a link of another user's would have it made elsewhere.
        let above = path.ancestors().skip(1).find_map(files::distrust_named);
        if let Some(why) = above.filter(|_| rustix::process::geteuid().is_root()) {
            return Err(distrusted(&path, &format!("of a folder above it, {why}")));
        }
        let folder = Folder::prepare(&path).map_err(LabError::failed(attempt.clone()))?;
        // What lies there is done: processes are ended, folders removed.
        if let Some(why) = folder.distrust_with_above().map_err(LabError::failed(attempt))? {
            return Err(distrusted(&path, &why));
        }
        Ok(Self(Arc::new(folder)))
    }

    /// The same folder, only if it is there: for those who have nothing to keep in it.
    #[must_use]
    pub fn if_there() -> Option<Self> {
        let path = users_folder().filter(|path| may_be_asked(path))?;
        let folder = Folder::at(&path).ok()?;
        folder.distrust_with_above().ok()?.is_none().then(|| Self(Arc::new(folder)))
    }

    /// The same of another user, by their home. What they have set XDG_STATE_HOME to is not known.
    #[must_use]
    pub fn of_other(home: &Path) -> Option<Self> {
        let path = home.join(".local/state/rdiag/lab");
        (home.is_absolute() && may_be_asked(&path)).then(|| Self::existing(&path).ok())?
    }

    /// The exercise that another user started, if a file of theirs says so.
    #[must_use]
    pub fn run_of_user(&self, user: u32) -> Option<Run> {
        serde_json::from_slice(&self.0.read_of_user("run.json", user, MAX_RUN_BYTES).ok()?).ok()
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Whose it is.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        self.0.owner().ok()
    }

    /// A folder for the files of a run.
    #[must_use]
    pub fn scratch(&self, seed: u64) -> PathBuf {
        self.folder().join(format!("scratch-{seed:016x}"))
    }

    /// Keeps other commands of the lab out until it is dropped.
    pub fn lock(&self) -> Result<File, LabError> {
        let locked = self.0.lock("lock").map_err(LabError::failed("locking the state folder"))?;
        locked.ok_or_else(|| {
            LabError::usage("another lab command is running", "wait until it is done, or stop it with Ctrl-C")
        })
    }

    /// The exercise that was started and not stopped.
    pub fn run(&self) -> Result<Option<Run>, LabError> {
        self.read("run.json")
    }

    /// Keeps it.
    pub fn keep_run(&self, run: &Run) -> Result<(), LabError> {
        self.write("run.json", run)
    }

    /// What was reached so far.
    pub fn progress(&self) -> Result<Progress, LabError> {
        Ok(self.read("progress.json")?.unwrap_or_default())
    }

    /// Keeps it.
    pub fn keep_progress(&self, progress: &Progress) -> Result<(), LabError> {
        self.write("progress.json", progress)
    }

    /// Puts down how a change is undone; to be called before the change is made.
    pub fn note(&self, undo: &Undo) -> Result<(), LabError> {
        let attempt = "writing the journal";
        let line = serde_json::to_string(undo).map_err(|error| LabError::failed(attempt)(error.into()))?;
        self.0.append_line("journal", &line).map_err(LabError::failed(attempt))
    }

    /// All changes that were noted, the oldest first. A line that was cut off by a crash was never acted upon.
    pub fn journal(&self) -> Result<Vec<Undo>, LabError> {
        let bytes = match self.0.read("journal", MAX_BYTES) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(LabError::failed("reading the journal"))?,
        };
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Whether a folder is one that a run made here.
    #[must_use]
    pub fn is_scratch(&self, folder: &Path) -> bool {
        let named = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("scratch-"));
        named && folder.parent() == Some(self.folder())
    }

    /// Forgets the run: everything is undone.
    pub fn forget(&self) -> Result<(), LabError> {
        for name in ["journal", "run.json"] {
            self.0.remove(name).map_err(LabError::failed(format!("removing {name}")))?;
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, LabError> {
        let path = self.folder().join(name);
        let bytes = match self.0.read(name, MAX_BYTES) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(LabError::failed(format!("reading {}", path.display())))?,
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let mut error = LabError::failed(format!("reading {}", path.display()))(error.into());
            error.hint = Some("`rdiag lab stop` cleans up and forgets it".into());
            error
        })
    }

    fn write(&self, name: &str, what: &impl Serialize) -> Result<(), LabError> {
        let attempt = format!("writing {}", self.folder().join(name).display());
        let written = self.0.write(Path::new(name), |out| serde_json::to_writer_pretty(out, what).map_err(Into::into));
        written.map_err(LabError::failed(attempt))
    }

    /// Removes the folder of a run and all that is in it; returns whether it was there.
    pub fn remove_scratch(&self, folder: &Path) -> Result<bool, LabError> {
        let name = folder.file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|_| self.is_scratch(folder) && folder.symlink_metadata().is_ok()) else {
            return Ok(false);
        };
        self.0.remove_folder(name).map_err(LabError::failed(format!("removing {}", folder.display())))?;
        Ok(true)
    }

    /// Whether no other user can have put it there.
    pub(super) fn is_trusted(&self) -> bool {
        self.0.distrust_with_above().is_ok_and(|why| why.is_none())
    }

    /// A folder that was prepared before.
    pub(super) fn existing(folder: &Path) -> Result<Self, LabError> {
        let attempt = format!("opening the state folder {}", folder.display());
        Ok(Self(Arc::new(Folder::at(folder).map_err(LabError::failed(attempt))?)))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own files")]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_that_of_the_folder_that_was_found_and_not_of_one_in_its_place() {
        let temporary = tempfile::tempdir().unwrap();
        let (at, moved) = (temporary.path().join("lab"), temporary.path().join("moved"));
        std::fs::create_dir(&at).unwrap();
        let place = Place::existing(&at).unwrap();
        let own = Undo::Folder(place.scratch(7));
        place.note(&own).unwrap();
        std::fs::rename(&at, &moved).unwrap();
        for folder in [at.clone(), at.join("scratch-0000000000000007"), moved.join("scratch-0000000000000007")] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(at.join("journal"), "{\"group\":\"system.slice\"}\n").unwrap();
        assert_eq!(place.journal().unwrap(), [own]);
        assert!(place.remove_scratch(&place.scratch(7)).unwrap());
        assert!(at.join("scratch-0000000000000007").exists() && !moved.join("scratch-0000000000000007").exists());
        // A link in the journal's place is not read, and a FIFO is not waited for.
        std::fs::remove_file(moved.join("journal")).unwrap();
        std::os::unix::fs::symlink(at.join("journal"), moved.join("journal")).unwrap();
        assert!(place.journal().is_err());
        place.forget().unwrap();
        assert!(place.journal().unwrap().is_empty() && at.join("journal").exists());
    }
}
