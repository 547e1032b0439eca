use super::*;
use crate::rules::expression::PLAIN;

fn parsed(expression: &str) -> HashSet<String> {
    PLAIN.compile_expression(expression).unwrap().undeclared_variables(true)
}

#[test]
fn paths_are_those_that_the_template_language_finds() {
    for expression in [
        "cpu.busy.ratio.mean > knee(host.cpus) and cpu.bsy > 1",
        "(highest(disk.a.count, x='no')|default(0)) > 1",
        "sum(disk.a.count, where=disk.b.count, stacked='a.b')|default(value)",
        "top(process.cpu.ratio, cgroup=label.cgroup).name ~ ' (a.b)'",
        "{'hdd': low.limit, 'ssd': 2}[label.class] * 2",
        "status('cpu.saturation') >= warning if a.b else not c.d",
        "[x.y, z][0].name",
        "value in [one, 'two'] or not (three) and four not in {}",
        "f(a)(b).c.d",
        "\"it's x.y\" ~ instance|upper",
        "-x ** 2 // y % z / 1.5",
        "1 if not a else true",
    ] {
        assert_eq!(of_expression(expression), Some(parsed(expression)), "{expression}");
    }
}

#[test]
fn what_takes_a_parser_is_left_to_it() {
    let deep = format!("{}a{}", "(".repeat(5000), ")".repeat(5000));
    for expression in [
        "(a).b",
        "a . b",
        "a. b",
        "1e3 + x",
        r"'\'' ~ a.b",
        "'ä' ~ x",
        "'x'.y",
        "a|f.b",
        "((a.b).c).d",
        "a.b is defined",
        "a == not (b)",
        "-not(x)",
        "true.b",
        "top((a)=1)",
        "1.2. x",
        "f(a)[0].1. x",
        "in",
        "self.a",
        "a[1:2]",
        "f(*a)",
        &deep,
    ] {
        assert_eq!(of_expression(expression), None, "{expression}");
    }
    for sentence in [
        "{% set t = top(a.b) %}{{ t.name }}",
        "{# {{ a.b }} #}{{ c }}",
        "{{{'a': b}['a']}} of memory",
        "{{ self.a }}",
        "{% if a %}{% endif b %}",
        "{% else x %}",
    ] {
        assert_eq!(of_sentence(sentence), None, "{sentence}");
    }
}

fn parsed_sentence(sentence: &str) -> Option<HashSet<String>> {
    Some(PLAIN.template_from_str(sentence).ok()?.undeclared_variables(true))
}

#[test]
fn paths_of_a_sentence_are_those_of_all_its_tags() {
    let sentence = "{{ a.b|abs }} of {%- if c.d > 1 and 'x }}' -%}{{ e }}, it's f.g{% elif h %}{% else %}i{% endif %} \
                    {{ {'j': k}['j'] }}";
    assert_eq!(of_sentence(sentence), parsed_sentence(sentence));
    // The second sign is the expression's, and what follows it a name.
    for sentence in ["{{--not -a.b }}", "{{+-not -a.b }}", "{{---a.b }}", "{%--if a -%}{% endif %}"] {
        let paths = of_sentence(sentence);
        assert!(paths.is_none() || paths == parsed_sentence(sentence), "{sentence}: {paths:?}");
    }
}

/// Made-up expressions: what rules are made of, with pieces of anything in between.
struct Made(u64);

impl Made {
    fn pick<'p>(&mut self, pieces: &[&'p str]) -> &'p str {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        pieces[(self.0 >> 33) as usize % pieces.len()]
    }

    fn operand(&mut self, depth: usize) -> String {
        const USUAL: &[&str] = &["a", "b.c", "1", "2.5", "'x.y'", "true"];
        const ODD: &[&str] = &["self.a", "not", "in", "1.", "true.b", "is"];
        let kind =
            if depth == 0 { "plain" } else { self.pick(&["plain", "plain", "group", "call", "list", "map", "part"]) };
        let inner = |made: &mut Self| made.expression(depth.saturating_sub(1));
        match kind {
            "group" => format!("({})", inner(self)),
            "call" => {
                format!("{}({}, {}{})", self.pick(&["top", "f.g"]), inner(self), self.pick(&["", "k="]), inner(self))
            }
            "list" => format!("[{}, {}][0]", inner(self), inner(self)),
            "map" => format!("{{{}: {}}}", inner(self), inner(self)),
            "part" => format!(
                "{}{}",
                inner(self),
                self.pick(&[
                    ".d",
                    "[e]",
                    "|abs",
                    "[e]",
                    "|abs",
                    "|default(h)",
                    "|default(h)",
                    " is defined",
                    "|f.i",
                    " . j"
                ])
            ),
            _ if self.pick(&["odd", "", "", "", "", "", "", "", "", ""]) == "odd" => self.pick(ODD).to_owned(),
            _ => self.pick(USUAL).to_owned(),
        }
    }

    fn expression(&mut self, depth: usize) -> String {
        const SIGNS: &[&str] =
            &[" and ", " or ", " == ", " > ", "+", "-", "*", "~", " in ", " not in ", " if ", " else "];
        let mut text = format!("{}{}", self.pick(&["", "", "", "", "not ", "-"]), self.operand(depth));
        while self.pick(&["more", "", ""]) == "more" {
            text = format!("{text}{}{}", self.pick(SIGNS), self.operand(depth));
        }
        text
    }
}

#[test]
fn no_path_is_missed_and_none_made_up() {
    let (mut made, mut told, mut left) = (Made(1), 0, 0);
    for _ in 0..100_000 {
        let text = made.expression(3);
        let Ok(compiled) = PLAIN.compile_expression(&text) else { continue };
        match of_expression(&text) {
            Some(found) => {
                told += usize::from(tokens(&text).len() > 4);
                assert_eq!(found, compiled.undeclared_variables(true), "{text:?}");
            }
            None => left += 1,
        }
    }
    assert!(told > 10_000 && left > 1000, "{told} of more than four pieces, and {left} left to the language");
}

#[test]
fn nor_in_sentences() {
    let (mut made, mut told) = (Made(2), 0);
    for _ in 0..20_000 {
        let mut text = String::new();
        while made.pick(&["more", "more", "more", ""]) == "more" {
            match made.pick(&["text", "tag", "if", "brace"]) {
                "text" => text.push_str(made.pick(&[" of b.c ", "it's ", "{", "}", "%}", "}} "])),
                "tag" => text.push_str(&format!("{{{{ {} }}}}", made.expression(1))),
                "brace" => text.push_str(&format!("{{{{{}}}}}", made.expression(1))),
                _ => text.push_str(&format!("{{% if {} %}}b{{% else %}}c{{% endif %}}", made.expression(1))),
            }
        }
        let (Some(found), Some(parsed)) = (of_sentence(&text), parsed_sentence(&text)) else { continue };
        told += 1;
        assert_eq!(found, parsed, "{text:?}");
    }
    assert!(told > 2000, "{told}");
}
