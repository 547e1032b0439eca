use std::collections::BTreeMap;

use super::*;
use rdiag_kernel::mechanism::points::{Field, Place, Shape, Target, Text, When};

fn openat() -> Point {
    let target = Target::Tracepoint { group: "syscalls".into(), event: "sys_enter_openat".into() };
    let field = |name: &str, offset, shape| Field {
        name: name.into(),
        declared: String::new(),
        when: When::Entry,
        place: Place::Context(offset),
        shape,
    };
    let fields = vec![
        field("dfd", 16, Shape::Number { bytes: 4, is_signed: true, is_address: false }),
        field("filename", 24, Shape::Text(Text::OfProgram)),
        field("comm", 32, Shape::Text(Text::Inline)),
        field("how", 40, Shape::Number { bytes: 8, is_signed: false, is_address: true }),
    ];
    Point { name: "syscalls:sys_enter_openat".into(), declared: String::new(), target, fields, arguments: None }
}

fn layout_of(values: &str) -> Result<LineLayout, String> {
    let given = [("tracepoint", "syscalls:sys_enter_openat"), ("value", values)];
    let given: BTreeMap<String, String> = given.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let params = Params::new("log", PROBE.params, &given)?;
    let layouts = super::layouts(vec![openat()], &params).map_err(|error| error.message)?;
    Ok(layouts.each.into_iter().next().unwrap())
}

fn line(layout: &LineLayout, record: &[u8]) -> Vec<Cell> {
    layout.spec("").cells(&Line::read(record, Cell::Unknown(())))
}

fn record(values: [u64; 4], lengths: [i64; 2], texts: [&[u8]; 2]) -> Vec<u8> {
    let comm = u64::from_ne_bytes(*b"cat\0\0\0\0\0");
    let mut words = vec![9, 7 << 32 | 8, 1, comm, 0];
    words.extend(values);
    words.extend([0; 4]);
    words.extend(lengths.map(i64::cast_unsigned));
    let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    for text in texts {
        let mut whole = text.to_vec();
        whole.resize(TEXT, b'x');
        record.extend(whole);
    }
    record
}

#[test]
fn a_line_has_time_task_and_the_values_in_the_order_in_which_they_were_asked_for() {
    let layout = layout_of("filename, dfd, args.comm, how").unwrap();
    let titles: Vec<String> = layout.spec("").empty().columns.iter().map(|column| column.id.clone()).collect();
    assert_eq!(titles, ["name", "pid", "tid", "cpu", "filename", "dfd", "comm", "how"]);
    let at_cwd = (-100_i64).cast_unsigned();
    let cells = line(&layout, &record([1, at_cwd, 0, 0xff00], [7, 4], [b"/tmp/x\0", b"dog\0"]));
    assert_eq!(cells, ["cat", "7", "8", "1", "/tmp/x", "-100", "dog", "0xff00"].map(Cell::from));
}

#[test]
fn text_that_could_not_be_read_is_not_known_and_short_records_harm_nobody() {
    let layout = layout_of("filename,dfd").unwrap();
    let cells = line(&layout, &record([1, 3, 0, 0], [-14, 0], [b"", b""]));
    assert_eq!(cells[4..], [Cell::Unknown(()), "3".into()]);
    for length in 0..record([0; 4], [1, 1], [b"", b""]).len() {
        assert_eq!(line(&layout, &vec![1; length]).len(), 6);
    }
}

#[test]
fn texts_are_found_by_where_they_are() {
    let globals = layout_of("dfd,filename,args.comm").map(|layout| layout.globals(&layout.reads)).unwrap();
    let of = |name: &str| globals.iter().find(|global| global.name() == name).unwrap().value().to_vec();
    assert_eq!(of("text_in"), bytes_of(&[1, 4]));
    assert_eq!(of("text_value"), bytes_of(&[1, 2]));
    assert_eq!(of("text_at"), bytes_of(&[24, 32]));
}

#[test]
fn what_cannot_be_shown_is_told() {
    for (values, says) in [
        ("filename:u32", "is text, and no number"),
        ("dfd:string", "has 4 bytes, so it is no address of text"),
        ("filename,args.comm,how:string", "at most 2 texts"),
        ("a,b,c,d,e", "at most 4 values"),
        ("flags", "no field \"flags\"; it has dfd, filename"),
    ] {
        let error = layout_of(values).unwrap_err();
        assert!(error.contains(says), "{values}: {error}");
    }
}

#[test]
fn lines_of_several_points_begin_with_the_point() {
    let mut other = openat();
    other.name = "syscalls:sys_enter_openat2".into();
    let params = BTreeMap::from([("tracepoint".to_owned(), "syscalls:*".to_owned()), ("value".into(), "dfd".into())]);
    let params = Params::new("log", PROBE.params, &params).unwrap();
    let layouts = super::layouts(vec![openat(), other], &params).unwrap().each;
    assert_eq!(layouts[1].spec("").empty().columns[0].id, "point");
    let cells = line(&layouts[1], &record([3, 0, 0, 0], [0, 0], [b"", b""]));
    assert_eq!(cells[0], Cell::from("syscalls:sys_enter_openat2"));
    let many = vec![openat(); MOST + 1];
    assert!(super::layouts(many, &params).unwrap_err().message.contains("at most 16 points"));
}
