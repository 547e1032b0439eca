use std::collections::{BTreeMap, HashMap};

use super::names::Names;
use super::tables::{Sum, histogram, table};
use super::*;
use rdiag_kernel::mechanism::ebpf::{Moments, hist};
use rdiag_kernel::mechanism::points::{Field, Path, Place, Shape, Target, Text, When};
use rdiag_kernel::mechanism::symbols::{Part, Piece, Process};
use rdiag_model::probe::{Cell, Output, ProbeTable};

fn field(name: &str, when: When, offset: u32, bytes: u32, is_signed: bool, is_address: bool) -> Field {
    let shape = Shape::Number { bytes, is_signed, is_address };
    Field { name: name.into(), declared: String::new(), when, place: Place::Context(offset), shape }
}

fn point(name: &str, target: Target, fields: Vec<Field>) -> Point {
    Point { name: name.into(), declared: String::new(), target, fields, arguments: None }
}

pub(super) fn kmalloc() -> Point {
    let target = Target::Tracepoint { group: "kmem".into(), event: "kmalloc".into() };
    let mut fields = vec![
        field("ptr", When::Entry, 16, 8, false, true),
        field("bytes_req", When::Entry, 24, 8, false, false),
        field("node", When::Entry, 48, 4, true, false),
        field("pid", When::Entry, 52, 4, true, false),
    ];
    fields.push(Field { shape: Shape::Other, ..field("text", When::Entry, 60, 8, false, false) });
    point("kmem:kmalloc", target, fields)
}

pub(super) fn malloc() -> Point {
    let target = Target::User { path: "/libc.so.6".into(), offsets: vec![64] };
    let fields =
        vec![field("arg1", When::Entry, 112, 8, false, false), field("return", When::Return, 80, 8, true, false)];
    point("libc.so.6:malloc", target, fields)
}

pub(super) fn query_of(def: &ProbeDef, point: Point, given: &[(&str, &str)]) -> Result<Query, String> {
    all_queries(def, vec![point], given).map(|queries| queries.each.into_iter().next().unwrap())
}

fn all_queries(def: &ProbeDef, points: Vec<Point>, given: &[(&str, &str)]) -> Result<PerPoint<Query>, String> {
    let is_tracepoint = matches!(points[0].target, Target::Tracepoint { .. });
    let name = if is_tracepoint { ("tracepoint", "kmem:*") } else { ("function", "libc:*") };
    let given: BTreeMap<String, String> =
        [&name].into_iter().chain(given).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let params = Params::new(def.id, def.params, &given)?;
    super::queries(points, def.id, &params).map_err(|error| error.message)
}

fn table_of(query: &Query, sums: &[(Key, Sum)], seconds: f64, top: usize) -> ProbeTable {
    table(&[(query, sums.to_vec())], &Names::default(), seconds, top)
}

