//! Finding playbooks and rules: built in, in /etc/rdiag, in ~/.config/rdiag, and as files on the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rdiag_kernel::host::files;
use rdiag_model::Recording;
use rdiag_playbook::{Library, LoadedPlaybook, Plan, PlaybookError, Problem, SourceFile, check, is_builtin, load};

/// A playbook that was asked for, with everything it may use.
pub struct NamedPlaybook {
    /// All playbooks and rules.
    pub library: Library,
    /// The one that was asked for.
    pub loaded: LoadedPlaybook,
    /// What is wrong with other files: worth a warning, no reason to stop.
    pub warnings: Vec<Problem>,
    /// What else is worth one: that the playbook is not the built-in one of its name.
    pub notes: Vec<String>,
}

impl NamedPlaybook {
    /// The plan by which a recording is judged: with the parameters it was made with, but for those that the playbook no
    /// longer has.
    pub fn plan_of(&self, recording: &Recording) -> Result<Plan, PlaybookError> {
        let known = |(key, _): &(&String, &String)| self.loaded.playbook.params.contains_key(*key);
        let given: BTreeMap<String, String> =
            recording.params.iter().filter(known).map(|(key, value)| (key.clone(), value.clone())).collect();
        Plan::new(&self.loaded, &self.library, &given)
    }
}

/// The folders that are searched, the host's before the user's.
#[must_use]
pub fn default_folders() -> Vec<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let home =
        || std::env::var_os("HOME").filter(|value| !value.is_empty()).map(|home| PathBuf::from(home).join(".config"));
    let mut folders = vec![PathBuf::from("/etc/rdiag")];
    folders.extend(config.or_else(home).map(|config| config.join("rdiag")));
    folders
}

/// Files of playbooks and rules, read and not parsed yet: parsing them needs no right to read them.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
    /// Files that are not used, and why.
    left_out: Vec<Problem>,
}

impl Sources {
    /// All that they and the built-in files hold.
    #[must_use]
    pub fn library(&self) -> Library {
        self.read(Library::read)
    }

    fn read(&self, how: impl Fn(Vec<SourceFile>) -> Library) -> Library {
        let mut library = how(self.files.clone());
        library.problems.extend(self.left_out.iter().cloned());
        library
    }
}

/// Reads everything: the built-in files, `folders` (each with `*.yaml` playbooks and `rules/*.yaml`), then `files`.
pub fn library(folders: &[PathBuf], named: &[PathBuf]) -> Result<Library, PlaybookError> {
    Ok(sources(folders, named)?.library())
}

/// Reads the files of `folders` (each with `*.yaml` playbooks and `rules/*.yaml`), then `files`.
///
/// A folder or file in it that others may write to is left out, which [`Library::problems`] says: it decides what root believes.
pub fn sources(folders: &[PathBuf], named: &[PathBuf]) -> Result<Sources, PlaybookError> {
    let mut sources = Vec::new();
    let mut left_out = Vec::new();
    for folder in folders {
        if let Some(why) = files::distrust(folder) {
            left_out.push(distrusted(folder, &why));
            continue;
        }
        for (place, rules) in [(folder.join("rules"), true), (folder.clone(), false)] {
            if let Some(why) = files::distrust(&place) {
                left_out.push(distrusted(&place, &why));
                continue;
            }
            let paths = match files::list_named(&place, "yaml") {
                Ok(paths) => paths,
                // HOME may still be that of the user who switched to this one (sudo -u, setpriv): not our folder then.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => continue,
                Err(source) => return Err(unreadable(&place, source)),
            };
            for path in paths {
                match trusted(&path, rules)? {
                    Ok(file) => sources.push(file),
                    Err(why) => left_out.push(why),
                }
            }
        }
    }
    for path in named {
        // It was named, so whose it is does not matter.
        let mut file = read(path, false)?;
        file.rules = is_rule_file(&file.text);
        sources.push(file);
    }
    Ok(Sources { files: sources, left_out })
}

/// Whether a playbook is given by its path.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml")
}

/// Reads what the playbook may use that a name or path means; without one, what every playbook may use.
pub fn sources_for(name: Option<&str>) -> Result<Sources, PlaybookError> {
    let Some(path) = name.filter(|name| is_path(name)).map(Path::new) else { return sources(&default_folders(), &[]) };
    let mut all = sources(&default_folders(), &[path.to_owned()])?;
    // The playbook was named, and what lies beside it was not.
    let beside = path.parent().unwrap_or(Path::new(".")).join("rules");
    for path in files::list_named(&beside, "yaml").map_err(|source| unreadable(&beside, source))? {
        match trusted(&path, false)? {
            Ok(file) => all.files.push(SourceFile { rules: is_rule_file(&file.text), ..file }),
            Err(why) => all.left_out.push(why),
        }
    }
    Ok(all)
}

