//! What a file is that is not read here, and what to do with it.

/// Magic numbers, where they stand, what the file is, and what to do.
const KNOWN: [(usize, &[u8], &str); 8] = [
    (0, &[0xef, 0xbe, 0xed, 0xfe], "it is a raw log of atop, which atop itself reads: atop -r FILE -J ALL > FILE.json"),
    (0, &[0xfe, 0xed, 0xbe, 0xef], "it is a raw log of atop, which atop itself reads: atop -r FILE -J ALL > FILE.json"),
    (
        0,
        b"BZh",
        "it is packed with bzip2: unpack it (an archive with `tar xf FILE`, a single file with `bzip2 -dk FILE`)",
    ),
    (
        0,
        &[0x28, 0xb5, 0x2f, 0xfd],
        "it is packed with zstd: unpack it (an archive with `tar xf FILE`, a single file with `zstd -dk FILE`)",
    ),
    (0, b"PK\x03\x04", "it is a zip archive: unpack it, and give --from a file or folder of it"),
    (0, b"<?xml", "it is XML, and nothing that `sadf -x FILE -- -A` prints"),
    (
        0,
        b"Invalid system activity file",
        "sadf could not read the file of sysstat, which another version wrote: `sadf -c FILE > NEWFILE`",
    ),
    (0, b"RESET\n", "it is what `atop -P` prints: `atop -r FILE -J ALL` prints what is read here"),
];

/// What is read here, for one who gave something else.
const READ: &str = "it is nothing that `sadf -j FILE -- -A`, `sadf -x`, `atop -r FILE -J ALL`, `pcp2json` or `below dump TABLE \
    --everything \
    --raw -O json` prints, nor what `journalctl _TRANSPORT=kernel -o json` does";
/// In a file of a PCP archive, after four bytes.
const PCP: [u8; 3] = [0x50, 0x05, 0x26];

/// The first key of the JSON object that a file begins with.
pub(super) fn first_key(bytes: &[u8]) -> Option<String> {
    let object = bytes.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = object.iter().take(64).position(|byte| *byte == b'"')?;
    Some(String::from_utf8_lossy(object.get(..end)?).into_owned())
}

/// What it is instead, and what to do.
pub(super) fn what(bytes: &[u8]) -> String {
    // The magic number of sysstat's own files, in either order of bytes.
    if bytes.starts_with(&[0x96, 0xd5]) || bytes.starts_with(&[0xd5, 0x96]) {
        let version: Vec<String> = bytes.get(4..8).unwrap_or_default().iter().map(u8::to_string).collect();
        let version = match version.join(".").trim_end_matches(".0") {
            "" => " (cut off before its version)".to_owned(),
            version => format!(" {version}"),
        };
        return format!(
            "it is a file of sysstat{version}, which sysstat's own sadf reads: sadf -j FILE -- -A > FILE.json"
        );
    }
    let stands_at = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
    if stands_at(4, &PCP) {
        let command = super::pcp::PCP2JSON;
        return format!(
            "it is a part of an archive of PCP, whose name without .0, .meta or .index its own pcp2json takes: {command}"
        );
    }
    if let Some((_, _, what)) = KNOWN.iter().find(|(at, magic, _)| stands_at(*at, magic)) {
        return (*what).to_owned();
    }
    if bytes.trim_ascii().is_empty() {
        return format!("it is empty: did the command before the pipe fail? {}", super::journal::NOTHING);
    }
    super::journal::as_text(bytes).unwrap_or_else(|| READ.to_owned())
}
