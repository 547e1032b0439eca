//! Where a Java machine (HotSpot) says what its threads are parked for, by what its library has for debuggers: a table of structures,
//! `gHotSpotVMStructs`.
//!
//! The table names fields and has the addresses of variables. How far a field lies from the beginning of its structure the machine
//! computes when it begins, so that the file has the place of that number alone. Programs in the kernel read it (`probes/response/java.h`).

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use object::read::elf::{ElfFile64, FileHeader, ProgramHeader as _, Sym as _, SymbolTable};
use object::{Endianness, Object as _, ObjectSection as _, ReadCache, ReadRef, elf};
use serde::{Deserialize, Serialize};

use crate::mechanism::symbols::maps::Maps;

/// The library.
const FILE: &str = "libjvm.so";
/// Bytes of an entry of the table of structures: the type's name, the field's, its type, whether it is static, its offset, its address.
const ENTRY: u64 = 48;
const FIELD: u64 = 8;
const OFFSET: u64 = 32;
const ADDRESS: u64 = 40;
/// Of the table of types: the name, that of what it inherits, three flags, its size.
const TYPE_ENTRY: u64 = 40;
const SIZE: u64 = 32;
/// Entries of a table at most: there are 800.
const MOST: u64 = 8192;
/// A name is not longer.
const NAME: usize = 64;
/// Bytes of relocations at most, of which the library has 3 MB, and those of one.
const MOST_RELOCATIONS: u64 = 16 << 20;
const RELOCATION: u64 = 24;
const RELATIVE: &[u32] = &[elf::R_X86_64_RELATIVE, elf::R_AARCH64_RELATIVE];
/// Segments that are loaded: the library has five.
const MOST_SEGMENTS: usize = 64;
/// A thread takes no more.
const MOST_OF_THREAD: u64 = 16 << 10;

/// Addresses: in the file, or in the memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HotSpot {
    /// Of the pointer to the list of threads.
    pub threads: u64,
    /// Of how far in that list its length lies.
    pub length: u64,
    /// Of how far in it the pointer to its threads lies.
    pub array: u64,
    /// Of how far in a thread the pointer to the pointer to its object lies.
    pub object: u64,
    /// Of how far in that object lies what it is parked for (32 bits).
    pub blocker: u64,
    /// Of how far in a class the pointer to its name lies.
    pub name: u64,
    /// Of how far in a name its length lies (16 bits).
    pub name_length: u64,
    /// Of how far in it its letters lie.
    pub letters: u64,
    /// Pointers to objects: of where they count from, of by how many bits they are shifted, and whether they are compressed at all.
    pub objects: [u64; 3],
    /// The same of pointers to classes; the last is 0 where they always are.
    pub classes: [u64; 3],
    /// Of what must not be set: objects that are elsewhere than pointers say (ZGC, Shenandoah), or have no pointer to their class.
    pub unlike: [u64; 3],
    /// Bytes that a thread takes.
    pub size: u64,
    /// Code of the file: its offset, and its address.
    pub(super) code: (u64, u64),
}

/// Whether a file of this name is the library.
pub(super) fn is_of_java(object: &str) -> bool {
    object == FILE
}

/// That of a file, from a copy of its tables and from itself; none if it has no such tables, and none within if they lack anything.
pub(super) fn read(tables: &File, file: &File) -> Option<Option<HotSpot>> {
    let cache = ReadCache::new(tables);
    let parsed = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let endian = parsed.elf_header().endian().ok()?;
    let mut variables = HashMap::new();
    for table in [parsed.elf_symbol_table(), parsed.elf_dynamic_symbol_table()] {
        let strings = parsed.section_by_index(table.string_section()).and_then(|section| section.data());
        note(endian, table, strings.unwrap_or_default(), &mut variables);
    }
    let structures = *variables.get(STRUCTURES)?;
    let is_wanted = |kind: u32| [elf::PT_LOAD, elf::PT_DYNAMIC].contains(&kind);
    let headers = parsed.elf_program_headers().iter().filter(|header| is_wanted(header.p_type(endian)));
    let segments = headers
        .take(MOST_SEGMENTS)
        .map(|header| Segment {
            kind: header.p_type(endian),
            executes: header.p_flags(endian) & elf::PF_X != 0,
            offset: header.p_offset(endian),
            address: header.p_vaddr(endian),
            size: header.p_filesz(endian),
        })
        .collect();
    let image = Image { file, segments };
    Some(image.hotspot(structures, &variables))
}

