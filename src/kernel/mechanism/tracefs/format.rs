//! Where the fields of a record are, as the kernel describes them: `format` of an event, `header_page` of a buffer.

/// A described record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Format {
    /// The id that distinguishes records of this kind from others; none for pages.
    pub id: Option<u16>,
    /// How the kernel would print a record: a format and its arguments in C; "" for pages.
    pub print: String,
    fields: Vec<Field>,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    name: String,
    offset: usize,
    size: usize,
    is_signed: bool,
    shape: Shape,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A number.
    Number,
    /// An address.
    Address,
    /// Elements of so many bytes; one without a size goes on to the end of the record.
    Array {
        /// Bytes of an element.
        element: usize,
        /// Whether they are characters.
        is_text: bool,
    },
    /// Where such elements are, further back in the record: the lower half is the place, the upper half the length.
    Located {
        /// Whether the place counts from the end of this field.
        is_relative: bool,
        /// Bytes of an element.
        element: usize,
        /// Whether they are characters.
        is_text: bool,
    },
}

impl Format {
    /// Reads a description; lines that are not understood are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let find = |prefix: &str| text.lines().find_map(|line| line.strip_prefix(prefix));
        Self {
            id: find("ID:").and_then(|id| id.trim().parse().ok()),
            print: find("print fmt:").unwrap_or_default().trim().to_owned(),
            fields: text.lines().filter_map(field).collect(),
        }
    }

    /// The field of a name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The fields that only records of this kind have.
    pub fn own(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !field.name.starts_with("common_"))
    }
}

impl Field {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

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

    /// What it holds.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its value in a record, without a sign; none if the record is too short, or it is no number.
    #[must_use]
    pub fn value(&self, record: &[u8]) -> Option<u64> {
        number(record.get(self.offset..self.offset.checked_add(self.size)?)?)
    }

    /// Its value in a record, with its sign if it has one.
    #[must_use]
    pub fn signed_value(&self, record: &[u8]) -> Option<i128> {
        Some(with_sign(self.value(record)?, self.size, self.is_signed))
    }

    /// The element of an array at an index, with the sign that the field has.
    #[must_use]
    pub fn element(&self, record: &[u8], index: usize) -> Option<i128> {
        let (Shape::Array { element, .. } | Shape::Located { element, .. }) = self.shape else { return None };
        let from = index.checked_mul(element)?;
        let value = number(self.bytes(record)?.get(from..from.checked_add(element)?)?)?;
        Some(with_sign(value, element, self.is_signed))
    }

    /// The bytes of a record that are this field's: of an array its elements, wherever they are. What lies outside of the record is
    /// not there.
    #[must_use]
    pub fn bytes<'r>(&self, record: &'r [u8]) -> Option<&'r [u8]> {
        let end = self.offset.checked_add(self.size)?;
        match self.shape {
            Shape::Array { .. } if self.size == 0 => record.get(self.offset..),
            Shape::Located { is_relative, .. } => {
                let word = u32::try_from(self.value(record)?).ok()?;
                let (place, length) = ((word & 0xffff) as usize, (word >> 16) as usize);
                let from = if is_relative { place.checked_add(end)? } else { place };
                record.get(from..from.checked_add(length)?)
            }
            _ => record.get(self.offset..end),
        }
    }
}

/// A number in the order of bytes of this machine.
fn number(bytes: &[u8]) -> Option<u64> {
    match *bytes {
        [a] => Some(u64::from(a)),
        [a, b] => Some(u64::from(u16::from_ne_bytes([a, b]))),
        [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([a, b, c, d]))),
        _ => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
    }
}

fn with_sign(value: u64, bytes: usize, is_signed: bool) -> i128 {
    let unused = 64 - 8 * bytes.clamp(1, 8);
    if is_signed { i128::from((value << unused).cast_signed() >> unused) } else { i128::from(value) }
}

/// The text at the beginning of some bytes: up to the first that is 0.
#[must_use]
pub fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default())
}

/// `field:unsigned long func; offset:8; size:8; signed:0;`
fn field(line: &str) -> Option<Field> {
    let mut parts = line.trim().split(';');
    let declared = parts.next()?.strip_prefix("field:")?.trim();
    let mut number = |name: &str| parts.next()?.trim().strip_prefix(name)?.parse().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let is_signed = number("signed:") == Some(1);
    let (kind, name) = declared.rsplit_once([' ', '*']).unwrap_or(("", declared));
    let (name, count) = name.split_once('[').map_or((name, None), |(name, count)| (name, Some(count)));
    let located = ["__data_loc", "__rel_loc"].iter().position(|word| kind.starts_with(word));
    // `__data_loc char[] filename`: the elements stand in the type. `__u8 saddr[4]`: they stand at the name.
    let of = kind.trim_start_matches("__data_loc").trim_start_matches("__rel_loc").trim().trim_end_matches("[]");
    let is_text = of.split(' ').next_back() == Some("char") && !of.contains("unsigned");
    let shape = match (located, count) {
        (Some(which), _) => Shape::Located { is_relative: which == 1, element: bytes_of(of)?, is_text },
        (None, Some(count)) => {
            let counted = count.trim_end_matches(']').parse::<usize>().ok().filter(|count| *count > 0);
            let element = counted.map(|count| size / count).filter(|bytes| *bytes > 0).or(bytes_of(of)).unwrap_or(1);
            Shape::Array { element, is_text }
        }
        (None, None) if declared.contains('*') => Shape::Address,
        (None, None) => Shape::Number,
    };
    Some(Field { name: name.to_owned(), offset, size, is_signed, shape })
}

