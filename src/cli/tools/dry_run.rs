//! Whether each command in the map of old tools can be typed.

use clap::Parser as _;

use super::super::{Cli, Command, probe};
use super::{NAME, is_asked};
use rdiag_collectors as collectors;
use rdiag_playbook::tools::{Tool, Tools, check};
use rdiag_playbook::{Library, Problem};
use rdiag_session as session;

/// Everything that is wrong with the map.
pub(in crate::cli) fn problems(map: &Tools, library: &Library) -> Vec<Problem> {
    let mut problems = check::map(map, &session::catalogue());
    for group in &map.groups {
        for tool in &group.tools {
            let first = tool.names.first().map_or("", String::as_str);
            for command in &tool.run {
                if let Some(message) = wrong_command(tool, command, library) {
                    problems.push(check::problem(group.file, first, format!("{first}: {message}")));
                }
            }
            for id in tool.by.iter().filter(|id| collectors::find(id).is_some() && !is_asked(tool, id, library)) {
                let message = format!("{first} is said to be answered by {id}, which no playbook in `run` collects");
                problems.push(check::problem(group.file, first, message));
            }
        }
    }
    problems
}

/// What is wrong with a command for any of the names that may stand in it.
fn wrong_command(tool: &Tool, command: &str, library: &Library) -> Option<String> {
    let names = tool.names.iter().filter(|name| !name.contains('*'));
    let count = if command.contains(NAME) { tool.names.len() } else { 1 };
    names.take(count).map(|name| command.replace(NAME, name)).find_map(|command| {
        let error = run_dry(&command, library).err()?;
        Some(format!("`{command}`: {error}"))
    })
}

/// The words of a command as a shell takes them, and all that stands outside of quotes; the map uses single ones.
fn words(command: &str) -> (Vec<String>, String) {
    let (mut words, mut plain) = (Vec::new(), String::new());
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
        plain.extend(Some(c).filter(|_| !quoted));
    }
    words.extend(word);
    (words, plain)
}

/// Whether a command could begin: its options, and the playbook, probe and parameters that it names.
pub(in crate::cli) fn run_dry(command: &str, library: &Library) -> Result<(), String> {
    let (words, plain) = words(command);
    if plain.contains(['<', '>', '|', '&', ';', '$', '`', '(', ')', '#']) {
        return Err("a shell would not take it as it stands; put single quotes around the word".into());
    }
    if words.first().is_none_or(|word| word != "rdiag") {
        return Err("a command begins with rdiag; others belong into `manual`".into());
    }
    let cli = Cli::try_parse_from(words)
        .map_err(|error| error.to_string().lines().next().unwrap_or("it cannot be parsed").to_owned())?;
    let Some(command) = &cli.command else { return Ok(()) };
    let playbook = match command {
        Command::Run(args) => args.measure.playbook.as_deref().unwrap_or_default(),
        Command::Record(args) => args.measure.playbook.as_deref().unwrap_or_default(),
        Command::Probe(args) => return probe::checked(args).map(drop).map_err(|failure| failure.to_string()),
        _ => return Ok(()),
    };
    library.playbook(playbook).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::map;
    use super::*;
    use rdiag_playbook::SourceFile;

    fn library() -> Library {
        Library::read(Vec::<SourceFile>::new())
    }

    #[test]
    fn every_tool_leads_to_what_is_shipped_or_planned_and_every_command_can_be_typed() {
        let problems: Vec<String> = problems(&map(), &library()).iter().map(ToString::to_string).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn commands_that_cannot_be_typed_are_found() {
        for (command, says) in [
            ("vmstat 1", "begins with rdiag"),
            ("rdiag probe count --param tracepoint=kmem:kmalloc --param filter=bytes_req>1000", "single quotes"),
            ("rdiag measure", "unrecognized subcommand"),
            ("rdiag run use-metod", "no playbook named"),
            ("rdiag record use-metod", "no playbook named"),
            ("rdiag probe biosnop", "no probe named"),
            ("rdiag probe biosnoop --param speed=1", "speed"),
            ("rdiag probe biosnoop --threshold fast", "no duration"),
            ("rdiag list shoes", "invalid value"),
        ] {
            let error = run_dry(command, &library()).unwrap_err();
            assert!(error.contains(says), "{command}: {error}");
        }
        assert_eq!(run_dry("rdiag probe biosnoop --threshold 10ms", &library()), Ok(()));
    }

    #[test]
    fn words_are_taken_apart_as_a_shell_does() {
        let (words, plain) = words("rdiag  probe 'a > b' c'd 'e ''");
        assert_eq!(words, ["rdiag", "probe", "a > b", "cd e", ""]);
        assert!(!plain.contains('>'), "{plain}");
    }
}
