//! What is loaded into the kernel does not depend on whether all of its types are looked at, or only the part that rdiag picks.
//! This alone is not seen on the shipped binary: a wrong offset may give a plausible figure.

use std::path::{Path, PathBuf};

use aya::{Btf, Endianness};
use aya_obj::Object;
use aya_obj::btf::BtfFeatures;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::KernelTypes;

use crate::support::{Need, has, path};

fn objects(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            objects(&path, found);
        } else if path.to_string_lossy().ends_with(".bpf.o") {
            found.push(path);
        }
    }
}

fn instructions(object: &Object) -> Vec<String> {
    object.functions.values().map(|function| format!("{}: {:?}", function.name, function.instructions)).collect()
}

/// The instructions of all functions, relocated. Kernels before 6.0 know no enumerations of 64 bits, so the loader describes
/// the program's own in another way to them.
fn relocated(bytes: &[u8], types: &Btf, enum64: bool) -> Vec<String> {
    let mut object = Object::parse(bytes).unwrap();
    let features = BtfFeatures::new(true, true, true, true, true, true, true, enum64);
    object.fixup_and_sanitize_btf(&features).unwrap();
    object.relocate_btf(types).unwrap();
    instructions(&object)
}

#[test]
fn every_program_is_the_same_whether_it_is_relocated_against_all_types_or_its_part() {
    compare();
}

#[test]
#[ignore = "needs: a kernel of the matrix"]
fn vm_every_program_is_the_same_whether_it_is_relocated_against_all_types_or_its_part() {
    compare();
}

fn compare() {
    if !has(&[Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    let whole = Btf::from_sys_fs().unwrap();
    let types = KernelTypes::read(&Host::live(Path::new("/"))).unwrap();
    let mut all = Vec::new();
    objects(&path("src"), &mut all);
    let mut changed = 0;
    for object in &all {
        let bytes = std::fs::read(object).unwrap();
        let part = types.for_object(&bytes);
        assert!(part.len() < 400_000, "{}: {} bytes", object.display(), part.len());
        let part = Btf::parse(&part, Endianness::default()).unwrap();
        for enum64 in [true, false] {
            let (expected, found) = (relocated(&bytes, &whole, enum64), relocated(&bytes, &part, enum64));
            assert_eq!(expected, found, "{}", object.display());
            changed += usize::from(found != instructions(&Object::parse(&bytes).unwrap()));
        }
    }
    assert!(all.len() > 20 && changed > all.len(), "{changed} changes in {} objects", all.len());
}
