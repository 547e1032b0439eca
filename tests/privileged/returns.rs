//! Programs that a return probe would end, each with a runtime of its own: they live on, and rdiag says why it did not look.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Need, alone, has, rdiag, skip};

const FOR_RETURNS: &[Need] = &[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")];

/// Grows the stack below the function, which has the runtime walk it.
const GO_GROWS: &str = r#"
package main

import "time"

//go:noinline
func deep(n int) int {
	var a [200]int
	if n == 0 {
		return a[3]
	}
	a[n%200] = n
	return deep(n-1) + a[n%200]
}

//go:noinline
func work(n int) int { return deep(n) }

func main() {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		d := make(chan int)
		go func() { d <- work(200) }()
		<-d
	}
}
"#;

const CXX_THROWS: &str = r#"
#include <unistd.h>
extern "C" __attribute__((noinline)) int work(int n) { if (n % 2) throw n; return n; }
int main() { volatile int c = 0; for (int i = 0; i < 8000; i++) { try { c += work(i); } catch (int e) { c += e; } usleep(2000); } }
"#;

const RUST_PANICS: &str = r#"
#[inline(never)] #[unsafe(no_mangle)]
pub fn work(n: u32) -> u32 { if n % 2 == 1 { std::panic::resume_unwind(Box::new(1)) } else { n } }
fn main() {
    for n in 0..8000 { let _ = std::panic::catch_unwind(|| work(std::hint::black_box(n))); std::thread::sleep(std::time::Duration::from_millis(2)); }
}
"#;

const C_JUMPS: &str = r#"
#include <setjmp.h>
#include <unistd.h>
static jmp_buf place;
__attribute__((noinline)) static void back(void) { longjmp(place, 1); }
int main(void) { for (int i = 0; i < 8000; i++) { if (!_setjmp(place)) back(); usleep(2000); } }
"#;

const SCRIPT_COLLECTS: &str = "const o=[]; for(let i=0;i<3000;i++) o.push({toJSON(){ let s=''; for(let k=0;k<30;k++) s+=k+'x'; \
     return [s,{a:s}] }}); const end=Date.now()+20000; (function tick(){ JSON.stringify(o); if(Date.now()<end) setImmediate(tick) })();";

/// Whether it is alive, unlike one that has ended and that nobody asked for its result.
fn still_alive(target: &mut Child) -> bool {
    target.try_wait().unwrap().is_none()
}

/// Starts it, tries all that would watch the function's return, and what watches its entry alone.
fn survives(mut command: Command, function: &str, says: &str) {
    let mut target = command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (pid, point) = (target.id().to_string(), format!("function={function}"));
    let mut told = |args: &[&str]| {
        let output = rdiag().args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // What it does next would end it.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(still_alive(&mut target), "{args:?} has ended {function}: {text}");
        (output.status.code(), text)
    };
    for args in [
        &["probe", "hist", "--param", &point, "--param", "value=latency", "--duration", "1s"][..],
        &["probe", "count", "--param", &point, "--param", "key=return", "--duration", "1s", "--pid", &pid],
        &["probe", "log", "--param", &point, "--param", "value=return", "--duration", "1s"],
        &["run", "method-r", "--pid", &pid, "--each-from", function, "--duration", "1s", "--out", "-"],
    ] {
        let (code, text) = told(args);
        assert_eq!(code, Some(3), "{args:?}: {text}");
        assert!(text.contains("cannot be watched without danger") && text.contains(says), "{args:?}: {text}");
        assert!(text.contains("watch entries only"), "{args:?}: {text}");
    }
    let entries = told(&["probe", "count", "--param", &point, "--pid", &pid, "--duration", "1s"]);
    assert_eq!(entries.0, Some(0), "{entries:?}");
    target.kill().unwrap();
    target.wait().unwrap();
}

/// Builds a program of this source; none where there is no such compiler.
fn compiled_with(folder: &Path, compiler: &str, args: &[&str], source: (&str, &str)) -> Option<Command> {
    let tried = Command::new(compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if tried.is_err() {
        skip(&format!("in part: no {compiler}"));
        return None;
    }
    std::fs::write(folder.join(source.0), source.1).unwrap();
    let mut command = Command::new(compiler);
    command.args(args).arg(source.0).current_dir(folder).env("GO111MODULE", "off");
    let built = command.env("GOCACHE", folder.join("cache")).env("GOPATH", folder.join("path")).status().unwrap();
    assert!(built.success(), "{compiler}");
    Some(Command::new(folder.join("rdiag-work")))
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn no_program_is_ended_by_watching_the_returns_of_its_functions() {
    let _alone = alone();
    if !has(FOR_RETURNS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = |name: &str| format!("{}:{name}", folder.join("rdiag-work").display());
    let out = ["-O1", "-o", "rdiag-work"];
    if let Some(program) = compiled_with(folder, "cc", &out, ("jumps.c", C_JUMPS)) {
        survives(program, "libc:_setjmp", "returns twice");
    }
    if let Some(program) = compiled_with(folder, "c++", &out, ("throws.cc", CXX_THROWS)) {
        survives(program, &own("work"), "exceptions or panics");
    }
    if let Some(program) = compiled_with(folder, "rustc", &["-O", "-o", "rdiag-work"], ("panics.rs", RUST_PANICS)) {
        survives(program, &own("work"), "exceptions or panics");
    }
    if let Some(program) = compiled_with(folder, "go", &["build", "-o", "rdiag-work"], ("grows.go", GO_GROWS)) {
        survives(program, &own("main.work"), "made with Go");
    }
    let node = Path::new("/usr/bin/node");
    if !node.exists() {
        return skip("in part: no node");
    }
    let mut program = Command::new(node);
    program.args(["--max-semi-space-size=1", "-e", SCRIPT_COLLECTS]);
    survives(program, "/usr/bin/node:_ZN2v88internal21Builtin_JsonStringifyEiPmPNS0_7IsolateE", "V8");
}
