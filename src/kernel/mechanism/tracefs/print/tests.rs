//! What is made of records, against the kernel's own formats.

use proptest::prelude::*;

use super::*;

fn no_names(_: u64) -> Option<String> {
    None
}

fn format(fields: &[(&str, usize, usize, u8)], print: &str) -> Format {
    let field = |(name, offset, size, signed): &(&str, usize, usize, u8)| {
        format!("\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    };
    Format::parse(&format!("ID: 7\n{}print fmt: {print}\n", fields.iter().map(field).collect::<String>()))
}

fn text_of(fields: &[(&str, usize, usize, u8)], print: &str, record: &[u8]) -> String {
    let constants = Constants::from([("STATE_ON".to_owned(), 3)]);
    Print::new("group", "event", &format(fields, print), &constants).text(record, &no_names)
}

/// A number of four bytes called `x`.
fn number(print: &str, value: i32) -> String {
    text_of(&[("int x", 0, 4, 1)], print, &value.to_ne_bytes())
}

/// One line of the kernel, as it stands in the file `format` of the event.
const SWITCH: &str = concat!(
    r#""prev_comm=%s prev_pid=%d prev_state=%s%s ==> next_comm=%s", "#,
    r#"REC->prev_comm, REC->prev_pid, (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002) + 1) << 1) - 1)) ? "#,
    r#"__print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002) + 1) << 1) - 1), "|", "#,
    r#"{ 0x00000001, "S" }, { 0x00000002, "D" }) : "R", "#,
    r#"REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002) + 1) << 1) ? "+" : "", REC->next_comm"#,
);

#[test]
fn a_switch_is_told_as_the_kernel_does() {
    let fields = [
        ("char prev_comm[16]", 0, 16, 0),
        ("pid_t prev_pid", 16, 4, 1),
        ("long prev_state", 24, 8, 1),
        ("char next_comm[16]", 32, 16, 0),
    ];
    let record = |state: i64| {
        let mut record = b"a\nb-1 [0]\0......".to_vec();
        record.extend([48_u32, 0].iter().flat_map(|word| word.to_ne_bytes()));
        record.extend(state.to_ne_bytes());
        record.extend(b"swapper/0\0......");
        record
    };
    for (state, told) in [(0, "R"), (1, "S"), (3, "S|D"), (8, "R+"), (9, "S+")] {
        let expected = format!("prev_comm=a\nb-1 [0] prev_pid=48 prev_state={told} ==> next_comm=swapper/0");
        assert_eq!(text_of(&fields, SWITCH, &record(state)), expected);
    }
}

#[test]
fn numbers_are_laid_out_as_printk_does() {
    for (print, value, told) in [
        (r#""%d %u %x", REC->x, REC->x, REC->x"#, -2, "-2 4294967294 fffffffe"),
        (r#""%lld %llx", (long long)REC->x, (unsigned long)REC->x"#, -2, "-2 fffffffffffffffe"),
        (
            r##""%#x %#lx %08x %5d|%-5d|%c %%", REC->x, REC->x, REC->x, REC->x, REC->x, REC->x"##,
            65,
            "0x41 0x41 00000041    65|65   |A %",
        ),
        (r##""%#010x %05d %+d", REC->x, -REC->x, REC->x"##, 65, "0x00000041 -0065 +65"),
        (r#""%.*s|%.2s|%3s", 1, "abc", "abc", "a""#, 0, "a|ab|  a"),
        (
            r#""%d,%d", ((unsigned int) ((REC->x) >> 20)), ((unsigned int) ((REC->x) & ((1U << 20) - 1)))"#,
            8 << 20 | 1,
            "8,1",
        ),
        (r#""%s", __print_symbolic(REC->x, { 0, "HI" }, { IRQ_POLL, "NO" }, { 1 + 1, "TWO" })"#, 2, "TWO"),
        (r#""%s", __print_symbolic(REC->x, { 0, "HI" })"#, 5, "0x5"),
        (r#""%s", __print_symbolic(REC->x, { STATE_OFF, "off" }, { STATE_ON, "on" })"#, 3, "on"),
        (r#""%p %d", REC->x != 1 ? (((struct page *)vmemmap_base) + (REC->x)) : ((void *)0), REC->x"#, 7, "? 7"),
        (
            r#""%s" " %s", __print_flags(REC->x, "|", {(unsigned long)((1UL) << 1), "A"}, { 4, "B" }), REC->x ? "y" : "n""#,
            14,
            "A|B|0x8 y",
        ),
        (r#""%d", REC->x < 0 ? -1 : REC->x >= 10 && !(REC->x == 12)"#, 11, "1"),
        (r#""%d", __builtin_expect(!!(REC->x), 0) / sizeof(u32)"#, 9, "0"),
    ] {
        assert_eq!(number(print, value), told, "{print}");
    }
}

#[test]
fn arrays_and_addresses_of_networks_have_their_own_forms() {
    let fields = [("__u8 saddr[4]", 0, 4, 0), ("__u8 mac[6]", 4, 6, 0), ("__u8 sock[28]", 10, 28, 0)];
    let mut record = vec![10, 0, 0, 1, 1, 2, 3, 4, 5, 255];
    record.extend([2_u16.to_ne_bytes(), 80_u16.to_be_bytes()].concat());
    record.extend([127, 0, 0, 1]);
    record.resize(38, 0);
    let told = text_of(&fields, r#""%pI4 %pM %pISpc", REC->saddr, REC->mac, REC->sock"#, &record);
    assert_eq!(told, "10.0.0.1 01:02:03:04:05:ff 127.0.0.1:80");
    let uuid = text_of(&[("u8 fsid[16]", 0, 16, 0)], r#""%pU: %u", REC->fsid, ((uint)((1UL)>>32))"#, &[0xab; 16]);
    assert_eq!(uuid, "abababab-abab-abab-abab-abababababab: 0");
    let hex = r#""%s %s", __print_hex(REC->saddr, 2), __print_array(REC->saddr, 4, sizeof(u8))"#;
    assert_eq!(text_of(&fields, hex, &record), "0a 00 {0xa,0x0,0x0,0x1}");
    let located = [("__data_loc u64[] st", 0, 4, 0)];
    let record = [&(16_u32 << 16 | 4).to_ne_bytes()[..], &1_u64.to_ne_bytes(), &2_u64.to_ne_bytes()].concat();
    let array =
        r#""%s", __print_array(__get_dynamic_array(st), __get_dynamic_array_len(st) / sizeof(u64), sizeof(u64))"#;
    assert_eq!(text_of(&located, array, &record), "{0x1,0x2}");
}

#[test]
fn functions_have_names_and_other_addresses_of_the_kernel_stay_hidden() {
    let print = Print::new(
        "kmem",
        "kmalloc",
        &format(&[("void * p", 0, 8, 0)], r#""at=%pS ptr=%p", (void *)REC->p, REC->p"#),
        &Constants::new(),
    );
    let record = 0xffff_8880_1234_5678_u64.to_ne_bytes();
    let named = |address: u64| Some(format!("f{:x}", address & 0xff));
    let text = print.text(&record, &named);
    assert!(print.names_functions() && text.starts_with("at=f78 ptr=00000000"), "{text}");
    assert!(!text.contains("12345678") && text == print.text(&record, &named), "{text}");
    assert_eq!(print.text(&[0; 8], &named), "at=f0 ptr=(null)");
}

#[test]
fn system_calls_are_told_with_what_the_kernel_kept_of_their_texts() {
    let fields = [("int __syscall_nr", 0, 4, 1), ("const char * filename", 8, 8, 0), ("int flags", 16, 8, 0)];
    let mut record = vec![0; 8];
    record.extend([0x7f00_u64, 2].iter().flat_map(|word| word.to_ne_bytes()));
    let call = |fields: &[_], record: &[u8]| {
        Print::new("syscalls", "sys_enter_openat", &format(fields, ""), &Constants::new()).text(record, &no_names)
    };
    assert_eq!(call(&fields, &record), "(filename: 0x7f00, flags: 0x2)");
    let kept = [&fields[..], &[("__data_loc char[] __filename_val", 24, 4, 0)]].concat();
    record.extend((4_u32 << 16 | 28).to_ne_bytes());
    record.extend(b"a\n)\0");
    assert_eq!(call(&kept, &record), r#"(filename: 0x7f00 "a\n)", flags: 0x2)"#);
    let exit = Print::new("syscalls", "sys_exit_openat", &format(&[("long ret", 8, 8, 1)], ""), &Constants::new());
    assert_eq!(exit.text(&record, &no_names), "-> 0x7f00");
}

#[test]
fn what_is_not_understood_is_told_field_by_field() {
    let fields = [("int a", 0, 4, 1), ("char b[4]", 4, 4, 0), ("u16 c[2]", 8, 4, 0), ("__data_loc char[] d", 12, 4, 0)];
    let record = [255, 255, 255, 255, b'x', 0, 0, 0, 1, 0, 2, 0, 200, 0, 9, 0];
    for print in
        ["", "\"%d\"", "\"%d\", jiffies_to_msecs(REC->a)", "\"%d\", REC->none", "\"%pd\", REC->b", "\"%d\", REC->a, 1"]
    {
        assert_eq!(text_of(&fields, print, &record), "a=-1 b=x c={0x1,0x2} d=?", "{print}");
    }
    // A place that this record does not have.
    assert_eq!(text_of(&fields, "\"%d %s\", REC->a, __get_str(d)", &record), "-1 ?");
    assert_eq!(text_of(&fields[..1], "\"%d\", 1 / (REC->a + 1)", &record), "?");
    let long = text_of(&[("char b[]", 0, 0, 0)], "\"%s\", REC->b", "é".repeat(2000).as_bytes());
    assert_eq!(long.chars().count(), 1000);
}

proptest! {
    #[test]
    fn no_format_and_no_record_is_too_odd(
        pieces in proptest::collection::vec(prop_oneof![
            Just("\"%d %s %.*s %5.3lx %pS \
                %pI4\""), Just(","), Just("REC->"), Just("x"), Just("s"), Just("("), Just(")"), Just("__get_str("),
            Just("__print_flags("), Just("__print_symbolic("), Just("__print_array("), Just("{"), Just("}"), Just("1"), Just("\"t\""),
            Just("<<"), Just("?"), Just(":"), Just("-"), Just("*"), Just("&"), Just("["), Just("]"), Just("(unsigned \
                long)"), Just("99999999999")
        ], 0..40),
        record in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let fields = [("int x", 0, 4, 1), ("__data_loc char[] s", 4, 4, 0)];
        for print in [pieces.concat(), format!("\"%d %s %lx\", {}", pieces.concat())] {
            let _ = text_of(&fields, &print, &record);
        }
    }

    #[test]
    fn no_record_of_a_known_format_is_too_odd(record in proptest::collection::vec(any::<u8>(), 0..60)) {
        let fields = [("char prev_comm[16]", 0, 16, 0), ("pid_t prev_pid", 16, 4, 1), ("long prev_state", 24, 8, 1), ("char \
            next_comm[16]", 32, 16, 0)];
        let _ = text_of(&fields, SWITCH, &record);
    }
}

#[test]
fn brackets_without_end_are_given_up() {
    for open in ["(", "-", "!(", "REC->x ? ", "(unsigned long)"] {
        assert_eq!(number(&format!("\"%d\", {}", open.repeat(50_000)), 1), "x=1");
    }
    assert_eq!(number(&format!("\"%d\", 1{}", "|1".repeat(50_000)), 1), "x=1");
    let pairs = format!("{{ 1{}, \"a\" }}, ", " + 0".repeat(50)).repeat(50);
    assert_eq!(number(&format!("\"%s\", __print_symbolic(REC->x, {pairs}{{ 2, \"b\" }})"), 2), "b");
}
