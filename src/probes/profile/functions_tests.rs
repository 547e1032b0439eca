use super::*;
use rdiag_model::probe::Cell;

fn executed(pid: u32, name: &str, line: Option<&str>, value: f64) -> Executed {
    let kernel = name.starts_with("sys_");
    let object = if kernel { "[kernel]" } else { "app" };
    Executed {
        process: Process { pid, born: 5 },
        task: format!("task{pid}"),
        in_kernel: kernel,
        function: Some(Frame { name: name.into(), object: Some(object.into()), kernel, ..Frame::default() }),
        named: true,
        inlined: None,
        line: line.map(str::to_owned),
        value,
    }
}

fn table(hottest: &Hottest, id: &str) -> ProbeTable {
    let of = |output: Output| match output {
        Output::Table(table) if table.id == id => Some(table),
        _ => None,
    };
    hottest.tables(Unit::Seconds, "CPU time", 50).into_iter().find_map(of).unwrap()
}

fn hottest(all: Vec<Executed>) -> Hottest {
    let mut hottest = Hottest::default();
    all.into_iter().for_each(|executed| hottest.add(executed));
    hottest
}

#[test]
fn a_function_has_its_share_of_the_whole_and_the_line_and_process_that_take_most_of_it() {
    let hottest = hottest(vec![
        executed(1, "hot", Some("/src/hot.c:12"), 5.0),
        executed(2, "hot", Some("/src/hot.c:13"), 2.0),
        executed(1, "cold", None, 1.0),
        executed(1, "sys_read", None, 2.0),
    ]);
    let rows = table(&hottest, "functions").rows;
    let expected: Vec<Cell> =
        vec![0.7.into(), 7.0.into(), "hot".into(), "app".into(), "user".into(), "task1 (1)".into(), "hot.c:12".into()];
    assert_eq!((rows.len(), &rows[0].cells), (3, &expected));
    assert_eq!(rows[1].cells[4], "kernel".into());
    assert!((hottest.in_kernel() - 0.2).abs() < 1e-9);
    let lines = table(&hottest, "lines").rows;
    assert_eq!(lines.len(), 2, "functions without lines are left out");
    assert_eq!(lines[0].cells[3], "/src/hot.c:12".into());
    assert!((lines[0].cells[1].number().unwrap() - 5.0 / 7.0).abs() < 1e-9);
}

#[test]
fn a_process_names_its_own_hottest_function_and_its_share_in_the_kernel() {
    let hottest = hottest(vec![
        executed(1, "hot", Some("a.c:3"), 9.0),
        executed(2, "sys_read", None, 0.6),
        executed(2, "cold", None, 0.4),
    ]);
    let rows = table(&hottest, "processes").rows;
    assert_eq!((rows[0].instance.as_str(), rows[1].instance.as_str()), ("1:5", "2:5"));
    assert_eq!((&rows[1].cells[4], &rows[1].cells[5]), (&0.6.into(), &"sys_read".into()));
    assert_eq!((&rows[0].cells[5], &rows[0].cells[8]), (&"hot".into(), &"a.c:3".into()));
}

#[test]
fn tasks_that_had_ended_are_one_row_without_an_id() {
    let ended = |value: f64| Executed {
        process: Key::ENDED,
        task: "(ended tasks)".into(),
        ..executed(9, "sys_exit", None, value)
    };
    let hottest = hottest(vec![ended(2.0), ended(1.0), executed(2, "sys_exit", None, 1.0)]);
    let rows = table(&hottest, "processes").rows;
    assert_eq!(rows.len(), 2);
    let expected: [Cell; 4] = [0.75.into(), 3.0.into(), "(ended tasks)".into(), Cell::Unknown(())];
    assert_eq!(rows[0].cells[..4], expected);
    assert_eq!(table(&hottest, "functions").rows[0].cells[5], "(ended tasks)".into());
}

#[test]
fn addresses_without_names_are_summed_by_file_and_compiled_code_is_told_apart() {
    let nameless = |name: &str, object: &str| {
        let function = Some(Frame { name: name.into(), object: Some(object.into()), ..Frame::default() });
        Executed { function, named: false, value: 1.0, ..executed(1, "x", None, 1.0) }
    };
    let hottest = hottest(vec![
        nameless("app+0x10", "app"),
        nameless("app+0x20", "app"),
        nameless("0x7f00", COMPILED),
        Executed { function: None, ..executed(1, "x", None, 1.0) },
    ]);
    let rows = table(&hottest, "functions").rows;
    assert_eq!(
        (&rows[0].cells[0], &rows[0].cells[2], &rows[0].cells[3]),
        (&0.5.into(), &"[no symbols: app]".into(), &"app".into())
    );
    assert_eq!(rows.len(), 3);
    assert_eq!(hottest.nameless(), (vec![("app".to_owned(), 0.5)], 0.25));
}

#[test]
fn a_long_tail_is_cut_and_summed() {
    let all = (0..80).map(|at| executed(at, &format!("f{at}"), None, 1.0)).collect();
    let table = table(&hottest(all), "functions");
    assert_eq!((table.rows.len(), table.others, table.others_sum["value"]), (50, 30, 30.0));
}

#[test]
fn a_line_names_what_was_inlined_there_and_nothing_is_left_out() {
    let inlined = Executed { inlined: Some("inner".into()), ..executed(1, "hot", Some("a.c:3"), 2.0) };
    let table = table(&hottest(vec![inlined, executed(1, "cold", None, 2.0)]), "lines");
    let [row] = &table.rows[..] else { panic!("{table:?}") };
    assert_eq!(row.instance, "hot in app a.c:3 inner");
    assert_eq!(row.cells, ["hot".into(), 1.0.into(), 0.5.into(), "a.c:3".into(), "inner".into()]);
    assert_eq!((table.others, table.others_sum), (0, ["share", "value"].map(|id| (id.to_owned(), 0.0)).into()));
}

#[test]
fn all_samples_are_one_row_in_which_shares_may_not_be_known() {
    let hottest = hottest(vec![executed(1, "hot", None, 2.0)]);
    let table = hottest.all_samples(5, Some(0.25), None, Unit::Seconds, "CPU time");
    assert_eq!(table.rows[0].cells, [5.0.into(), 2.0.into(), 0.25.into(), Cell::Unknown(())]);
    assert_eq!((table.rows.len(), table.dimension, table.others_sum.len()), (1, None, 0));
}
