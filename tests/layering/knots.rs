//! Knots: files each of which imports all others of them, directly or by way of others. What is in a knot can be neither read nor
//! changed alone. The one that a list of implementations makes with what they share is the easiest to tie: a definition stands apart
//! from the list (`def.rs`, `registry.rs`).

use std::collections::{BTreeMap, BTreeSet};

use super::{crate_of, sources};

/// The largest knot that there is, in files. It may become smaller.
const LARGEST: usize = 15;

/// The same for some folders.
const FOLDERS: [(&str, usize); 4] = [("probes/", 14), ("collectors/", 4), ("cli/", 6), ("report/", 8)];

/// A path of modules, with its crate in front.
type Module = Vec<String>;

#[test]
fn no_knot_of_files_is_larger_than_it_was() {
    let knots = knots(&edges());
    let (largest, named) = (knots[0].len(), |knot: &Vec<String>| format!("{} files: {}", knot.len(), knot.join(" ")));
    assert!(largest <= LARGEST, "a larger knot than there was:\n{}", named(&knots[0]));
    assert!(largest == LARGEST, "the largest knot has {largest} files: write that down in LARGEST");
    // Neither probes nor collectors are tied to each other, and commands are to little.
    let largest_of = |folder: &str| knots.iter().find(|knot| knot[0].starts_with(folder)).unwrap();
    let found: Vec<(&str, usize)> = FOLDERS.iter().map(|(folder, _)| (*folder, largest_of(folder).len())).collect();
    assert_eq!(found, FOLDERS, "the largest knots of these folders");
}

#[test]
fn a_knot_is_found_whatever_else_is_tied_to_it() {
    let edges = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("e", "a")];
    let mut of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in edges {
        of.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    assert_eq!(knots(&of), [["b", "c"]]);
}

#[test]
fn what_a_file_names_is_found_in_its_imports_and_in_its_code() {
    let text =
        "// crate::comment::it\nuse super::{b::{self, C}, d::E as F};\npub(in crate::x) fn f() { g::h(crate::i::J) }\n";
    assert_eq!(named(text), ["super::b::self", "super::b::C", "super::d::E", "g::h", "crate::i::J"]);
}

/// Which files each file imports.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let files = sources();
    let modules: BTreeMap<Module, &str> = files.iter().map(|(name, _)| (module_of(name), name.as_str())).collect();
    let mut edges = BTreeMap::new();
    for (name, text) in &files {
        let own = module_of(name);
        let paths = named(text);
        let found = paths.iter().filter_map(|path| meant(&own, path, &modules)).filter(|file| file != name);
        edges.insert(name.clone(), found.collect());
    }
    edges
}

fn module_of(name: &str) -> Module {
    let folder = crate_of(name);
    let within = folder.map_or(name, |folder| &name[folder.len() + 1..]);
    let krate = folder.map_or("rdiag".into(), |folder| format!("rdiag_{}", folder.rsplit('/').next().unwrap()));
    let mut parts: Module = within.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts.insert(0, krate);
    parts
}

/// The paths in a text: those that it imports, each alone, and those in its code.
fn named(text: &str) -> Vec<String> {
    let bare: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut paths = Vec::new();
    let mut code = String::new();
    let mut in_use = String::new();
    for line in bare {
        // A visibility is no import.
        let line = match line.split_once("pub(in ") {
            Some((_, rest)) => rest.split_once(')').map_or(rest, |(_, item)| item),
            None => line,
        };
        let at = line.trim_start();
        let import =
            ["use ", "pub use ", "pub(crate) use ", "pub(super) use "].iter().find_map(|start| at.strip_prefix(start));
        match import {
            Some(rest) => in_use.push_str(rest),
            None if !in_use.is_empty() => in_use.push_str(at),
            None => code.push_str(&format!("{line}\n")),
        }
        if in_use.ends_with(';') {
            expand("", in_use.trim_end_matches(';'), &mut paths);
            in_use.clear();
        }
    }
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let of_code = code.split(|c| !is_path(c)).filter(|path| path.contains("::") && !path.starts_with(':'));
    paths.extend(of_code.map(|path| path.trim_end_matches(':').to_owned()));
    paths
}

/// `a::{b, c::{d, e}}` is three paths.
fn expand(before: &str, tree: &str, paths: &mut Vec<String>) {
    let Some((head, body)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree).trim();
        return paths.push(format!("{before}{path}"));
    };
    let before = format!("{before}{}", head.trim());
    let body = &body[..body.rfind('}').unwrap_or(body.len())];
    let (mut depth, mut from) = (0, 0);
    for (at, c) in body.char_indices().chain([(body.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !body[from..at].trim().is_empty() {
                    expand(&before, body[from..at].trim(), paths);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// The file that a path leads into from a module, if it is one of ours.
fn meant(own: &Module, path: &str, modules: &BTreeMap<Module, &str>) -> Option<String> {
    let mut parts = path.split("::").peekable();
    let mut module = own.clone();
    match *parts.peek()? {
        "crate" => module.truncate(1),
        "self" => {}
        "super" => {
            while parts.next_if_eq(&"super").is_some() {
                module.pop();
            }
        }
        first if first.starts_with("rdiag_") => module = vec![first.to_owned()],
        first => {
            module.push(first.to_owned());
            modules.get(&module)?;
        }
    }
    if path.split("::").next() != Some("super") {
        parts.next();
    }
    for part in parts {
        module.push(part.to_owned());
        if !modules.contains_key(&module) {
            module.pop();
            break;
        }
    }
    modules.get(&module).map(|file| (*file).to_owned())
}

/// The knots of more than one file, the largest first (Tarjan).
fn knots(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    #[derive(Default)]
    struct Search<'e> {
        index: BTreeMap<&'e str, usize>,
        low: BTreeMap<&'e str, usize>,
        stack: Vec<&'e str>,
        found: Vec<Vec<String>>,
    }
    fn visit<'e>(file: &'e str, edges: &'e BTreeMap<String, BTreeSet<String>>, search: &mut Search<'e>) {
        let number = search.index.len();
        search.index.insert(file, number);
        search.low.insert(file, number);
        search.stack.push(file);
        for to in edges.get(file).into_iter().flatten() {
            let low = match search.index.get(to.as_str()) {
                None => {
                    visit(to, edges, search);
                    search.low.get(to.as_str()).copied().unwrap_or(number)
                }
                Some(index) if search.stack.contains(&to.as_str()) => *index,
                Some(_) => continue,
            };
            search.low.entry(file).and_modify(|own| *own = low.min(*own));
        }
        if search.low.get(file) == Some(&number) {
            let from = search.stack.iter().position(|on_stack| *on_stack == file).unwrap();
            let mut knot: Vec<String> = search.stack.split_off(from).into_iter().map(str::to_owned).collect();
            knot.sort();
            search.found.push(knot);
        }
    }
    let mut search = Search::default();
    for file in edges.keys() {
        if !search.index.contains_key(file.as_str()) {
            visit(file, edges, &mut search);
        }
    }
    let mut knots: Vec<Vec<String>> = search.found.into_iter().filter(|knot| knot.len() > 1).collect();
    knots.sort_by_key(|knot| std::cmp::Reverse(knot.len()));
    knots
}
