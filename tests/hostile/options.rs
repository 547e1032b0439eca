//! Every option and argument of every command with a hostile value: a name, a pattern, a path that is not there, and one that is.

use std::any::TypeId;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use super::ALL_IN_ONE;
use super::read::acting;
use crate::support::{path, rdiag};

/// What stands beside the value that is tried, so that no measuring begins that lasts, and nothing on this host is changed.
fn beside(command: &str) -> Vec<OsString> {
    let tree = path("tests/fixtures/hosts/idle").into_os_string();
    let own: &[&str] = match command {
        "run" => &["use-method", "--no-guided", "--out", "out", "--duration", "100ms", "--interval", "50ms"],
        "record" => &["use-method", "--out", "made", "--duration", "100ms", "--interval", "50ms"],
        "probe" => &["runqlat", "--duration", "1ms"],
        "watch" => &["--duration", "1ms"],
        "wait" => &["--when", "psi.io.full.ratio > 2", "--timeout", "1ms"],
        "lab start" => &["no-such-exercise"],
        "lab class" => &["no-such-file"],
        "lab dev-check" => &["no-such-exercise"],
        "list" => &["rules"],
        _ => &[],
    };
    let own = own.iter().map(OsString::from);
    if ["run", "record"].contains(&command) { own.chain(["--root".into(), tree]).collect() } else { own.collect() }
}

/// A file that any command takes that takes files.
const FILE: &str = "recording.json";

/// All commands that can be given, with their names.
fn commands(of: &Command, name: &str) -> Vec<(String, Command)> {
    let mut all = Vec::new();
    for command in of.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = format!("{name} {}", command.get_name()).trim().to_owned();
        if command.has_subcommands() { all.extend(commands(command, &name)) } else { all.push((name, command.clone())) }
    }
    all
}

/// A command line with a value for one argument, and for what that needs.
fn line(name: &str, command: &Command, tried: &Arg, value: &OsString) -> Vec<OsString> {
    let mut line: Vec<OsString> = name.split(' ').map(OsString::from).collect();
    let positional: Vec<&Arg> = command.get_positionals().filter(|arg| !arg.is_last_set()).collect();
    let mut given = beside(name);
    if tried.is_positional() && !tried.is_last_set() {
        // The value stands in the place of whatever came first.
        let at = positional.iter().position(|arg| arg.get_id() == tried.get_id()).unwrap();
        let first = given.iter().position(|word| word.to_string_lossy().starts_with("--")).unwrap_or(given.len());
        let options = given.split_off(first);
        given.resize(at, FILE.into());
        given.push(value.clone());
        given.extend(positional.iter().skip(at + 1).filter(|arg| arg.is_required_set()).map(|_| FILE.into()));
        line.extend(options);
    } else {
        let needed = positional.iter().filter(|arg| arg.is_required_set()).count();
        let names = given.iter().take_while(|word| !word.to_string_lossy().starts_with("--")).count();
        (names..needed).for_each(|_| given.insert(0, FILE.into()));
        match tried.get_long() {
            Some(long) => {
                if let Some(at) = given.iter().position(|word| *word == *format!("--{long}")) {
                    given.drain(at..at + 2);
                }
                let mut option = OsString::from(format!("--{long}="));
                option.push(value);
                given.push(option);
            }
            None => given.extend(["--".into(), value.clone()]),
        }
    }
    line.extend(given);
    line
}

#[test]
fn no_value_of_an_option_acts_in_what_is_said_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let name: String = ALL_IN_ONE.replace('/', "");
    let (junk, recording) = (format!("junk{name}"), format!("recording{name}"));
    std::fs::write(folder.path().join(&junk), "{").unwrap();
    for name in [recording.as_str(), FILE] {
        std::fs::copy(path("tests/fixtures/recordings/run-queue-waits.json"), folder.path().join(name)).unwrap();
    }
    std::fs::create_dir(folder.path().join(format!("folder{name}"))).unwrap();
    let mut no_text = name.clone().into_bytes();
    no_text.insert(0, 0xff);
    let texts = [name.clone(), format!("{name}=1"), format!("1{name}")].map(OsString::from);
    let points = [OsString::from(format!("a:{name}"))];
    let files = [junk, recording, format!("folder{name}")].map(OsString::from);
    let files: Vec<OsString> = files.into_iter().chain([OsString::from_vec(no_text)]).collect();
    let mut tried = 0;
    for (name, command) in commands(&rdiag::cli::command(), "") {
        let takes = |arg: &&Arg| arg.get_action().takes_values();
        for arg in command.get_arguments().filter(takes) {
            let more: &[OsString] = match arg.get_value_parser().type_id() == TypeId::of::<PathBuf>() {
                true => &files,
                false if arg.is_positional() => &points,
                false => &[],
            };
            for value in texts.iter().chain(more) {
                tried += 1;
                let line = line(&name, &command, arg, value);
                let said = said(folder.path(), &line);
                assert_eq!(acting(&said), None, "{line:?}");
            }
        }
    }
    assert!(tried > 300, "{tried} values");
}

fn said(folder: &Path, line: &[OsString]) -> String {
    let mut run = rdiag();
    run.current_dir(folder).env("HOME", folder).env("XDG_STATE_HOME", folder).env("XDG_CACHE_HOME", folder);
    let output = run.args(line).output().unwrap();
    // A recording is no text, and is refused where stdout is a terminal.
    let text = if output.stdout.starts_with(&[0x1f, 0x8b]) { &[][..] } else { &output.stdout };
    String::from_utf8_lossy(text).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
