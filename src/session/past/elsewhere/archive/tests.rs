//! What is found in an archive, and archives that are not what they seem. Real ones are read in `tests/elsewhere/`.

use std::io::Write as _;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use super::super::packed::{LIMITS, Limits};
use super::super::tests::plan;
use super::super::{Given, Time, within};
use crate::past::{Past, Span};
use rdiag_kernel::host::Zone;
use rdiag_playbook::Plan;

const XML: &str = include_str!("../../../../../tests/fixtures/sysstat/sadf-12.6.1.xml");
const JSON: &str = include_str!("../../../../../tests/fixtures/sysstat/sadf-12.6.1.json");
/// 2026-03-10 04:04:42 UTC, when it ends.
const END: i64 = 1_773_115_482_000_000;
const DAY: i64 = 86_400_000_000;
const SMALL: Limits = Limits { file: 1 << 20, archive: 4 << 20 };
/// Six bytes, packed with a dictionary of 1.5 GiB.
const LARGE_DICTIONARY: [u8; 64] = [
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01, 0x25, 0x00, 0x00,
    0x00, 0x3b, 0x78, 0x7b, 0x41, 0x01, 0x00, 0x05, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x0a, 0x00, 0x00, 0x00, 0xa5, 0x60,
    0x97, 0xf1, 0x94, 0xf6, 0xfd, 0xe0, 0x00, 0x01, 0x1e, 0x06, 0xc1, 0x2f, 0xa4, 0x1d, 0x1f, 0xb6, 0xf3, 0x7d, 0x01,
    0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
];

static PLAN: LazyLock<Plan> = LazyLock::new(plan);

fn read(bytes: &[u8], end: i64, limits: &Limits) -> Result<Past, String> {
    let span = Span { from: end - 3_000_000, to: end };
    match within(bytes, &Time { span, plan: &PLAN, zone: &Zone::utc() }, limits)? {
        Given::Recorded(past) => Ok(*past),
        Given::Journal(_) => Err("it is a journal".to_owned()),
    }
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        if path.starts_with("./") {
            // As `tar cf FILE .` writes it.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            builder.append(&header, *bytes).unwrap();
        } else {
            builder.append_data(&mut header, path, *bytes).unwrap();
        }
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn hours(past: &Past) -> (f64, &str) {
    (past.recording.windows[0].seconds, past.notes[0].as_str())
}

#[test]
fn what_sadf_printed_of_that_day_is_found_below_any_folder_packed_or_not() {
    let long = format!("{}/sos_commands/sar/sa10.xml", "r".repeat(130));
    for path in [
        "sos_commands/sar/sa10.xml",
        "./r/sos_commands/sar/sa20260310.xml",
        "a/b/var/log/sa/sa10.xml",
        "r/sa10.xml",
        &long,
    ] {
        let archive = tar(&[("r/etc/hosts", b"x"), (path, XML.as_bytes())]);
        for bytes in [gzip(&archive), archive] {
            let past = read(&bytes, END, &LIMITS).unwrap();
            assert_eq!(hours(&past), (3.0, format!("Read from the archive: {path}").as_str()));
        }
    }
    let past = read(&tar(&[("r/sa10.json", JSON.as_bytes())]), END, &LIMITS).unwrap();
    assert_eq!(hours(&past).0, 3.0);
    // A file alone may be packed, too.
    assert!(read(&gzip(JSON.as_bytes()), END, &LIMITS).is_ok() && read(&gzip(XML.as_bytes()), END, &LIMITS).is_ok());
    // The last lines, where there were too many.
    let tail = XML.find("<cpu number=\"1\"").map(|at| XML.split_at(at).1).unwrap();
    let past = read(&tar(&[("r/sos_strings/sar/sa10.xml.tailed", tail.as_bytes())]), END, &LIMITS).unwrap();
    assert!(past.notes.iter().any(|note| note.starts_with("The beginning of the file is missing")), "{:?}", past.notes);
}

#[test]
fn the_day_of_the_host_may_be_another_one() {
    // The file of the day itself has another time, and that of the day before or after has this one.
    let other = XML.replace("2026-03-10", "2026-03-12");
    for neighbour in ["r/sos_commands/sar/sa09.xml", "r/sos_commands/sar/sa11.xml"] {
        let mut files = [("r/sos_commands/sar/sa10.xml", other.as_bytes()), (neighbour, XML.as_bytes())];
        files.sort_by_key(|(path, _)| path.to_owned());
        assert!(hours(&read(&tar(&files), END, &LIMITS).unwrap()).1.ends_with(neighbour), "{neighbour}");
    }
    let both = [("r/sos_commands/sar/sa09.xml", XML.as_bytes()), ("r/sos_commands/sar/sa10.xml", XML.as_bytes())];
    assert!(hours(&read(&tar(&both), END, &LIMITS).unwrap()).1.ends_with("sa10.xml"), "that of the day comes first");
    let refused = read(&tar(&both), END + DAY, &LIMITS).unwrap_err();
    assert!(refused.starts_with("the archive has nothing of 2026-03-11 that sysstat"), "{refused}");
    let refused = read(&tar(&[("r/sos_commands/sar/sa10.xml", other.as_bytes())]), END, &LIMITS).unwrap_err();
    assert!(refused.starts_with("r/sos_commands/sar/sa10.xml: sysstat has nothing between"), "{refused}");
}

#[test]
fn what_is_not_read_is_named_with_what_to_type() {
    let refused = |files: &[(&str, &[u8])]| read(&tar(files), END, &LIMITS).unwrap_err();
    let kept: (&str, &[u8]) = ("r/var/log/sa/sa10", b"\x96\xd5");
    let said = refused(&[kept, ("r/var/log/atop/atop_20260310", b""), ("r/sos_commands/sar/sar10", b"")]);
    assert!(
        said.starts_with("what sysstat recorded on 2026-03-10 is in r/var/log/sa/sa10, which its own sadf reads: ")
            && said.contains(": tar xf FILE r/var/log/sa/sa10, then sadf -j r/var/log/sa/sa10 -- -A > sa10.json, then --from sa10.json"),
        "{said}"
    );
    let said = refused(&[("r/sos_commands/sar/sa10.xml", b"Invalid system activity file: /var/log/sa/sa10\n"), kept]);
    assert!(
        said.contains("sa10.xml: sadf could not read the file") && said.contains("then sadf -j r/var/log/sa/sa10"),
        "{said}"
    );
    let said = refused(&[("r/var/log/sysstat/sa10.xz", b"")]);
    assert!(said.contains("xz -dk r/var/log/sysstat/sa10.xz, then sadf -j r/var/log/sysstat/sa10 -- -A"), "{said}");
    let said = refused(&[("r/var/log/atop/atop_20260310", b"")]);
    assert!(said.contains("tar xf FILE r/var/log/atop/atop_20260310, then atop -r r/var/log/atop"), "{said}");
    let said = refused(&[("r/var/log/pcp/pmlogger/web-03/20260310.0", b"")]);
    assert!(said.contains("then `pcp2json -a r/var/log/pcp/pmlogger/HOST -Z UTC"), "{said}");
    let said = refused(&[("r/sos_commands/sar/sar10", b"")]);
    assert!(said.contains("of 2026-03-10 it has only what sar printed"), "{said}");
    let said = refused(&[("c/sosreport-a-x.tar.xz", b"")]);
    assert!(
        said.contains(
            "it holds other reports, such as c/sosreport-a-x.tar.xz: tar xf FILE c/sosreport-a-x.tar.xz, then"
        ),
        "{said}"
    );
    let said = refused(&[("r/var/log/sa/sa07", b""), ("r/var/log/sa/sa08", b""), ("r/home/sa05", b"")]);
    assert!(said.contains("recorded; it has sa07, sa08: give"), "{said}");
    // A name that a shell would take for a command is not to be typed.
    let said = refused(&[("x;rm -rf $HOME/var/log/sa/sa10", b"")]);
    let (_, typed) = said.split_once("sadf reads: ").unwrap();
    assert!(typed.starts_with("tar xf FILE, then sadf -j FOLDER/sa10 -- -A"), "{typed}");
}

#[test]
fn links_and_folders_are_no_files() {
    let mut builder = Builder::new(Vec::new());
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Directory, EntryType::Fifo, EntryType::Char] {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_link_name("/etc/passwd").unwrap();
        builder.append_data(&mut header, "r/sos_commands/sar/sa10.xml", std::io::empty()).unwrap();
    }
    let refused = read(&builder.into_inner().unwrap(), END, &LIMITS).unwrap_err();
    assert!(refused.starts_with("the archive has nothing of 2026-03-10"), "{refused}");
}

