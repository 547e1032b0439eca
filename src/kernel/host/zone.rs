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
const FORMS: &str =
    "03:12, 03:12:30, yesterday 23:50, 2026-01-31T03:12, 2026-01-31 03:12:00 UTC, -2h, 15 min ago, @1769829120, now";

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

    /// The day, as `20261127`.
    #[must_use]
    pub fn day(&self, micros: i64) -> String {
        self.formatted(micros, "%Y%m%d")
    }

    fn formatted(&self, micros: i64, form: &str) -> String {
        match Timestamp::from_microsecond(micros) {
            Ok(instant) => instant.to_zoned(self.0.clone()).strftime(form).to_string(),
            Err(_) => "no time".to_owned(),
        }
    }

    /// The end of what a user typed (microseconds since 1970): a time without seconds is its whole minute. A time of day is the latest
    /// there was, so that 23:50 typed at 00:10 is yesterday's.
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
        if let Some(seconds) = text.strip_prefix('@') {
            let end =
                seconds.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok()).ok_or_else(wrong)?;
            let to_come = || format!("{typed:?} is {}, which is still to come", self.shown(end.as_microsecond()));
            return if end > present { Err(to_come()) } else { Ok(end.as_microsecond()) };
        }
        if let Some(back) = text.strip_prefix('-').or_else(|| text.strip_suffix(" ago")) {
            let back = duration(back).ok_or_else(wrong)?;
            let end = present.checked_sub(back).map_err(|_| wrong())?;
            return Ok(end.as_microsecond());
        }
        let (text, named) = split_name(text);
        let (day, time) = match text.split_once([' ', 'T']) {
            Some(("yesterday", time)) => (Some(today.yesterday().map_err(|_| wrong())?), time),
            Some(("today", time)) => (Some(today), time),
            Some((day, time)) => (Some(day.parse::<Date>().map_err(|_| wrong())?), time),
            None => (None, text),
        };
        let (clock, offset) = split_offset(time);
        let offset = match (offset, named) {
            (offset, None) => offset,
            (None, Some(name)) => as_offset(name),
            (Some(_), Some(_)) => return Err(wrong()),
        };
        let (time, length) = time_of_day(clock).ok_or_else(wrong)?;
        let at = |day: Date| -> Result<i64, String> {
            let start = DateTime::from_parts(day, time);
            let start = match (offset, named) {
                (Some(offset), _) => format!("{start}{offset}").parse::<Timestamp>().map_err(|_| wrong())?,
                (None, None) => start.to_zoned(self.0.clone()).map_err(|_| wrong())?.timestamp(),
                (None, Some(name)) => self.named(start, name).ok_or_else(|| {
                    let own = present.to_zoned(self.0.clone()).strftime("%Z").to_string();
                    format!("{typed:?}: times are taken in {own} here; write another zone as 03:12Z or 03:12+01:00")
                })?,
            };
            start.checked_add(length).map(Timestamp::as_microsecond).map_err(|_| wrong())
        };
        let begins = |end: i64| end.saturating_sub(i64::try_from(length.as_micros()).unwrap_or(0));
        let end = match day {
            Some(day) => at(day)?,
            None => {
                let end = at(today)?;
                if begins(end) > now { at(today.yesterday().map_err(|_| wrong())?)? } else { end }
            }
        };
        if begins(end) > now {
            return Err(format!("{typed:?} is {}, which is still to come", self.shown(begins(end))));
        }
        Ok(end.min(now))
    }

    /// The instant of a time by the clock, where the zone calls itself so then. An hour that a clock shows twice has two names.
    fn named(&self, start: DateTime, name: &str) -> Option<Timestamp> {
        let either = || self.0.to_ambiguous_zoned(start);
        let both = [either().earlier(), either().later()];
        both.into_iter().flatten().find(|zoned| zoned.strftime("%Z").to_string() == name).map(|zoned| zoned.timestamp())
    }
}

/// A part of the name of a zone.
fn is_part(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "+-_".contains(c))
}