fn global(query: &Query, name: &str) -> Vec<u32> {
    let globals = query.globals(&query.reads, false);
    let found = globals.iter().find(|global| global.name() == name).unwrap();
    found.value().chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn fields_keys_and_comparisons_become_places_in_the_context() {
    let query = query_of(
        &PROBE,
        kmalloc(),
        &[("value", "bytes_req"), ("key", "comm,ptr,node:u8"), ("filter", "bytes_req > 1000 and node == -1")],
    )
    .unwrap();
    assert_eq!(query.reads.moments(), Moments::Entry);
    let fields = global(&query, "point_fields");
    let places: Vec<&[u32]> = fields.chunks(12).map(|field| &field[..4]).collect();
    assert_eq!(places[0], [1, 24, 8, 0]);
    assert_eq!(places[1..4], [[1, 16, 8, 0], [1, 48, 1, 0], [0, 0, 8, 0]]);
    assert_eq!(places[4..6], [[1, 24, 8, 0], [1, 48, 4, 1]]);
    let tests = global(&query, "point_tests");
    assert_eq!(tests[..8], [5, 0, 1000, 0, 1, 1, u32::MAX, u32::MAX]);
    assert!(query.by_comm && !query.has_stack());
}

#[test]
fn only_the_moments_that_are_needed_are_watched() {
    for (def, given, moments) in [
        (&PROBE, &[][..], Moments::Entry),
        (&PROBE, &[("key", "arg1")], Moments::Entry),
        (&PROBE, &[("key", "return")], Moments::Return),
        (&PROBE, &[("key", "return,pid")], Moments::Return),
        (&PROBE, &[("filter", "return == 0 and arg1 > 5")], Moments::Both),
        (&PROBE, &[("filter", "latency > 1ms")], Moments::Both),
        (&HIST, &[], Moments::Both),
        (&HIST, &[("value", "arg1")], Moments::Entry),
    ] {
        let query = query_of(def, malloc(), given).unwrap();
        assert_eq!(query.reads.moments(), moments, "{given:?}");
    }
    assert!(query_of(&HIST, malloc(), &[]).unwrap().value.unwrap().is_time);
}

#[test]
fn a_field_that_is_called_like_a_key_is_told_apart() {
    let own = query_of(&PROBE, kmalloc(), &[("key", "pid")]).unwrap();
    let of_event = query_of(&PROBE, kmalloc(), &[("key", "args.pid")]).unwrap();
    assert_eq!((global(&own, "point_fields")[12], global(&of_event, "point_fields")[12]), (4, 1));
}

#[test]
fn what_cannot_be_is_told_before_anything_is_attached() {
    for (def, point, given, says) in [
        (&PROBE, kmalloc(), &[("value", "bytes")][..], "no field \"bytes\"; it has ptr, bytes_req, node"),
        (&PROBE, kmalloc(), &[("key", "text")], "text of kmem:kmalloc is neither a number nor text"),
        (&PROBE, kmalloc(), &[("value", "latency")], "passed in no time"),
        (&PROBE, kmalloc(), &[("value", "node:s64")], "has 4 bytes, not 8"),
        (&PROBE, kmalloc(), &[("filter", "bytes_req < -1")], "write bytes_req:s64"),
        (&PROBE, kmalloc(), &[("filter", "node > 4000000000")], "lies between -2147483648 and 2147483647"),
        (&HIST, kmalloc(), &[], "say what is to be distributed"),
        (&HIST, malloc(), &[("key", "stack")], "not kept by stack"),
        (&PROBE, malloc(), &[("tracepoint", "kmem:kmalloc")], "not several"),
        (&PROBE, malloc(), &[("function", "")], "say what to look at"),
        (&PROBE, malloc(), &[("key", "arg1.size")], "no field \"arg1.size\"; it has arg1, return"),
        (&PROBE, vfs_read(), &[("key", "file.f_mode:u64")], "has 4 bytes, not 8"),
    ] {
        let error = query_of(def, point, given).unwrap_err();
        assert!(error.contains(says), "{given:?}: {error}");
    }
}

/// ssize_t vfs_read(struct file *file, …), of which the members are f_mode and, behind two pointers, a name.
pub(super) fn vfs_read() -> Point {
    let behind = |hops, offsets| Place::Behind(112, Path { hops, offsets });
    let of = |name: &str, place, shape| Field { place, shape, ..field(name, When::Entry, 0, 8, false, false) };
    let number = Shape::Number { bytes: 4, is_signed: false, is_address: false };
    let fields = vec![
        field("file", When::Entry, 112, 8, false, true),
        of("file.f_mode", behind(1, [20, 0, 0, 0]), number),
        of("file.f_path.dentry.d_iname", behind(2, [72, 56, 0, 0]), Shape::Text(Text::OfKernel)),
        field("return", When::Return, 80, 8, true, false),
    ];
    point("vfs_read", Target::Kernel("vfs_read".into()), fields)
}

#[test]
fn what_pointers_lead_to_is_read_and_text_is_taken_by_its_place() {
    let keys = "file->f_mode:be16,file.f_path.dentry.d_iname,cgroup";
    let query = query_of(&PROBE, vfs_read(), &[("key", keys), ("filter", "return > 0 and file.f_mode & 2")]).unwrap();
    let fields = global(&query, "point_fields");
    let all: Vec<&[u32]> = fields.chunks(12).collect();
    assert_eq!(all[1], [1, 112, 2, 0, 0, 0, 2, 1, 20, 0, 0, 0]);
    assert_eq!(all[2], [1, 112, 8, 0, 0, 0, 1, 2, 72, 56, 0, 0]);
    assert_eq!(all[3][0], 9);
    assert_eq!(all[5][..4], [1, 112, 4, 0]);
    assert_eq!((global(&query, "text_in"), query.has_text(), query.by_group()), (vec![0, 2, 0], true, true));
    assert_eq!(query.reads.moments(), Moments::Both);
    let value = query_of(&PROBE, vfs_read(), &[("value", "file.f_path.dentry.d_iname")]).unwrap_err();
    assert!(value.contains("is text, which can be a key"), "{value}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_trampoline_hands_over_arguments_and_result_one_after_the_other() {
    let given = [("value", "return"), ("key", "file.f_mode,pid")];
    let unknown = query_of(&PROBE, vfs_read(), &given).unwrap();
    assert_eq!(unknown.reads.among_arguments(), None);
    let query = query_of(&PROBE, Point { arguments: Some(4), ..vfs_read() }, &given).unwrap();
    let moved = query.reads.among_arguments().unwrap();
    let globals = query.globals(&moved, false);
    let fields = globals.iter().find(|global| global.name() == "point_fields").unwrap().value();
    let words: Vec<u32> = fields.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
    let places: Vec<&[u32]> = words.chunks(12).map(|field| &field[..2]).collect();
    assert_eq!(places[..3], [[2, 32], [1, 0], [4, 0]]);
    assert_eq!(words[12..][7..9], [1, 20], "the way from there is the same");
    assert_eq!(moved.moments(), query.reads.moments());
}

#[test]
fn keys_that_are_text_are_shown_as_they_were_read() {
    let query = query_of(&PROBE, vfs_read(), &[("key", "file.f_path.dentry.d_iname,file.f_mode")]).unwrap();
    let names = Names::of_texts(&[(77, "passwd")]);
    let of = |name, count| (key([name, 5, 0], b"\0\0\0\0\0\0\0\0"), Sum { count, sum: 0 });
    let found = table(&[(&query, vec![of(77, 9), of(0, 3), of(1, 2)])], &names, 1.0, 10);
    let instances: Vec<&str> = found.rows.iter().map(|row| row.instance.as_str()).collect();
    assert_eq!(instances, ["passwd, 5", "(cannot be read), 5", "(other texts), 5"]);
}

#[test]
fn an_address_of_code_can_be_a_key_and_nothing_else() {
    let query = query_of(&PROBE, kmalloc(), &[("key", "ptr:ksym")]).unwrap();
    let found = table_of(&query, &[(key([0xff00, 0, 0], &[0; 8]), Sum { count: 1, sum: 0 })], 1.0, 10);
    assert_eq!((found.rows[0].instance.as_str(), found.columns[0].id.as_str()), ("0xff00", "ptr"));
    for (given, says) in
        [(("key", "node:ksym"), "node of kmem:kmalloc has 4 bytes"), (("value", "ptr:ksym"), "can be a key")]
    {
        let error = query_of(&PROBE, kmalloc(), &[given]).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

fn key(words: [u64; 3], comm: &[u8; 8]) -> Key {
    [words[0], words[1], words[2], u64::from_ne_bytes(*comm), 0, 0, 0, 0, 0]
}

#[test]
fn keys_are_shown_in_order_of_their_sums_and_the_others_are_added_up() {
    let given = [("value", "bytes_req"), ("key", "comm,ptr,node")];
    let query = query_of(&PROBE, kmalloc(), &given).unwrap();
    let one = (key([0xff00, u64::MAX, 0], b"cat\0\0\0\0\0"), Sum { count: 4, sum: 100 });
    let two = (key([0xff10, 1, 0], b"dd\0\0\0\0\0\0"), Sum { count: 2, sum: 900 });
    let three = (key([0, 0, 0], b"ls\0\0\0\0\0\0"), Sum { count: 9, sum: 1 });
    let table = table_of(&query, &[one, two, three], 2.0, 2);
    assert_eq!(table.title, "kmem:kmalloc by task, ptr, node");
    let cells = |row: &[Cell]| row.to_vec();
    assert_eq!(
        cells(&table.rows[0].cells),
        ["dd".into(), "0xff10".into(), "1".into(), 2.0.into(), 1.0.into(), 900.0.into(), 450.0.into()]
    );
    assert_eq!(table.rows[1].instance, "cat, 0xff00, -1");
    assert_eq!(table.columns.len(), table.rows[0].cells.len());
    assert_eq!((table.others, table.others_sum["count"], table.others_sum["sum"]), (1, 9.0, 1.0));
}

#[test]
fn sums_of_negative_values_are_negative_and_times_are_seconds() {
    let query = query_of(&PROBE, kmalloc(), &[("value", "node")]).unwrap();
    let table = table_of(&query, &[([0; 9], Sum { count: 2, sum: (-3_i64).cast_unsigned() })], 1.0, 10);
    assert_eq!(table.rows[0].cells[2..], [(-3.0).into(), (-1.5).into()]);
    assert_eq!((table.title.as_str(), table.dimension), ("kmem:kmalloc", None));
    let query = query_of(&HIST, malloc(), &[]).unwrap();
    let mut values = [0; hist::WORDS];
    values[..3].copy_from_slice(&[1, 2_000_000_000, 2_000_000_000]);
    let (Output::Histogram(histogram), 0) = histogram(&[(&query, vec![([0; 9], values)])], &Names::default(), 1) else {
        panic!()
    };
    assert_eq!((histogram.unit, histogram.rows[0].sum), (Unit::Seconds, 2.0));
    assert_eq!(histogram.title, "latency of libc.so.6:malloc");
}

#[test]
fn distributions_beyond_the_top_are_counted() {
    let query = query_of(&HIST, malloc(), &[("key", "pid")]).unwrap();
    let of = |pid: u64, count: u64| {
        let mut values = [0; hist::WORDS];
        values[0] = count;
        (key([pid, 0, 0], b"\0\0\0\0\0\0\0\0"), values)
    };
    let hists = vec![of(7, 1), of(8, 5), of(9, 2)];
    let (Output::Histogram(histogram), left_out) = histogram(&[(&query, hists)], &Names::default(), 2) else {
        panic!()
    };
    let instances: Vec<&str> = histogram.rows.iter().map(|row| row.instance.as_str()).collect();
    assert_eq!((instances, left_out), (vec!["8", "9"], 1));
}

#[test]
fn a_stack_belongs_to_its_process_and_to_the_other_keys() {
    let query = query_of(&PROBE, malloc(), &[("value", "arg1"), ("key", "stack,comm")]).unwrap();
    assert!(query.user_stack && !query.kernel_stack);
    let mut one = key([0; 3], b"cat\0\0\0\0\0");
    one[6..].copy_from_slice(&[77, 12, 1000]);
    let stacks = HashMap::from([(77, vec![5, 6])]);
    let sample = query.sample(&one, Sum { count: 2, sum: 64 }, &stacks, &Names::default());
    assert_eq!((sample.owner.as_str(), sample.pid, sample.value, sample.count), ("cat", Some(12), 64.0, 2));
    let Piece::Frames { process, part, .. } = sample.pieces[0] else { panic!() };
    assert_eq!((process, part), (Some(Process { pid: 12, born: 1000 }), Part::Taken(&[5, 6])));
}

fn marker(offset: u64, place: Place) -> Point {
    let target = Target::Marker { path: "/x".into(), offsets: vec![offset], semaphore: None };
    let shape = Shape::Number { bytes: 4, is_signed: true, is_address: false };
    let field = Field { name: "arg1".into(), declared: "s32".into(), when: When::Entry, place, shape };
    point("x:p:n", target, vec![field])
}

#[test]
fn a_marked_place_that_keeps_its_arguments_in_several_ways_is_one_row() {
    let points = vec![marker(1, Place::Memory(32, -136)), marker(2, Place::Constant(-5))];
    let given = [("function", ""), ("usdt", "x:p:n"), ("value", "arg1")];
    let queries = all_queries(&PROBE, points, &given).unwrap().each;
    assert_eq!(global(&queries[0], "point_fields")[..6], [7, 32, 4, 1, (-136_i32).cast_unsigned(), u32::MAX]);
    assert_eq!(global(&queries[1], "point_fields")[..6], [8, 0, 4, 1, (-5_i32).cast_unsigned(), u32::MAX]);
    assert_eq!(queries[0].reads.moments(), Moments::Entry);
    let of = |count, sum: i64| vec![([0; 9], Sum { count, sum: sum.cast_unsigned() })];
    let both = table(&[(&queries[0], of(2, 7)), (&queries[1], of(3, -15))], &Names::default(), 1.0, 10);
    assert_eq!((both.title.as_str(), both.rows.len()), ("x:p:n", 1));
    assert_eq!(both.rows[0].cells, [5.0, 5.0, -8.0, -1.6].map(Cell::from));
    let error =
        query_of(&PROBE, marker(1, Place::Constant(0)), &[("function", ""), ("usdt", "x:p:n"), ("value", "latency")]);
    assert!(error.unwrap_err().contains("passed in no time"));
}

#[test]
fn several_points_have_a_row_each_and_those_without_the_field_are_left_out() {
    let mut free = kmalloc();
    free.name = "kmem:kfree".into();
    free.fields.truncate(1);
    let mut other = kmalloc();
    other.name = "kmem:kmem_cache_alloc".into();
    let points = vec![free.clone(), kmalloc(), other];
    let queries = all_queries(&PROBE, points.clone(), &[("value", "bytes_req"), ("key", "comm")]).unwrap();
    assert_eq!(queries.each.len(), 2);
    assert!(
        queries.notes[0].starts_with("1 of 3 points are left out; kmem:kfree has no field \"bytes_req\""),
        "{:?}",
        queries.notes
    );
    let of = |count| vec![(key([0; 3], b"cat\0\0\0\0\0"), Sum { count, sum: 10 * count })];
    let found = table(&[(&queries.each[0], of(0)), (&queries.each[1], of(3))], &Names::default(), 1.0, 10);
    assert_eq!(
        (found.title.as_str(), found.rows.len()),
        ("kmem:* by point, task", 1),
        "what was not passed has no row"
    );
    assert_eq!(found.rows[0].instance, "kmem:kmem_cache_alloc, cat");
    assert_eq!(found.columns.len(), found.rows[0].cells.len());
    assert!(all_queries(&PROBE, vec![free.clone(), free], &[("value", "bytes_req")]).unwrap_err().contains("no field"));
    let many: Vec<Point> = (0..17).map(|at| Point { name: format!("kmem:e{at}"), ..kmalloc() }).collect();
    assert!(all_queries(&PROBE, many.clone(), &[("key", "stack")]).unwrap_err().contains("at most 16 points"));
    assert!(
        all_queries(&HIST, many.clone(), &[("value", "node"), ("key", "comm")]).unwrap_err().contains("at most 16")
    );
    assert_eq!(all_queries(&HIST, many, &[("value", "node")]).unwrap().each.len(), 17);
}
