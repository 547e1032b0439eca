//! The dotted paths of an expression, found without a second parse by the template language: that throws away what it parsed once an
//! expression is compiled, and says what it refers to by parsing it again, for each rule of each window.
//!
//! What is read here is the part of the language that rules are written in. Of anything else nothing is said: the language itself is asked.

use std::collections::HashSet;

use super::bounds::tags;
use super::tokens::{Kind, Token, tokens};

/// Words that are operators after an operand, and names like any other elsewhere.
const OPERATORS: &[&str] = &["and", "or", "not", "in", "is", "if", "else"];
const CONSTANTS: &[&str] = &["true", "false", "none", "True", "False", "None"];
/// Brackets and signs within each other.
const DEPTH: usize = 50;

/// What an expression asks its context for: `cpu.busy.ratio.mean`, `host.cpus`, `knee`. None where only the language can tell.
pub(super) fn of_expression(expression: &str) -> Option<HashSet<String>> {
    let mut paths = HashSet::new();
    read(expression, &mut paths)?;
    Some(paths)
}

/// The same of the expressions in a sentence.
pub(super) fn of_sentence(sentence: &str) -> Option<HashSet<String>> {
    // What stands in a remark is no expression, nor is what looks like a tag within a text or at the brace of another.
    let is_unclear = |tag: &str| tag.contains("{{") || tag.contains("{%");
    if sentence.contains("{#") || sentence.contains("{{{") || tags(sentence).any(|tag| is_unclear(tag.inside)) {
        return None;
    }
    let mut paths = HashSet::new();
    for tag in tags(sentence) {
        match tag.inside {
            "else" | "endif" if tag.is_statement => {}
            inside if tag.is_statement => {
                let condition = inside.strip_prefix("if ").or_else(|| inside.strip_prefix("elif "))?;
                read(condition, &mut paths)?;
            }
            inside => read(inside, &mut paths)?,
        }
    }
    Some(paths)
}

fn read(expression: &str, paths: &mut HashSet<String>) -> Option<()> {
    // Where a text ends that has some is for the language to say.
    if !expression.is_ascii() || expression.contains('\\') {
        return None;
    }
    let mut reader = Reader { rest: &tokens(expression), depth: 0, paths };
    reader.expression()?;
    reader.rest.is_empty().then_some(())
}

/// Reads tokens, and notes the paths among them. Each part is none where it is not understood.
struct Reader<'r, 't> {
    rest: &'r [Token<'t>],
    depth: usize,
    paths: &'r mut HashSet<String>,
}

