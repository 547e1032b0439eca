use super::*;
use rdiag_model::probe::{Frame, Stack};

fn frame(name: &str) -> Frame {
    let kernel = name.starts_with("sys_") || name.contains("schedule");
    let object = if kernel { "[kernel]" } else { "app" };
    Frame { name: name.into(), object: Some(object.into()), kernel, line: None }
}

/// `owner;outer;inner value`, one line each.
fn stacks(text: &str) -> Stacks {
    let mut all = Stacks::default();
    for line in text.lines() {
        let (names, value) = line.rsplit_once(' ').unwrap();
        let mut names = names.split(';');
        let owner = names.next().unwrap().to_owned();
        let mut place = |name| {
            let frame = frame(name);
            all.frames.iter().position(|known| *known == frame).unwrap_or_else(|| {
                all.frames.push(frame);
                all.frames.len() - 1
            }) as u32
        };
        let frames = names.map(&mut place).collect();
        all.stacks.push(Stack { owner, frames, value: value.parse().unwrap(), count: 1, pid: None });
    }
    all
}

fn rows(table: &HotTable) -> Vec<(&str, f64, f64)> {
    table.rows.iter().map(|row| (row.name.as_str(), row.own, row.total)).collect()
}

fn drawn(tree: &CallTree) -> String {
    let line =
        |node: &CallNode| format!("{}{} {}/{}\n", " ".repeat(node.depth.into()), node.name, node.value, node.own);
    tree.nodes.iter().map(line).collect()
}

#[test]
fn a_function_has_its_own_value_and_that_of_all_it_calls() {
    let hot = hot(&stacks("a;main;work 6\na;main;work;sys_read 3\nb;main 1"));
    assert_eq!(hot.whole, 10.0);
    assert_eq!(rows(&hot.functions), [("work", 6.0, 9.0), ("sys_read", 3.0, 3.0), ("main", 1.0, 10.0)]);
    assert_eq!(rows(&hot.objects), [("app", 7.0, 10.0), ("[kernel]", 3.0, 3.0)]);
    assert_eq!(rows(&hot.commands), [("a", 9.0, 9.0), ("b", 1.0, 1.0)]);
    assert!(hot.functions.rows[1].kernel && !hot.functions.rows[0].kernel);
}

#[test]
fn a_function_that_calls_itself_counts_once_in_its_total() {
    let hot = hot(&stacks("a;f;g;f;g;f 4"));
    assert_eq!(rows(&hot.functions), [("f", 4.0, 4.0), ("g", 0.0, 4.0)]);
    assert_eq!(rows(&hot.objects), [("app", 4.0, 4.0)]);
}

#[test]
fn lines_of_one_function_are_one_function_and_functions_of_two_objects_are_two() {
    let mut all = stacks("a;f 1\na;g 2\na;h 4");
    all.frames = vec![
        Frame { line: Some("x.c:1".into()), ..frame("f") },
        Frame { line: Some("x.c:2".into()), ..frame("f") },
        Frame { object: Some("lib".into()), ..frame("f") },
    ];
    assert_eq!(rows(&hot(&all).functions), [("f", 4.0, 4.0), ("f", 3.0, 3.0)]);
}

#[test]
fn trees_show_what_is_called_and_who_calls() {
    let hot = hot(&stacks("a;main;x;leaf 5\na;main;y;leaf 3\nb;main;y 2"));
    assert_eq!(
        drawn(&hot.callees),
        "a 8/0\n main 8/0\n  x 5/0\n   leaf 5/5\n  y 3/0\n   leaf 3/3\nb 2/0\n main 2/0\n  y 2/2\n"
    );
    assert_eq!(drawn(&hot.callers), "leaf 8/0\n x 5/0\n  main 5/0\n y 3/0\n  main 3/0\ny 2/0\n main 2/0\n");
    let names: Vec<&str> = hot.path.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["a", "main", "x", "leaf"]);
}

#[test]
fn what_a_tree_leaves_out_is_counted() {
    let text: String = (0..1000).map(|at| format!("a;main;f{at} 1\n")).collect();
    let hot = hot(&stacks(text.trim_end()));
    assert_eq!(drawn(&hot.callees), "a 1000/0\n main 1000/0\n");
    assert_eq!((hot.callees.cut, hot.callees.cut_value, hot.callees.cut_largest), (1000, 1000.0, 1.0));
    assert_eq!((hot.functions.rows.len(), hot.functions.others, hot.functions.others_self), (25, 976, 975.0));
}

#[test]
fn a_blocked_task_is_where_it_asked_the_scheduler_to_let_it_sleep() {
    let mut all = stacks("a;main;sys_poll;schedule_timeout;schedule;__schedule 2");
    all.activity = Activity::Waiting;
    assert_eq!(hot(&all).functions.rows[0].name, "sys_poll");
    all.activity = Activity::Running;
    assert_eq!(hot(&all).functions.rows[0].name, "__schedule");
    let mut bare = stacks("a;schedule 1");
    bare.activity = Activity::Waiting;
    assert_eq!(rows(&hot(&bare).functions), [("schedule", 1.0, 1.0)]);
}

#[test]
fn any_values_frames_and_depths_give_an_analysis() {
    let mut wild = stacks("a;f;g 1\n;x 2");
    let deep = vec![0_u32; 100_000];
    for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 3.0] {
        wild.stacks.push(Stack { owner: "a".into(), frames: deep.clone(), value, count: 0, pid: None });
        wild.stacks.push(Stack { frames: vec![7, u32::MAX], value, ..Stack::default() });
    }
    wild.others = f64::NAN;
    let hot = hot(&wild);
    assert_eq!(hot.whole, 9.0);
    assert_eq!(hot.functions.rows[0].total, 4.0);
    assert_eq!(super::hot(&Stacks::default()), Hot::default());
}
