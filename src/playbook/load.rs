//! YAML → types. The only place of the program that knows the YAML crate, besides `build.rs` beside it, which reads what is built in;
//! every error carries file, line and column.

use std::collections::HashSet;

use serde::de::DeserializeOwned;

use super::Problem;
use super::suggest::did_you_mean;

/// Larger files are refused: no playbook is, and an alias bomb grows from little text.
pub const MAX_BYTES: u64 = 1 << 20;

/// Parses one YAML document into a type.
///
/// Aliases are refused, and not bounded: they make much of little text, and no file needs them. So a document is never larger than its
/// text, and how deep it can be the YAML crate limits (128).
pub fn parse<T: DeserializeOwned>(file: &str, source: &str) -> Result<T, Problem> {
    if source.len() as u64 > MAX_BYTES {
        return Err(Problem::whole(file, format!("it is larger than {MAX_BYTES} bytes")));
    }
    if let Some((at, name)) = alias(source) {
        let message = format!("the alias *{name}: anchors and aliases are not used here");
        let hint = Some(format!("write out what &{name} stands for"));
        return Err(Problem::at(file, source, at, name, message).hint(hint));
    }
    serde_yaml::from_str(source).map_err(|error| {
        let message = error.to_string();
        let hint = unknown_name(&message);
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        match error.location() {
            Some(place) => {
                Problem::on_line(file, source, place.line().max(1), place.column().max(1), message).hint(hint)
            }
            None => Problem::whole(file, message).hint(hint),
        }
    })
}

/// The first alias, and where it stands. Whatever could be an anchor and an alias of one name counts, in texts as well: nothing that is
/// one is missed, and both in one file are seldom anything else.
fn alias(source: &str) -> Option<(usize, &str)> {
    let names = |sign: char| {
        source.match_indices(sign).filter_map(move |(at, _)| {
            let rest = source.get(at + 1..)?;
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            let name = rest.get(..rest.find(|c| !is_part(c)).unwrap_or(rest.len()))?;
            (!name.is_empty()).then_some((at, name))
        })
    };
    let anchors: HashSet<&str> = names('&').map(|(_, name)| name).collect();
    names('*').find(|(_, name)| anchors.contains(name))
}

/// "unknown field `x`, expected one of `a`, `b`" → "did you mean `a`?"
fn unknown_name(message: &str) -> Option<String> {
    let after = message.split_once("unknown field `").or_else(|| message.split_once("unknown variant `"))?.1;
    let (name, rest) = after.split_once('`')?;
    let candidates = rest.split('`').skip(1).step_by(2);
    did_you_mean(name, candidates)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::Playbook;

    #[test]
    fn an_unknown_key_is_an_error_with_its_place_and_a_suggestion() {
        let text =
            "format_version: 1\nname: x\ntitle: y\nsteps:\n  - id: a\n    question: q\n    colect: []\n    rules: []\n";
        let problem = parse::<Playbook>("x.yaml", text).unwrap_err();
        assert_eq!((problem.line, problem.text.trim()), (7, "colect: []"));
        assert_eq!(problem.hint.as_deref(), Some("did you mean `collect`?"));
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a: &a [x,x,x,x,x,x,x,x,x,x]\n");
        for (name, of) in
            [("b", "a"), ("c", "b"), ("d", "c"), ("e", "d"), ("f", "e"), ("g", "f"), ("h", "g"), ("i", "h")]
        {
            text.push_str(&format!("{name}: &{name} [*{of},*{of},*{of},*{of},*{of},*{of},*{of},*{of},*{of}]\n"));
        }
        assert!(parse::<serde_json::Value>("bomb.yaml", &text).is_err());
    }

    #[test]
    fn an_alias_is_refused_with_its_line_wherever_it_stands() {
        for text in [
            "a: &x 1\nb: *x\n",
            "a: &x 1\nb: [*x]\n",
            "a: &x 1\nb: {\"c\":*x}\n",
            "- &x {}\n- *x\n",
            "a: !t &x 1\n? *x\n: 1\n",
        ] {
            let problem = parse::<serde_json::Value>("x.yaml", text).unwrap_err();
            assert!(problem.line == 2 && problem.message.contains("alias *x"), "{text:?}: {problem}");
            assert_eq!(problem.hint.as_deref(), Some("write out what &x stands for"));
        }
        for text in ["a: 2 * x & y\n", "a: |\n  make &\n  ls *x\n", "a: '&x'\n", "a: 1 && b *c\n"] {
            assert!(parse::<serde_json::Value>("x.yaml", text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn a_document_is_neither_deep_nor_large() {
        let deep = "[".repeat(100_000);
        assert!(parse::<serde_json::Value>("x.yaml", &deep).is_err());
        let deep = format!("{}{}", "{a: ".repeat(300), "}".repeat(300));
        assert!(parse::<serde_json::Value>("x.yaml", &deep).unwrap_err().message.contains("recursion"));
        let large = " ".repeat(2 << 20);
        assert!(parse::<serde_json::Value>("x.yaml", &large).unwrap_err().message.contains("larger than"));
    }
}
