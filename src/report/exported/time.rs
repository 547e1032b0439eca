//! The instants of recordings as nanoseconds.

const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// Later years do not fit into nanoseconds.
const YEARS: std::ops::RangeInclusive<u64> = 1970..=2500;

/// Nanoseconds since 1970 of an instant in UTC, such as `2026-11-23T17:44:38Z` (RFC 3339), as recordings have it; none of anything else.
pub(super) fn unix_nanos(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = three(date, '-')?;
    let [hour, minute, second] = three(time, ':')?;
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let at = usize::try_from(month).ok()?.checked_sub(1)?;
    let length = DAYS.get(at)? + u64::from(is_leap && month == 2);
    if !(YEARS.contains(&year) && (1..=length).contains(&day) && hour < 24 && minute < 60 && second < 60) {
        return None;
    }
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    let months = DAYS.iter().take(at).sum::<u64>() + u64::from(is_leap && month > 2);
    let seconds = (((years + months + day - 1) * 24 + hour) * 60 + minute) * 60 + second;
    let nanos = number(&format!("{fraction:0<9}").chars().take(9).collect::<String>())?;
    Some(seconds * 1_000_000_000 + nanos)
}

/// Three numbers.
fn three(text: &str, between: char) -> Option<[u64; 3]> {
    let mut parts = text.split(between).map(number);
    let all = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(all)
}

/// A number of at most nine digits, without a sign.
fn number(text: &str) -> Option<u64> {
    let is_number = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::unix_nanos;

    #[test]
    fn instants_are_counted_from_1970_and_what_is_none_is_refused() {
        let seconds = |text: &str| unix_nanos(text).map(|nanos| nanos / 1_000_000_000);
        // As `date -u -d … +%s` has them.
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T23:59:59Z"), Some(951_868_799));
        assert_eq!(seconds("2026-11-23T17:44:38Z"), Some(1_795_455_878));
        assert_eq!(seconds("2100-03-01T00:00:00Z"), Some(4_107_542_400));
        assert_eq!(unix_nanos("1970-01-01T00:00:01.25Z"), Some(1_250_000_000));
        for other in [
            "",
            "Z",
            "2026-11-23T17:44:38",
            "2026-11-23T17:44:38+01:00",
            "2026-11-23 17:44:38Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-23T24:00:00Z",
            "2026-11-23T17:44:38.-5Z",
            "99999999999999999999-11-23T17:44:38Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(unix_nanos(other), None, "{other}");
        }
    }
}
