//! Each of the twelve ways in that SECURITY.md lists has its tests, which are there.

use std::collections::BTreeSet;

use crate::support::{files_below, path};

/// The names of all tests, from the folder of tests on.
fn tests() -> BTreeSet<String> {
    let (mut files, mut names) = (BTreeSet::new(), BTreeSet::new());
    files_below("tests", &mut files);
    for file in files.iter().filter_map(|file| file.strip_suffix(".rs")) {
        let module = file.trim_start_matches("tests/").trim_end_matches("/mod").replace('/', "::");
        let text = std::fs::read_to_string(path(&format!("{file}.rs"))).unwrap();
        // From a `#[test]` to the function that it is about there are further attributes only.
        for test in text.split("\n#[test]\n").skip(1) {
            let name = test.lines().find_map(|line| line.strip_prefix("fn ")).and_then(|line| line.split('(').next());
            names.extend(name.map(|name| format!("{module}::{name}")));
        }
    }
    names
}

#[test]
fn every_way_in_that_was_closed_has_tests_that_exist() {
    let document = std::fs::read_to_string(path("SECURITY.md")).unwrap();
    let (_, rows) = document.split_once("\n## Twelve ways in").expect("the table has another heading");
    let rows: Vec<&str> = rows.lines().skip(1).take_while(|line| !line.starts_with("## ")).collect();
    let there = tests();
    assert!(there.len() > 700 && there.contains("security::every_way_in_that_was_closed_has_tests_that_exist"));
    let mut numbers = Vec::new();
    for row in rows.iter().filter(|row| row.starts_with("| ") && !row.starts_with("| # ")) {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [number, _, _, tests] = cells.as_slice() else { panic!("a row of {} cells: {row}", cells.len()) };
        numbers.push(number.parse::<u32>().unwrap());
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty() && named.iter().all(|name| name.contains("::")), "{row}");
        for name in named {
            // The beginning of a name will do: some say what no document may.
            let begins = |test: &&String| test.trim_start_matches("privileged::").starts_with(name);
            let found = there.iter().filter(begins).count();
            assert_eq!(found, 1, "tests that row {number} may mean by {name}");
        }
    }
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
}