/// Reads a file that was not named itself; or why it is not used: others may write to it.
fn trusted(path: &Path, rules: bool) -> Result<Result<SourceFile, Problem>, PlaybookError> {
    // What is asked is what is read: who owns a folder above could exchange it in between.
    match files::read_trusted(path, load::MAX_BYTES).map_err(|source| unreadable(path, source))? {
        Err(why) => Ok(Err(distrusted(path, &why))),
        Ok(bytes) => source(path, bytes, rules).map(Ok),
    }
}

fn distrusted(path: &Path, why: &str) -> Problem {
    Problem::whole(&path.display().to_string(), format!("not used: {why}"))
}

/// A file of rules is a list; a playbook is a mapping.
fn is_rule_file(text: &str) -> bool {
    let first =
        text.lines().map(str::trim_end).find(|line| !line.is_empty() && !line.starts_with('#') && *line != "---");
    first.is_some_and(|line| line.starts_with('-') || line.starts_with('['))
}

fn read(path: &Path, rules: bool) -> Result<SourceFile, PlaybookError> {
    source(path, files::read_named(path, load::MAX_BYTES).map_err(|source| unreadable(path, source))?, rules)
}

fn source(path: &Path, bytes: Vec<u8>, rules: bool) -> Result<SourceFile, PlaybookError> {
    let text = String::from_utf8(bytes).map_err(|_| {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not UTF-8 text");
        unreadable(path, source)
    })?;
    Ok(SourceFile { label: path.display().to_string(), text, rules, builtin: false })
}

fn unreadable(path: &Path, source: std::io::Error) -> PlaybookError {
    PlaybookError::Read { path: path.display().to_string(), source }
}

/// The playbook that a recording was made with, by its name. A recording is not trusted: it names no file.
pub fn resolve_recorded(name: &str, sources: &Sources) -> Result<NamedPlaybook, PlaybookError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(PlaybookError::NotFound {
            name: name.chars().take(100).collect(),
            hint: Some("the recording names no playbook; choose one with --playbook".into()),
        });
    }
    resolve_among(name, sources)
}

/// The playbook that a name or path means, checked. A path is anything with a slash or that ends in `.yaml`; rules that
/// lie in a folder `rules` beside it come with it.
pub fn resolve(name: &str) -> Result<NamedPlaybook, PlaybookError> {
    resolve_among(name, &sources_for(Some(name))?)
}

/// The same among files that were read before ([`sources_for`]).
pub fn resolve_among(name: &str, sources: &Sources) -> Result<NamedPlaybook, PlaybookError> {
    let named = (!is_path(name)).then_some(name);
    let (path, library) = (Path::new(name), sources.read(|files| Library::for_run(files, named)));
    let mut loaded = if is_path(name) {
        let own = library.playbooks.values().find(|loaded| loaded.file.label == path.display().to_string());
        match own {
            Some(loaded) => loaded.clone(),
            None => {
                let mut problems = library.problems;
                if problems.is_empty() {
                    let message = "it holds rules, and a playbook is what is run".to_owned();
                    let hint = format!("rules in ~/.config/rdiag/rules/ are used; `rdiag check {name}` tests these");
                    problems.push(Problem::whole(name, message).hint(Some(hint)));
                }
                return Err(PlaybookError::Invalid(problems));
            }
        }
    } else {
        match library.playbook(name) {
            Ok(loaded) => loaded.clone(),
            // It may be in one of the files that are not used.
            Err(_) if !library.problems.is_empty() => {
                let mut problems = vec![Problem::whole(name, "there is no playbook of this name".to_owned())];
                problems.extend(library.problems);
                return Err(PlaybookError::Invalid(problems));
            }
            Err(error) => return Err(error),
        }
    };
    let catalogue = super::catalogue();
    let used = loaded.playbook.steps.iter().flat_map(|step| &step.rules).filter_map(|id| library.rules.get(id));
    // What is built in is proven by the test suite, and need not be proven again before every measurement.
    let foreign: Vec<_> = used.filter(|rule| rule.origin != "default").collect();
    let mut problems = Vec::new();
    if !loaded.file.builtin || !foreign.is_empty() {
        if let Err(error) = loaded.file.unpack() {
            return Err(PlaybookError::Read { path: loaded.file.label, source: error });
        }
        problems = check::playbook(&loaded, &library, &catalogue);
    }
    problems.extend(foreign.into_iter().flat_map(|rule| check::rule(rule, &library, &catalogue, true)));
    if !problems.is_empty() {
        return Err(PlaybookError::Invalid(problems));
    }
    let warnings = library.problems.clone();
    // A path says which file is meant.
    let is_replaced = !is_path(name) && !loaded.file.builtin && is_builtin(name);
    let notes = is_replaced.then(|| format!("{name} of {} is used, not the built-in one", loaded.file.label));
    Ok(NamedPlaybook { library, loaded, warnings, notes: notes.into_iter().collect() })
}
