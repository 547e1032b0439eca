//! What V8's objects look like, by what node's file says for debuggers: variables `v8dbg_…`, which node is built with.
//!
//! Beside the frame pointer of each frame of JavaScript stands the function whose frame it is (`probes/response/v8.h`).

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use object::read::elf::{ElfFile64, FileHeader, ProgramHeader as _, Sym as _, SymbolTable};
use object::{Endianness, Object as _, ObjectSection as _, ReadCache, ReadRef, elf};
use serde::{Deserialize, Serialize};

const PREFIX: &[u8] = b"v8dbg_";
/// A name is not longer.
const NAME: usize = 128;
/// Variables that are read at most: of a node there are a thousand.
const MOST: usize = 8192;

/// Offsets in bytes from an object's beginning, and types of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct V8 {
    /// In a function: what all of its closures share.
    pub shared: u32,
    /// In what they share: the name, or the scope that has it.
    pub name: u32,
    /// In what they share: the script.
    pub script: u32,
    /// In a scope: the number of its locals.
    pub locals: u32,
    /// In a scope: the first local.
    pub first_local: u32,
    /// The first type of objects that are no texts.
    pub first_other: u32,
    /// The type of what closures share.
    pub type_of_shared: u32,
    /// The type of a scope.
    pub type_of_scope: u32,
    /// The type of a script.
    pub type_of_script: u32,
    /// The type of what stands in the place of a script where functions are debugged.
    pub type_of_debug_info: u32,
}

/// What the programs in the kernel take for granted, since it is the same in all versions.
const SAME: &[(&str, i32)] = &[
    ("TaggedSize", 8),
    ("HeapObjectTag", 1),
    ("HeapObjectTagMask", 3),
    ("SmiTag", 0),
    ("SmiTagMask", 1),
    ("SmiShiftSize", 31),
    ("SmiValueShift", 1),
    ("StringTag", 0),
    ("StringRepresentationMask", 7),
    ("SeqStringTag", 0),
    ("ConsStringTag", 1),
    ("SlicedStringTag", 3),
    ("ThinStringTag", 5),
    ("StringEncodingMask", 8),
    ("OneByteStringTag", 8),
    ("class_HeapObject__map__Map", 0),
    ("class_Map__instance_type__uint16_t", 12),
    ("class_String__length__int32_t", 12),
    ("class_SeqOneByteString__chars__char", 16),
    ("class_ConsString__first__String", 16),
    ("class_ConsString__second__String", 24),
    ("class_SlicedString__parent__String", 16),
    ("class_SlicedString__offset__SMI", 24),
    ("class_ThinString__actual__String", 16),
    ("class_Script__name__Object", 16),
    ("off_fp_context", -8),
    ("off_fp_function", -16),
];

/// Bytes of an object before what `scopeinfo_idx_…` counts from: its type's.
const HEADER: u32 = 8;
const WORD: u32 = 8;

/// Whether a file of this name may be node (`node-22` of some distributions), or the library that it is in.
pub(super) fn is_of_node(object: &str) -> bool {
    let version = |rest: &str| rest.trim_start_matches('-').bytes().all(|digit| digit.is_ascii_digit());
    object == "nodejs" || object.strip_prefix("node").is_some_and(version) || object.starts_with("libnode.so")
}

/// That of a file, from a copy of its tables and from itself; none if it is another program, and none within if its V8 is not known.
pub(super) fn read(tables: &File, file: &File) -> Option<Option<V8>> {
    let cache = ReadCache::new(tables);
    let parsed = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let endian = parsed.elf_header().endian().ok()?;
    let mut places = HashMap::new();
    for table in [parsed.elf_symbol_table(), parsed.elf_dynamic_symbol_table()] {
        let strings = parsed.section_by_index(table.string_section()).and_then(|section| section.data());
        note(endian, table, strings.unwrap_or_default(), &mut places);
    }
    let loaded = || parsed.elf_program_headers().iter().filter(|header| header.p_type(endian) == elf::PT_LOAD);
    let value = |address: u64| {
        let (header, into) = loaded().find_map(|header| {
            let into = address.checked_sub(header.p_vaddr(endian))?;
            (into < header.p_memsz(endian)).then_some((header, into))
        })?;
        // What is 0 may not be in the file.
        if into >= header.p_filesz(endian) {
            return Some(0);
        }
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, header.p_offset(endian).checked_add(into)?).ok()?;
        Some(i32::from_ne_bytes(bytes))
    };
    if places.is_empty() {
        return None;
    }
    let values = places.into_iter().filter_map(|(name, at)| Some((name, value(at)?))).collect();
    Some(V8::of(&values))
}