/// Puts down where the variables of a table are that are needed.
fn note<'d, H: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    table: &SymbolTable<'d, H, impl ReadRef<'d>>,
    strings: &[u8],
    variables: &mut HashMap<&'static str, u64>,
) {
    for symbol in table.iter().filter(|symbol| symbol.st_shndx(endian) != elf::SHN_UNDEF) {
        let name = usize::try_from(symbol.st_name(endian)).ok().and_then(|at| strings.get(at..)).unwrap_or_default();
        let is = |known: &&&str| name.strip_prefix(known.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
        if let Some(known) = VARIABLES.iter().find(is) {
            variables.insert(known, symbol.st_value(endian).into());
        }
    }
}

const STRUCTURES: &str = "gHotSpotVMStructs";
const TYPES: &str = "gHotSpotVMTypes";
const BLOCKER: &str = "_ZN16java_lang_Thread20_park_blocker_offsetE";
const COMPRESSED: [&str; 2] = ["UseCompressedOops", "UseCompressedClassPointers"];
/// The last one came with Java 24.
const UNLIKE: [&str; 3] = ["UseZGC", "UseShenandoahGC", "UseCompactObjectHeaders"];
const VARIABLES: [&str; 8] =
    [STRUCTURES, TYPES, BLOCKER, COMPRESSED[0], COMPRESSED[1], UNLIKE[0], UNLIKE[1], UNLIKE[2]];

struct Segment {
    kind: u32,
    executes: bool,
    offset: u64,
    address: u64,
    size: u64,
}

/// A file as it lies in memory, before it is moved to where there is room.
struct Image<'f> {
    file: &'f File,
    segments: Vec<Segment>,
}

impl Image<'_> {
    fn hotspot(&self, structures: u64, variables: &HashMap<&str, u64>) -> Option<HotSpot> {
        let types = *variables.get(TYPES)?;
        let pointers = self.pointers(&[(structures, FIELD), (types, FIELD)])?;
        let table = |at: u64| self.pointer(&pointers, at);
        let (structures, types) = (table(structures)?, table(types)?);
        let pointers = self.pointers(&[(structures, MOST * ENTRY), (types, MOST * TYPE_ENTRY)])?;
        // Both end with an entry without a name.
        let entries = |table: u64, size: u64| {
            let named = |entry: u64| Some((entry, self.pointer(&pointers, entry)?));
            (0..MOST).map_while(move |at| table.checked_add(at * size)).map_while(named)
        };
        let mut places = HashMap::new();
        for (entry, of) in entries(structures, ENTRY) {
            let of = self.text(of).filter(|of| STRUCTURES_USED.contains(&of.as_str()));
            let field = self.pointer(&pointers, entry.checked_add(FIELD)?).and_then(|field| self.text(field));
            if let Some(key) = of.zip(field) {
                let variable = self.pointer(&pointers, entry.checked_add(ADDRESS)?);
                places.insert(key, (entry.checked_add(OFFSET)?, variable));
            }
        }
        let mut types = entries(types, TYPE_ENTRY);
        let (thread, _) = types.find(|(_, name)| self.text(*name).as_deref() == Some("JavaThread"))?;
        let size = self.word(thread.checked_add(SIZE)?).filter(|size| *size <= MOST_OF_THREAD)?;
        let place = |of: &str, field: &str| places.get(&(of.to_owned(), field.to_owned())).copied();
        let offset = |of: &str, field: &str| place(of, field).map(|(offset, _)| offset);
        // They had other names before Java 21.
        let variable = |of: &str, names: [&str; 2]| names.into_iter().find_map(|name| place(of, name)?.1);
        let [objects, classes] = ["CompressedOops", "CompressedKlassPointers"];
        let flag = |name: &str| variables.get(name).copied();
        Some(HotSpot {
            threads: place("ThreadsSMRSupport", "_java_thread_list")?.1?,
            length: offset("ThreadsList", "_length")?,
            array: offset("ThreadsList", "_threads")?,
            // What stands there is the virtual thread that it carries, since Java 21.
            object: offset("JavaThread", "_vthread").or_else(|| offset("JavaThread", "_threadObj"))?,
            blocker: flag(BLOCKER)?,
            name: offset("Klass", "_name")?,
            name_length: offset("Symbol", "_length")?,
            letters: offset("Symbol", "_body[0]").or_else(|| offset("Symbol", "_body"))?,
            objects: [
                variable(objects, ["_base", "_narrow_oop._base"])?,
                variable(objects, ["_shift", "_narrow_oop._shift"])?,
                flag(COMPRESSED[0])?,
            ],
            classes: [
                variable(classes, ["_base", "_narrow_klass._base"])?,
                variable(classes, ["_shift", "_narrow_klass._shift"])?,
                // They always are where no flag says it.
                flag(COMPRESSED[1]).unwrap_or_default(),
            ],
            unlike: UNLIKE.map(|name| flag(name).unwrap_or_default()),
            size,
            code: self
                .segments
                .iter()
                .find(|one| one.kind == elf::PT_LOAD && one.executes)
                .map(|one| (one.offset, one.address))?,
        })
    }

    /// The pointers that stand in some stretches, once the file has been moved: their places, and the addresses before that.
    fn pointers(&self, stretches: &[(u64, u64)]) -> Option<HashMap<u64, u64>> {
        let Some(dynamic) = self.segments.iter().find(|one| one.kind == elf::PT_DYNAMIC) else {
            return Some(HashMap::new());
        };
        let (mut table, mut size) = (0, 0);
        for at in (0..dynamic.size / 16).take(256) {
            let entry = dynamic.address.checked_add(16 * at)?;
            match (self.word(entry)?, self.word(entry.checked_add(8)?)?) {
                (0, _) => break,
                (tag, value) if tag == elf::DT_RELA.cast_unsigned() => table = value,
                (tag, value) if tag == elf::DT_RELASZ.cast_unsigned() => size = value,
                _ => {}
            }
        }
        let mut pointers = HashMap::new();
        let mut some = vec![0; 4096 * RELOCATION as usize];
        let end = table.checked_add(size.min(MOST_RELOCATIONS) / RELOCATION * RELOCATION)?;
        while table < end {
            let room = some.len();
            let bytes = some.get_mut(..usize::try_from(end - table).ok()?.min(room))?;
            self.bytes(table, bytes)?;
            for relocation in bytes.chunks_exact(RELOCATION as usize) {
                let (place, kind, address) = (word(relocation, 0), word(relocation, 8) as u32, word(relocation, 16));
                if RELATIVE.contains(&kind) && stretches.iter().any(|(from, size)| place.wrapping_sub(*from) < *size) {
                    pointers.insert(place, address);
                }
            }
            table += bytes.len() as u64;
        }
        Some(pointers)
    }

    /// The pointer at an address: as it was put down for moving, or as the file has it.
    fn pointer(&self, pointers: &HashMap<u64, u64>, at: u64) -> Option<u64> {
        pointers.get(&at).copied().or_else(|| self.word(at)).filter(|address| *address != 0)
    }

    /// The name at an address; none if it is a longer one.
    fn text(&self, from: u64) -> Option<String> {
        let mut bytes = [0; NAME];
        // At the end of a segment there are less.
        let room = self.room(from)?.min(NAME as u64);
        let bytes = bytes.get_mut(..usize::try_from(room).ok()?)?;
        self.bytes(from, bytes)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        String::from_utf8(bytes.get(..end)?.to_vec()).ok()
    }

    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.bytes(at, &mut bytes)?;
        Some(u64::from_ne_bytes(bytes))
    }

    fn segment(&self, at: u64) -> Option<&Segment> {
        let is_within = |one: &Segment| at.checked_sub(one.address).is_some_and(|offset| offset < one.size);
        let is_there = |one: &&Segment| one.kind == elf::PT_LOAD && is_within(one);
        self.segments.iter().find(is_there)
    }

    /// Bytes from an address to the end of its segment.
    fn room(&self, at: u64) -> Option<u64> {
        self.segment(at).map(|segment| segment.size - (at - segment.address))
    }

    fn bytes(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let segment = self.segment(at).filter(|_| self.room(at) >= Some(into.len() as u64))?;
        let place = segment.offset.checked_add(at - segment.address)?;
        self.file.read_exact_at(into, place).ok()
    }
}

