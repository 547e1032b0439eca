//! What a lab keeps between two commands: the exercise that runs, the journal of how to undo it, and what was reached so far. All
//! of it lies in one private folder of the user; nothing else is needed to clean up, after a crash or a reboot either.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::LabError;
use super::lesson::Score;
use super::limit::Limit;
use super::load::Task;
use super::reading::Readings;
use rdiag_kernel::host::files;
use rdiag_kernel::host::own::Identity;

/// None of these files is larger.
const MAX_BYTES: u64 = 4 << 20;

/// No description of a run is larger.
const MAX_RUN_BYTES: u64 = 256 * 1024;

/// The folder.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

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

impl Place {
    /// The user's folder, made if it is not there: `$XDG_STATE_HOME/rdiag/lab`, or `~/.local/state/rdiag/lab`.
    pub fn of_user() -> Result<Self, LabError> {
        let Some(folder) = users_folder() else {
            let message = "there is no place to keep the state of an exercise: neither XDG_STATE_HOME nor HOME is set";
            return Err(LabError::usage(message, "set HOME to a folder that you may write to"));
        };
        files::prepare_directory(&folder)
            .map_err(LabError::failed(format!("preparing the state folder {}", folder.display())))?;
        // What lies there is done: processes are ended, folders removed.
        if let Some(why) = files::distrust(&folder) {
            let message = format!("{} cannot hold the state of an exercise: {why}", folder.display());
            return Err(LabError::usage(message, "set HOME to your own folder (as root: HOME=/root, or `sudo -H`)"));
        }
        Ok(Self(folder))
    }

    /// The same folder, only if it is there: for those who have nothing to keep in it.
    #[must_use]
    pub fn if_there() -> Option<Self> {
        users_folder().filter(|folder| folder.is_dir() && files::distrust(folder).is_none()).map(Self)
    }

    /// The same of another user, by their home. What they have set XDG_STATE_HOME to is not known.
    #[must_use]
    pub fn of_other(home: &Path) -> Option<Self> {
        home.is_absolute().then(|| Self(home.join(".local/state/rdiag/lab"))).filter(|place| place.0.is_dir())
    }

    /// The exercise that another user started, if a file of theirs says so.
    #[must_use]
    pub fn run_of_user(&self, user: u32) -> Option<Run> {
        serde_json::from_slice(&files::read_of_user(&self.0.join("run.json"), user, MAX_RUN_BYTES).ok()?).ok()
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// A folder for the files of a run.
    #[must_use]
    pub fn scratch(&self, seed: u64) -> PathBuf {
        self.0.join(format!("scratch-{seed:016x}"))
    }

    /// Keeps other commands of the lab out until it is dropped.
    pub fn lock(&self) -> Result<File, LabError> {
        let locked = files::try_lock(&self.0.join("lock")).map_err(LabError::failed("locking the state folder"))?;
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
        files::append_line(&self.0.join("journal"), &line).map_err(LabError::failed(attempt))
    }

    /// All changes that were noted, the oldest first. A line that was cut off by a crash was never acted upon.
    pub fn journal(&self) -> Result<Vec<Undo>, LabError> {
        let bytes = match files::read_named(&self.0.join("journal"), MAX_BYTES) {
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
        named && folder.parent() == Some(&self.0)
    }

    /// Forgets the run: everything is undone.
    pub fn forget(&self) -> Result<(), LabError> {
        for name in ["journal", "run.json"] {
            files::remove_file(&self.0.join(name)).map_err(LabError::failed(format!("removing {name}")))?;
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, LabError> {
        let path = self.0.join(name);
        let bytes = match files::read_named(&path, MAX_BYTES) {
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
        let path = self.0.join(name);
        files::write_atomically(&path, |out| serde_json::to_writer_pretty(out, what).map_err(Into::into))
            .map_err(LabError::failed(format!("writing {}", path.display())))
    }

    /// A folder that was prepared before.
    #[must_use]
    pub(super) fn existing(folder: PathBuf) -> Self {
        Self(folder)
    }
}