impl<'t> Reader<'_, 't> {
    fn next(&mut self) -> Option<Token<'t>> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first.clone())
    }

    fn peek(&self) -> &'t str {
        self.rest.first().map_or("", |token| token.text)
    }

    /// Whether one of these comes next, which is then over.
    fn takes(&mut self, texts: &[&str]) -> bool {
        let is_next = texts.contains(&self.peek());
        if is_next {
            self.next();
        }
        is_next
    }

    fn expression(&mut self) -> Option<()> {
        self.depth += 1;
        self.condition()?;
        if self.takes(&["if"]) {
            self.condition()?;
            if self.takes(&["else"]) {
                self.expression()?;
            }
        }
        self.depth -= 1;
        Some(())
    }

    fn condition(&mut self) -> Option<()> {
        loop {
            while self.takes(&["not"]) {}
            self.comparison()?;
            if !self.takes(&["and", "or"]) {
                return Some(());
            }
        }
    }

    fn comparison(&mut self) -> Option<()> {
        loop {
            self.sum()?;
            let is_compared = self.rest.first().is_some_and(|token| token.kind == Kind::Comparison);
            if is_compared || self.peek() == "not" {
                let is_negated = self.next()?.text == "not";
                if is_negated && !self.takes(&["in"]) {
                    return None;
                }
            } else if !self.takes(&["in"]) {
                return Some(());
            }
        }
    }

    fn sum(&mut self) -> Option<()> {
        loop {
            while self.takes(&["-"]) {}
            self.operand()?;
            match self.peek() {
                sign @ ("*" | "/") => {
                    self.next();
                    self.takes(&[sign]);
                }
                "+" | "-" | "~" | "%" => drop(self.next()),
                _ => return Some(()),
            }
        }
    }

    /// A number, a text, a path or what stands in brackets, with all that is asked of it.
    fn operand(&mut self) -> Option<()> {
        let first = self.next()?;
        let (mut can_be_called, mut has_parts) = (true, true);
        match (first.kind, first.text) {
            (Kind::Number, number) if number.matches('.').count() < 2 && !number.ends_with('.') => {
                (can_be_called, has_parts) = (false, false);
            }
            (Kind::Text, text) if text.len() > 1 && text.ends_with(text.chars().next()?) => {
                (can_be_called, has_parts) = (false, false);
            }
            (Kind::Word, word) => {
                self.path(word)?;
                has_parts = false;
            }
            (Kind::Other, "(") => {
                self.inside(&[], ")")?;
                // A part of a path in brackets is one of the path.
                (can_be_called, has_parts) = (false, false);
            }
            (Kind::Other, "[") => self.inside(&[","], "]")?,
            (Kind::Other, "{") => self.inside(&[",", ":"], "}")?,
            _ => return None,
        }
        loop {
            match self.peek() {
                "(" if can_be_called => {
                    self.arguments()?;
                    has_parts = true;
                }
                "[" => {
                    self.next();
                    self.inside(&[], "]")?;
                    (can_be_called, has_parts) = (true, true);
                }
                "." if has_parts => {
                    self.next();
                    self.name()?;
                    can_be_called = true;
                }
                "|" => {
                    self.next();
                    let filter = self.name()?;
                    if filter.contains('.') {
                        return None;
                    }
                    if self.peek() == "(" {
                        self.arguments()?;
                    }
                    (can_be_called, has_parts) = (false, false);
                }
                _ => return Some(()),
            }
        }
    }

    fn path(&mut self, word: &str) -> Option<()> {
        let first = word.split('.').next()?;
        if OPERATORS.contains(&first) || first == "self" || !is_path(word) {
            return None;
        }
        if !CONSTANTS.contains(&first) {
            self.paths.insert(word.to_owned());
        } else if word != first || self.peek() == "(" || self.peek() == "." {
            return None;
        }
        Some(())
    }

    fn name(&mut self) -> Option<&'t str> {
        let name = self.next()?;
        (name.kind == Kind::Word && is_path(name.text)).then_some(name.text)
    }

    /// What stands between brackets, of which the first is over: one expression, or any number of them with something in between.
    fn inside(&mut self, between: &[&str], end: &str) -> Option<()> {
        if self.depth > DEPTH || !between.is_empty() && self.takes(&[end]) {
            return (self.depth <= DEPTH).then_some(());
        }
        loop {
            self.expression()?;
            if self.takes(&[end]) {
                return Some(());
            }
            if !self.takes(between) {
                return None;
            }
        }
    }

    fn arguments(&mut self) -> Option<()> {
        self.next();
        if self.depth > DEPTH || self.takes(&[")"]) {
            return (self.depth <= DEPTH).then_some(());
        }
        loop {
            if let [option, is, ..] = self.rest
                && option.kind == Kind::Word
                && is.text == "="
            {
                let option = self.name()?;
                if option.contains('.') || OPERATORS.contains(&option) || CONSTANTS.contains(&option) {
                    return None;
                }
                self.next();
            }
            self.expression()?;
            if self.takes(&[")"]) {
                return Some(());
            }
            if !self.takes(&[","]) {
                return None;
            }
        }
    }
}

/// Whether a word is names with dots in between, without white space or numbers there.
fn is_path(word: &str) -> bool {
    word.split('.').all(|part| part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

#[cfg(test)]
mod tests;
