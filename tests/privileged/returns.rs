//! Programs that a return probe would end, each with a runtime of its own: they live on, and rdiag says why it did not look.

use std::io::BufRead as _;
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

/// Two coroutines, of which each is within the function while the other returns from it.
const C_SWITCHES: &str = r#"
#include <ucontext.h>
#include <unistd.h>
static ucontext_t home, one, two;
static char a[65536], b[65536];
__attribute__((noinline)) int work(int n, ucontext_t *from, ucontext_t *to) { volatile int x = n; swapcontext(from, to); return x + 1; }
static void first(void) { for (;;) work(1, &one, &two); }
static void second(void) { for (int i = 0; ; i++) work(2, &two, i % 3 ? &one : &home); }
static void make(ucontext_t *of, char *stack, void (*does)(void))
{
    getcontext(of);
    of->uc_stack.ss_sp = stack;
    of->uc_stack.ss_size = sizeof a;
    makecontext(of, does, 0);
}
int main(void)
{
    make(&one, b, first);
    make(&two, a, second);
    for (int i = 0; i < 8000; i++) { swapcontext(&home, i ? &two : &one); usleep(2000); }
}
"#;

const PYTHON_CALLS: &str = "\
import sys, threading, time
def deep(n): return deep(n - 1) + 1 if n else [0].index(0)
def steps(n):
    for i in range(n): yield repr(i)
def fails(): raise ValueError
def work():
    while time.time() < end:
        deep(200); list(steps(200)); time.sleep(0.002)
        try: fails()
        except ValueError: pass
end = time.time() + 20
for _ in range(3): threading.Thread(target=work).start()
";

/// Calls functions of a library in C while the collector of garbage walks the stacks of all threads, and throws through what called them.
const JAVA_CALLS: &str = r#"
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
public class Main {
    static Object[] kept = new Object[1000];
    static void deep(FileChannel to, int n) throws Exception {
        if (n > 0) { deep(to, n - 1); return; }
        to.write(ByteBuffer.allocateDirect(100));
        throw new IllegalStateException();
    }
    public static void main(String[] words) throws Exception {
        long ends = System.nanoTime() + 40_000_000_000L;
        for (int i = 0; i < 4; i++) new Thread(() -> {
            try (FileChannel to = new RandomAccessFile("/dev/null", "rw").getChannel()) {
                for (int at = 0; System.nanoTime() < ends; at++) {
                    try { deep(to, 50); } catch (IllegalStateException e) { }
                    for (int n = 0; n < 100; n++) kept[(at + n) % 1000] = new byte[10000];
                    Thread.sleep(1);
                }
            } catch (Exception e) { System.exit(3); }
        }).start();
        System.out.println("ready");
    }
}
"#;

const SCRIPT_COLLECTS: &str = "const o=[]; for(let i=0;i<3000;i++) o.push({toJSON(){ let s=''; for(let k=0;k<30;k++) s+=k+'x'; \
     return [s,{a:s}] }}); const end=Date.now()+20000; (function tick(){ JSON.stringify(o); if(Date.now()<end) setImmediate(tick) })();";

/// Whether it is alive, unlike one that has ended and that nobody asked for its result.
fn still_alive(target: &mut Child) -> bool {
    target.try_wait().unwrap().is_none()
}

