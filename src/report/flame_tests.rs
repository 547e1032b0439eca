use super::*;
use rdiag_model::probe::{Frame, Stack};

fn stacks(names: &[&str], list: &[(&str, &[u32], f64)]) -> Stacks {
    let stack = |(owner, frames, value): &(&str, &[u32], f64)| Stack {
        owner: (*owner).into(),
        frames: frames.to_vec(),
        value: *value,
        count: 1,
        ..Stack::default()
    };
    let frame = |name: &&str| Frame { name: (*name).into(), kernel: name.starts_with("sys"), ..Frame::default() };
    Stacks {
        title: "Blocked time".into(),
        unit: Unit::Seconds,
        frames: names.iter().map(frame).collect(),
        stacks: list.iter().map(stack).collect(),
        ..Stacks::default()
    }
}

fn titles(svg: &str) -> Vec<&str> {
    svg.split("<title>").skip(1).filter_map(|text| text.split('<').next()).take(20).collect()
}

#[test]
fn frames_have_their_share_of_the_whole_and_kernel_frames_say_so() {
    let svg = svg(&stacks(&["main", "read", "sys_read"], &[("app", &[0, 1, 2], 3.0), ("app", &[0], 1.0)])).unwrap();
    for part in [
        "<title>all: 4.00 s, 100%",
        "<title>main: 4.00 s, 100%",
        "<title>read: 3.00 s, 75.0%",
        "<g class=\"k\"><title>sys_read [kernel]: 3.00 s",
    ] {
        assert!(svg.contains(part), "{part} is not in {:?}", titles(&svg));
    }
    assert!(!svg.contains("http") && !svg.contains("style") && !svg.contains("script"), "{svg}");
}

#[test]
fn frames_stand_upon_their_callers_and_neighbours_side_by_side() {
    let svg = svg(&stacks(&["main", "a", "b"], &[("app", &[0, 2], 1.0), ("app", &[0, 1], 3.0)])).unwrap();
    let rect = |name: &str| {
        let (_, frame) = svg.split_once(&format!("<title>{name}: ")).unwrap();
        let of = |key: &str| frame.split_once(key).unwrap().1.split('"').next().unwrap().parse::<f64>().unwrap();
        (of(" x=\""), of(" width=\""), of(" y=\""))
    };
    let ((_, _, base), (left, width, above), (next, narrow, beside)) = (rect("main"), rect("a"), rect("b"));
    assert_eq!((above, beside), (base - ROW, base - ROW));
    assert_eq!((left, width, next, narrow), (0.0, 899.6, 900.0, 299.6));
}

#[test]
fn kernel_run_time_code_and_programs_differ_by_more_than_hue() {
    let mut all = stacks(&["sys_read", "f", "jit", "g"], &[("app", &[1, 3, 2, 0], 1.0)]);
    for (frame, object) in all.frames.iter_mut().zip(["[kernel]", "app", "[compiled at run time]", "libc.so.6"]) {
        frame.object = Some(object.into());
    }
    let svg = svg(&all).unwrap();
    let class = |name: &str| {
        let (before, _) = svg.split_once(&format!("<title>{name}")).unwrap();
        before.rsplit_once("class=\"").unwrap().1.trim_end_matches("\">").to_owned()
    };
    assert_eq!((class("sys_read").as_str(), class("jit").as_str()), ("k", "j"));
    assert!(class("f").starts_with('u') && class("g").starts_with('u') && class("f") != class("g"));
    assert!(
        STYLE.contains(".k text { fill: #fff; }")
            && STYLE.contains(".j rect { fill: #a5d3a0; stroke: #23592a; stroke-dasharray")
    );
}

#[test]
fn without_a_value_there_is_no_picture() {
    assert_eq!(svg(&Stacks::default()), None);
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        assert_eq!(svg(&stacks(&["main"], &[("app", &[0], value)])), None);
    }
}

#[test]
fn stacks_that_were_not_kept_count_in_the_whole() {
    let mut all = stacks(&["main"], &[("app", &[0], 1.0)]);
    all.others = 3.0;
    let svg = svg(&all).unwrap();
    assert!(svg.contains("<title>main: 1.00 s, 25.0%") && svg.contains("Not drawn: other stacks (3.00 s)."), "{svg}");
}

