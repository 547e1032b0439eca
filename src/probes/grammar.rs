//! The parameters of probes of any point: what to read, by what to sum up, what to leave out. Checked here as far as it can be without
//! the point: names are compared with what it has when the probe starts.

use std::collections::BTreeSet;

use super::params::duration;

/// Parts of a key at most, stacks and the task's name aside.
pub(super) const MAX_KEYS: usize = 3;
/// Values of one event at most.
pub(super) const MAX_VALUES: usize = 1 + MAX_KEYS;
/// Comparisons at most.
pub(super) const MAX_TESTS: usize = 4;
/// The time from entering a function to its return.
pub(super) const LATENCY: &str = "latency";
/// Keys that are no numbers.
pub(super) const COMM: &str = "comm";
pub(super) const STACKS: [&str; 3] = ["stack", "kernel_stack", "user_stack"];
/// Which stacks are taken, where they are no keys.
pub(super) const WHICH_STACKS: [&str; 3] = ["user", "kernel", "both"];
/// What every event has, whatever its point.
pub(super) const OF_TASK: [&str; 3] = ["pid", "tid", "cpu"];
/// The control group of the task, a key.
pub(super) const GROUP: &str = "cgroup";

/// Something to read: `bytes_req`, `arg1:s32`, `return`, `latency`, `pid`, `sk.sk_family`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operand {
    /// Its name; fields of the point that are called like one of the names of this file are written `args.pid`. Members of what a
    /// field points to stand behind it, with dots in between.
    pub(super) name: String,
    /// Whether it can only be a field of the point.
    pub(super) is_field: bool,
    /// The type that it is to be read as.
    pub(super) cast: Option<Cast>,
}

/// A type that the user has given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cast {
    /// Bytes, and whether it has a sign.
    Number(u32, bool),
    /// Bytes that stand in the order of networks: the highest first.
    Swapped(u32),
    /// The address of text, where the function is: in the kernel or in the program.
    Text,
    /// The address of text in the program.
    TextOfProgram,
    /// The same, of which the next argument is the length.
    TextOfLength,
    /// The address of code of the kernel, which stands for the function that it is in.
    Code,
}

/// How two numbers are compared; the numbers are those of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Operator {
    Equal = 1,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    SharesBits,
}

/// A comparison that must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) operand: Operand,
    pub(super) operator: Operator,
    pub(super) number: i128,
}

/// What is at most one operand.
pub(super) fn operand(text: &str) -> Result<Operand, String> {
    let (name, cast) = match text.split_once(':') {
        None => (text.trim(), None),
        Some((name, kind)) => (name.trim(), Some(cast(kind.trim())?)),
    };
    // The types tell which of the two it is.
    let name = name.replace("->", ".");
    let (name, is_field) = name.strip_prefix("args.").map_or((name.as_str(), false), |name| (name, true));
    let plain = |part: &str| {
        let starts = part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        starts && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !name.split('.').all(plain) {
        return Err(format!("{text:?} is no name of a field; write bytes_req, arg1, sk.sk_family, return or latency"));
    }
    if cast.is_some() && !is_field && is_special(name) {
        return Err(format!("{name} has a type of its own"));
    }
    Ok(Operand { name: name.to_owned(), is_field, cast })
}

fn is_special(name: &str) -> bool {
    [LATENCY, COMM, GROUP].contains(&name) || OF_TASK.contains(&name) || STACKS.contains(&name)
}

impl Operand {
    /// Whether it is this special name, and not a field that happens to be called so.
    pub(super) fn is(&self, special: &str) -> bool {
        !self.is_field && self.name == special
    }
}

fn cast(kind: &str) -> Result<Cast, String> {
    match (kind, kind.split_at_checked(1)) {
        ("string", _) => Ok(Cast::Text),
        ("ustring", _) => Ok(Cast::TextOfProgram),
        ("slice", _) => Ok(Cast::TextOfLength),
        ("ksym", _) => Ok(Cast::Code),
        (_, Some((sign @ ("u" | "s"), bits @ ("8" | "16" | "32" | "64")))) => {
            Ok(Cast::Number(bits.parse::<u32>().unwrap_or(64) / 8, sign == "s"))
        }
        ("be16" | "be32" | "be64", _) => Ok(Cast::Swapped(kind.trim_start_matches("be").parse().unwrap_or(64) / 8)),
        _ => Err(format!(
            "there is no type {kind:?}; there are u8, u16, u32, u64, s8, s16, s32, s64, be16, be32, be64 (in the order of \
             networks), string and ustring, slice for text whose length is the next argument (Go, Rust), and ksym for a function of the \
             kernel"
        )),
    }
}

/// What a value may be: a number that can be summed up.
pub(super) fn value(text: &str) -> Result<Operand, String> {
    let operand = operand(text)?;
    let only_keys = STACKS.iter().chain(&OF_TASK).chain(&[COMM, GROUP]);
    if only_keys.into_iter().any(|name| operand.is(name)) {
        return Err(format!("{} is no value to sum up; it can be a key", operand.name));
    }
    Ok(operand)
}

/// Values to show, separated by commas.
pub(super) fn values(text: &str) -> Result<Vec<Operand>, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let values: Vec<Operand> = items.map(value).collect::<Result<_, _>>()?;
    if values.len() > MAX_VALUES {
        return Err(format!("at most {MAX_VALUES} values can be shown"));
    }
    Ok(values)
}

