//! Programs whose files were made to harm whoever reads their symbols. Each costs its own names at most: the profile is there in time, and a
//! program beside it has its functions and lines.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::splitter::compiled;
use crate::support::{Load, Need, beside_others, has, path, rdiag};

const NEEDS: [Need; 2] = [Need::Root, Need::Tool("cc")];
/// By how much longer a profile may take for the hostile program in it; waiting for one in vain takes ten seconds.
const LONGER: Duration = Duration::from_secs(4);

/// A program that does nothing else than to run a function of this name.
fn spinning(function: &str) -> String {
    format!(
        "unsigned long sink;\n__attribute__((noinline)) void {function}(void) {{ for (long i = 0; i < 100000; i++) sink = sink * 3 + i; }}\n\
         int main(void) {{ for (;;) {function}(); }}\n"
    )
}

const CC: &[&str] = &["cc", "-g", "-gz=zlib", "-O1", "-fno-omit-frame-pointer", "-static"];

/// A profile of a hostile program and an innocent one, which has its names; what it says.
fn profile_beside_an_innocent_one(hostile: u32) -> String {
    let (_folder, innocent) = compiled(&spinning("innocent_work"), "innocent.c", CC);
    let load = Load::start(1, &innocent.display().to_string(), &[]);
    std::thread::sleep(Duration::from_millis(300));
    let profile = |pids: &str| {
        let began = Instant::now();
        let args = ["probe", "profile", "--duration", "2s", "--format", "json", "--pid", pids];
        let output = rdiag().args(args).output().unwrap();
        assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), began.elapsed())
    };
    let innocent = load.pids()[0].to_string();
    let (_, alone) = profile(&innocent);
    let (report, both) = profile(&format!("{innocent},{hostile}"));
    assert!(both < alone + LONGER, "{both:?}, and {alone:?} without the hostile program");
    let has_its_line = report.contains("innocent_work") && report.contains("innocent.c:2");
    assert!(has_its_line, "the innocent program has no lines: {report:.4000}");
    report
}

/// The header of each section of a 64-bit ELF file: its name, and where it is in the file.
pub(super) fn sections(elf: &[u8]) -> Vec<(String, usize)> {
    let number = |at: usize, size: usize| {
        elf[at..at + size].iter().rev().fold(0_usize, |all, byte| all << 8 | usize::from(*byte))
    };
    let (from, count, names) = (number(40, 8), number(60, 2), number(62, 2));
    let texts = number(from + 64 * names + 24, 8);
    let name = |at: usize| {
        elf[texts + number(at, 4)..].split(|byte| *byte == 0).next().map(String::from_utf8_lossy).unwrap().into_owned()
    };
    (0..count).map(|index| from + 64 * index).map(|at| (name(at), at)).collect()
}

#[test]
#[ignore = "needs: root, perf events, cc"]
fn debug_information_that_claims_to_unpack_to_terabytes_costs_its_lines() {
    let _beside = beside_others();
    if !has(&NEEDS) {
        return;
    }
    let (_folder, program) = compiled(&spinning("claiming_work"), "claiming.c", CC);
    let mut elf = std::fs::read(&program).unwrap();
    let mut changed = 0;
    for (name, at) in sections(&elf) {
        let offset = u64::from_le_bytes(elf[at + 24..at + 32].try_into().unwrap()) as usize;
        let is_compressed = elf[at + 8] == 0 && elf[at + 9] & 8 != 0;
        if name.starts_with(".debug") && is_compressed {
            elf[offset + 8..offset + 16].copy_from_slice(&(1_u64 << 44).to_le_bytes());
            changed += 1;
        }
    }
    assert!(changed > 0, "no section is compressed");
    std::fs::write(&program, elf).unwrap();
    let load = Load::start(1, &program.display().to_string(), &[]);
    let report = profile_beside_an_innocent_one(load.pids()[0]);
    assert!(report.contains("claiming_work"), "its function is in the table of symbols: {report:.4000}");
    assert!(report.contains("has no lines: its debug information claims to unpack to"), "{report:.4000}");
}

