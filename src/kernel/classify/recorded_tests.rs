//! Stacks as real kernels gave them, each with and without what root and the owner may see.

use super::*;

const RECORDED: &str = include_str!("recorded-6.18.txt");

/// One line of the recording.
struct Row<'r> {
    what: &'r str,
    component: &'r str,
    by_wchan: &'r str,
    state: char,
    syscall: &'r str,
    file: FileClass,
    wchan: &'r str,
    stack: Vec<&'r str>,
}

fn rows() -> Vec<Row<'static>> {
    let row = |line: &'static str| {
        let fields: Vec<&str> = line.split(" | ").collect();
        let [what, component, by_wchan, state, syscall, file, wchan, stack] = fields[..] else { panic!("{line}") };
        let file = match file {
            "inet" => FileClass::Inet,
            "unix" => FileClass::Unix,
            "netlink" => FileClass::Netlink,
            link => FileClass::of_link(link),
        };
        let state = state.chars().next().unwrap();
        Row { what, component, by_wchan, state, syscall, file, wchan, stack: stack.split(' ').collect() }
    };
    RECORDED.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

#[cfg(target_arch = "x86_64")]
fn within<'w>(row: &Row<'_>) -> Within<'w> {
    let mut words = row.syscall.split(' ');
    let number: i64 = words.next().unwrap().parse().unwrap();
    if number < 0 {
        return Within::User;
    }
    let arguments: Vec<u64> =
        words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()).collect();
    let name = calls::name(Abi::Native, number).unwrap();
    Within::Call(Call { name, arguments: arguments.try_into().ok(), in_own_stack: false })
}

fn judge(wait: &Wait<'_>) -> &'static str {
    classify(wait).unwrap().component.id()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn recorded_waits_are_where_they_belong() {
    let rows = rows();
    assert!(rows.len() > 40);
    for row in rows {
        let kernel = row.what.starts_with("kernel thread");
        let without_swap = true;
        let all =
            Wait { state: row.state, kernel, file: row.file, without_swap, within: within(&row), ..Wait::default() };
        assert_eq!(judge(&Wait { frames: &row.stack, ..all }), row.component, "{}, with its stack", row.what);
        let wchan = [row.wchan];
        assert_eq!(judge(&Wait { frames: &wchan, ..all }), row.component, "{}, with wchan", row.what);
        // Only the stack tells a FIFO from any other file.
        let by_call = if row.what == "fifo open" { "io.block.meta" } else { row.component };
        assert_eq!(judge(&Wait { frames: &[], ..all }), by_call, "{}, without any function", row.what);
    }
}

#[test]
fn recorded_waits_of_others_are_named_as_far_as_wchan_tells() {
    for row in rows().into_iter().filter(|row| row.by_wchan != "-") {
        let kernel = row.what.starts_with("kernel thread");
        let wait = Wait { state: row.state, kernel, frames: &[row.wchan], ..Wait::default() };
        assert_eq!(judge(&wait), row.by_wchan, "{}", row.what);
    }
}
