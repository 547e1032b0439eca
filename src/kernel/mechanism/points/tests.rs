use super::format::fields;
use super::*;
use crate::mechanism::btf::encode;

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
    let names = "\tfield:const char * name;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:const char *const * \
        argv;\toffset:16;\tsize:8;\tsigned:0;";
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

fn parsed(bytes: &[u8]) -> Option<Types> {
    Types::parse(bytes.to_vec())
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
    encode(&types.concat(), b"\0int\0long\0size\0s\0file\0whole\0behind\0f\0g\0")
}

#[test]
fn arguments_of_kernel_functions_have_their_names_and_types() {
    let types = parsed(&functions()).unwrap();
    let found = btf::prototype(&types, "f").unwrap();
    assert_eq!(found.declared, "int f(struct s *file, size size, struct s whole, int behind)");
    let fields = registers::fields(Some(found)).unwrap();
    let shown: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.shape)).collect();
    let (address, long, int) = (number(8, false, true), number(8, false, false), number(4, true, false));
    assert_eq!(
        shown,
        [("file", address), ("arg1", address), ("size", long), ("arg2", long), ("return", int)],
        "what stands behind a structure has no place that is known"
    );
    let nothing = btf::prototype(&types, "g").unwrap();
    assert_eq!((nothing.declared.as_str(), nothing.arguments.len(), nothing.result), ("void g()", 0, None));
    assert_eq!(btf::prototype(&types, "h"), None);
    assert_eq!(btf::prototype(&types, ""), None);
}

/// int; enum e { ONE = 1, LAST = 0xffffffff }
fn enumeration() -> Vec<u8> {
    let types: [&[u32]; 2] = [&[1, 1 << 24, 4, 1 << 24 | 32], &[5, 6 << 24 | 2, 4, 7, 1, 11, u32::MAX]];
    encode(&types.concat(), b"\0int\0e\0ONE\0LAST\0")
}

#[test]
fn the_values_of_an_enumeration_have_their_names() {
    let expected = vec![(1, "ONE".to_owned()), (u32::MAX, "LAST".to_owned())];
    let types = parsed(&enumeration()).unwrap();
    assert_eq!(btf::enumerators(&types, "e"), Some(expected));
    assert_eq!(btf::enumerators(&types, "int"), None);
    for length in 0..enumeration().len() {
        let _ = parsed(&enumeration()[..length]).and_then(|types| btf::enumerators(&types, "e"));
    }
}

#[test]
fn types_that_are_cut_short_harm_nobody() {
    let whole = functions();
    for length in 0..whole.len() {
        let _ = parsed(&whole[..length]).and_then(|types| btf::prototype(&types, "f"));
    }
    for at in 0..whole.len() {
        let mut garbled = whole.clone();
        garbled[at] ^= 0xff;
        let _ = parsed(&garbled).and_then(|types| btf::prototype(&types, "f"));
    }
}

/// struct inner { int id; char name[8]; };
/// struct outer { long flags; union { struct inner *to; int other; }; int part : 3; };
/// struct inner *f(const struct outer *o, struct announced *a, int n)
fn structures() -> Vec<u8> {
    let strings = b"\0int\0char\0long\0inner\0id\0name\0outer\0flags\0to\0other\0part\0f\0o\0announced\0a\0n\0";
    let at = |name: &str| {
        let whole = [b"\0", name.as_bytes(), b"\0"].concat();
        strings.windows(whole.len()).position(|part| part == whole).unwrap() as u32 + 1
    };
    let kind = |kind: u32, members: u32| kind << 24 | members;
    let types: [&[u32]; 14] = [
        &[at("int"), kind(1, 0), 4, 1 << 24 | 32],
        &[at("char"), kind(1, 0), 1, 1 << 24 | 8],
        &[0, kind(3, 0), 0, 2, 1, 8],                                      // 3: char[8]
        &[at("inner"), kind(4, 2), 12, at("id"), 1, 0, at("name"), 3, 32], // 4
        &[0, kind(2, 0), 4],                                               // 5: struct inner *
        &[0, kind(5, 2), 8, at("to"), 5, 0, at("other"), 1, 0],            // 6: the union
        &[at("outer"), 1 << 31 | kind(4, 3), 24, at("flags"), 8, 0, 0, 6, 64, at("part"), 1, 3 << 24 | 128], // 7
        &[at("long"), kind(1, 0), 8, 64],                                  // 8
        &[0, kind(2, 0), 10],                                              // 9: const struct outer *
        &[0, kind(10, 0), 7],                                              // 10
        &[at("announced"), kind(7, 0), 0],                                 // 11
        &[0, kind(2, 0), 11],                                              // 12: struct announced *
        &[0, kind(13, 3), 5, at("o"), 9, at("a"), 12, at("n"), 1],         // 13
        &[at("f"), kind(12, 0), 13],                                       // 14
    ];
    encode(&types.concat(), strings)
}

