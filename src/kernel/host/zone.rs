//! Times as people type and read them: in the zone of this user (TZ, else /etc/localtime), which is always shown.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::files;
use std::path::Path;

/// No file of a zone is larger.
const MAX_FILE: u64 = 1 << 20;
/// Where zones lie by name.
const ZONES: &str = "/usr/share/zoneinfo";

/// What a user may type for a time, for errors.
const FORMS: &str = "03:12, 03:12:30, yesterday 23:50, 2026-01-31T03:12, 2026-01-31T03:12:00Z, -2h, now";

/// A zone of time.
#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

impl Zone {
    /// A present that lies after any recorded time.
    pub const LATEST: i64 = 250_000_000_000_000_000;

    /// That of the user who started this process.
    #[must_use]
    pub fn local() -> Self {
        let named = std::env::var("TZ").ok().map(|name| name.trim_start_matches(':').to_owned());
        let path = match named.as_deref() {
            None => Path::new("/etc/localtime").to_owned(),
            Some("" | "UTC" | "UTC0") => return Self::utc(),
            Some(name) if name.split('/').all(is_part) => Path::new(ZONES).join(name),
            Some(_) => return Self::utc(),
        };
        let read = files::read_named(&path, MAX_FILE).ok();
        let zone = read.and_then(|bytes| TimeZone::tzif("local", &bytes).ok());
        zone.map_or_else(Self::utc, Self)
    }

    /// UTC.
    #[must_use]
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// An instant (microseconds since 1970) to the second, with its zone.
    #[must_use]
    pub fn shown(&self, micros: i64) -> String {
        self.formatted(micros, "%Y-%m-%d %H:%M:%S %Z")
    }

    /// An instant to the second as recordings have it: RFC 3339, UTC.
    #[must_use]
    pub fn instant(&self, micros: i64) -> String {
        Timestamp::from_second(micros.div_euclid(1_000_000))
            .map_or_else(|_| String::new(), |instant| instant.to_string())
    }

    /// The time of day alone, without the zone.
    #[must_use]
    pub fn time_of_day(&self, micros: i64) -> String {
        self.formatted(micros, "%H:%M:%S")
    }

    fn formatted(&self, micros: i64, form: &str) -> String {
        match Timestamp::from_microsecond(micros) {
            Ok(instant) => instant.to_zoned(self.0.clone()).strftime(form).to_string(),
            Err(_) => "no time".to_owned(),
        }
    }

    /// The end of what a user typed (microseconds since 1970): a time without seconds is its whole minute. A time of day is the latest there
    /// was, so that 23:50 typed at 00:10 is yesterday's.
    ///
    /// # Errors
    /// In words, when it is no time, or one to come.
    pub fn end_of(&self, typed: &str, now: i64) -> Result<i64, String> {
        let wrong = || format!("{typed:?} is no time; write one of: {FORMS}");
        let present = Timestamp::from_microsecond(now).map_err(|_| wrong())?;
        let today = present.to_zoned(self.0.clone()).date();
        let text = typed.trim();
        if text == "now" {
            return Ok(now);
        }
        if let Some(back) = text.strip_prefix('-') {
            let back = duration(back).ok_or_else(wrong)?;
            let end = present.checked_sub(back).map_err(|_| wrong())?;
            return Ok(end.as_microsecond());
        }
        let (day, time) = match text.split_once([' ', 'T']) {
            Some(("yesterday", time)) => (Some(today.yesterday().map_err(|_| wrong())?), time),
            Some(("today", time)) => (Some(today), time),
            Some((day, time)) => (Some(day.parse::<Date>().map_err(|_| wrong())?), time),
            None => (None, text),
        };
        let (clock, offset) = split_offset(time);
        let (time, length) = time_of_day(clock).ok_or_else(wrong)?;
        let at = |day: Date| -> Option<i64> {
            let start = DateTime::from_parts(day, time);
            let start = match offset {
                None => start.to_zoned(self.0.clone()).ok()?.timestamp(),
                Some(offset) => format!("{start}{offset}").parse::<Timestamp>().ok()?,
            };
            start.checked_add(length).ok().map(Timestamp::as_microsecond)
        };
        let begins = |end: i64| end.saturating_sub(i64::try_from(length.as_micros()).unwrap_or(0));
        let end = match day {
            Some(day) => at(day).ok_or_else(wrong)?,
            None => {
                let end = at(today).ok_or_else(wrong)?;
                if begins(end) > now { today.yesterday().ok().and_then(at).ok_or_else(wrong)? } else { end }
            }
        };
        if begins(end) > now {
            return Err(format!("{typed:?} is {}, which is still to come", self.shown(begins(end))));
        }
        Ok(end.min(now))
    }
}

