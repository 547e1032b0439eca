//! Secrets within a word: of a URL, of `name=value` among others, of a header.

use super::MASK;
use super::names::is_secret;

/// Ways to be authorised, which stay before what proves it.
const SCHEMES: &[&str] = &["bearer", "basic", "digest", "negotiate", "token", "apikey"];
/// Longer names of a user in a URL without a password are tokens.
const LONGEST_USER: usize = 20;
/// As far as a password with a slash in it is looked for.
const LONGEST_ACCOUNT: usize = 256;

/// A word with `***` for what stands behind the first such sign; none if there is nothing.
pub(super) fn after(word: &str, sign: char) -> Option<String> {
    let (name, secret) = word.split_once(sign)?;
    (!secret.is_empty()).then(|| format!("{name}{sign}{MASK}"))
}

/// A header such as `Authorization: Bearer …` or `X-Api-Key: …`, masked; none if the word is no such header.
pub(super) fn header(word: &str) -> Option<String> {
    let (name, value) = word.split_once(':')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let lower = name.to_ascii_lowercase();
    let holds_secret =
        lower.ends_with("authorization") || matches!(&*lower, "cookie" | "set-cookie") || is_secret(name);
    // `host:port` of something with such a name, or `secret://…`.
    let (is_number, is_url) = (value.bytes().all(|byte| byte.is_ascii_digit()), value.starts_with("//"));
    if !is_name || !holds_secret || is_number || is_url || value.trim().is_empty() {
        return None;
    }
    let trimmed = value.trim_start();
    let space = value.strip_suffix(trimmed).unwrap_or_default();
    let scheme = trimmed.split_once(' ').map(|(scheme, _)| scheme);
    let scheme = scheme.filter(|scheme| SCHEMES.contains(&&*scheme.to_ascii_lowercase()));
    let scheme = scheme.map_or_else(String::new, |scheme| format!("{scheme} "));
    Some(format!("{name}:{space}{scheme}{MASK}"))
}

/// The pieces of a text with the white space behind each; what stands in quotes is one piece.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut quote = None;
        let ends = rest.char_indices().find(|(_, c)| {
            match quote {
                Some(open) if open == *c => quote = None,
                None if matches!(c, '"' | '\'') => quote = Some(*c),
                _ => {}
            }
            quote.is_none() && c.is_whitespace()
        });
        let (piece, behind) = rest.split_at_checked(ends.map_or(rest.len(), |(at, _)| at))?;
        let next = behind.trim_start();
        let space = behind.strip_suffix(next).unwrap_or_default();
        rest = next;
        Some((piece, space))
    })
}

/// A word without the secrets of its URLs and of `name=value` in it.
pub(super) fn masked(word: &str) -> String {
    let word = urls(word);
    let mut out = String::new();
    let mut rest = word.as_str();
    while let Some((before, sign, behind)) = split(rest) {
        let (name, is_quoted) = match before.strip_suffix(['"', '\'']) {
            Some(before) => (last_name(before), true),
            None => (last_name(before), false),
        };
        out.push_str(before);
        out.push(sign);
        rest = behind;
        if (sign == ':' && !is_quoted) || !is_secret(name) {
            continue;
        }
        let quote = behind.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = quote.map_or(behind, |quote| behind.strip_prefix(quote).unwrap_or_default());
        let is_end = |c: char| match quote {
            Some(quote) => c == quote,
            None => matches!(c, '&' | ';' | ',' | '"' | '\'' | ')' | '}'),
        };
        let (secret, left) = value.split_at_checked(value.find(is_end).unwrap_or(value.len())).unwrap_or((value, ""));
        out.extend(quote);
        if !secret.is_empty() {
            out.push_str(MASK);
        }
        rest = left;
    }
    out + rest
}

fn split(text: &str) -> Option<(&str, char, &str)> {
    let (at, sign) = text.char_indices().find(|(_, c)| matches!(c, '=' | ':'))?;
    Some((text.get(..at)?, sign, text.get(at + 1..)?))
}

/// The name that a text ends with.
fn last_name(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = text.rsplit(|c| !is_part(c)).next().unwrap_or_default();
    name.trim_start_matches('-')
}

/// `scheme://user:password@host` without the password.
fn urls(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, behind)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let (user, left) = account(behind);
        out.push_str(&user);
        rest = left;
    }
    out + rest
}

/// What stands before the host, masked, and the rest.
fn account(text: &str) -> (String, &str) {
    let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>' | ',');
    let authority = text.split(ends).next().unwrap_or_default();
    let port = text.split_once(':').map_or("", |(_, behind)| behind).split('/').next().unwrap_or_default();
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    // A password may itself hold a slash, though none of a URL should.
    let at = match authority.rfind('@') {
        None if authority.contains(':') && !is_port => {
            text.get(..text.floor_char_boundary(LONGEST_ACCOUNT)).and_then(|near| near.rfind('@'))
        }
        at => at,
    };
    let Some((user, left)) = at.and_then(|at| text.split_at_checked(at)) else { return (String::new(), text) };
    let masked = match user.split_once(':') {
        Some((name, _)) if name.len() >= LONGEST_USER => format!("{MASK}:{MASK}"),
        Some((name, secret)) if !secret.is_empty() => format!("{name}:{MASK}"),
        None if user.len() >= LONGEST_USER => MASK.to_owned(),
        _ => user.to_owned(),
    };
    (masked, left)
}
