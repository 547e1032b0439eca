//! Names from files, by blazesym: each file is read once for all processes that have it mapped.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Kernel, Process as UserProcess, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use blazesym::{MaybeDefault, Pid};

use super::debug_file::{DebugFile, DebugFiles};
use super::maps::{InFile, Maps};
use super::worker::{Detail, Named, Of};

/// After so many files what was read of them is dropped: each keeps a descriptor and memory.
const FILES: usize = 256;
/// Longest name that is kept, in characters; templates of C++ can be longer than any page.
pub(super) const MAX_NAME: usize = 500;

/// What looks names up, and what it has read so far.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    symbolizer: Symbolizer,
    files: HashSet<PathBuf>,
    debug_files: DebugFiles,
}

/// Addresses of a process that lie in one file: their places among those that were asked for, and in the file.
type InFiles = BTreeMap<PathBuf, Vec<(usize, u64)>>;

impl Lookup {
    /// Forgets what was read if the files of this question are too many more.
    pub(super) fn make_room(&mut self, of: &Of, addresses: &[u64], maps: &Maps) {
        let new: Vec<PathBuf> = match of {
            Of::Kernel => Vec::new(),
            Of::File { path, .. } => vec![path.clone()],
            Of::Process { pid, through_map_files } => {
                let file = |address: &u64| maps.in_file(*address, *pid, *through_map_files).map(|file| file.path);
                addresses.iter().filter_map(file).collect()
            }
        };
        self.files.extend(new.iter().cloned());
        if self.files.len() > FILES {
            *self = Self { files: new.into_iter().collect(), ..Self::default() };
        }
    }

    /// The functions at each address, outermost first.
    pub(super) fn names(&mut self, of: &Of, addresses: &[u64], maps: &Maps, detail: Detail) -> Vec<Vec<Named>> {
        match detail {
            Detail::Line => self.found(of, addresses, maps, true),
            Detail::Name => self.plain_names(of, addresses, maps),
        }
    }

    /// Looks functions up. A file whose own table of symbols was stripped may have another one beside its debug information.
    fn plain_names(&mut self, of: &Of, addresses: &[u64], maps: &Maps) -> Vec<Vec<Named>> {
        let mut found = self.found(of, addresses, maps, false);
        let Of::Process { pid, through_map_files } = of else { return found };
        let mut rest: BTreeSet<usize> =
            (0..addresses.len()).filter(|at| found.get(*at).is_some_and(Vec::is_empty)).collect();
        let mut stripped = InFiles::new();
        for at in &rest {
            let file = addresses.get(*at).and_then(|address| maps.in_file(*address, *pid, *through_map_files));
            if let Some(InFile { path, offset }) = file {
                stripped.entry(path).or_default().push((*at, offset));
            }
        }
        for (path, places) in stripped {
            let Some(DebugFile { path, segments }) = self.debug_files.of(&path) else { continue };
            let source = elf(path, false);
            let (places, offsets): (Vec<usize>, Vec<u64>) =
                places.into_iter().filter_map(|(at, offset)| Some((at, segments.address(offset)?))).unzip();
            let Ok(symbols) = self.symbolizer.symbolize(&source, Input::VirtOffset(&offsets)) else { continue };
            for (at, symbol) in places.into_iter().zip(symbols) {
                if let (Symbolized::Sym(_), Some(place)) = (&symbol, found.get_mut(at)) {
                    *place = functions(&symbol, false);
                    rest.remove(&at);
                }
            }
        }
        // Debug information that is found in other ways.
        let again: Vec<u64> = rest.iter().filter_map(|at| addresses.get(*at).copied()).collect();
        for (at, names) in rest.into_iter().zip(self.found(of, &again, maps, true)) {
            if let Some(place) = found.get_mut(at) {
                *place = names;
            }
        }
        found
    }

