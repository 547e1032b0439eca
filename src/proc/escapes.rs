//! Names in tables of the kernel that are separated by spaces.

/// Restores a name of /proc/self/mountinfo, /proc/swaps and the like, in which the kernel writes spaces, tabs, line feeds
/// and backslashes as `\040` and so on. What is no such code stays as it is.
#[must_use]
pub fn unescape_octal(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if *first == b'\\' => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    plain
}

/// The same of a name that is shown: what is no UTF-8 in it is replaced.
#[must_use]
pub fn unescaped(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape_octal(field)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_names_come_back_as_they_are() {
        assert_eq!(unescape_octal(b"/mnt/my\\040disk\\011\\134x"), b"/mnt/my disk\t\\x");
        assert_eq!(unescape_octal(b"/a\xff\\012"), b"/a\xff\n");
    }

    #[test]
    fn what_is_no_code_stays() {
        assert_eq!(unescape_octal(b"/odd\\04"), b"/odd\\04");
        assert_eq!(unescape_octal(b"\\777"), b"\\777", "more than a byte is no byte");
        assert_eq!(unescape_octal(b"\\"), b"\\");
        assert_eq!(unescape_octal(b"\\134040"), b"\\040", "the backslash that comes out begins no other code");
    }

    proptest::proptest! {
        #[test]
        fn any_name_is_survived(name in "[\\\\0-9a/]{0,20}") {
            proptest::prop_assert!(unescape_octal(name.as_bytes()).len() <= name.len());
        }
    }
}
