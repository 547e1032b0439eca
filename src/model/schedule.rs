//! Who ran when, on which CPU: as it was recorded, and as strips that a report draws.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stays of tasks on CPUs. Times are seconds since the probe began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// Name within the probe.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Where the reading begins.
    pub from: f64,
    /// Where it ends.
    pub until: f64,
    /// The tasks that ran, most CPU time first.
    pub tasks: Vec<ScheduledTask>,
    /// The CPUs, in order.
    pub cpus: Vec<CpuSchedule>,
}

/// A task that ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduledTask {
    /// Its name when it ran last.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

/// What one CPU did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuSchedule {
    /// Its number.
    pub cpu: u32,
    /// In order of time, without overlap. In between it was idle, or ran tasks that the filters leave out.
    pub slices: Vec<RunSlice>,
}

/// A stay of a task on a CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSlice {
    /// When it begins.
    pub from: f64,
    /// When it ends.
    pub until: f64,
    /// Index into the tasks; none for a time of which nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u32>,
    /// How long the task waited for a CPU right before, in seconds; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// Why it ended; none if it did not end within the reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
}

/// Why a task gave up its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// It went to sleep.
    Slept,
    /// It waits for something that signals do not interrupt (state D), mostly a disk.
    Stuck,
    /// It could have gone on: another task got the CPU.
    Preempted,
    /// It ended.
    Ended,
}

/// The same, cut into pieces of equal length and summed up: what a report draws.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Strips {
    /// Name within the probe.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Where the first piece begins, in seconds since the probe began.
    pub from: f64,
    /// Where the last piece ends.
    pub until: f64,
    /// The tasks that are shown separately, most CPU time first.
    pub tasks: Vec<TaskStrip>,
    /// How many other tasks ran.
    pub other_tasks: u64,
    /// The CPUs, in order.
    pub cpus: Vec<CpuStrip>,
    /// CPUs that are not in it.
    #[serde(default)]
    pub other_cpus: u64,
}

/// One of the tasks over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskStrip {
    /// Who.
    #[serde(flatten)]
    pub task: ScheduledTask,
    /// Its CPU time, in seconds.
    pub seconds: f64,
    /// The share of each piece in which it ran, 0–1.
    pub ran: Vec<f64>,
    /// The share of each piece in which it waited for a CPU, 0–1.
    pub waited: Vec<f64>,
}

/// One CPU over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuStrip {
    /// Its number.
    pub cpu: u32,
    /// What it did; in the rest of a piece it was idle, or ran tasks that the filters leave out.
    pub layers: Vec<Layer>,
}

/// A part of what a CPU did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// What.
    pub of: Runner,
    /// Its share of each piece, 0–1.
    pub shares: Vec<f64>,
}

/// What a CPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// It runs this one of the tasks that are shown separately.
    Task(u32),
    /// It runs another one.
    Others,
    /// Not known.
    Unknown,
}
