//! From the words of a `print fmt` to expressions.

use super::super::format::{Field, Format, bytes_of};
use super::constants::Constants;
use super::expression::{Binary, Expression, Name, Unary, Width};
use super::token::Token;

/// Brackets within brackets; the kernel's own do not come near it.
const DEEPEST: usize = 80;
/// Operators in an argument, or in the value of a name: what is worked out nests as deep as there are some.
const MOST_OPERATORS: usize = 400;
/// From the one that binds least to those that bind most.
const LEVELS: [&[(&str, Binary)]; 10] = [
    &[("||", Binary::Or)],
    &[("&&", Binary::And)],
    &[("|", Binary::BitOr)],
    &[("^", Binary::BitXor)],
    &[("&", Binary::BitAnd)],
    &[("==", Binary::Same), ("!=", Binary::Other)],
    &[("<=", Binary::AtMost), (">=", Binary::AtLeast), ("<", Binary::Less), (">", Binary::More)],
    &[("<<", Binary::Left), (">>", Binary::Right)],
    &[("+", Binary::Plus), ("-", Binary::Minus)],
    &[("*", Binary::Times), ("/", Binary::Over), ("%", Binary::Rest)],
];

/// What is still to be read. Every step is none where something is not understood.
#[derive(Debug)]
pub(super) struct Parser<'t> {
    tokens: &'t [Token],
    format: &'t Format,
    constants: &'t Constants,
    depth: usize,
    operators: usize,
}

impl<'t> Parser<'t> {
    pub(super) fn new(tokens: &'t [Token], format: &'t Format, constants: &'t Constants) -> Self {
        Self { tokens, format, constants, depth: 0, operators: 0 }
    }

    /// The format and its arguments.
    pub(super) fn whole(mut self) -> Option<(String, Vec<Expression>)> {
        let format = self.text()?;
        let mut arguments = Vec::new();
        while self.sign(",") {
            self.operators = 0;
            arguments.push(self.expression()?);
        }
        self.tokens.is_empty().then_some((format, arguments))
    }

    fn next(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    /// Passes over a sign, if it comes next.
    fn sign(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.tokens.first(), Some(Token::Sign(next)) if *next == sign);
        if is_it {
            self.next();
        }
        is_it
    }

    fn must(&mut self, sign: &str) -> Option<()> {
        self.sign(sign).then_some(())
    }

    /// Texts that stand one after the other are one.
    fn text(&mut self) -> Option<String> {
        let Token::Text(first) = self.next()? else { return None };
        let mut whole = first.clone();
        while let Some(Token::Text(more)) = self.tokens.first() {
            whole.push_str(more);
            self.next();
        }
        Some(whole)
    }

