//! The terminal: the only file that prints. Results go to stdout, progress and hints to stderr.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use clap::error::{ContextKind, ContextValue};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::exit::Failure;
use rdiag_report as report;
use rdiag_report::escape::for_terminal;
use rdiag_report::shown;
use rdiag_report::shown::{Piece, Shown, Terminal};

/// Text for a terminal.
pub(super) type Text = Shown<Terminal>;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the terminal can do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ui {
    color: ColorWhen,
    /// Whether notes and progress are left out.
    is_hushed: bool,
}

impl Ui {
    pub(super) fn new(color: ColorWhen) -> Self {
        Self { color, is_hushed: false }
    }

    /// The same without notes and progress; warnings and errors stay.
    pub(super) fn hushed(self) -> Self {
        Self { is_hushed: true, ..self }
    }

    /// Whether notes and progress are left out.
    pub(super) fn is_hushed(self) -> bool {
        self.is_hushed
    }

    fn color_on(self, stream: &impl io::IsTerminal) -> bool {
        match self.color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
                    || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                !plain && stream.is_terminal()
            }
        }
    }

    /// How reports are drawn on stdout.
    pub(super) fn style(self) -> report::Style {
        let width = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
        let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
            .is_none_or(|locale| locale.to_ascii_lowercase().replace('-', "").contains("utf8"));
        report::Style {
            width: width.filter(|columns| *columns >= 20).unwrap_or(100).min(120),
            color: self.color_on(&io::stdout()),
            unicode: utf8,
        }
    }

    /// Whether a person sits at both ends.
    pub(super) fn is_interactive(self) -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Prints a result, or a document in whatever format was asked for.
    pub(super) fn print<M>(self, text: &Shown<M>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let text = for_terminal(text, self.color_on(&io::stdout()));
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::io("writing to stdout"))
    }

    /// Writes what is no text to stdout, which must not be a terminal.
    pub(super) fn pour(self, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        write(&mut out).and_then(|()| out.flush()).map_err(Failure::io("writing to stdout"))
    }

    /// Whether stdout is a terminal.
    pub(super) fn is_terminal(self) -> bool {
        io::stdout().is_terminal()
    }

    /// Says something about the run, beside its result. A closed stderr (`2>&1 | head`) is no reason to stop.
    pub(super) fn note<'p>(self, text: impl Into<Piece<'p, Terminal>>) {
        if !self.is_hushed {
            self.tell("", &Text::of(text));
        }
    }

    /// `prefix` is rdiag's own. Nothing in the text acts; the door is there in case something does.
    fn tell(self, prefix: &str, text: &Text) {
        let _ = writeln!(io::stderr(), "{prefix}{}", for_terminal(text, false));
    }

    /// Warns.
    pub(super) fn warn<'p>(self, text: impl Into<Piece<'p, Terminal>>) {
        self.tell(&self.paint("warning", AnsiColor::Yellow), &shown!(": {}", Text::of(text)));
    }

    /// Prints an error with its hint.
    pub(super) fn error(self, failure: &Failure) {
        self.tell(&self.paint("error", AnsiColor::Red), &shown!(": {}", failure.shown()));
        if let Some(hint) = failure.hint() {
            self.tell("", &shown!("  hint: {}", Text::seen(hint)));
        }
    }

    /// Prints the help to stderr, for a user who gave no command.
    pub(super) fn help(command: &mut clap::Command) {
        let _ = write!(io::stderr(), "{}", for_terminal(&Text::lines(command.render_help().to_string()), false));
    }

    /// Prints what clap says of a command line. What was typed may be the name of an untrusted file.
    pub(super) fn usage(error: &mut clap::Error) {
        let typed = |(kind, value): (ContextKind, &ContextValue)| match value {
            ContextValue::String(text) => Some((kind, Text::seen(text).to_string())),
            _ => None,
        };
        for (kind, seen) in error.context().filter_map(typed).collect::<Vec<_>>() {
            error.insert(kind, ContextValue::String(seen));
        }
        // A closed pipe behind --help is not an error.
        let _ = if error.use_stderr() {
            write!(io::stderr(), "{}", for_terminal(&Text::lines(error.render().to_string()), false))
        } else {
            error.print()
        };
    }

    fn paint(self, word: &str, color: AnsiColor) -> String {
        if !self.color_on(&io::stderr()) {
            return word.to_owned();
        }
        let style = Style::new().bold().fg_color(Some(color.into()));
        format!("{style}{word}{style:#}")
    }

    /// A bar for the window; hidden unless stderr is a terminal.
    pub(super) fn bar(self, message: &Text) -> ProgressBar {
        if self.is_hushed || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(1000);
        if let Ok(style) = ProgressStyle::with_template("  {bar:30} {percent:>3}%  {msg}") {
            bar.set_style(style);
        }
        self.say_on(&bar, message);
        bar
    }

    /// Says something else beside a bar.
    pub(super) fn say_on(self, bar: &ProgressBar, message: &Text) {
        bar.set_message(for_terminal(message, false).into_owned());
    }

    /// Asks for a line on stdout, amid a result; none at the end of input.
    pub(super) fn ask(self, prompt: &Text) -> Option<String> {
        self.print(prompt).ok()?;
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim().to_owned())
    }

    /// Asks for a line on stderr, so that stdout stays the result's; none at the end of input.
    pub(super) fn line<'p>(self, prompt: impl Into<Piece<'p, Terminal>>) -> Option<String> {
        let _ = write!(io::stderr(), "{}", for_terminal(&Text::of(prompt), false));
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim().to_owned())
    }
}