#[test]
fn names_are_escaped_and_change_no_figure() {
    let names = [
        "<script>alert(1)</script>",
        "a;b",
        "worker 7",
        "# x",
        " ",
        "",
        "\u{202e}\x1b]0;",
        "f (x, 3%)",
        "\u{a0}",
        "\u{ffff}",
    ];
    let list: Vec<(&str, &[u32], f64)> =
        vec![("# 1 2", &[0, 1, 2], 1.0), ("", &[3, 4, 5, 6, 7, 8, 9], 1.0), ("x 9", &[], 1.0), ("x\u{a0}", &[1], 1.0)];
    let svg = file(&stacks(&names, &list)).unwrap();
    let svg = svg.split_once("<style>").unwrap().0;
    for part in [
        "&lt;script&gt;",
        "a;b: 1.00 s, 25.0%",
        "worker 7: 1.00 s, 25.0%",
        "x 9: 1.00 s, 25.0%",
        "f (x, 3%): 1.00 s",
        "# 1 2: 1.00 s",
    ] {
        assert!(svg.contains(part), "{part} is not in {:?}", titles(svg));
    }
    assert!(!svg.contains("<script") && !svg.contains('\u{202e}') && !svg.contains('\u{ffff}'), "{svg}");
}

#[test]
fn a_picture_stays_small_and_says_what_it_leaves_out() {
    let names: Vec<String> = (0..5000).map(|at| format!("function_{at:0>100}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let frames: Vec<Vec<u32>> = (0..1200_u32).map(|at| (0..280).map(|depth| (at + depth) % 5000).collect()).collect();
    let list: Vec<(&str, &[u32], f64)> =
        frames.iter().map(|frames| ("app", frames.as_slice(), 9.0 / f64::from(frames[0] + 1))).collect();
    let svg = svg(&stacks(&names, &list)).unwrap();
    assert!(svg.len() < 300_000 && svg.matches("<g ").count() == ON_PAGE + 1, "{}", svg.len());
    assert!(svg.contains("Not drawn: frames beyond the first 256, 1,2") || svg.contains("narrower branches"), "{svg}");
}

#[test]
fn thirty_thousand_stacks_fit_into_what_a_browser_likes() {
    let names: Vec<String> = (0..4000).map(|at| format!("module{}::function_{at}", at % 40)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let frames: Vec<Vec<u32>> =
        (0..30_000).map(|_| (0..12_u64).map(|depth| (depth * 300 + next(2 + depth * 4)) as u32).collect()).collect();
    let list: Vec<(&str, &[u32], f64)> = frames.iter().map(|frames| ("cc1plus", frames.as_slice(), 1.0)).collect();
    let svg = file(&stacks(&names, &list)).unwrap();
    // inferno's picture of such a recording has 1.08 MB.
    assert!(svg.len() < 1_620_000, "{}", svg.len());
    assert!(svg.contains("narrower branches"), "it says what is cut");
}

#[test]
fn waits_have_the_colour_of_their_component_and_side_by_side_the_width_of_the_whole() {
    let all = stacks(
        &["app", "main", "sys_read"],
        &[("io.block.read", &[0, 1, 2], 3.0), ("lock.user", &[0, 1], 1.0), ("no component", &[0], 1.0)],
    );
    let svg = waits(&all).unwrap();
    for part in [
        "<g class=\"t-disk\"><title>io.block.read: 3.00 s, 60.0%",
        "<g class=\"t-disk\"><title>main: 3.00 s",
        "<g class=\"t-disk k\"><title>sys_read [kernel]: 3.00 s",
        "<g class=\"t-lock\"><title>main: 1.00 s",
        "<g class=\"t-none\"><title>no component: 1.00 s",
    ] {
        assert!(svg.contains(part), "{part} is not in {:?}", titles(&svg));
    }
    let width = |name: &str| {
        let (_, frame) = svg.split_once(&format!("<title>{name}: ")).unwrap();
        frame.split_once(" width=\"").unwrap().1.split('"').next().unwrap().parse::<f64>().unwrap() + 0.4
    };
    let sum: f64 = ["io.block.read", "lock.user", "no component"].map(width).iter().sum();
    assert!((sum - WIDTH).abs() < 0.1, "{sum}");
    for class in ["t-disk", "t-mem", "t-lock", "t-other", "t-idle", "t-none", "t-cpu", "t-run"] {
        assert!(STYLE.contains(&format!(".flame .{class} rect")) && STYLE.contains(&format!(".flame .{class}.k rect")));
    }
}
