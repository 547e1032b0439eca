//! An sosreport, as a folder and as the archive that was sent, read by the shipped binary.

use serde_json::Value;

use crate::elsewhere::{sadf, told_elsewhere};
use crate::support::rdiag;

#[test]
fn the_folder_of_an_sosreport_says_what_to_type_and_then_which_file_is_meant() {
    let place = tempfile::tempdir().unwrap();
    let told = || {
        let mut command = rdiag();
        command
            .env("TZ", "UTC")
            .args(["run", "use-method", "--at", "2026-03-10T03:09:00Z", "--from"])
            .arg(place.path());
        let output = command.args(["--format", "json", "--out", "-"]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let put = |name: &str, bytes: &[u8]| {
        let path = place.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let expect = |code: i32, wanted: &str| {
        let (found, said) = told();
        assert!(found == Some(code) && said.contains(wanted), "{wanted}: {found:?} {said}");
    };
    expect(2, "the folder has nothing of 2026-03-10 that sysstat, atop or PCP recorded");
    // The sender chose its links: one that leads out of it must not show a file of this host as one of the sender's.
    let (outside, link) = (tempfile::NamedTempFile::new().unwrap(), place.path().join("sa10.json"));
    std::fs::write(outside.path(), sadf(&[("03:10:01", 99.0, 85.0)])).unwrap();
    std::os::unix::fs::symlink(outside.path(), &link).unwrap();
    expect(2, "the folder has nothing of 2026-03-10 that sysstat, atop or PCP recorded");
    std::fs::remove_file(link).unwrap();
    put("var/log/sa/sa09", b"\x96\xd5");
    expect(2, "recorded; it has sa09");
    put("sos_commands/sar/sar10", b"Linux 6.1.0 (db-1)");
    expect(2, "of 2026-03-10 it has only what sar printed, which rdiag does not read");
    std::fs::create_dir_all(place.path().join("var/log/pcp/pmlogger")).unwrap();
    expect(2, "var/log/pcp/pmlogger/HOST -Z UTC -f %s.%f -r");
    put("var/log/atop/atop_20260310", b"\xef\xbe\xed\xfe");
    expect(2, "var/log/atop/atop_20260310 -J ALL > atop.json");
    put("var/log/sa/sa10", b"\x96\xd5");
    expect(2, "var/log/sa/sa10 -- -A > sa10.json, then --from sa10.json");
    // What sadf printed is read; where it could not, its file is still there.
    put("sos_commands/sar/sa10.xml", b"Invalid system activity file: /var/log/sa/sa10");
    expect(2, "sa10.xml: sadf could not read the file of sysstat");
    expect(2, "var/log/sa/sa10 -- -A > sa10.json, then --from sa10.json");
    let xml = xml_of_sysstat().replace("04:04:42\" utc=\"1\" interval=\"1\"", "03:09:00\" utc=\"1\" interval=\"1\"");
    put("sos_commands/sar/sa09.xml", xml.as_bytes());
    expect(0, "Source: sysstat, a sample every 1 s");
    put("sos_commands/sar/sa10.xml", xml.as_bytes());
    expect(0, "Source: sysstat, a sample every 1 s");
    put("sa10.json", sadf(&[("03:10:01", 99.0, 85.0)]).as_bytes());
    expect(0, "Source: sysstat, means over 10 min");
}

/// Three seconds of `sadc -S XALL 1`, on a busy host, as `sadf -x FILE -- -A` of 12.6.1 prints them; and what its JSON is.
fn xml_of_sysstat() -> String {
    std::fs::read_to_string(crate::support::path("tests/fixtures/sysstat/sadf-12.6.1.xml")).unwrap()
}

#[test]
fn an_sosreport_is_read_as_the_archive_that_was_sent() {
    let at = "2026-03-10T04:04:41Z";
    let json = std::fs::read(crate::support::path("tests/fixtures/sysstat/sadf-12.6.1.json")).unwrap();
    let (code, expected, said) = told_elsewhere("--from", "3s", &json, at);
    assert!(code == Some(0) && said.contains("Source: sysstat, a sample every 1 s"), "{said}");
    assert_eq!(crate::support::finding(&expected, "cpu.utilization", None)["status"], "warning", "{expected:#}");
    let same = |bytes: &[u8], read: &str| {
        let (code, report, said) = told_elsewhere("--from", "3s", bytes, at);
        assert!(code == Some(0) && said.contains(read), "{read}: {said}");
        for part in ["host", "window", "findings", "metrics"] {
            assert_eq!(report[part], expected[part], "{read}: {part}");
        }
    };
    let xml = xml_of_sysstat();
    same(xml.as_bytes(), "Source: sysstat");
    // As sos makes it: tar in the form of POSIX, with a name that takes more than a header has, and links.
    let name = "tests/fixtures/sosreport/sosreport-host-2026-03-10-kxqzvwm.tar.xz";
    let sent = crate::support::path(name);
    same(
        &std::fs::read(&sent).unwrap(),
        "Read from the archive: sosreport-host-2026-03-10-kxqzvwm/sos_commands/sar/sa10.xml",
    );
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(xml.len() as u64);
    builder.append_data(&mut header, "r/sos_commands/sar/sa10.xml", xml.as_bytes()).unwrap();
    same(&builder.into_inner().unwrap().finish().unwrap(), "Read from the archive: r/sos_commands/sar/sa10.xml");
    // By its name; the host may be in another zone than the reader, for whom it is another day.
    for zone in ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"] {
        let mut command = rdiag();
        command.env("TZ", zone).args([
            "run",
            "use-method",
            "--at",
            at,
            "--last",
            "3s",
            "--format",
            "json",
            "--out",
            "-",
            "--from",
        ]);
        let output = command.arg(&sent).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert_eq!(report["findings"], expected["findings"], "{zone}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // Of the day before it has sysstat's own file alone.
    let (code, _, said) = told_elsewhere("--from", "3s", &std::fs::read(&sent).unwrap(), "2026-03-08T04:04:41Z");
    assert!(code == Some(2) && said.contains("the archive has nothing of 2026-03-08"), "{said}");
    assert!(said.contains("it has sa09, sa10"), "{said}");
    let mut command = rdiag();
    command.args([
        "run",
        "use-method",
        "--at",
        "2026-03-09T04:04:41Z",
        "--last",
        "3s",
        "--out",
        "-",
        "--format",
        "json",
        "--from",
    ]);
    let output = command.env("TZ", "UTC").arg(&sent).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("tar xf FILE sosreport-host-2026-03-10-kxqzvwm/var/log/sa/sa09, then sadf -j"), "{said}");
}