/// Structures of which fields are needed.
const STRUCTURES_USED: [&str; 7] =
    ["ThreadsSMRSupport", "ThreadsList", "JavaThread", "Klass", "Symbol", "CompressedOops", "CompressedKlassPointers"];

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_ne_bytes(*word))
}

impl HotSpot {
    /// The same in the memory of a process, or why that is not known.
    pub(super) fn in_memory(&self, maps: &Maps, object: &str) -> Result<Self, String> {
        let (offset, address) = self.code;
        let code = maps.address_of(object, offset).and_then(|code| code.checked_sub(address));
        let moved = code.ok_or("it is mapped in another way than it says")?;
        let to = |address: u64| if address == 0 { 0 } else { address.wrapping_add(moved) };
        Ok(Self {
            threads: to(self.threads),
            length: to(self.length),
            array: to(self.array),
            object: to(self.object),
            blocker: to(self.blocker),
            name: to(self.name),
            name_length: to(self.name_length),
            letters: to(self.letters),
            objects: self.objects.map(to),
            classes: self.classes.map(to),
            unlike: self.unlike.map(to),
            ..*self
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test reads its own program")]
mod tests {
    use super::*;

    /// A library of tables alone (`fuzz/corpus/elf`); its words have been moved to where there is room.
    #[test]
    fn the_tables_of_a_library_have_the_places_of_all_that_is_needed() {
        let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/elf/java.elf")).unwrap();
        let java = read(&file, &file).unwrap().unwrap();
        assert_eq!((java.size, java.unlike[2]), (24, 0), "it has no compact headers");
        let maps = Maps::parse("7f0000002000-7f0000009000 r-xp 00000000 fe:00 123 /usr/lib/libjvm.so\n");
        let moved = java.in_memory(&maps, FILE).unwrap();
        assert_eq!((moved.threads - java.threads, moved.unlike[2]), (0x7f00_0000_2000, 0));
        assert!(java.in_memory(&maps, "libjvm2.so").is_err());
    }

    #[test]
    fn a_program_that_is_no_machine_of_java_has_none() {
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(read(&own, &own), None);
        let text = File::open("/proc/self/maps").unwrap();
        assert_eq!(read(&text, &text), None);
    }
}
