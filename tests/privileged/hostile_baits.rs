//! Links, names and mounts by which a user would have root open another file: a secret, a device, the kernel's log. None of them is opened,
//! which the kernel tells, and each test shows that it would have seen it.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::baits::Baits;
use super::splitter::compiled;
use crate::support::{Load, Need, beside_others, has, rdiag, wait_until};

const NEEDS: [Need; 3] = [Need::Root, Need::Tool("cc"), Need::Tool("setpriv")];
/// A user of no rights.
const USER: &str = "65534";
const CC: &[&str] = &["cc", "-g", "-O1", "-fno-omit-frame-pointer", "-static"];
const COMPILES: &str = include_str!("hostile/compiles.c");

/// A program that does nothing else than to run a function of this name.
fn spinning(function: &str) -> String {
    format!(
        "unsigned long sink;\n\
         __attribute__((noinline)) void {function}(void) {{ for (long i = 0; i < 300000; i++) sink = sink * 3 + i; }}\n\
         int main(void) {{ for (;;) {function}(); }}\n"
    )
}

/// A folder that all users may enter and this one writes to, where no user's /tmp hides it.
fn users_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    chown(folder.path(), Some(65534), Some(65534)).unwrap();
    folder
}

/// A user's process.
fn as_user(program: &Path, args: &[&str]) -> Load {
    // Who becomes another user does not end with the test any more, and has to say so again.
    let as_user = ["--reuid", USER, "--regid", USER, "--clear-groups", "setpriv", "--pdeathsig", "KILL"];
    let line = [&as_user[..], &[program.to_str().unwrap()], args].concat();
    Load::start(1, "setpriv", &line)
}

/// Where a process says that its code lies.
fn said(file: &Path) -> String {
    let text = || std::fs::read_to_string(file).unwrap_or_default();
    assert!(wait_until(20, || text().ends_with('\n')), "{} does not say where its code is", file.display());
    text().trim().to_owned()
}

/// A process that compiles, run by a user, and where its code is.
fn compiling(program: &Path, folder: &Path, name: &str) -> (Load, String) {
    let file = folder.join(name);
    let load = as_user(program, &[file.to_str().unwrap()]);
    let at = said(&file);
    (load, at)
}

fn map_of(load: &Load) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{}.map", load.pids()[0]))
}

/// Files that go with the test.
struct Removed(Vec<PathBuf>);

impl Drop for Removed {
    fn drop(&mut self) {
        self.0.iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}

/// The report of a profile of these processes.
fn profile(loads: &[&Load], command: &mut Command) -> String {
    let pids: Vec<String> = loads.iter().flat_map(|load| load.pids()).map(|pid| pid.to_string()).collect();
    command.args(["probe", "profile", "--duration", "2s", "--format", "json", "--pid", &pids.join(",")]);
    let output = command.env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap();
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn rdiag_process() -> Command {
    Command::new(rdiag().get_program())
}

#[test]
#[ignore = "needs: root, perf events, cc"]
fn no_map_of_compiled_code_that_is_a_link_a_device_or_a_fifo_is_opened() {
    let _beside = beside_others();
    if !has(&NEEDS) {
        return;
    }
    let (_compiled, program) = compiled(COMPILES, "compiles.c", &["cc", "-O1"]);
    let folder = users_folder();
    let [linked, device, fifo, good] =
        ["linked", "device", "fifo", "good"].map(|name| compiling(&program, folder.path(), name));
    let maps = [&linked, &device, &fifo, &good].map(|(load, _)| map_of(load));
    let _removed = Removed(maps.to_vec());
    let [bait, node] = ["bait", "node"].map(|name| folder.path().join(name));
    // Root owns it, as it may own a map.
    std::fs::write(&bait, format!("{} 1000 function_of_the_bait\n", linked.1)).unwrap();
    std::fs::set_permissions(&bait, std::fs::Permissions::from_mode(0o600)).unwrap();
    let make = |path: &Path, kind, number| {
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::from(0o600), number).unwrap();
    };
    make(&node, rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 3));
    make(&maps[2], rustix::fs::FileType::Fifo, 0);
    // Links of root's own, which no setting of the kernel (fs.protected_symlinks) keeps root from.
    symlink(&bait, &maps[0]).unwrap();
    symlink(&node, &maps[1]).unwrap();
    std::fs::write(&maps[3], format!("{} 1000 function_of_the_map\n", good.1)).unwrap();
    chown(&maps[3], Some(65534), None).unwrap();
    let baits = Baits::at(&[&bait, &node, &maps[2]]);
    let report = profile(&[&linked.0, &device.0, &fifo.0, &good.0], &mut rdiag_process());
    baits.are_untouched();
    assert!(report.contains("function_of_the_map"), "a map that is a file is read: {report:.4000}");
    assert!(!report.contains("function_of_the_bait"), "{report:.4000}");
}

