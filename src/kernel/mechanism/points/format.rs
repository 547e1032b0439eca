//! How tracefs describes the record of an event (`events/GROUP/EVENT/format`).

use super::{Field, Place, PointError, Shape, Text, When};
use crate::host::{Host, SourceError};
use rdiag_model::Reason;

/// The groups of events, none where tracefs is not mounted. An error says that they may not be looked at.
pub(super) fn listed(host: &Host, place: &str, wanted: &str) -> Result<Vec<String>, PointError> {
    match host.subdirectories(place) {
        Ok(groups) if groups.is_empty() => Err(unmounted(wanted)),
        Ok(groups) => Ok(groups),
        Err(error) if error.reason == Reason::Denied => Err(denied(wanted, &error)),
        Err(_) => Err(unmounted(wanted)),
    }
}

pub(super) fn denied(wanted: &str, error: &SourceError) -> PointError {
    PointError::plain(Reason::Denied, format!("the tracepoint {wanted} cannot be looked up: {error}"))
}

fn unmounted(wanted: &str) -> PointError {
    let message = format!("the tracepoint {wanted} cannot be looked up: tracefs is not mounted at /sys/kernel/tracing");
    PointError::plain(Reason::Absent, message)
}

/// The fields of a record, without those that all records share. Lines that cannot be understood are left out.
pub(super) fn fields(group: &str, text: &str) -> Vec<Field> {
    text.lines().filter_map(|line| field(group, line)).filter(|field| !field.name.starts_with("common_")).collect()
}

/// `field:size_t bytes_req; offset:24; size:8; signed:0;`, with tabs in between.
fn field(group: &str, line: &str) -> Option<Field> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?;
    let (mut offset, mut size, mut is_signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse::<u32>().ok(),
            Some(("size", value)) => size = value.parse::<u32>().ok(),
            Some(("signed", value)) => is_signed = value == "1",
            _ => {}
        }
    }
    let (kind, name) = declared.rsplit_once([' ', '*'])?;
    let (name, array) = name.find('[').and_then(|at| name.split_at_checked(at)).unwrap_or((name, ""));
    let is_array = !array.is_empty();
    let is_address = declared.contains('*');
    let plain = kind.trim();
    // Records of system calls keep every argument in a whole register, of which an int is the lower half.
    let (bytes, is_signed) = match (plain, size?) {
        ("int" | "pid_t", 8) if !is_address => (4, true),
        ("unsigned int" | "unsigned" | "u32" | "uid_t" | "gid_t", 8) if !is_address => (4, false),
        (_, size) => (size, is_signed),
    };
    let is_char = plain.split([' ', '*']).any(|word| matches!(word, "char" | "char[]"));
    let shape = match (plain.contains("__data_loc"), is_array, is_char, bytes) {
        (true, _, true, 4) => Shape::Text(Text::Located),
        (true, ..) => Shape::Other,
        (_, true, true, _) => Shape::Text(Text::Inline),
        // Arguments of system calls are addresses in the program.
        (_, false, true, 8) if declared.matches('*').count() == 1 => {
            Shape::Text(if group == "syscalls" { Text::OfProgram } else { Text::OfKernel })
        }
        (_, false, _, 1 | 2 | 4 | 8) if !plain.contains("__rel_loc") => Shape::Number { bytes, is_signed, is_address },
        _ => Shape::Other,
    };
    // `const char * filename`: the star stands between the type and the name.
    let star = if declared.strip_suffix(name).is_some_and(|rest| rest.ends_with('*')) { " *" } else { "" };
    let declared = format!("{}{star}{array}", plain.trim_start_matches("__data_loc "));
    Some(Field { name: name.to_owned(), declared, when: When::Entry, place: Place::Context(offset?), shape })
}