/// The size of a type in C, for those of which arrays are made; none if it is not known.
pub(super) fn bytes_of(kind: &str) -> Option<usize> {
    let kind = kind.trim_start_matches("const ").trim_start_matches("struct ").trim_start_matches("unsigned ").trim();
    match kind {
        _ if kind.ends_with('*') => Some(8),
        "char" | "u8" | "__u8" | "s8" | "uint8_t" | "int8_t" | "bool" => Some(1),
        "short" | "umode_t" | "u16" | "__u16" | "s16" | "__le16" | "__be16" | "uint16_t" | "int16_t" => Some(2),
        "int" | "unsigned" | "uint" | "u32" | "__u32" | "s32" | "__le32" | "__be32" | "uint32_t" | "int32_t"
        | "gfp_t" | "pid_t" | "dev_t" => Some(4),
        "long" | "long long" | "long int" | "long unsigned int" | "ino_t" | "u64" | "__u64" | "s64" | "__le64"
        | "__be64" | "uint64_t" | "int64_t" | "size_t" | "void" | "loff_t" | "sector_t" => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_where_the_kernel_says() {
        let text = "name: funcgraph_entry\nID: 11\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                    \tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:garbage\n\nprint fmt: \"…\"\n";
        let format = Format::parse(text);
        assert_eq!((format.id, format.print.as_str()), (Some(11), "\"…\""));
        let record: Vec<u8> = (0..16).collect();
        assert_eq!(format.field("common_pid").unwrap().value(&record), Some(0x0706_0504));
        assert_eq!(format.field("func").unwrap().value(&record), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(format.field("func").unwrap().value(&record[..15]), None);
        assert_eq!(format.field("depth"), None);
        assert_eq!(format.own().map(Field::name).collect::<Vec<_>>(), ["func"]);
        assert_eq!(Format::parse("").id, None);
    }

    fn one(declared: &str, size: usize, signed: u8) -> Field {
        field(&format!("\tfield:{declared};\toffset:0;\tsize:{size};\tsigned:{signed};")).unwrap()
    }

    #[test]
    fn arrays_texts_and_addresses_are_told_from_numbers() {
        let array = |element, is_text| Shape::Array { element, is_text };
        let located = |is_relative, element, is_text| Shape::Located { is_relative, element, is_text };
        for (declared, size, name, shape) in [
            ("char prev_comm[16]", 16, "prev_comm", array(1, true)),
            ("char comm[TASK_COMM_LEN]", 16, "comm", array(1, true)),
            ("unsigned char addr[6]", 6, "addr", array(1, false)),
            ("unsigned long args[6]", 48, "args", array(8, false)),
            ("char buf[]", 0, "buf", array(1, true)),
            ("__data_loc char[] filename", 4, "filename", located(false, 1, true)),
            ("__rel_loc u64[] stack", 4, "stack", located(true, 8, false)),
            ("const char * filename", 8, "filename", Shape::Address),
            ("void *ptr", 8, "ptr", Shape::Address),
            ("enum xfs_group_type type", 1, "type", Shape::Number),
        ] {
            let field = one(declared, size, 0);
            assert_eq!((field.name(), field.shape()), (name, shape), "{declared}");
        }
    }

    #[test]
    fn numbers_have_their_signs_and_arrays_their_elements() {
        let record = [0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0];
        assert_eq!(one("int x", 4, 1).signed_value(&record), Some(-2));
        assert_eq!(one("u32 x", 4, 0).signed_value(&record), Some(0xffff_fffe));
        assert_eq!(one("int x[2]", 8, 1).element(&record, 1), Some(1));
        assert_eq!(one("int x[2]", 8, 1).element(&record, 2), None);
        assert_eq!(one("int x[2]", 8, 1).element(&record, usize::MAX), None);
    }

    #[test]
    fn what_is_said_to_lie_outside_of_the_record_is_not_there() {
        let relative = one("__rel_loc char[] x", 4, 0);
        let place = |place: u32, length: u32| [&(length << 16 | place).to_ne_bytes()[..], b"abcd"].concat();
        assert_eq!(relative.bytes(&place(1, 3)), Some(&b"bcd"[..]));
        assert_eq!(one("__data_loc char[] x", 4, 0).bytes(&place(4, 2)), Some(&b"ab"[..]));
        for (from, length) in [(1, 4), (0, 0xffff), (0xffff, 1)] {
            assert_eq!(relative.bytes(&place(from, length)), None, "{from} {length}");
        }
        assert_eq!(relative.bytes(&[1, 2]), None);
        assert_eq!((text(b"ab\0c"), text(b"\xff")), ("ab".into(), "\u{fffd}".into()));
    }
}
