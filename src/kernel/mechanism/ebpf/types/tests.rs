use aya_obj::btf::BtfKind;

use super::*;

const STRINGS: &[u8] = b"\0int\0task\0pid\0parent\0u64\0other\0far\0seen\0btf_trace_go\0bpf_iter_run\0task___old\0";

/// Where a name stands.
fn at(name: &str) -> u32 {
    let name = [b"\0", name.as_bytes(), b"\0"].concat();
    STRINGS.windows(name.len()).position(|window| window == name).unwrap() as u32 + 1
}

fn info(kind: u32, members: u32) -> u32 {
    kind << 24 | members
}

/// `struct task { int pid; struct { struct task *parent; u64 seen; }; struct other *far; }`, another `struct task { int pid; }`,
/// and what these need.
fn words() -> Vec<u32> {
    let (pid, parent, seen, far) = (at("pid"), at("parent"), at("seen"), at("far"));
    let types: [&[u32]; 11] = [
        &[at("int"), info(btf::INT, 0), 4, 32],                                    // 1
        &[at("task"), info(btf::STRUCT, 3), 32, pid, 1, 0, 0, 3, 64, far, 6, 192], // 2
        &[0, info(btf::STRUCT, 2), 16, parent, 4, 0, seen, 8, 64],                 // 3: the part without a name
        &[0, info(btf::PTR, 0), 2],                                                // 4
        &[at("other"), info(btf::STRUCT, 1), 4, pid, 1, 0],                        // 5
        &[0, info(btf::PTR, 0), 5],                                                // 6
        &[at("task___old"), info(btf::STRUCT, 1), 4, pid, 1, 0],                   // 7
        &[at("u64"), info(btf::TYPEDEF, 0), 9],                                    // 8
        &[0, info(btf::INT, 0), 8, 64],                                            // 9
        &[at("btf_trace_go"), info(btf::TYPEDEF, 0), 6],                           // 10
        &[at("bpf_iter_run"), info(btf::FUNC, 1), 0],                              // 11
    ];
    types.concat()
}

fn kernel() -> KernelTypes {
    KernelTypes(Types::parse(btf::encode(&words(), STRINGS)).unwrap(), OnceLock::new())
}

#[test]
fn a_part_holds_what_was_asked_for_and_what_lies_within_it_and_no_pointee() {
    let part = Types::parse(part(&kernel().0, vec![2, 7])).unwrap();
    let names: Vec<_> = part.numbers().map(|number| String::from_utf8_lossy(part.name(number).unwrap())).collect();
    assert_eq!(names, ["task", "task___old", "int", "", "", "", "u64", ""]);
    let name = |number, index| part.string(part.word(number, index).unwrap()).unwrap();
    assert_eq!((name(1, 3), name(1, 6), name(1, 9)), (&b"pid"[..], &b""[..], &b"far"[..]));
    assert_eq!((part.word(1, 4), part.word(1, 7)), (Some(3), Some(4)), "members lead to their types");
    assert_eq!((part.word(1, 8), part.word(1, 11)), (Some(64), Some(192)), "and stay where they are");
    let (far, parent) = (part.word(1, 10).unwrap(), part.word(4, 4).unwrap());
    assert_eq!((part.kind(far), part.word(far, 2)), (Some(btf::PTR), Some(0)));
    assert_eq!((part.kind(parent), part.word(parent, 2)), (Some(btf::PTR), Some(1)), "a type that is there is led to");
}

#[test]
fn an_objects_types_are_found_by_their_names_without_flavour() {
    assert_eq!(flavourless(b"task___old"), b"task");
    assert_eq!(flavourless(b"task__x"), b"task__x");
    assert_eq!(flavourless(b"___"), b"");
}

#[test]
fn what_is_attached_to_keeps_its_number() {
    let kernel = kernel();
    let number = |types: &Btf, kind, name| types.id_by_type_name_kind(name, kind).ok();
    assert_eq!(number(&kernel.point(btf::TYPEDEF, "btf_trace_go").types(), BtfKind::Typedef, "btf_trace_go"), Some(10));
    assert_eq!(number(&kernel.point(btf::FUNC, "bpf_iter_run").types(), BtfKind::Func, "bpf_iter_run"), Some(11));
    assert_eq!(number(&kernel.point(btf::FUNC, "ru").types(), BtfKind::Func, "ru"), None);
    assert_eq!(
        number(&kernel.point(btf::TYPEDEF, "bpf_iter_run").types(), BtfKind::Func, "bpf_iter_run"),
        None,
        "it is no type"
    );
    let all = kernel.points();
    assert_eq!(number(&all, BtfKind::Typedef, "btf_trace_go"), Some(10));
    assert_eq!(number(&all, BtfKind::Func, "bpf_iter_run"), Some(11));
    assert_eq!(number(&all, BtfKind::Typedef, "u64"), None, "nothing is attached to it");
    let exists = |kind, name| kernel.point(kind, name).exists();
    assert!(exists(btf::FUNC, "bpf_iter_run") && !exists(btf::FUNC, "") && !exists(btf::TYPEDEF, "bpf_iter_run"));
}

#[test]
fn an_object_without_types_needs_none() {
    for object in [&b""[..], b"\x7fELF", &[0; 200]] {
        assert_eq!(kernel().for_object(object), btf::encode(&[], b"\0"));
    }
}

proptest::proptest! {
    #[test]
    fn garbled_types_harm_nobody(at in 0_usize..600, value: u8, length in 0_usize..700) {
        let mut bytes = btf::encode(&words(), STRINGS);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
        bytes.truncate(length);
        if let Some(types) = Types::parse(bytes) {
            let all = types.numbers().collect();
            let _ = Btf::parse(&part(&types, all), Endianness::default());
            let kernel = KernelTypes(types, OnceLock::new());
            let _ = kernel.point(btf::FUNC, "bpf_iter_run").types();
        }
    }
}
