use super::names::Names;
use super::order::Order;
use super::tables::Sum;
use super::tests::{kmalloc, malloc, query_of, vfs_read};
use super::*;
use rdiag_kernel::mechanism::tracefs::probe_events::Moment;
use rdiag_model::probe::Output;

#[test]
fn a_plan_without_programs_is_one_that_the_kernels_tables_can_follow_or_is_refused() {
    let order = |query: &Query, kind, limits: &[String]| Order::new(query, kind, limits);
    let given =
        [("value", "bytes_req"), ("key", "comm,node,cpu"), ("filter", "bytes_req > 1000 and node == -1 and cpu == 1")];
    let query = query_of(&PROBE, kmalloc(), &given).unwrap();
    let wanted = order(&query, Kind::Sums, &["common_pid == 7".to_owned()]).unwrap().wanted;
    assert_eq!((wanted.keys.as_slice(), wanted.by_name), (&["node".to_owned(), "common_cpu".to_owned()][..], true));
    assert_eq!(wanted.value.as_deref(), Some("bytes_req"));
    assert_eq!(wanted.filter, "common_pid == 7 && bytes_req > 1000 && node == -1 && CPU == 1");
    let whole = order(&query_of(&PROBE, kmalloc(), &[]).unwrap(), Kind::Sums, &[]).unwrap().wanted;
    assert_eq!((whole.keys, whole.filter), (vec!["common_cpu".to_owned()], String::new()));
    let of_stacks = order(&query_of(&PROBE, kmalloc(), &[("key", "stack,pid")]).unwrap(), Kind::Sums, &[]).unwrap();
    assert_eq!((of_stacks.wanted.by_stack, of_stacks.wanted.keys), (true, vec!["common_pid".to_owned()]));
    for (key, filter, says) in [
        ("user_stack", "", "stacks of programs are not kept"),
        ("cgroup", "", "control groups cannot be distinguished"),
        ("bytes_req:u8", "", "bytes_req cannot be read as anything"),
        ("comm,node,cpu,tid", "", "at most 3 keys"),
        ("", "pid == 5", "choose them with --pid"),
    ] {
        let query = query_of(&PROBE, kmalloc(), &[("key", key), ("filter", filter)]).unwrap();
        let error = order(&query, Kind::Sums, &[]).unwrap_err();
        assert!(error.contains(says), "{key}: {error}");
    }
    let query = query_of(&PROBE, malloc(), &[]).unwrap();
    assert!(order(&query, Kind::Sums, &[]).unwrap_err().contains("not in the kernel"));
    let query = query_of(&PROBE, kmalloc(), &[("key", "node")]).unwrap();
    // Tables hold whole words of what has four bytes.
    let (_, node) = &query.keys[0];
    assert_eq!([node.widened(u64::from(u32::MAX)), node.widened(u64::MAX), node.widened(5)], [u64::MAX, u64::MAX, 5]);
}

#[test]
fn a_distribution_without_programs_is_one_of_powers_of_two_and_leaves_out_what_they_cannot_tell() {
    let query = query_of(&HIST, kmalloc(), &[("value", "node"), ("key", "comm,cpu")]).unwrap();
    let order = Order::new(&query, Kind::Distribution, &[]).unwrap();
    assert_eq!((order.wanted.power.as_deref(), order.wanted.value.as_deref()), (Some("node"), Some("node")));
    assert_eq!(order.wanted.filter, "node >= 0");
    assert!(order.notes.contains(&"negative values are not in the distribution"), "{:?}", order.notes);
    let query = query_of(&HIST, kmalloc(), &[("value", "bytes_req")]).unwrap();
    assert_eq!(Order::new(&query, Kind::Distribution, &[]).unwrap().wanted.filter, "bytes_req <= 9223372036854775807");
    let of = |power, count, sum| (tabled::Row { key: [0; 9], power, stack: Vec::new() }, Sum { count, sum });
    let (Output::Histogram(histogram), 0) =
        tables::powers(&[(&query, vec![of(12, 2, 8192), of(5, 1, 17)])], &Names::default(), 1)
    else {
        panic!()
    };
    let row = &histogram.rows[0];
    assert_eq!((row.count, row.sum, row.max, row.coarse), (3, 8209.0, 4096.0, true));
    assert_eq!(row.buckets, [(33.0, 1), (4097.0, 2)]);
    assert_eq!([0.3, 0.9].map(|share| histogram.percentile(row, share)), [Some(32.0), Some(4096.0)]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_function_without_programs_is_an_event_with_what_is_asked_for_in_it() {
    let of = |given: &[(&str, &str)]| Order::new(&query_of(&PROBE, vfs_read(), given).unwrap(), Kind::Sums, &[]);
    let order = of(&[("value", "file"), ("key", "file,comm"), ("filter", "file != 0")]).unwrap();
    let function = order.function.unwrap();
    assert_eq!((function.name.as_str(), function.moment), ("vfs_read", Moment::Entry));
    assert_eq!(function.fields, ["f0=$arg1:u64"]);
    assert_eq!((order.wanted.keys, order.wanted.filter), (vec!["f0".to_owned()], "f0 != 0".to_owned()));
    let order = of(&[("value", "return:s32"), ("filter", "return < 0")]).unwrap();
    let function = order.function.unwrap();
    assert_eq!(
        (function.moment, function.fields),
        (Moment::Return, vec!["f0=$retval:s64".into(), "f1=$retval:s32".into()])
    );
    assert_eq!((order.wanted.value.as_deref(), order.wanted.filter.as_str()), (Some("f1"), "f0 < 0"));
    for (given, says) in [
        (&[("value", "return"), ("key", "file")][..], "arguments are not kept until the function returns"),
        (&[("value", "latency")], "how long calls take"),
        (&[("key", "file.f_mode")], "only what the event itself holds"),
        (&[("key", "file.f_path.dentry.d_iname")], "is text"),
    ] {
        let error = of(given).unwrap_err();
        assert!(error.contains(says), "{given:?}: {error}");
    }
}

#[test]
fn functions_of_a_stack_have_the_names_that_the_kernel_gave_them() {
    let stack =
        ["vfs_read+0x15c/0x200".to_owned(), "ext4_map_blocks+0x1/0x2 [ext4]".into(), "0xffffffff81000000".into()];
    let frames = tables::frames(&stack);
    let told: Vec<_> = frames.iter().map(|frame| (frame.name.as_str(), frame.object.as_deref().unwrap())).collect();
    assert_eq!(told, [("vfs_read", "[kernel]"), ("ext4_map_blocks", "[ext4]"), ("0xffffffff81000000", "[kernel]")]);
}