    fn name(&mut self) -> Option<&'t str> {
        match self.next()? {
            Token::Name(name) => Some(name),
            _ => None,
        }
    }

    fn expression(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let condition = self.binary(0)?;
        let all = if self.sign("?") {
            let then = self.expression()?;
            self.must(":")?;
            let otherwise = self.expression()?;
            Expression::If(Box::new([condition, then, otherwise]))
        } else {
            condition
        };
        self.depth -= 1;
        Some(all)
    }

    fn binary(&mut self, level: usize) -> Option<Expression> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.sign(sign)) {
            self.operators += 1;
            if self.operators > MOST_OPERATORS {
                return None;
            }
            left = Expression::Binary(*operator, Box::new([left, self.binary(level + 1)?]));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let one = |operator, of| Some(Expression::Unary(operator, Box::new(of)));
        let found = if self.sign("-") {
            one(Unary::Minus, self.unary()?)
        } else if self.sign("~") {
            one(Unary::Not, self.unary()?)
        } else if self.sign("!") {
            one(Unary::IsZero, self.unary()?)
        } else if self.sign("+") {
            self.unary()
        } else if self.sign("&") {
            match self.unary()? {
                Expression::Field(field) => Some(Expression::Bytes(field)),
                _ => None,
            }
        } else if let Some(width) = self.cast() {
            one(Unary::Cast(width), self.unary()?)
        } else {
            self.primary()
        };
        self.depth -= 1;
        found
    }

    /// `(unsigned long)`, if that comes next; other things in brackets are left where they are.
    fn cast(&mut self) -> Option<Width> {
        let rest = match self.tokens.split_first()? {
            (Token::Sign("("), rest) => rest,
            _ => return None,
        };
        let (words, after) = type_words(rest)?;
        // A constant of an enumeration is no type, whatever follows it.
        let width = Width::of(&words)?;
        match after.split_first()? {
            (Token::Sign(")"), after) => {
                self.tokens = after;
                Some(width)
            }
            _ => None,
        }
    }

    fn primary(&mut self) -> Option<Expression> {
        match self.tokens.first()? {
            Token::Text(_) => Some(Expression::Text(self.text()?)),
            Token::Number(value) => {
                self.next();
                Some(Expression::Number(*value))
            }
            Token::Sign("(") => {
                self.next();
                let inner = self.expression()?;
                self.must(")")?;
                Some(inner)
            }
            Token::Sign(_) => None,
            Token::Name(name) if name == "REC" => {
                self.next();
                self.must("->")?;
                let field = self.field()?;
                if !self.sign("[") {
                    return Some(Expression::Field(field));
                }
                let index = self.expression()?;
                self.must("]")?;
                Some(Expression::Element(field, Box::new(index)))
            }
            Token::Name(name) => {
                self.next();
                if self.sign("(") {
                    return self.call(name);
                }
                Some(self.constants.get(name).map_or(Expression::Unknown, |value| Expression::Number(*value)))
            }
        }
    }

    fn field(&mut self) -> Option<Field> {
        let name = self.name()?;
        self.format.field(name).cloned()
    }

    /// What is called, up to the closing bracket.
    fn call(&mut self, name: &str) -> Option<Expression> {
        let found = match name {
            "__get_str" | "__get_rel_str" | "__get_dynamic_array" | "__get_rel_dynamic_array" => {
                Expression::Field(self.field()?)
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => Expression::Length(self.field()?),
            "__builtin_expect" => {
                let value = self.expression()?;
                self.must(",")?;
                self.expression()?;
                value
            }
            "sizeof" => {
                let (words, after) = type_words(self.tokens)?;
                self.tokens = after;
                Expression::Number(i128::try_from(bytes_of(&words)?).ok()?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = self.expression()?;
                self.must(",")?;
                let between = self.text()?;
                Expression::Flags(Box::new(value), between, self.names()?)
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                let value = self.expression()?;
                Expression::Symbol(Box::new(value), self.names()?)
            }
            "__print_hex" | "__print_hex_str" => {
                let bytes = self.expression()?;
                self.must(",")?;
                let between = if name == "__print_hex" { " " } else { "" };
                Expression::Hex(Box::new([bytes, self.expression()?]), between)
            }
            "__print_array" => {
                let bytes = self.expression()?;
                self.must(",")?;
                let count = self.expression()?;
                self.must(",")?;
                Expression::Array(Box::new([bytes, count, self.expression()?]))
            }
            _ => return None,
        };
        self.must(")")?;
        Some(found)
    }

    /// `, { 1, "S" }, { 2, "D" }`. One whose value is unknown is left out.
    fn names(&mut self) -> Option<Vec<Name>> {
        let mut names = Vec::new();
        // A value is worked out at once, so it does not nest in what stands around it.
        let around = self.operators;
        while self.sign(",") {
            self.operators = 0;
            self.must("{")?;
            let value = self.expression()?;
            self.must(",")?;
            // The list may end with a pair that stands for its end.
            let Expression::Text(text) = self.expression()? else {
                self.must("}")?;
                continue;
            };
            self.must("}")?;
            names.extend(value.constant().map(|value| Name { value, text }));
        }
        self.operators = around;
        Some(names)
    }
}

/// Words that may be a type, with the stars behind them.
fn type_words(tokens: &[Token]) -> Option<(String, &[Token])> {
    let mut words: Vec<&str> = Vec::new();
    let mut rest = tokens;
    while let Some((first, after)) = rest.split_first() {
        match first {
            Token::Name(name) if name != "REC" => words.push(name),
            Token::Sign("*") if !words.is_empty() => words.push("*"),
            _ => break,
        }
        rest = after;
    }
    (!words.is_empty()).then(|| (words.join(" "), rest))
}