/// A part of the name of a zone.
fn is_part(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "+-_".contains(c))
}

/// A time of day and how long what was typed lasts.
fn time_of_day(text: &str) -> Option<(Time, SignedDuration)> {
    let mut parts = text.split(':');
    let mut next = || parts.next().filter(|part| part.len() == 2 || part.len() == 1).map(str::parse::<i8>);
    let (hour, minute, second) = (next()?.ok()?, next()?.ok()?, next().transpose().ok()?);
    if parts.next().is_some() {
        return None;
    }
    let length = if second.is_some() { SignedDuration::from_secs(1) } else { SignedDuration::from_secs(60) };
    Some((Time::new(hour, minute, second.unwrap_or(0), 0).ok()?, length))
}

/// `03:12Z` and `03:12+02:00` say themselves where.
fn split_offset(text: &str) -> (&str, Option<&str>) {
    match text.find(['Z', '+', '-']) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at..)),
        None => (text, None),
    }
}

/// `2h`, `90m`, `1h30m`, `45s`, `3d`.
fn duration(text: &str) -> Option<SignedDuration> {
    let (mut seconds, mut number) = (0_i64, None);
    for c in text.chars() {
        if let Some(digit) = c.to_digit(10) {
            number = Some(number.unwrap_or(0_i64).checked_mul(10)?.checked_add(i64::from(digit))?);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    (!text.is_empty() && number.is_none() && seconds < 10 * 365 * 86_400).then(|| SignedDuration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_microsecond()
    }

    /// Two hours east of Greenwich, in summer.
    fn east() -> Zone {
        Zone(TimeZone::fixed(jiff::tz::offset(2)))
    }

    #[test]
    fn times_mean_what_people_mean() {
        let now = micros("2026-07-10T08:00:00Z");
        let is = |typed: &str, wanted: &str| {
            assert_eq!(
                east().end_of(typed, now).map(|end| Zone::utc().shown(end)),
                Ok(format!("{wanted} UTC")),
                "{typed}"
            );
        };
        is("03:12", "2026-07-10 01:13:00");
        is("3:12", "2026-07-10 01:13:00");
        is("03:12:30", "2026-07-10 01:12:31");
        is("23:50", "2026-07-09 21:51:00");
        is("yesterday 03:12", "2026-07-09 01:13:00");
        is("today 09:59", "2026-07-10 08:00:00");
        is("2026-07-01 03:12", "2026-07-01 01:13:00");
        is("2026-07-01T03:12:00", "2026-07-01 01:12:01");
        is("2026-07-01T03:12:00Z", "2026-07-01 03:12:01");
        is("2026-07-01T03:12-05:00", "2026-07-01 08:13:00");
        is("03:12Z", "2026-07-10 03:13:00");
        is("-2h", "2026-07-10 06:00:00");
        is("-1h30m", "2026-07-10 06:30:00");
        is("now", "2026-07-10 08:00:00");
        is("10:00", "2026-07-10 08:00:00");
    }

    #[test]
    fn what_is_no_time_or_is_to_come_is_said_with_examples() {
        let now = micros("2026-07-10T08:00:00Z");
        for wrong in [
            "",
            "x",
            "25:00",
            "03:60",
            "3",
            "03:12:61",
            "-",
            "-2",
            "-h",
            "-99999999999h",
            "2026-13-01 03:12",
            "01:02:03:04",
        ] {
            assert!(east().end_of(wrong, now).unwrap_err().contains("yesterday 23:50"), "{wrong}");
        }
        let later = east().end_of("today 11:00", now).unwrap_err();
        assert!(later.contains("2026-07-10 11:00:00 +02") && later.contains("to come"), "{later}");
    }

    #[test]
    fn what_was_written_down_is_not_to_come() {
        let end = Zone::utc().end_of("2026-03-10T03:00:01", Zone::LATEST).unwrap();
        assert_eq!(Zone::utc().instant(end), "2026-03-10T03:00:02Z");
    }

    #[test]
    fn a_name_of_a_zone_is_no_path() {
        for wrong in ["../../etc/shadow", "/etc/shadow", "a//b", ""] {
            assert!(!wrong.split('/').all(is_part), "{wrong}");
        }
        assert!("America/Port-au-Prince".split('/').all(is_part) && "Etc/GMT+5".split('/').all(is_part));
    }
}