#[test]
#[ignore = "needs: root, perf events, cc"]
fn a_program_that_is_cut_and_restored_while_it_is_read_harms_nobody() {
    let _beside = beside_others();
    if !has(&NEEDS) {
        return;
    }
    // A library, since a program that runs cannot be written to. Only what lies behind its code is cut. It has so many symbols that
    // reading them takes longer than the file stays as it is.
    let library = r#"
__asm__(".altmacro\n.macro one\n.globl f\\@\nf\\@: nop\n.endm\n.rept 200000\none\n.endr");
unsigned long sink;
void library_work(void) { for (long i = 0; i < 100000; i++) sink = sink * 3 + i; }
"#;
    let (folder, shared) = compiled(library, "library.c", &["cc", "-g", "-O1", "-shared", "-fPIC"]);
    let main = format!(
        "#include <dlfcn.h>\nint main(void) {{ void (*work)(void) = dlsym(dlopen(\"{}\", RTLD_NOW), \"library_work\"); for (;;) work(); }}\n",
        shared.display()
    );
    let (_folder, program) = compiled(&main, "main.c", &["cc", "-g", "-O1"]);
    let load = Load::start(1, &program.display().to_string(), &[]);
    std::thread::sleep(Duration::from_millis(300));
    let whole = std::fs::read(&shared).unwrap();
    let table = sections(&whole).into_iter().find(|(name, _)| name == ".symtab").unwrap().1;
    let cut = u64::from_le_bytes(whole[table + 24..table + 32].try_into().unwrap());
    let (file, ends) = (std::fs::OpenOptions::new().write(true).open(&shared).unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                file.set_len(cut).unwrap();
                std::thread::sleep(Duration::from_millis(2));
                file.write_all_at(&whole[cut as usize..], cut).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let told = std::panic::catch_unwind(|| profile_beside_an_innocent_one(load.pids()[0]));
        ends.store(true, Ordering::Relaxed);
        told.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    drop(folder);
}

#[test]
#[ignore = "needs: root, perf events, cc, objcopy"]
fn a_pipe_in_the_place_of_debug_information_is_never_opened() {
    let _beside = beside_others();
    if !has(&NEEDS) || !has(&[Need::Tool("objcopy"), Need::Tool("mkfifo")]) {
        return;
    }
    let (folder, program) = compiled(&spinning("piping_work"), "piping.c", CC);
    let run = |tool: &str, words: &[&str]| {
        let done = Command::new(tool).args(words).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{tool}: {}", String::from_utf8_lossy(&done.stderr));
    };
    // Beside the program, by the name of its debug package, and at the absolute path that its link is changed to.
    let (pipe, name) =
        (folder.path().join("pipe").display().to_string(), program.file_name().unwrap().to_str().unwrap());
    run("mkfifo", &[&pipe, &format!("{name}.dwp"), &format!("{name}.debug")]);
    let link = "x".repeat(pipe.len());
    std::fs::write(folder.path().join(&link), "debug information").unwrap();
    run("objcopy", &["--strip-debug", &format!("--add-gnu-debuglink={link}"), name]);
    let elf = std::fs::read(&program).unwrap();
    let at = elf.windows(link.len()).position(|part| part == link.as_bytes()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&program).unwrap();
    file.write_all_at(pipe.as_bytes(), at as u64).unwrap();
    drop(file);
    let load = Load::start(1, &program.display().to_string(), &[]);
    // Opening a pipe for writing waits for somebody who opens it for reading.
    let is_read = std::sync::Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (is_read, pipe) = (std::sync::Arc::clone(&is_read), pipe.clone());
        move || {
            let _writer = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
            is_read.store(true, Ordering::SeqCst);
        }
    });
    let report = profile_beside_an_innocent_one(load.pids()[0]);
    assert!(!is_read.load(Ordering::SeqCst), "the pipe at the absolute path was opened");
    drop(std::fs::File::open(&pipe).unwrap());
    writer.join().unwrap();
    assert!(report.contains("piping_work"), "{report:.4000}");
}

