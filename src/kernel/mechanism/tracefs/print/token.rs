//! The words of the C in which a `print fmt` is written.

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    Number(i128),
    Text(String),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// Longer ones first.
const SIGNS: [&str; 33] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "(", ")", "[", "]", "{", "}", ",", "?", ":", "+", "-", "*",
    "/", "%", "&", "|", "^", "~", "!", "<", ">", ".", "=", ";",
];

/// All words; none if one is not understood.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut rest = text.trim_start();
    let mut all = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '"' => string(rest.strip_prefix('"')?)?,
            '0'..='9' => number(rest)?,
            '_' | 'a'..='z' | 'A'..='Z' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let (name, after) = rest.split_at_checked(end)?;
                (Token::Name(name.to_owned()), after)
            }
            '\'' => {
                let mut chars = rest.strip_prefix('\'')?.chars();
                let value = chars.next().filter(|c| *c != '\\')?;
                (Token::Number(i128::from(u32::from(value))), chars.as_str().strip_prefix('\'')?)
            }
            _ => SIGNS.iter().find_map(|sign| Some((Token::Sign(sign), rest.strip_prefix(sign)?)))?,
        };
        all.push(token);
        rest = after.trim_start();
    }
    Some(all)
}

/// What follows an opening quotation mark, up to the closing one.
fn string(text: &str) -> Option<(Token, &str)> {
    let (mut value, mut chars) = (String::new(), text.chars());
    loop {
        match chars.next()? {
            '"' => return Some((Token::Text(value), chars.as_str())),
            '\\' => value.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => value.push(other),
        }
    }
}

/// `12`, `0x1fUL`, `017`.
fn number(text: &str) -> Option<(Token, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (word, after) = text.split_at_checked(end)?;
    let plain = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None if plain.len() > 1 && plain.starts_with('0') => u64::from_str_radix(plain, 8),
        None => plain.parse(),
    };
    Some((Token::Number(i128::from(value.ok()?)), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart() {
        let found = tokens(r#""a\"b\n", REC->x_1 >> 0x1fUL,017 - '!'"#).unwrap();
        let name = |text: &str| Token::Name(text.into());
        let expected = [
            Token::Text("a\"b\n".into()),
            Token::Sign(","),
            name("REC"),
            Token::Sign("->"),
            name("x_1"),
            Token::Sign(">>"),
            Token::Number(31),
            Token::Sign(","),
            Token::Number(15),
            Token::Sign("-"),
            Token::Number(33),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_word_is_not_guessed_at() {
        for text in ["\"open", "'", "0x", "09", "a # b", "99999999999999999999999", "\u{e9}"] {
            assert_eq!(tokens(text), None, "{text}");
        }
    }
}
