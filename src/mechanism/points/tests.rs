use super::format::fields;
use super::*;

const KMALLOC: &str = "name: kmalloc\nID: 658\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
    \tfield:const void * ptr;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:size_t bytes_req;\toffset:24;\tsize:8;\tsigned:0;\n\
    \tfield:int node;\toffset:48;\tsize:4;\tsigned:1;\n\nprint fmt: \"ptr=%p\", REC->ptr\n";

fn number(bytes: u32, is_signed: bool, is_address: bool) -> Shape {
    Shape::Number { bytes, is_signed, is_address }
}

#[test]
fn the_fields_of_a_record_are_read_without_those_that_all_records_share() {
    let found = fields("kmem", KMALLOC);
    let declared: Vec<&str> = found.iter().map(|field| field.declared.as_str()).collect();
    assert_eq!(declared, ["const void *", "size_t", "int"]);
    let shapes: Vec<_> = found.iter().map(|field| (field.name.as_str(), field.place, field.shape)).collect();
    assert_eq!(
        shapes,
        [
            ("ptr", Place::Context(16), number(8, false, true)),
            ("bytes_req", Place::Context(24), number(8, false, false)),
            ("node", Place::Context(48), number(4, true, false))
        ]
    );
}

#[test]
fn an_int_in_the_register_of_a_system_call_is_its_lower_half() {
    let text = "\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;";
    assert_eq!(fields("syscalls", text)[0].shape, number(4, true, false));
    assert_eq!(fields("syscalls", text)[1].shape, Shape::Text(Text::OfProgram));
}

#[test]
fn text_and_arrays_are_no_numbers() {
    let text = "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
                \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:u8 mac[8];\toffset:8;\tsize:8;\tsigned:0;";
    let found = fields("sched", text);
    assert_eq!(found.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(), ["filename", "prev_comm", "mac"]);
    assert_eq!(found.iter().map(|field| field.declared.as_str()).collect::<Vec<_>>(), ["char[]", "char[16]", "u8[8]"]);
    let shapes: Vec<Shape> = found.iter().map(|field| field.shape).collect();
    assert_eq!(shapes, [Shape::Text(Text::Located), Shape::Text(Text::Inline), Shape::Other]);
    let names = "\tfield:const char * name;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:const char *const * argv;\toffset:16;\tsize:8;\tsigned:0;";
    let found: Vec<Shape> = fields("irq", names).iter().map(|field| field.shape).collect();
    assert_eq!(found, [Shape::Text(Text::OfKernel), number(8, false, true)]);
}

#[test]
fn garbage_gives_no_fields() {
    for text in
        ["", "field:", "field:x", "field:int x;offset:-1;size:4;", "field:int x;offset:99999999999;size:4;signed:1;"]
    {
        assert!(fields("x", text).is_empty(), "{text:?}");
    }
}

/// A description of types with a header, types and strings.
fn described(types: &[u32], strings: &[u8]) -> Vec<u8> {
    let length = types.len() as u32 * 4;
    let header = [u32::from(0xeb9f_u16) | 1 << 16, 24, 0, length, length, strings.len() as u32];
    let mut bytes: Vec<u8> = header.iter().chain(types).flat_map(|word| word.to_ne_bytes()).collect();
    bytes.extend(strings);
    bytes
}

/// int f(struct s *file, unsigned long size, struct s whole, int behind); void g(void)
fn functions() -> Vec<u8> {
    let kind = |kind: u32, members: u32| kind << 24 | members;
    let types: [&[u32]; 9] = [
        &[1, kind(1, 0), 4, 1 << 24 | 32],                // 1: int
        &[5, kind(1, 0), 8, 64],                          // 2: long, unsigned
        &[10, kind(8, 0), 2],                             // 3: size, another name for it
        &[15, kind(4, 1), 16, 15, 1, 0],                  // 4: struct s
        &[0, kind(2, 0), 4],                              // 5: struct s *
        &[0, kind(13, 4), 1, 17, 5, 10, 3, 22, 4, 28, 1], // 6: the prototype
        &[35, kind(12, 0), 6],                            // 7: f
        &[0, kind(13, 0), 0],                             // 8: void (void)
        &[37, kind(12, 0), 8],                            // 9: g
    ];
    described(&types.concat(), b"\0int\0long\0size\0s\0file\0whole\0behind\0f\0g\0")
}

#[test]
fn arguments_of_kernel_functions_have_their_names_and_types() {
    let bytes = functions();
    let types = btf::Types::parse(&bytes).unwrap();
    let found = types.prototype("f").unwrap();
    assert_eq!(found.declared, "int f(struct s *file, size size, struct s whole, int behind)");
    let fields = registers::fields(Some(found)).unwrap();
    let shown: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.shape)).collect();
    let (address, long, int) = (number(8, false, true), number(8, false, false), number(4, true, false));
    assert_eq!(
        shown,
        [("file", address), ("arg1", address), ("size", long), ("arg2", long), ("return", int)],
        "what stands behind a structure has no place that is known"
    );
    let nothing = types.prototype("g").unwrap();
    assert_eq!((nothing.declared.as_str(), nothing.arguments.len(), nothing.result), ("void g()", 0, None));
    assert_eq!(types.prototype("h"), None);
    assert_eq!(types.prototype(""), None);
}

/// int; enum e { ONE = 1, LAST = 0xffffffff }
fn enumeration() -> Vec<u8> {
    let types: [&[u32]; 2] = [&[1, 1 << 24, 4, 1 << 24 | 32], &[5, 6 << 24 | 2, 4, 7, 1, 11, u32::MAX]];
    described(&types.concat(), b"\0int\0e\0ONE\0LAST\0")
}

#[test]
fn the_values_of_an_enumeration_have_their_names() {
    let expected = vec![(1, "ONE".to_owned()), (u32::MAX, "LAST".to_owned())];
    assert_eq!(btf::enumerators(&enumeration(), "e"), Some(expected));
    assert_eq!(btf::enumerators(&enumeration(), "int"), None);
    for length in 0..enumeration().len() {
        let _ = btf::enumerators(&enumeration()[..length], "e");
    }
}

#[test]
fn types_that_are_cut_short_harm_nobody() {
    let whole = functions();
    for length in 0..whole.len() {
        let _ = btf::Types::parse(&whole[..length]).and_then(|types| types.prototype("f"));
    }
    for at in 0..whole.len() {
        let mut garbled = whole.clone();
        garbled[at] ^= 0xff;
        let _ = btf::Types::parse(&garbled).and_then(|types| types.prototype("f"));
    }
}