/// Has a process of a user's own namespace see a file in the place of its map: FILE PROGRAM SAID FOLDER. What it becomes keeps its number.
const MOUNTS: &str = "mkdir -p \"$4\" && : > \"$4/perf-$$.map\" && mount --bind \"$1\" \"$4/perf-$$.map\" && \
                      mount --rbind \"$4\" /tmp && exec \"$2\" \"$3\"";

#[test]
#[ignore = "needs: root, perf events, cc, namespaces of users"]
fn no_file_that_a_user_has_mounted_in_the_place_of_a_map_is_opened_unless_it_is_theirs() {
    let _beside = beside_others();
    if !has(&NEEDS) || !has(&[Need::Tool("unshare"), Need::Path("/proc/kmsg"), Need::Path("/proc/self/ns/user")]) {
        return;
    }
    let (_compiled, built) = compiled(COMPILES, "compiles.c", &["cc", "-O1", "-static"]);
    let folder = users_folder();
    let at = |name: &str| folder.path().join(name);
    // /tmp is another one there.
    std::fs::copy(built, at("program")).unwrap();
    let mounted = |file: &Path, name: &str| {
        let [program, said_in, tmp] = ["program", name, &format!("{name}.tmp")].map(at);
        let words = [file, &program, &said_in, &tmp].map(|path| path.to_str().unwrap().to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let load = as_user(Path::new("unshare"), &[&["-Urm", "sh", "-c", MOUNTS, "sh"], &words[..]].concat());
        let at = said(&said_in);
        (load, at)
    };
    for name in ["bait", "own"] {
        std::fs::write(at(name), "").unwrap();
    }
    chown(at("own"), Some(65534), None).unwrap();
    let (of_root, log, own) =
        (mounted(&at("bait"), "root"), mounted(Path::new("/proc/kmsg"), "log"), mounted(&at("own"), "user"));
    std::fs::write(at("bait"), format!("{} 1000 function_of_the_bait\n", of_root.1)).unwrap();
    std::fs::set_permissions(at("bait"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(at("own"), format!("{} 1000 function_of_the_map\n", own.1)).unwrap();
    let baits = Baits::at(&[&at("bait"), Path::new("/proc/kmsg")]);
    let report = profile(&[&of_root.0, &log.0, &own.0], &mut rdiag_process());
    baits.are_untouched();
    assert!(report.contains("function_of_the_map"), "{report:.4000}");
    assert!(!report.contains("function_of_the_bait"), "{report:.4000}");
}

#[test]
#[ignore = "needs: root, perf events, cc"]
fn what_looks_like_an_escape_in_a_name_is_part_of_it_where_only_the_path_leads_to_the_file() {
    let _beside = beside_others();
    if !has(&NEEDS) {
        return;
    }
    let folder = users_folder();
    std::fs::create_dir(folder.path().join("x")).unwrap();
    // With the escape undone, the first would be the second. The kernel escapes line breaks, and nothing else.
    let names = [("own_function", "x\\057bait"), ("function_of_the_bait", "x/bait"), ("broken_function", "y\nown")];
    let [named, bait, broken] = names.map(|(function, name)| {
        let (_built, program) = compiled(&spinning(function), "named.c", CC);
        let at = folder.path().join(name);
        std::fs::copy(program, &at).unwrap();
        at
    });
    let loads = [&named, &broken].map(|program| as_user(program, &[]));
    // As in a container: without these rights the kernel does not lead to what a process has mapped.
    let mut command = Command::new("setpriv");
    command.arg("--bounding-set=-sys_admin,-checkpoint_restore").arg(rdiag().get_program());
    let baits = Baits::at(&[&bait]);
    let report = profile(&[&loads[0], &loads[1]], &mut command);
    baits.are_untouched();
    assert!(report.contains("own_function") && report.contains("broken_function"), "{report:.4000}");
    assert!(!report.contains("function_of_the_bait"), "{report:.4000}");
}

#[test]
#[ignore = "needs: root, perf events, cc, objcopy"]
fn no_link_beside_a_program_or_in_it_leads_to_another_file() {
    let _beside = beside_others();
    if !has(&NEEDS) || !has(&[Need::Tool("objcopy")]) {
        return;
    }
    let (_folder, built) = compiled(&spinning("linking_function"), "linking.c", CC);
    let folder = users_folder();
    let program = folder.path().join("linking");
    std::fs::copy(built, &program).unwrap();
    // All users may read them: it is not for its lack of rights that the process which reads symbols opens none.
    let baits = ["absolute", "beside", "package"].map(|name| folder.path().join(name));
    baits.iter().for_each(|bait| std::fs::write(bait, "debug information").unwrap());
    let link = "z".repeat(baits[0].as_os_str().len());
    std::fs::write(folder.path().join(&link), "debug information").unwrap();
    let add = format!("--add-gnu-debuglink={link}");
    let made = Command::new("objcopy").args(["--strip-debug", &add, "linking"]).current_dir(folder.path()).output();
    assert!(made.unwrap().status.success());
    let elf = std::fs::read(&program).unwrap();
    let at = elf.windows(link.len()).position(|part| part == link.as_bytes()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&program).unwrap();
    file.write_all_at(baits[0].as_os_str().as_bytes(), at as u64).unwrap();
    drop(file);
    std::fs::create_dir(folder.path().join(".debug")).unwrap();
    symlink(&baits[1], folder.path().join("linking.debug")).unwrap();
    symlink(&baits[1], folder.path().join(".debug/linking.debug")).unwrap();
    symlink(&baits[2], folder.path().join("linking.dwp")).unwrap();
    let load = as_user(&program, &[]);
    let watched = Baits::at(&[&baits[0], &baits[1], &baits[2]]);
    let report = profile(&[&load], &mut rdiag_process());
    watched.are_untouched();
    assert!(report.contains("linking_function"), "{report:.4000}");
}

#[test]
#[ignore = "needs: root, cc"]
fn no_link_in_the_place_of_a_servers_program_has_the_kernels_log_read() {
    let _beside = beside_others();
    if !has(&NEEDS) || !has(&[Need::Path("/proc/kmsg")]) {
        return;
    }
    let (_folder, built) = compiled(&spinning("serving"), "serving.c", CC);
    let folder = users_folder();
    let program = folder.path().join("postgres");
    std::fs::copy(built, &program).unwrap();
    let load = as_user(&program, &[]);
    let exe = || std::fs::read_link(format!("/proc/{}/exe", load.pids()[0])).unwrap_or_default();
    assert!(wait_until(5, || exe() == program));
    std::fs::remove_file(&program).unwrap();
    // Who reads it takes its lines from the one that writes them to the disk.
    symlink("/proc/kmsg", folder.path().join("postgres (deleted)")).unwrap();
    let baits = Baits::at(&[Path::new("/proc/kmsg")]);
    let pid = load.pids()[0].to_string();
    let output = rdiag().args(["probe", "dbslower", "--duration", "1s", "--pid", &pid]).output().unwrap();
    baits.are_untouched();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("it is on proc, where no program or library lies"), "{said}");
}