/// Keys, separated by commas.
pub(super) fn keys(text: &str) -> Result<Vec<Operand>, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let keys: Vec<Operand> = items.map(operand).collect::<Result<_, _>>()?;
    let numbers = keys.iter().filter(|key| !key.is(COMM) && !STACKS.iter().any(|stack| key.is(stack))).count();
    if numbers > MAX_KEYS {
        return Err(format!("at most {MAX_KEYS} numbers and texts can be keys"));
    }
    if let Some(key) =
        keys.iter().enumerate().find_map(|(at, key)| keys.iter().skip(at + 1).find(|other| *other == key))
    {
        return Err(format!("the key {} stands twice", key.name));
    }
    Ok(keys)
}

/// Comparisons that must all hold, joined by `and` or `&&`.
pub(super) fn filter(text: &str) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    if text.trim().is_empty() {
        return Ok(tests);
    }
    // The arrow of C is no comparison.
    let text = text.replace("->", ".");
    for part in text.split("&&").flat_map(|part| part.split(" and ")) {
        tests.push(test(part.trim())?);
    }
    if tests.len() > MAX_TESTS {
        return Err(format!("at most {MAX_TESTS} comparisons can be made"));
    }
    Ok(tests)
}

fn test(text: &str) -> Result<Test, String> {
    let wrong = || format!("{text:?} is no comparison; write bytes_req > 1000, and join several with `and`");
    let at = text.find(['=', '!', '<', '>', '&']).ok_or_else(wrong)?;
    let (left, rest) = text.split_at_checked(at).ok_or_else(wrong)?;
    let operators = [
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<=", Operator::LessEqual),
        (">=", Operator::GreaterEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("=", Operator::Equal),
        ("&", Operator::SharesBits),
    ];
    let found = operators.iter().find_map(|(sign, operator)| Some((rest.strip_prefix(sign)?, *operator)));
    let (right, operator) = found.ok_or_else(wrong)?;
    let operand = operand(left.trim())?;
    if operand.is(COMM) || STACKS.iter().any(|stack| operand.is(stack)) {
        return Err(format!("{} is no number; tasks are chosen by name with --comm", operand.name));
    }
    if operand.is(GROUP) {
        return Err("a control group is chosen with --cgroup".into());
    }
    let right = right.trim();
    let number = if operand.is(LATENCY) { duration(right).map(i128::from) } else { number(right) };
    let expected = if operand.is(LATENCY) { "duration; write 10us, 5ms or 1s" } else { "whole number" };
    let number = number.ok_or_else(|| format!("{right:?} in {text:?} is no {expected}"))?;
    Ok(Test { operand, operator, number })
}

/// `1000`, `-11`, `0x40`.
fn number(text: &str) -> Option<i128> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse::<u64>().ok()?,
    };
    // Neither accepts a second sign but `+`.
    (!digits.contains('+')).then(|| if negative { -i128::from(value) } else { i128::from(value) })
}

