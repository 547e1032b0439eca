//! Beginning at an instant of the wall clock, so that the windows of many hosts are the same seconds.

use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use thiserror::Error;

use super::Host;

/// The longest wait for a measurement to begin, and the most by which one may be late.
const LONGEST_WAIT: i64 = 600;
/// The wall clock may be set while it is waited for: it is looked at again this often.
const LOOK_AGAIN: f64 = 1.0;
const DAY: i64 = 86_400;

/// Why a measurement cannot begin then.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NoInstant {
    /// It is something else.
    #[error("it is no instant")]
    Malformed,
    /// It is over.
    #[error("it is {0} s in the past on this host, whose clock says {1}")]
    Past(i64, String),
    /// It is over for longer than a host is late.
    #[error("it is {0} s in the past on this host, whose clock says {1}: --or-now is for at most {LONGEST_WAIT} s")]
    LongPast(i64, String),
    /// It is too far off.
    #[error("it is {0} s away, and rdiag waits for at most {LONGEST_WAIT} s")]
    Far(i64),
}

/// An instant at which to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeginAt(Timestamp);

impl BeginAt {
    /// `2026-11-24T12:00:00Z`, `12:00:00Z`, `12:00Z`, or seconds of the epoch as `@1764000000`, within ten minutes from now; where
    /// `or_now`, or at most ten minutes ago.
    pub fn parse(text: &str, or_now: bool) -> Result<Self, NoInstant> {
        Self::parse_at(text, or_now, Timestamp::now())
    }

    fn parse_at(text: &str, or_now: bool, now: Timestamp) -> Result<Self, NoInstant> {
        let at = instant(text.trim(), now).ok_or(NoInstant::Malformed)?;
        let left = at.as_second().saturating_sub(now.as_second());
        match left {
            left if left < -LONGEST_WAIT && or_now => Err(NoInstant::LongPast(left.saturating_neg(), short(now))),
            _ if at <= now && !or_now => Err(NoInstant::Past(left.saturating_neg(), short(now))),
            left if left > LONGEST_WAIT => Err(NoInstant::Far(left)),
            _ => Ok(Self(at)),
        }
    }

    /// Waits for it; `false` when `stop` was set before. A recorded tree has its own instants and waits for none.
    pub fn wait(self, host: &Host, stop: &AtomicBool) -> bool {
        while !host.is_recorded() {
            let left = self.0.duration_since(Timestamp::now()).as_secs_f64();
            if left <= 0.0 {
                break;
            }
            if !host.wait(host.now() + left.min(LOOK_AGAIN), 0, stop) {
                return false;
            }
        }
        true
    }

    /// Seconds by which it is over.
    #[must_use]
    pub fn late_seconds(self, host: &Host) -> f64 {
        if host.is_recorded() { 0.0 } else { Timestamp::now().duration_since(self.0).as_secs_f64().max(0.0) }
    }
}

impl std::fmt::Display for BeginAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn instant(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Some(seconds) = text.strip_prefix('@') {
        return Timestamp::from_second(seconds.parse().ok()?).ok();
    }
    let Some(time) = text.strip_suffix('Z').filter(|text| !text.contains('T')) else { return text.parse().ok() };
    let mut parts = time.split(':').map(|part| part.parse::<u8>().ok().filter(|_| part.len() == 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let of_day = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    let today = now.as_second() - now.as_second().rem_euclid(DAY) + of_day;
    // Of yesterday, today and tomorrow the nearest: at 23:59:50, `00:00:00Z` is in ten seconds.
    let nearest = [today - DAY, today, today + DAY].into_iter().min_by_key(|at| (at - now.as_second()).abs())?;
    Timestamp::from_second(nearest).ok()
}

fn short(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    const NOW: &str = "2026-11-24T23:59:50.5Z";

    fn parsed(text: &str) -> Result<String, NoInstant> {
        BeginAt::parse_at(text, false, NOW.parse().unwrap()).map(|at| at.to_string())
    }

    #[test]
    fn an_instant_is_told_in_full_by_its_time_or_by_its_seconds() {
        for text in
            ["2026-11-25T00:00:00Z", "2026-11-25T01:00:00+01:00", "00:00:00Z", "00:00Z", "@1795564800", " 00:00Z "]
        {
            assert_eq!(parsed(text).as_deref(), Ok("2026-11-25T00:00:00Z"), "{text}");
        }
    }

    #[test]
    fn what_is_over_too_far_off_or_no_instant_is_refused() {
        assert_eq!(parsed("23:59:45Z"), Err(NoInstant::Past(5, "2026-11-24T23:59:50Z".into())));
        assert!(matches!(parsed("2026-11-24T23:59:50Z"), Err(NoInstant::Past(0, _))));
        assert_eq!(parsed("00:09:51Z"), Err(NoInstant::Far(601)));
        assert!(parsed("00:09:50Z").is_ok());
        for text in [
            "",
            "Z",
            "12",
            "12:00",
            "24:00Z",
            "12:60Z",
            "1:2Z",
            "12:00:00:00Z",
            "@x",
            "@",
            "tomorrow",
            "+5Z:00",
            "é:00Z",
        ] {
            assert_eq!(parsed(text), Err(NoInstant::Malformed), "{text}");
        }
        assert!(matches!(parsed("@9223372036854775807"), Err(NoInstant::Malformed)));
    }

    #[test]
    fn one_that_is_over_is_taken_where_asked_for_and_within_ten_minutes() {
        let parsed = |text: &str| BeginAt::parse_at(text, true, NOW.parse().unwrap()).map(|at| at.to_string());
        assert_eq!(parsed("23:49:50Z").as_deref(), Ok("2026-11-24T23:49:50Z"));
        assert_eq!(parsed("23:49:49Z"), Err(NoInstant::LongPast(601, "2026-11-24T23:59:50Z".into())));
        assert_eq!(parsed("00:00:00Z").as_deref(), Ok("2026-11-25T00:00:00Z"));
        assert_eq!(parsed("00:09:51Z"), Err(NoInstant::Far(601)));
    }

    #[test]
    fn it_begins_then_and_not_before_and_a_signal_ends_the_wait() {
        let host = Host::live(std::path::Path::new("/"));
        let at = BeginAt(Timestamp::now() + SignedDuration::from_millis(120));
        let began = host.now();
        assert!(at.wait(&host, &AtomicBool::new(false)) && host.now() - began > 0.1);
        assert!(at.late_seconds(&host) >= 0.0);
        let far = BeginAt(Timestamp::now() + SignedDuration::from_secs(60));
        assert!(!far.wait(&host, &AtomicBool::new(true)));
        assert_eq!(far.late_seconds(&host), 0.0);
    }
}
