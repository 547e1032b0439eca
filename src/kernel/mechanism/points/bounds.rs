//! What a program's file may consist of. Probes find servers by the names of processes, so any user can have such a file read: it is looked
//! at once within these bounds before anything goes over all of it.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

/// Programs have dozens of sections.
const MAX_SECTIONS: usize = 4096;
/// Sections may overlap, and be gone over as often as they do; those of a program do not.
const MAX_OVERLAP: u64 = 2;
/// Names of symbols may overlap as well (each the end of the one before), so that a small file has terabytes of them. Those of a browser
/// with all its symbols take 400 MiB, each counted with what it costs to keep.
const MAX_NAMES: u64 = 768 << 20;
const COST_OF_NAME: u64 = 96;

/// What is wrong with it, if something is.
pub(super) fn exceeded(elf: &object::File<'_>, length: u64) -> Option<&'static str> {
    let (mut names, mut sections) = (MAX_NAMES, length.saturating_mul(MAX_OVERLAP));
    // A name without an end was searched for it to the end of the file: one is enough.
    let charge = |left: &mut u64, name: Option<usize>| {
        let spent = name.and_then(|length| left.checked_sub(COST_OF_NAME + length as u64));
        spent.map(|rest| *left = rest).is_some()
    };
    for (at, section) in elf.sections().enumerate() {
        let size = section.file_range().map_or(0, |(_, size)| size);
        let Some(left) = sections.checked_sub(size) else { return Some("its sections overlap") };
        sections = left;
        if at >= MAX_SECTIONS || !charge(&mut names, section.name_bytes().ok().map(<[u8]>::len)) {
            return Some("it has more sections than a program has");
        }
    }
    let mut symbols = elf.symbols().chain(elf.dynamic_symbols());
    let is_within = symbols.all(|symbol| charge(&mut names, symbol.name_bytes().ok().map(<[u8]>::len)));
    (!is_within).then_some("the names of its symbols are longer together than a program's are, or have no end")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a table of names, and these symbols of it, by where their names begin.
    fn program(names: &[u8], symbols: impl Iterator<Item = u32>, sections: &[(u64, u64)]) -> Vec<u8> {
        let mut body = vec![0_u8; 64];
        let mut headers = vec![[0_u64; 8]];
        let mut add = |kind: u64, data: &[u8], link: u64, entry: u64| {
            let at = body.len() as u64;
            body.extend(data);
            body.resize(body.len().next_multiple_of(8), 0);
            headers.push([kind << 32, 0, 0, at, data.len() as u64, link, 1, entry]);
        };
        add(3, names, 0, 0);
        let mut table = vec![0; 24];
        for name in symbols {
            table.extend(name.to_le_bytes().into_iter().chain([0x12, 0, 1, 0]).chain([0; 16]));
        }
        add(2, &table, 1, 24);
        headers.extend(sections.iter().map(|(at, size)| [1 << 32, 2, 0, *at, *size, 0, 1, 0]));
        let (start, count) = (body.len() as u64, headers.len() as u16);
        body.extend(headers.iter().flatten().flat_map(|word| word.to_le_bytes()));
        body.splice(..24, *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0");
        body.splice(40..48, start.to_le_bytes());
        body.splice(58..64, [64, 0].into_iter().chain(count.to_le_bytes()).chain([1, 0]));
        body
    }

    fn why(bytes: &[u8]) -> Option<&'static str> {
        exceeded(&object::File::parse(bytes).unwrap(), bytes.len() as u64)
    }

    #[test]
    fn a_small_file_does_not_have_gigabytes_of_names_or_of_sections() {
        let names = [&[0][..], &[b'a'; 100_000], &[0]].concat();
        assert_eq!(why(&program(&names, 1..1000, &[(0, 64)])), None);
        let told = why(&program(&names, 1..20_000, &[])).unwrap();
        assert!(told.contains("names of its symbols"), "{told}");
        let endless = [&[0][..], &[b'a'; 100]].concat();
        assert!(why(&program(&endless, 1..2, &[])).unwrap().contains("have no end"));
        assert_eq!(why(&program(&names, 1..2, &[(0, 90_000); 3])), Some("its sections overlap"));
        assert!(why(&program(&names, 1..2, &[(0, 1); MAX_SECTIONS])).unwrap().contains("more sections"));
    }
}
