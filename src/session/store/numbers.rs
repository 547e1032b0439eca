//! How large and how small the numbers of a file may be. What is made of finite numbers need not be finite: a window of 1e308 s on two CPUs
//! is not, nor is a count by 1e-308 s. JSON has no word for that, so a report with such a figure could be written and not be read.

use super::StoreError;

/// No number of a recording has more powers of ten than this, above or below one: the largest counter has 19, picoseconds twelve.
pub(super) const OF_RECORDING: u32 = 30;
/// A report has quotients and products of them.
pub(super) const OF_REPORT: u32 = 100;
/// Characters of a number at most; as few digits as tell it from its neighbours take 24.
const MOST_CHARACTERS: usize = 40;

/// Refuses JSON with a number of more powers of ten.
pub(super) fn bounded(json: &[u8], most: u32) -> Result<(), StoreError> {
    let (mut in_text, mut escaped, mut start) = (false, false, None);
    for (at, byte) in json.iter().enumerate() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match (start, byte) {
            (None, b'0'..=b'9' | b'-') => start = Some(at),
            (Some(_), b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E') => {}
            (Some(first), _) => {
                is_near(json.get(first..at).unwrap_or_default(), most)?;
                start = None;
            }
            (None, _) => {}
        }
        in_text = *byte == b'"';
    }
    Ok(())
}

fn is_near(number: &[u8], most: u32) -> Result<(), StoreError> {
    let exponent = number.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let powers = exponent.and_then(|at| str::from_utf8(number.get(at + 1..)?).ok()).map(str::parse::<i32>);
    let is_near = powers.is_none_or(|powers| powers.is_ok_and(|powers| powers.unsigned_abs() <= most));
    match is_near && number.len() <= MOST_CHARACTERS {
        true => Ok(()),
        false => Err(StoreError::Foreign("it has a number that no measurement gives".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_what_can_be_measured_are_refused() {
        let fits = |json: &str| bounded(json.as_bytes(), 30).is_ok();
        for json in
            ["[1e30]", "[-1.5e-30,true]", "{\"a1e99\": [0.1, 18446744073709551615 ]}", "[\"\\\"1e99\"]", "[1e+9]", "1"]
        {
            assert!(fits(json), "{json}");
        }
        for json in ["[1e31]", "[0,-1.5E-31]", "{\"a\":1.7e+308}", "[\"\\\\\", 1e99]", "[1e]", "[1e99999999999]"] {
            assert!(!fits(json), "{json}");
        }
        assert!(fits(&format!("[{}]", "1".repeat(MOST_CHARACTERS))));
        assert!(!fits(&format!("[{}]", "1".repeat(MOST_CHARACTERS + 1))));
        assert!(!fits(&format!("[0.{}1]", "0".repeat(MOST_CHARACTERS))));
    }
}
