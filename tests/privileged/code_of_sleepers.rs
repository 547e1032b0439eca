//! In which functions a program hangs.

use std::process::Command;

use super::code::{NEEDS, all, profile_of, seconds, stacks};
use crate::support::{Load, Need, alone, has};

/// Two threads that wait for each other's mutex, one that reads from a pipe, and the first one that waits for all: for ever.
const HANGS: &str = r"
#include <pthread.h>
#include <unistd.h>
#define FUNCTION __attribute__((noipa)) static
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
FUNCTION int take(pthread_mutex_t *of) { return pthread_mutex_lock(of) + 1; }
FUNCTION int transfer(pthread_mutex_t *from, pthread_mutex_t *to) { take(from); usleep(200000); return take(to) + 1; }
FUNCTION int reads(int from) { volatile char letter[300]; return read(from, (void *)letter, 1) + letter[1]; }
static void *there(void *x) { return (void *)(long)transfer(&one, &other); }
static void *back(void *x) { return (void *)(long)transfer(&other, &one); }
static void *pipes(void *x) { int both[2]; pipe(both); return (void *)(long)reads(both[0]); }
int main(void)
{
	pthread_t threads[3];
	void *(*run[])(void *) = { there, back, pipes };
	for (int at = 0; at < 3; at++) pthread_create(&threads[at], 0, run[at], 0);
	for (int at = 0; at < 3; at++) pthread_join(threads[at], 0);
}
";

/// No thread of it runs while it is looked at.
fn a_program_that_hangs_has_its_functions(takes: &str) {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hangs.c"), HANGS).unwrap();
    for pointers in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
        let flags = ["-O2", pointers, "-pthread", "-o", "hangs", "hangs.c"];
        assert!(Command::new("cc").args(flags).current_dir(folder.path()).status().unwrap().success());
        let load = Load::start(1, folder.path().join("hangs").to_str().unwrap(), &[]);
        std::thread::sleep(std::time::Duration::from_secs(1));
        let pid = load.pids().first().expect("it runs").to_string();
        let stacks = stacks(&profile_of(folder.path(), &["--pid", &pid, "--duration", takes]));
        for (component, functions) in [
            ("lock.user", ["there hangs", "transfer hangs", "take hangs"].as_slice()),
            ("lock.user", &["back hangs", "transfer hangs", "take hangs"]),
            ("ipc.pipe", &["pipes hangs", "reads hangs"]),
            ("wait.futex", &["main hangs"]),
        ] {
            let own = seconds(&stacks, component, functions);
            assert!(own > 2.5, "{own} {functions:?} {pointers}\n{}", all(&stacks));
        }
    }
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn time_of_threads_that_never_run_is_that_of_the_functions_they_are_in() {
    a_program_that_hangs_has_its_functions("3s");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn vm_time_of_threads_that_never_run_is_that_of_the_functions_they_are_in() {
    a_program_that_hangs_has_its_functions("8s");
}