fn behind(bytes: &[u8], path: &str) -> Option<Result<Field, PointError>> {
    let types = parsed(bytes)?;
    let prototype = btf::prototype(&types, "f")?;
    let fields = registers::fields(Some(prototype.clone())).unwrap();
    Some(members::behind(&types, "f", &prototype, &fields, path))
}

#[test]
fn arguments_that_have_a_register_each_can_be_handed_over_one_after_the_other() {
    let bytes = structures();
    let prototype = btf::prototype(&parsed(&bytes).unwrap(), "f").unwrap();
    let fields = registers::fields(Some(prototype.clone())).unwrap();
    let arguments = registers::each_in_one(&prototype);
    let point =
        Point { name: "f".into(), declared: String::new(), target: Target::Kernel("f".into()), fields, arguments };
    let place = |field: &Field| {
        let Place::Context(offset) = field.place else { panic!("{field:?}") };
        (field.name.clone(), point.among_arguments(field.when, offset))
    };
    let places: Vec<_> = point.fields.iter().map(place).collect();
    let expected = [("o", 0), ("arg1", 0), ("a", 8), ("arg2", 8), ("n", 16), ("arg3", 16), ("return", 24)];
    assert_eq!(places, expected.map(|(name, at)| (name.to_owned(), Some(at))));
    let whole = functions();
    let prototype = btf::prototype(&parsed(&whole).unwrap(), "f").unwrap();
    assert_eq!(registers::each_in_one(&prototype), None, "a structure may take several, or none");
}

#[test]
fn members_are_found_through_pointers_and_structures_without_a_name() {
    for (path, when, offsets, shape) in [
        ("o.flags", When::Entry, &[0][..], number(8, false, false)),
        ("o.other", When::Entry, &[8], number(4, true, false)),
        ("arg1.to", When::Entry, &[8], number(8, false, true)),
        ("o.to.id", When::Entry, &[8, 0], number(4, true, false)),
        ("o.to.name", When::Entry, &[8, 4], Shape::Text(Text::OfKernel)),
        ("return.name", When::Return, &[4], Shape::Text(Text::OfKernel)),
    ] {
        let found = behind(&structures(), path).unwrap().unwrap();
        let Place::Behind(_, steps) = found.place else { panic!("{path}: {found:?}") };
        assert_eq!((found.when, &steps.offsets[..steps.hops], found.shape), (when, offsets, shape), "{path}");
        assert_eq!(found.name, path);
    }
}

#[test]
fn a_path_that_leads_nowhere_is_told_with_where_it_ends() {
    for (path, says, near) in [
        ("o.flag", "o of f (const struct outer *) has no member \"flag\"", "flags to other part"),
        ("o.to.size", "o.to of f (struct inner *) has no member \"size\"", "id name"),
        ("q.flags", "f has no argument \"q\"", "o arg1 a arg2 n arg3 return"),
        ("o.part", "o.part of f is a part of a number", ""),
        ("o.flags.x", "o.flags of f (long) leads to no structure", ""),
        ("n.x", "n of f (int) leads to no structure", ""),
        ("a.x", "leads to a structure that the types do not describe", ""),
    ] {
        let error = behind(&structures(), path).unwrap().unwrap_err();
        assert!(error.message.contains(says), "{path}: {}", error.message);
        assert_eq!(error.near.map(|(_, known)| known.join(" ")).unwrap_or_default(), near, "{path}");
    }
}

#[test]
fn structures_that_are_cut_short_or_garbled_harm_nobody() {
    let whole = structures();
    for at in 0..whole.len() {
        let mut garbled = whole.clone();
        garbled[at] ^= 0xff;
        for bytes in [&whole[..at], &garbled] {
            for path in ["o.to.name", "o.to.to.to.to.to", "return.x", "o.part"] {
                let _ = behind(bytes, path);
            }
        }
    }
}
