//! Numbers as people read them: one place for every rule, template and renderer.

use crate::unit::Unit;

/// A value with its unit.
#[must_use]
pub fn with_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => percent(value),
        Unit::Seconds => seconds(value),
        Unit::Bytes => bytes(value),
        Unit::Count => number(value),
        Unit::PerSecond => format!("{}/s", number(value)),
        Unit::BytesPerSecond => format!("{}/s", bytes(value)),
    }
}

/// 0.123 → `12.3%`; small but not zero never reads as zero.
#[must_use]
pub fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent.abs() {
        0.0 => "0%".into(),
        p if p < 0.01 => "<0.01%".into(),
        p if p < 0.1 => format!("{percent:.2}%"),
        p if p < 99.95 => format!("{percent:.1}%"),
        _ => format!("{percent:.0}%"),
    }
}

/// 1536 → `1.5 KiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = value;
    let mut unit = "B";
    for name in UNITS {
        unit = name;
        if scaled.abs() < 1023.95 {
            break;
        }
        if name != "PiB" {
            scaled /= 1024.0;
        }
    }
    if unit == "B" { format!("{scaled:.0} B") } else { format!("{scaled:.1} {unit}") }
}

/// 0.00123 → `1.23 ms`: three digits, in the unit that needs no leading zeros.
#[must_use]
pub fn seconds(value: f64) -> String {
    match value.abs() {
        0.0 => "0 s".into(),
        s if s < 1e-6 => format!("{:.0} ns", value * 1e9),
        s if s < 1e-3 => format!("{} µs", three_digits(value * 1e6)),
        s if s < 0.9995 => format!("{} ms", three_digits(value * 1e3)),
        s if s < 120.0 => format!("{} s", three_digits(value)),
        s if s < 7200.0 => format!("{:.1} min", value / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", value / 3600.0),
        _ => format!("{:.1} days", value / 86_400.0),
    }
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A count or a plain number: whole where it is whole, three digits where it is not.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e15 => format!("{value:.2e}"),
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e4 => format!("{:.1} k", value / 1e3),
        // What is less than nothing by rounding is nothing, and has no sign.
        0.0 => "0".into(),
        v if v.fract() == 0.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        v if v >= 0.01 => format!("{value:.2}"),
        _ => "<0.01".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_is_never_shown_as_nothing() {
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(0.000_001), "<0.01%");
        assert_eq!(number(0.001), "<0.01");
        assert_eq!((number(0.0), number(-0.0)), ("0".to_owned(), "0".to_owned()));
    }

    #[test]
    fn values_read_naturally() {
        assert_eq!(percent(0.1234), "12.3%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(percent(0.9996), "100%");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(1536.0), "1.5 KiB");
        assert_eq!(bytes(1024.0 * 1024.0), "1.0 MiB");
        assert_eq!(seconds(0.001_23), "1.23 ms");
        assert_eq!(seconds(0.46), "460 ms");
        assert_eq!(seconds(0.99999), "1.00 s");
        assert_eq!(seconds(10.02), "10.0 s");
        assert_eq!(seconds(864_000.0), "10.0 days");
        assert_eq!(number(1234.0), "1234");
        assert_eq!(number(12345.0), "12.3 k");
    }
}
