use super::*;
use crate::Catalogue;

const PLANNED: (&str, &str) = ("planned.yaml", "format_version: 1\nplanned: {filetop: files}");

fn map(tools: &str) -> Tools {
    let text = format!("format_version: 1\ngroup: tool\ntools:\n{tools}");
    let map = Tools::read(&[("tools.yaml", text.as_str())], PLANNED);
    assert!(map.problems.is_empty(), "{:?}", map.problems);
    map
}

fn problems(tools: &str) -> String {
    let catalogue = Catalogue { collectors: vec!["biosnoop", "vmstat"], ..Catalogue::default() };
    check::map(&map(tools), &catalogue).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn found(map: &Tools, asked: &str) -> Option<(String, String)> {
    let found = map.find(asked)?;
    Some((found.tool.names[0].clone(), found.name))
}

const SOME: &str = "  - {names: [perf, perf_events], answers: a?, run: [x]}
  - {names: [perf sched, perf sched map], answers: a?, run: [x]}
  - {names: [strace], answers: a?, run: [x]}
  - {names: [cycles, L1-dcache-loads], answers: a?, run: [x]}
  - {names: [tracing_on, 'events/*'], answers: a?, run: [x]}
  - {names: ['tracing_on()', trace_printk], answers: a?, run: [x]}
  - {names: [filter, 'events/*/filter'], answers: a?, run: [x]}
  - {names: [trace], answers: a?, run: [x]}
  - {names: [buffer, /sys/kernel/tracing/trace], answers: a?, run: [x]}
  - {names: ['kmem:kmalloc', 'kmem:*'], answers: a?, run: [x]}
";

#[test]
fn tools_are_found_as_people_type_them() {
    let map = map(SOME);
    for (asked, tool, name) in [
        ("PERF-sched", "perf sched", "perf sched"),
        ("perf sched timehist", "perf sched", "perf sched"),
        ("perf sched map --compact", "perf sched", "perf sched map"),
        ("perf -v", "perf", "perf"),
        ("strace -f -c ls", "strace", "strace"),
        ("strace ls", "strace", "strace"),
        ("strace 4711", "strace", "strace"),
        ("cycles:uk", "cycles", "cycles:uk"),
        ("l1_dcache_loads", "cycles", "L1-dcache-loads"),
        ("tracing_on()", "tracing_on()", "tracing_on()"),
        ("trace_printk()", "tracing_on()", "trace_printk"),
        ("/sys/kernel/debug/tracing/tracing_on", "tracing_on", "tracing_on"),
        ("/sys/kernel/tracing/events/irq/enable", "tracing_on", "/sys/kernel/tracing/events/irq/enable"),
        ("events/kmem/kmalloc/filter", "filter", "events/kmem/kmalloc/filter"),
        ("trace", "trace", "trace"),
        ("/sys/kernel/debug/tracing/trace", "buffer", "/sys/kernel/tracing/trace"),
        ("kmem:kmalloc", "kmem:kmalloc", "kmem:kmalloc"),
        ("kmem:kfree", "kmem:kmalloc", "kmem:kfree"),
    ] {
        assert_eq!(found(&map, asked), Some((tool.into(), name.into())), "{asked}");
    }
}

#[test]
fn what_is_no_tool_is_not_taken_for_one() {
    let map = map(SOME);
    for asked in [
        "",
        " ",
        "-",
        "*",
        "perf lokc",
        "perf schedule",
        "cycles:z",
        "cycles:",
        ":u",
        "/",
        "/sys/kernel/tracing/",
        "()",
        "ünknown 世界",
    ] {
        assert_eq!(found(&map, asked), None, "{asked:?}");
    }
}

#[test]
fn a_tool_stands_as_what_answers_it_foremost() {
    let map = map("  - {names: [a], answers: a?, by: [filetop, vmstat]}
  - {names: [b], answers: a?, by: [vmstat, filetop]}
  - {names: [c], answers: a?, outside: no}\n");
    let standing: Vec<Standing> = map.all().map(|(_, tool)| map.standing(tool)).collect();
    assert_eq!(standing, [Standing::Planned, Standing::Answered, Standing::Outside]);
}

#[test]
fn mistakes_in_the_map_are_found() {
    let cited = "  - {names: [x], answers: a?, by: [filetop]}\n";
    assert_eq!(problems(cited), "");
    for (tool, says) in [
        ("{names: [], answers: a?, run: [x]}", "has no name"),
        ("{names: ['ab*'], answers: a?, run: [x]}", "can be no pattern"),
        ("{names: [y, 'a*'], answers: a?, run: [x]}", "fits nearly everything"),
        ("{names: [y], answers: what, run: [x]}", "no sentence"),
        ("{names: [y], answers: a?}", "either what answers it"),
        ("{names: [y], answers: a?, run: [x], outside: no}", "either what answers it"),
        ("{names: [y], answers: a?, by: [filetopp]}", "did you mean `filetop`?"),
        ("{names: [vmstat], answers: a?, by: [biosnoop]}", "there is a vmstat here"),
        ("{names: [X], answers: a?, run: [x]}", "stands in the map twice"),
    ] {
        let found = problems(&format!("{cited}  - {tool}\n"));
        assert!(found.contains(says), "{tool}: {found:?}");
    }
    assert!(
        problems("  - {names: [y], answers: a?, run: [x]}\n").contains("filetop is planned, but it answers no tool")
    );
}

#[test]
fn what_is_shipped_cannot_be_called_planned() {
    let mut map = map("  - {names: [filetop], answers: a?, by: [filetop]}\n");
    let standing = |map: &Tools| map.all().map(|(_, tool)| map.standing(tool)).collect::<Vec<_>>();
    assert_eq!(standing(&map), [Standing::Planned]);
    map.ship(&Catalogue { collectors: vec!["filetop"], ..Catalogue::default() });
    assert_eq!((standing(&map), map.planned("filetop")), (vec![Standing::Answered], None));
}

#[test]
fn a_broken_file_is_told_with_its_place() {
    let text = "format_version: 1\ngroup: g\ntools:\n  - names: [a]\n    answer: a?\n";
    let map = Tools::read(&[("tools.yaml", text)], PLANNED);
    let [problem] = map.problems.as_slice() else { panic!("{:?}", map.problems) };
    assert_eq!((problem.line, problem.hint.as_deref()), (5, Some("did you mean `answers`?")));
}
