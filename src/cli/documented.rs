//! Every command of rdiag in the documents can be typed: its options, and the playbooks and probes that it names.

use std::path::Path;

use super::tools::dry_run::run_dry;
use rdiag_playbook::{Library, SourceFile};

/// The blocks of a document that a shell is given.
fn blocks(text: &str) -> impl Iterator<Item = String> {
    let after = text.split("```sh\n").skip(1);
    after.map(|rest| rest.split("```").next().unwrap_or_default().replace("\\\n", " "))
}

/// The commands of a line: without its comment and redirections, and what stands on either side of a pipe.
fn commands(line: &str) -> Vec<String> {
    let (mut found, mut quoted, mut kept) = (vec![String::new()], false, true);
    for c in line.chars() {
        let last = found.last_mut().unwrap();
        match c {
            '\'' => {
                quoted = !quoted;
                last.push(c);
            }
            '#' if !quoted && (last.is_empty() || last.ends_with(' ')) => break,
            '|' | ';' | '&' if !quoted => {
                found.push(String::new());
                kept = true;
            }
            '<' | '>' if !quoted => kept = false,
            _ if kept => last.push(c),
            _ => {}
        }
    }
    let words = found.iter().map(|command| command.trim().trim_start_matches("done ").to_owned());
    words.filter(|command| command.starts_with("rdiag ")).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files of the source tree")]
fn every_command_of_the_documents_can_be_typed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents = vec![root.join("README.md"), root.join("contrib/ansible/rdiag/diagnose/README.md")];
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    documents.extend(docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let library = Library::read(Vec::<SourceFile>::new());
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for command in blocks(&text).flat_map(|block| block.lines().flat_map(commands).collect::<Vec<_>>()) {
            seen += 1;
            if let Err(why) = run_dry(&command, &library) {
                wrong.push(format!("{}: {command}: {why}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty() && seen > 40, "{seen} commands, of which these cannot be typed:\n{}", wrong.join("\n"));
}

#[test]
fn a_command_is_found_beside_a_pipe_a_comment_and_a_redirection() {
    let of = |line: &str| commands(line);
    assert_eq!(of("rdiag watch   # or in the foreground"), ["rdiag watch"]);
    assert_eq!(
        of("sadf -j sa10 -- -A | rdiag run use-method --at '03:12 | x' --from -"),
        ["rdiag run use-method --at '03:12 | x' --from -"]
    );
    assert_eq!(of("rdiag history export > x.gz; rdiag doctor"), ["rdiag history export", "rdiag doctor"]);
    assert_eq!(of("# rdiag watch"), Vec::<String>::new());
}