/// Puts down where the variables of a table are.
fn note<'d, H: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    table: &SymbolTable<'d, H, impl ReadRef<'d>>,
    strings: &[u8],
    places: &mut HashMap<String, u64>,
) {
    for symbol in table.iter().filter(|symbol| symbol.st_shndx(endian) != elf::SHN_UNDEF) {
        let name = usize::try_from(symbol.st_name(endian)).ok().and_then(|at| strings.get(at..));
        let Some(name) = name.and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let name = name.get(..NAME).unwrap_or(name).split(|byte| *byte == 0).next().unwrap_or_default();
        if places.len() < MOST {
            places.insert(String::from_utf8_lossy(name).into_owned(), symbol.st_value(endian).into());
        }
    }
}

impl V8 {
    /// By the variables of a file; none if they are not as they must be.
    fn of(values: &HashMap<String, i32>) -> Option<Self> {
        // Until node 14 a scope began with one more word.
        let is_other = |(name, value): &(&str, i32)| values.get(*name) != Some(value);
        if SAME.iter().any(is_other) || values.contains_key("parent_ScopeInfo__FixedArray") {
            return None;
        }
        let number = |name: &str| u32::try_from(*values.get(name)?).ok().filter(|number| *number < 1 << 16);
        // Names end with the type of the field, which is called otherwise in each version.
        let field = |prefix: &str| {
            let found = values.keys().filter(|name| name.starts_with(prefix)).min()?;
            number(found)
        };
        let in_scope = |index: u32| index.checked_mul(WORD)?.checked_add(HEADER);
        Some(Self {
            shared: field("class_JSFunction__shared__")?,
            name: field("class_SharedFunctionInfo__name_or_scope_info__")?,
            script: field("class_SharedFunctionInfo__script_")?,
            locals: in_scope(number("scopeinfo_idx_ncontextlocals")?)?,
            first_local: in_scope(number("scopeinfo_idx_first_vars")?)?,
            first_other: u32::try_from(values.get("IsNotStringMask")?.checked_neg()?).ok()?,
            type_of_shared: number("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            type_of_scope: number("type_ScopeInfo__SCOPE_INFO_TYPE")?,
            type_of_script: number("type_Script__SCRIPT_TYPE")?,
            type_of_debug_info: number("type_DebugInfo__DEBUG_INFO_TYPE")?,
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test reads its own program")]
mod tests {
    use super::*;

    fn values() -> HashMap<String, i32> {
        let own = [
            ("class_JSFunction__shared__SharedFunctionInfo", 24),
            ("class_SharedFunctionInfo__name_or_scope_info__Object", 16),
            ("class_SharedFunctionInfo__script_or_debug_info__HeapObject", 32),
            ("scopeinfo_idx_ncontextlocals", 2),
            ("scopeinfo_idx_first_vars", 3),
            ("IsNotStringMask", -128),
            ("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", 262),
            ("type_ScopeInfo__SCOPE_INFO_TYPE", 261),
            ("type_Script__SCRIPT_TYPE", 167),
            ("type_DebugInfo__DEBUG_INFO_TYPE", 153),
        ];
        SAME.iter().copied().chain(own).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn objects_look_as_the_file_says_if_what_is_taken_for_granted_is_so() {
        let v8 = V8::of(&values()).unwrap();
        assert_eq!((v8.shared, v8.name, v8.script, v8.locals, v8.first_local), (24, 16, 32, 24, 32));
        assert_eq!((v8.first_other, v8.type_of_shared, v8.type_of_scope, v8.type_of_script), (128, 262, 261, 167));
        for (name, value) in [("TaggedSize", 4), ("off_fp_function", -24), ("IsNotStringMask", i32::MIN)] {
            let mut other = values();
            other.insert(name.to_owned(), value);
            assert_eq!(V8::of(&other), None, "{name}");
        }
        let mut older = values();
        older.insert("parent_ScopeInfo__FixedArray".to_owned(), 0);
        assert_eq!(V8::of(&older), None);
        let mut without = values();
        without.remove("type_ScopeInfo__SCOPE_INFO_TYPE");
        assert_eq!(V8::of(&without), None);
    }

    #[test]
    fn the_file_is_known_by_its_name() {
        for name in ["node", "nodejs", "node-22", "node22", "libnode.so.108"] {
            assert!(is_of_node(name), "{name}");
        }
        for name in ["node_exporter", "libnode", "node.so", ""] {
            assert!(!is_of_node(name), "{name}");
        }
    }

    #[test]
    fn a_program_that_is_not_node_has_none() {
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(read(&own, &own), None);
        let text = File::open("/proc/self/maps").unwrap();
        assert_eq!(read(&text, &text), None);
    }
}