#[test]
#[ignore = "needs: root, perf events, cc, python3, FUSE"]
fn a_program_on_an_overlay_that_a_user_has_over_a_stuck_daemon_costs_its_own_names_and_no_time() {
    let _beside = beside_others();
    if !has(&NEEDS) || !has(&[Need::Tool("python3"), Need::Tool("unshare"), Need::Path("/dev/fuse")]) {
        return;
    }
    let (folder, program) = compiled(&spinning("overlaid_work"), "overlaid.c", CC);
    let [mount, over, log] = ["mount", "over", "log"].map(|name| folder.path().join(name));
    std::fs::create_dir(&mount).unwrap();
    std::fs::create_dir(&over).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-Urm", "--kill-child", "python3"]).arg(path("tests/privileged/hostile/stuck_fuse.py"));
    command.args([&mount, &program, &over]).stdin(Stdio::null()).stdout(std::fs::File::create(&log).unwrap());
    let _daemon = Daemon(command.spawn().unwrap(), mount.clone());
    says(&log, "stuck");
    let told = std::fs::read_to_string(&log).unwrap();
    let pid = told.lines().find_map(|line| line.strip_prefix("pid ")).unwrap_or_else(|| panic!("{told}"));
    let report = profile_beside_an_innocent_one(pid.parse().unwrap());
    assert!(report.contains("it is on an overlay of a user's namespace"), "{report:.4000}");
}

/// A daemon that is killed with the test, and the mount that it has left.
struct Daemon(Child, std::path::PathBuf);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.1).status();
    }
}

fn says(file: &Path, word: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    while !std::fs::read_to_string(file).unwrap_or_default().contains(word) {
        assert!(Instant::now() < until, "the daemon does not say {word}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs: root, perf events, cc, python3, FUSE"]
fn a_program_on_a_stuck_fuse_file_system_costs_its_own_names_and_no_time() {
    let _beside = beside_others();
    if !has(&NEEDS) || !has(&[Need::Tool("python3"), Need::Path("/dev/fuse")]) {
        return;
    }
    let (folder, program) = compiled(&spinning("stuck_work"), "stuck.c", CC);
    let (mount, log) = (folder.path().join("mount"), folder.path().join("log"));
    std::fs::create_dir(&mount).unwrap();
    let mut command = Command::new("python3");
    command.arg(path("tests/privileged/hostile/stuck_fuse.py")).arg(&mount).arg(&program);
    command.stdin(Stdio::null()).stdout(std::fs::File::create(&log).unwrap());
    let _daemon = Daemon(command.spawn().unwrap(), mount.clone());
    says(&log, "ready");
    let load = Load::start(1, &mount.join("program").display().to_string(), &[]);
    says(&log, "stuck");
    let report = profile_beside_an_innocent_one(load.pids()[0]);
    assert!(report.contains("it is on fuse, whose daemon could stall its readers"), "{report:.4000}");
}

#[test]
#[ignore = "needs: root, perf events, cc, python3, FUSE"]
fn a_process_that_keeps_the_lock_on_its_own_memory_map_costs_its_own_names() {
    let _beside = beside_others();
    if !has(&NEEDS) || !has(&[Need::Tool("python3"), Need::Path("/dev/fuse")]) {
        return;
    }
    let source = include_str!("hostile/held_map.c");
    let (folder, program) = compiled(source, "held_map.c", &["cc", "-g", "-O1", "-pthread"]);
    let (mount, log) = (folder.path().join("mount"), folder.path().join("log"));
    std::fs::create_dir(&mount).unwrap();
    let mut command = Command::new("python3");
    command.arg(path("tests/privileged/hostile/stuck_fuse.py")).args([&mount, &program]).arg("--silent");
    command.stdin(Stdio::null()).stdout(std::fs::File::create(&log).unwrap());
    let daemon = Daemon(command.spawn().unwrap(), mount.clone());
    says(&log, "ready");
    let mut command = Command::new(&program);
    command.arg(mount.join("program")).stdin(Stdio::null()).stdout(Stdio::null());
    // The daemon has to go first: what waits for it does not end before.
    let both = (daemon, Daemon(command.spawn().unwrap(), mount));
    says(&log, "asked");
    // Its other thread comes a second later, and can say no more then.
    std::thread::sleep(Duration::from_millis(1500));
    let report = profile_beside_an_innocent_one(both.1.0.id());
    assert!(report.contains("the kernel did not answer within 1.5 s"), "{report:.4000}");
}
