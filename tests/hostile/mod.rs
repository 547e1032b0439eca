//! Names and files of strangers: whatever stands in a field, an option or a file name, nothing in what rdiag writes acts.
//!
//! Nothing here is listed by hand: documents are made from the schemas of the types (`sample`), and options from the command
//! line as clap has it (`options`), so that a new field or option is tried from its first day.

mod options;
mod read;
mod recordings;
mod reports;
mod sample;

/// Texts that try to get out of the medium they are shown in.
const HOSTILE: &[&str] = &[
    ALL_IN_ONE,
    "\u{1b}[31mred\u{1b}[2J\u{1b}]0;title\u{7}",
    "\u{9b}31m\u{7f}\u{0}\u{8}\u{8}",
    "\rover\u{b}\u{c}\u{85}",
    "\u{202e}gnp.exe\u{2066}\u{200b}\u{feff}\u{2028}",
    "x\nFORGED: y\r\nFORGED: z",
    "\n\n# heading\n\n- item",
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'onmouseover='alert(1)",
    "</style></script><svg/onload=alert(1)>",
    "--><![CDATA[x]]>",
    "](javascript:alert(1)) [y](javascript:z) ![z](http://evil.example/z.png)",
    "https://evil.example www.evil.example a@evil.example <http://evil.example>",
    "a|b|c",
    "`rm -rf` ``` ~~~",
    "**bold** _it_ ~~no~~ $x$ \\",
    "- item",
    "1. item",
    "===",
    "| --- |",
    "{{ 7*7 }} {% raw %} {} {0}",
    "&lt;b&gt; &#60;b&#62;",
    "    four spaces",
    "[^1]: note",
];

/// Something of each kind, the worst first: some names are cut.
const ALL_IN_ONE: &str = "\u{1b}[2J\u{9b}1A\u{202e}\u{200b}\nFORGED: <b>[y](javascript:z)|`*\r\u{7}";

/// A harmless word: what is drawn for it is compared with what is drawn for a hostile one.
const PLAIN: &str = "plain";