/// Starts it, tries all that would watch the function's return, and what watches its entry alone. `says` is why returns are refused; none
/// where they are watched.
fn survives(mut command: Command, function: &str, says: Option<&str>) {
    let mut target = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    if says.is_none() {
        // A Java machine compiles its program first.
        let mut line = String::new();
        std::io::BufReader::new(target.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{function}");
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (pid, point) = (target.id().to_string(), format!("function={function}"));
    let mut told = |args: &[&str]| {
        let output = rdiag().args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // What it does next would end it.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(still_alive(&mut target), "{args:?} has ended {function}: {text}");
        (output.status.code(), text, String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for args in [
        &["probe", "hist", "--param", &point, "--param", "value=latency", "--duration", "1s"][..],
        &["probe", "count", "--param", &point, "--param", "key=return", "--duration", "1s", "--pid", &pid],
        &["probe", "log", "--param", &point, "--param", "value=return", "--duration", "1s"],
        &["run", "method-r", "--pid", &pid, "--each-from", function, "-d", "1s", "--format", "json", "--out", "-"],
    ] {
        let (code, text, measured) = told(args);
        let Some(says) = says else {
            assert_eq!(code, Some(0), "{args:?}: {text}");
            assert!(
                !args.contains(&"hist") || measured.contains(" values, mean "),
                "it returned meanwhile: {measured}"
            );
            continue;
        };
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
        survives(program, "libc:_setjmp", Some("returns twice"));
    }
    if let Some(program) = compiled_with(folder, "c++", &out, ("throws.cc", CXX_THROWS)) {
        survives(program, &own("work"), Some("exceptions or panics"));
    }
    if let Some(program) = compiled_with(folder, "rustc", &["-O", "-o", "rdiag-work"], ("panics.rs", RUST_PANICS)) {
        survives(program, &own("work"), Some("exceptions or panics"));
    }
    if let Some(program) = compiled_with(folder, "go", &["build", "-o", "rdiag-work"], ("grows.go", GO_GROWS)) {
        survives(program, &own("main.work"), Some("made with Go"));
    }
    if let Some(program) = compiled_with(folder, "cc", &out, ("switches.c", C_SWITCHES)) {
        survives(program, &own("work"), Some("coroutines"));
    }
}

#[test]
#[ignore = "needs: root, eBPF, programs of other languages"]
fn no_interpreter_or_virtual_machine_is_ended_by_watching_the_returns_of_its_functions() {
    let _alone = alone();
    if !has(FOR_RETURNS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Another one may come first in PATH, and be a script that starts it.
    let python = Path::new("/usr/bin/python3");
    if python.exists() {
        let mut program = Command::new(python);
        program.args(["-c", PYTHON_CALLS]);
        survives(program, "/usr/bin/python3:_PyEval_EvalFrameDefault", Some("CPython"));
    } else {
        skip("in part: no python3");
    }
    let java = Path::new("/usr/bin/java").canonicalize().ok();
    if let Some(home) = java.as_deref().and_then(Path::parent).and_then(Path::parent) {
        std::fs::write(folder.join("Main.java"), JAVA_CALLS).unwrap();
        let program = || {
            let mut program = Command::new("/usr/bin/java");
            program.arg("-Xmx64m").arg(folder.join("Main.java"));
            program
        };
        let library = |name: &str| home.join("lib").join(name).display().to_string();
        survives(program(), &format!("{}:JVM_Sleep", library("server/libjvm.so")), Some("a Java virtual machine"));
        let writes = format!("{}:Java_sun_nio_ch_FileDispatcherImpl_write0", library("libnio.so"));
        survives(program(), &writes, None);
    } else {
        skip("in part: no java");
    }
    let Some((file, function)) = of_node() else {
        return skip("in part: no node");
    };
    let mut program = Command::new("/usr/bin/node");
    program.args(["--max-semi-space-size=1", "-e", SCRIPT_COLLECTS]);
    survives(program, &format!("{file}:{function}"), Some("V8"));
}

/// Where node has the function that makes text of objects: in its program, or in a library of it.
fn of_node() -> Option<(String, &'static str)> {
    let function = "_ZN2v88internal21Builtin_JsonStringifyEiPmPNS0_7IsolateE";
    let libraries = Path::new("/usr/lib").read_dir().ok()?.flatten().filter_map(|folder| folder.path().read_dir().ok());
    let libraries = libraries.flatten().flatten().map(|file| file.path());
    let libraries =
        libraries.filter(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnode.so")));
    let mut files = std::iter::once("/usr/bin/node".into()).chain(libraries);
    let has_it = |file: &std::path::PathBuf| {
        std::fs::read(file).is_ok_and(|bytes| bytes.windows(function.len()).any(|part| part == function.as_bytes()))
    };
    files.find(has_it).map(|file| (file.display().to_string(), function))
}