#[test]
fn bombs_end_in_an_error_within_the_limits() {
    let zeros = vec![0; 8 << 20];
    let said = |bytes: &[u8]| read(bytes, END, &SMALL).unwrap_err();
    assert_eq!(said(&gzip(&zeros)), "it is larger than 1 MiB unpacked");
    assert_eq!(said(&zeros), "it is larger than 1 MiB");
    let archive = gzip(&tar(&[("r/core", &zeros), ("r/sos_commands/sar/sa10.xml", XML.as_bytes())]));
    let refused = said(&archive);
    assert!(
        refused.starts_with("it is larger than 4 MiB unpacked, and nothing of that time was found so far"),
        "{refused}"
    );
    assert!(read(&archive, END, &LIMITS).is_ok());
    let large = tar(&[("r/sos_commands/sar/sa10.xml", &zeros[..2 << 20])]);
    assert_eq!(said(&large), "r/sos_commands/sar/sa10.xml: it is larger than 1 MiB");
    let refused = said(&LARGE_DICTIONARY);
    assert!(refused.starts_with("unpacking takes more than 256 MiB of memory"), "{refused}");
    // A name of 8 MiB, and one of as much as there could be.
    for (size, kind) in
        [(8 << 20, EntryType::GNULongName), (1 << 40, EntryType::XHeader), (u64::MAX >> 2, EntryType::GNULongLink)]
    {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_cksum();
        let refused = said(&gzip(&[header.as_bytes().as_slice(), &zeros].concat()));
        assert!(refused.starts_with("it is larger than 4 MiB unpacked"), "{refused}");
    }
}

#[test]
fn a_damaged_archive_says_so_wherever_the_damage_is() {
    let archive = tar(&[("r/etc/hosts", &[b'x'; 700]), ("r/sos_commands/sar/sa10.xml", XML.as_bytes())]);
    let packed = gzip(&archive);
    for bytes in [&archive, &packed] {
        for at in (520..bytes.len()).step_by(97) {
            match read(&bytes[..at], END, &LIMITS) {
                Ok(past) => assert_eq!(hours(&past).0, 3.0),
                Err(why) => assert!(why.contains("cut off") || why.contains("the archive has nothing"), "{at}: {why}"),
            }
        }
        for at in (0..bytes.len()).step_by(61) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x5a;
            let _ = read(&bytes, END, &LIMITS);
        }
    }
    let refused = read(&packed[..packed.len() / 2], END, &LIMITS).unwrap_err();
    assert_eq!(refused, "it is cut off: the archive is incomplete, so copy it again");
}