/// The members of structures that any of the parameters of a probe of any point name: `sk.sk_family`.
pub(super) fn members(values: &str, keys: &str, filter: &str) -> BTreeSet<String> {
    // What cannot be parsed is reported when it is used.
    let tests = self::filter(filter).unwrap_or_default().into_iter().map(|test| test.operand);
    let others = values.split(',').chain(keys.split(',')).filter_map(|text| operand(text).ok());
    tests.chain(others).map(|operand| operand.name).filter(|name| name.contains('.')).collect()
}

/// The name of a tracepoint: `kmem:kmalloc`.
pub(super) fn tracepoint(text: &str) -> Result<(), String> {
    match text.split_once(':') {
        Some((group, event)) if !group.is_empty() && !event.is_empty() && !event.contains(':') => Ok(()),
        _ => Err(format!("{text:?} is no tracepoint; write group:event, such as kmem:kmalloc")),
    }
}

/// The name of a place that developers have marked: `python3:python:gc__start`, `/path/to/program:provider:name`.
pub(super) fn marker(text: &str) -> Result<(), String> {
    let mut parts = text.rsplitn(3, ':');
    let is_named =
        |part: Option<&str>| part.is_some_and(|part| !part.is_empty() && !part.contains(char::is_whitespace));
    let (name, provider, file) = (parts.next(), parts.next(), parts.next());
    if is_named(name) && is_named(provider) && file.is_some_and(|file| !file.is_empty()) {
        return Ok(());
    }
    Err(format!("{text:?} is no marked place; write FILE:PROVIDER:NAME, such as python3:python:gc__start"))
}

/// The name of a function: `vfs_read`, `libc:malloc`, `/usr/bin/bash:readline`.
pub(super) fn function(text: &str) -> Result<(), String> {
    let (file, name) = text.rsplit_once(':').map_or((None, text), |(file, name)| (Some(file), name));
    // Packages of Go have paths: `FILE:net/http.(*conn).serve`.
    let is_path = file.is_none() && name.contains('/');
    if name.is_empty() || name.contains(char::is_whitespace) || is_path || file.is_some_and(str::is_empty) {
        return Err(format!("{text:?} is no function; write vfs_read, libc:malloc or /path/to/program:function"));
    }
    Ok(())
}