    /// Looks addresses up, with debug information or without.
    fn found(&self, of: &Of, addresses: &[u64], maps: &Maps, debug: bool) -> Vec<Vec<Named>> {
        match of {
            Of::Kernel => self.kernel(addresses),
            Of::File { path, .. } => self.of_source(|debug| elf(path, debug), addresses, Input::FileOffset, debug),
            Of::Process { pid, through_map_files } => {
                // By its path a file is read once for all processes, and without reading again what this one has mapped.
                let mut in_files = InFiles::new();
                let mut elsewhere = Vec::new();
                for (at, address) in addresses.iter().enumerate() {
                    match maps.in_file(*address, *pid, false).filter(|_| !through_map_files) {
                        Some(InFile { path, offset }) => in_files.entry(path).or_default().push((at, offset)),
                        None => elsewhere.push((at, *address)),
                    }
                }
                let mut found = vec![Vec::new(); addresses.len()];
                let mut put = |places: Vec<usize>, names: Vec<Vec<Named>>| {
                    for (at, names) in places.into_iter().zip(names) {
                        found.get_mut(at).into_iter().for_each(|place| place.clone_from(&names));
                    }
                };
                for (path, places) in in_files {
                    let (places, offsets): (Vec<usize>, Vec<u64>) = places.into_iter().unzip();
                    put(places, self.of_source(|debug| elf(&path, debug), &offsets, Input::FileOffset, debug));
                }
                let (places, rest): (Vec<usize>, Vec<u64>) = elsewhere.into_iter().unzip();
                let process = |debug| {
                    let mut process = UserProcess::new(Pid::from(*pid));
                    process.debug_syms = debug;
                    process.perf_map = false;
                    process.map_files = *through_map_files;
                    Source::Process(process)
                };
                put(places, self.of_source(process, &rest, Input::AbsAddr, debug));
                found
            }
        }
    }

    /// The list of the running kernel alone: an image on disk may be another kernel's, and takes long.
    fn kernel(&self, addresses: &[u64]) -> Vec<Vec<Named>> {
        let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() });
        // An empty question makes the list be read ahead.
        let asked = if addresses.is_empty() { &[u64::MAX] } else { addresses };
        match self.symbolizer.symbolize(&source, Input::AbsAddr(asked)) {
            Ok(found) => found.iter().zip(addresses).map(|(found, _)| functions(found, true)).collect(),
            Err(_) => vec![Vec::new(); addresses.len()],
        }
    }

    /// Looks addresses up in a source. One that cannot be found must cost itself only.
    fn of_source<'a>(
        &self,
        source: impl Fn(bool) -> Source<'static>,
        addresses: &'a [u64],
        input: impl Fn(&'a [u64]) -> Input<&'a [u64]>,
        debug: bool,
    ) -> Vec<Vec<Named>> {
        if addresses.is_empty() {
            return Vec::new();
        }
        let ask = |addresses, debug| self.symbolizer.symbolize(&source(debug), input(addresses));
        if let Ok(found) = ask(addresses, debug) {
            return found.iter().map(|found| functions(found, false)).collect();
        }
        // Debug information that cannot be read does not take the name away.
        let one = |address| ask(address, debug).or_else(|_| ask(address, false)).ok();
        let names = |found: Vec<Symbolized<'_>>| found.first().map(|found| functions(found, false));
        addresses.chunks(1).map(|address| one(address).and_then(names).unwrap_or_default()).collect()
    }
}

fn elf(path: &Path, debug: bool) -> Source<'static> {
    Source::Elf(Elf { debug_syms: debug, ..Elf::new(path) })
}

fn functions(found: &Symbolized<'_>, kernel: bool) -> Vec<Named> {
    let Symbolized::Sym(symbol) = found else { return Vec::new() };
    let line = |info: Option<&CodeInfo<'_>>| {
        info.and_then(|info| Some(format!("{}:{}", info.to_path().display(), info.line?)))
    };
    let short = |name: &str| name.chars().take(MAX_NAME).collect::<String>();
    let module = symbol.module.as_ref().filter(|_| kernel).and_then(|module| module_name(&module.to_string_lossy()));
    // The place of the function that holds the others is where it calls the first of them.
    let Sym { name, code_info, inlined, .. } = symbol;
    let mut functions = vec![Named { name: short(name), module: module.clone(), line: line(code_info.as_deref()) }];
    // Aliases of one function come as if one were inlined into the other.
    functions.extend(inlined.iter().filter(|inner| inner.name != *name).map(|inner| Named {
        name: short(&inner.name),
        module: module.clone(),
        line: line(inner.code_info.as_ref()),
    }));
    functions
}

/// `[ext4]` for a module; none for the kernel itself.
pub(super) fn module_name(module: &str) -> Option<String> {
    let name = module.trim_matches(['[', ']']).rsplit('/').next().unwrap_or_default();
    (!name.is_empty() && name != "kallsyms" && name != "vmlinux").then(|| format!("[{name}]"))
}
