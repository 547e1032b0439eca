//! YAML → types. The only place that knows the YAML crate; every error carries file, line and column.

use serde::de::DeserializeOwned;

use super::Problem;
use super::suggest::did_you_mean;

/// Larger files are refused: no playbook is, and an alias bomb grows from little text.
pub const MAX_BYTES: u64 = 1 << 20;

/// Parses one YAML document into a type.
pub fn parse<T: DeserializeOwned>(file: &str, source: &str) -> Result<T, Problem> {
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
    use crate::playbook::Playbook;

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
}
