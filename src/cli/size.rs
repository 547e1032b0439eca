//! Numbers of bytes on the command line.

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

/// `256MB`, `1GiB`, `500 kB`.
pub(super) fn size(text: &str) -> Result<Size, String> {
    let wrong = || format!("{text:?} is no size; write 256MB or 1GiB");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).filter(|bytes| *bytes > 0).map(Size).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_people_write() {
        let bytes = |text| size(text).map(|size| size.0).ok();
        assert_eq!(bytes("256MB"), Some(256_000_000));
        assert_eq!(bytes("1GiB"), Some(1 << 30));
        assert_eq!((bytes("500 kB"), bytes("77")), (Some(500_000), Some(77)));
        for wrong in ["", "MB", "-1MB", "1.5GB", "0", "99999999999GiB", "5 bananas"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
