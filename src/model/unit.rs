//! Units: what a kernel file counts in, and what a metric is given in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::facts::Facts;

/// The unit of a metric: always a base unit, so that no value needs a footnote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A share between 0 and 1 (above 1 where several servers are summed); renderers make percent of it.
    Ratio,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A number of things.
    #[default]
    Count,
    /// Things per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
}

/// The unit in which a kernel file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawUnit {
    /// A number of things.
    Count,
    /// A share between 0 and 1.
    Ratio,
    /// Bytes.
    Bytes,
    /// 1024 bytes (`kB` in /proc/meminfo and /proc/PID/status).
    Kibibytes,
    /// Pages of the host's page size.
    Pages,
    /// 512 bytes, whatever the device's real sector size.
    Sectors,
    /// Seconds.
    Seconds,
    /// 1/USER_HZ seconds (`_SC_CLK_TCK`, 100 on common systems).
    Ticks,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl RawUnit {
    /// How many base units one raw unit is.
    #[must_use]
    pub fn in_base_units(self, facts: &Facts) -> f64 {
        match self {
            Self::Count | Self::Ratio | Self::Bytes | Self::Seconds => 1.0,
            Self::Kibibytes => 1024.0,
            Self::Pages => facts.page_size as f64,
            Self::Sectors => 512.0,
            Self::Ticks => 1.0 / facts.ticks_per_second.max(1) as f64,
            Self::Milliseconds => 1e-3,
            Self::Microseconds => 1e-6,
            Self::Nanoseconds => 1e-9,
        }
    }
}