/// Functions of the kernel in the syntax of its tracers: `vfs_read,*balance*,:mod:ext4`.
pub fn kernel_functions(text: &str) -> Result<(), String> {
    let plain = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || "_.*?".contains(c));
    for pattern in text.split(',').map(str::trim) {
        let (name, module) = pattern.split_once(":mod:").unwrap_or((pattern, "*"));
        // Other words of the kernel's own grammar switch its tracing on and off.
        if pattern.is_empty() || module.is_empty() || !plain(name) || !plain(&module.replace('-', "_")) {
            return Err(format!("{pattern:?} is no function of the kernel; write vfs_read, *balance* or :mod:ext4"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(name: &str) -> Operand {
        Operand { name: name.into(), is_field: false, cast: None }
    }

    #[test]
    fn operands_have_a_name_and_may_have_a_type() {
        assert_eq!(operand("bytes_req"), Ok(plain("bytes_req")));
        assert_eq!(operand("return:s32"), Ok(Operand { cast: Some(Cast::Number(4, true)), ..plain("return") }));
        assert_eq!(
            operand("args.pid:u8"),
            Ok(Operand { is_field: true, cast: Some(Cast::Number(1, false)), ..plain("pid") })
        );
        assert_eq!(operand("sk->__sk_common.skc_dport:be16"), operand("sk.__sk_common.skc_dport:be16"));
        let port = Operand { cast: Some(Cast::Swapped(2)), ..plain("sk.__sk_common.skc_dport") };
        assert_eq!(operand("sk->__sk_common.skc_dport:be16"), Ok(port));
        for (text, says) in [
            ("", "no name"),
            ("1a", "no name"),
            ("a b", "no name"),
            ("a->", "no name"),
            ("a..b", "no name"),
            (".a", "no name"),
            ("arg1:int", "no type \"int\"; there are u8"),
            ("arg1:", "no type"),
            ("pid:u32", "type of its own"),
            ("arg1:be8", "no type"),
        ] {
            let error = operand(text).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_filter_is_a_list_of_comparisons() {
        let tests = filter("bytes_req > 1000 and node==-1 && gfp_flags & 0x40").unwrap();
        let short: Vec<_> = tests.iter().map(|t| (t.operand.name.as_str(), t.operator, t.number)).collect();
        assert_eq!(
            short,
            [
                ("bytes_req", Operator::Greater, 1000),
                ("node", Operator::Equal, -1),
                ("gfp_flags", Operator::SharesBits, 64)
            ]
        );
        let [arrow] = &filter("sk->sk_family == 2").unwrap()[..] else { panic!() };
        assert_eq!((arrow.operand.name.as_str(), arrow.number), ("sk.sk_family", 2));
        assert_eq!(filter("latency >= 5ms").unwrap()[0].number, 5_000_000);
        assert_eq!(filter(""), Ok(Vec::new()));
        for (text, says) in [
            ("bytes_req", "no comparison"),
            ("bytes_req > many", "\"many\" in \"bytes_req > many\" is no whole number"),
            ("bytes_req > 1 or x < 2", "no whole number"),
            ("x >> 1", "no whole number"),
            ("x > +1", "no whole number"),
            ("latency > 5 parsecs", "5ms"),
            ("comm == bash", "--comm"),
            ("cgroup == 1", "--cgroup"),
            ("> 1", "no name"),
            ("a>1 and b>1 and c>1 and d>1 and e>1", "at most 4"),
            ("a>1 and ", "no comparison"),
        ] {
            let error = filter(text).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    #[test]
    fn keys_are_few_and_each_stands_once() {
        assert_eq!(keys("comm, arg1").unwrap(), [plain("comm"), plain("arg1")]);
        assert!(keys("pid,pid").unwrap_err().contains("twice"));
        assert!(keys("a,b,c,d").unwrap_err().contains("at most 3"));
        assert_eq!(keys("comm,stack,a,b,c").unwrap().len(), 5);
        assert_eq!(values("arg1:string, return").unwrap().len(), 2);
        assert!(values("a,b,c,d,e").unwrap_err().contains("at most 4"));
        for name in ["pid", "cgroup"] {
            assert!(value(name).unwrap_err().contains("can be a key"));
        }
        let found = members("size", "comm,sk->a.b,sk.a.b", "x.y > 5 and z == 1");
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["sk.a.b", "x.y"]);
    }

    #[test]
    fn points_are_named_in_their_own_ways() {
        for name in ["vfs_read", "libc:malloc", "/usr/bin/x:std::main", "/usr/bin/x:net/http.(*conn).serve"] {
            assert_eq!(function(name), Ok(()), "{name}");
        }
        for name in ["", "libc:", ":malloc", "a b", "/usr/bin/x"] {
            assert!(function(name).is_err(), "{name}");
        }
        for name in ["python3:python:gc__start", "/opt/a:b/c:p:n", "libc:*:*"] {
            assert_eq!(marker(name), Ok(()), "{name}");
        }
        for name in ["", "python3", "python3:gc__start", "a::b", ":p:n", "a:p:", "a:p q:n"] {
            assert!(marker(name).is_err(), "{name}");
        }
        for list in ["vfs_read", "*balance*, vfs_?ead", ":mod:ext4,foo.isra.0", "*x*:mod:snd-*"] {
            assert_eq!(kernel_functions(list), Ok(()), "{list}");
        }
        for list in ["a b", "vfs_read:traceoff", "!vfs_read", "vfs_read,", ":mod:", "libc:malloc", "#"] {
            assert!(kernel_functions(list).is_err(), "{list}");
        }
        assert_eq!(tracepoint("kmem:kmalloc"), Ok(()));
        for name in ["", "kmalloc", "kmem:", ":kmalloc", "t:kmem:kmalloc"] {
            assert!(tracepoint(name).is_err(), "{name}");
        }
    }
}
