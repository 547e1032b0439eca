//! What keys stand for that are no numbers: texts, control groups by the inodes of their directories, and functions of the kernel by
//! addresses in their code.

use std::collections::HashMap;

use super::query::Query;
use crate::def::Context;
use crate::value_read::{Read, Source};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Version};
use rdiag_kernel::mechanism::ebpf::filter::controller_number;
use rdiag_kernel::mechanism::ebpf::{Global, Object, words};
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_model::Unavailable;

/// Words of a text in the program's table.
const TEXT: usize = 16;
/// What stands in place of a text's name when the table had no room for it.
const MISSING: u64 = 1;
/// The controller whose tree of control groups is meant where each has a tree of its own.
const CONTROLLER: &str = "cpu";
/// Control groups that are looked at, at most.
const MOST_GROUPS: usize = 20_000;

/// What is known so far.
#[derive(Default)]
pub(super) struct Names {
    /// The tree of control groups, and the index of the controller in the kernel where it is of version 1.
    tree: Option<(Hierarchy, i32)>,
    groups: HashMap<u64, String>,
    /// By name in the program's table; a text has the same name at every point.
    texts: HashMap<u64, String>,
    /// If functions of the kernel are asked for.
    symbols: Option<Symbols>,
}

impl Names {
    /// With the control groups of this moment, if they are asked for.
    pub(super) fn new(context: &Context<'_>, queries: &[Query]) -> Result<Self, Unavailable> {
        let (host, mut names) = (context.host, Self::default());
        if queries.iter().any(Query::by_group) {
            let tree = Hierarchy::find(host, CONTROLLER)?;
            let index = if tree.version == Version::V1 { controller_number(host, CONTROLLER)? } else { -1 };
            names.tree = Some((tree, index));
            names.look_for_groups(host);
        }
        if queries.iter().any(Query::by_code) {
            names.symbols = Some(Symbols::new(host, context.kernel().ok()));
        }
        Ok(names)
    }

    /// The constant of point.h.
    pub(super) fn global(&self) -> Global {
        let index = self.tree.as_ref().map_or(-1, |(_, index)| *index);
        Global::bytes("group_v1", index.to_ne_bytes().to_vec())
    }

    /// Finds out what the keys of one point stand for.
    pub(super) fn learn<'k>(
        &mut self,
        host: &Host,
        query: &Query,
        object: &Object,
        keys: impl Iterator<Item = &'k [u64]>,
    ) {
        if !query.has_text() && !query.by_group() && !query.by_code() {
            return;
        }
        let mut code = Vec::new();
        let mut has_looked = false;
        for key in keys {
            for ((_, read), word) in query.keys.iter().zip(key) {
                code.extend(read.is_code.then_some(*word));
                if read.source == Source::Group && !self.groups.contains_key(word) && !has_looked {
                    has_looked = true;
                    self.look_for_groups(host);
                }
                if read.text.is_some() && *word > MISSING && !self.texts.contains_key(word) {
                    let text = object.hash_value::<u64, [u64; TEXT]>("point_texts", word);
                    self.texts.extend(text.map(|text| (*word, words::text_of_words(&text))));
                }
            }
        }
        if let Some(symbols) = &mut self.symbols {
            symbols.learn_functions(host, None, code);
            symbols.settle(host);
        }
    }

    /// A part of a key, for people.
    pub(super) fn shown(&self, read: Read, word: u64) -> String {
        match (read.text, read.source) {
            (Some(_), _) if word == 0 => "(cannot be read)".into(),
            (Some(_), _) => self.texts.get(&word).cloned().unwrap_or_else(|| "(other texts)".into()),
            (_, Source::Group) => self.groups.get(&word).cloned().unwrap_or_else(|| format!("(removed group {word})")),
            _ if read.is_code => {
                let name = self.symbols.as_ref().and_then(|symbols| symbols.name(None, word));
                name.map_or_else(|| read.shown(word), str::to_owned)
            }
            _ => read.shown(word),
        }
    }

    /// What names could not be found, and why.
    pub(super) fn notes(&self) -> impl Iterator<Item = &str> {
        self.symbols.iter().flat_map(Symbols::notes)
    }

    /// Adds the groups that there are now. Those that were removed keep their names.
    fn look_for_groups(&mut self, host: &Host) {
        let Some((tree, _)) = &self.tree else { return };
        let mut open = vec![tree.first_group().to_owned()];
        let mut seen = 0;
        while let Some(group) = open.pop().filter(|_| seen < MOST_GROUPS) {
            seen += 1;
            let below = host.subdirectories(&tree.directory(&group)).unwrap_or_default();
            open.extend(below.into_iter().map(|name| format!("{}/{name}", group.trim_end_matches('/'))));
            self.groups.extend(tree.inode(host, &group).map(|inode| (inode, group)));
        }
    }
}

#[cfg(test)]
impl Names {
    /// With these texts.
    pub(super) fn of_texts(texts: &[(u64, &str)]) -> Self {
        let texts = texts.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        Self { texts, ..Self::default() }
    }
}