/// A time of day and how long what was typed lasts.
fn time_of_day(text: &str) -> Option<(Time, SignedDuration)> {
    let mut parts = text.split(':');
    let number = |part: &str| {
        let is_number = (1..=2).contains(&part.len()) && part.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| part.parse::<i8>().ok()).flatten()
    };
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    // What is shorter than a second is within it.
    let whole = |part: &str| match part.split_once('.') {
        Some((second, rest)) => {
            (!rest.is_empty() && rest.bytes().all(|digit| digit.is_ascii_digit())).then(|| number(second)).flatten()
        }
        None => number(part),
    };
    let second = match parts.next() {
        Some(part) => Some(whole(part)?),
        None => None,
    };
    if parts.next().is_some() {
        return None;
    }
    let length = if second.is_some() { SignedDuration::from_secs(1) } else { SignedDuration::from_secs(60) };
    Some((Time::new(hour, minute, second.unwrap_or(0), 0).ok()?, length))
}

/// The zone behind a time, as [`Zone::shown`] writes it: `UTC`, `CET`, `+02`.
fn split_name(text: &str) -> (&str, Option<&str>) {
    let is_name = |word: &str| {
        let (first, rest) = (word.chars().next(), word.get(1..).unwrap_or_default());
        let is_offset = matches!(first, Some('+' | '-')) && rest.starts_with(|sign: char| sign.is_ascii_digit());
        is_offset || word.len() > 1 && word.chars().all(|sign| sign.is_ascii_uppercase())
    };
    match text.rsplit_once(' ') {
        Some((before, word)) if is_name(word) => (before.trim_end(), Some(word)),
        _ => (text, None),
    }
}

/// What a time has behind it as an offset; none of the name of a zone.
fn as_offset(name: &str) -> Option<&str> {
    match name {
        "UTC" | "GMT" => Some("Z"),
        name if name.starts_with(['+', '-']) => Some(name),
        _ => None,
    }
}

/// `03:12Z` and `03:12+02:00` say themselves where.
fn split_offset(text: &str) -> (&str, Option<&str>) {
    match text.find(['Z', '+', '-']) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at..)),
        None => (text, None),
    }
}

/// `2h`, `90m`, `1h30m`, `45s`, `3d`, `15 min`, `2 hours`.
fn duration(text: &str) -> Option<SignedDuration> {
    let (mut seconds, mut rest) = (0_i64, text.trim());
    while !rest.is_empty() {
        let digits = rest.find(|sign: char| !sign.is_ascii_digit())?;
        let (number, behind) = rest.split_at_checked(digits)?;
        let behind = behind.trim_start();
        let letters = behind.find(|sign: char| !sign.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, after) = behind.split_at_checked(letters)?;
        let unit = match unit {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3600,
            "d" | "day" | "days" => 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<i64>().ok()?.checked_mul(unit)?)?;
        rest = after.trim_start();
    }
    (!text.trim().is_empty() && seconds < 10 * 365 * 86_400).then(|| SignedDuration::from_secs(seconds))
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
        is("2026-07-01T03:12:20.000Z", "2026-07-01 03:12:21");
        is("03:12:20.123+02:00", "2026-07-10 01:12:21");
        is("2026-07-01 03:12:20 UTC", "2026-07-01 03:12:21");
        is("2026-07-01 03:12:20 +02", "2026-07-01 01:12:21");
        is("03:12 GMT", "2026-07-10 03:13:00");
        is("15 min ago", "2026-07-10 07:45:00");
        is("2 hours ago", "2026-07-10 06:00:00");
        is("1h30m ago", "2026-07-10 06:30:00");
        is("@1783670400", "2026-07-10 08:00:00");
    }

    #[test]
    fn a_time_as_it_is_shown_is_understood_and_that_of_another_zone_is_not_taken_for_one_of_this() {
        let zone = Zone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        // In winter, in summer, and in both of the hours that the clocks show twice.
        for instant in ["2026-01-10T08:00:00Z", "2026-07-10T08:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
        {
            let end = zone.end_of(&zone.shown(micros(instant)), Zone::LATEST).unwrap();
            assert_eq!(end, micros(instant) + 1_000_000, "{}", zone.shown(micros(instant)));
        }
        let error = zone.end_of("2026-07-10 10:00 EST", Zone::LATEST).unwrap_err();
        assert!(error.contains("write another zone as 03:12Z"), "{error}");
        assert!(zone.end_of("2026-07-10 10:00 CET", Zone::LATEST).is_err(), "it is summer there");
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
            "11:57:xyz",
            "11:57:100",
            "11:57:20.",
            "11:57:20.x",
            "+1:20",
            "03:12Z UTC",
            "@x",
            "ago",
            "5 parsecs ago",
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
