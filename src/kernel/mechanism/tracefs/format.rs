//! Where the fields of a record are, as the kernel describes them: `format` of an event, `header_page` of a buffer.

/// A described record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Format {
    /// The number by which records of this kind are told from others; none for pages.
    pub id: Option<u16>,
    fields: Vec<Field>,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    name: String,
    offset: usize,
    size: usize,
}

impl Format {
    /// Reads a description; lines that are not understood are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        Self { id, fields: text.lines().filter_map(field).collect() }
    }

    /// The field of a name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Where it begins, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Its value in a record, without a sign; none if the record is too short, or it is no number.
    #[must_use]
    pub fn value(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        match *bytes {
            [a] => Some(u64::from(a)),
            [a, b] => Some(u64::from(u16::from_ne_bytes([a, b]))),
            [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([a, b, c, d]))),
            _ => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        }
    }
}

/// `field:unsigned long func; offset:8; size:8; signed:0;`
fn field(line: &str) -> Option<Field> {
    let mut parts = line.trim().split(';');
    let name = parts.next()?.strip_prefix("field:")?.split_whitespace().next_back()?;
    let mut number = |name: &str| parts.next()?.trim().strip_prefix(name)?.parse().ok();
    Some(Field { name: name.to_owned(), offset: number("offset:")?, size: number("size:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_where_the_kernel_says() {
        let text = "name: funcgraph_entry\nID: 11\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                    \tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:garbage\n\nprint fmt: \"…\"\n";
        let format = Format::parse(text);
        assert_eq!(format.id, Some(11));
        let record: Vec<u8> = (0..16).collect();
        assert_eq!(format.field("common_pid").unwrap().value(&record), Some(0x0706_0504));
        assert_eq!(format.field("func").unwrap().value(&record), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(format.field("func").unwrap().value(&record[..15]), None);
        assert_eq!(format.field("depth"), None);
        assert_eq!(Format::parse("").id, None);
    }
}
