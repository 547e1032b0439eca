//! The way past the test harness, which would add a thread of its own to every program.

/// The C library runs this before `main`; nothing happens unless the binary was started as a program.
#[expect(unsafe_code, reason = "the only way past the test harness; the section holds function pointers")]
// SAFETY: the entry has the type that the section is defined to hold, and the standard library does not depend on `main`.
#[unsafe(link_section = ".init_array")]
#[used]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(super::ARGUMENT) {
        return;
    }
    let name = words.next().unwrap_or_default();
    let status = super::programs::run(&name, words);
    #[expect(clippy::exit, reason = "it must not come to main")]
    std::process::exit(status);
}
