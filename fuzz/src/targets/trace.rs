//! The kernel's own tracing: its pages, what describes them, and its text. The kernel writes them, but names in them are anybody's.

use rdiag_kernel::mechanism::tracefs::format::Format;
use rdiag_kernel::mechanism::tracefs::line::{Lines, context};
use rdiag_kernel::mechanism::tracefs::page::PageLayout;

/// A page as Linux describes it on 64 bits.
const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                      \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                      \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                      \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

/// Pages; before a first byte of 0 stands a description of them and of their records, in place of the usual one.
pub fn pages(data: &[u8]) -> bool {
    let at =
        data.iter().position(|byte| *byte == 0).filter(|_| data.starts_with(b"\tfield") || data.starts_with(b"name"));
    let (text, pages) = data.split_at(at.unwrap_or(0));
    let pages = if at.is_some() { pages.get(1..).unwrap_or_default() } else { pages };
    let text = String::from_utf8_lossy(text);
    let layout = PageLayout::parse(if text.is_empty() { HEADER } else { &text });
    let format = Format::parse(&text);
    let size = layout.size().unwrap_or(4096);
    let mut all = 0;
    for page in pages.chunks(size) {
        let mut bytes = 0;
        layout.records(page, |_, record| {
            bytes += record.len() + 4;
            for name in ["common_type", "common_pid", "func", "parent_ip", "depth", "calltime"] {
                let _ = format.field(name).and_then(|field| field.value(record));
            }
        });
        assert!(bytes <= page.len(), "records take {bytes} bytes of a page of {}", page.len());
        all += bytes;
    }
    all > 0
}

/// Text as it is read from `trace_pipe`, in pieces that end anywhere.
pub fn text(data: &[u8]) -> bool {
    let collect = |size: usize| {
        let mut all = Vec::new();
        let mut lines = Lines::default();
        data.chunks(size).for_each(|piece| lines.feed(piece, &mut |line| all.push(line)));
        lines.flush(&mut |line| all.push(line));
        all
    };
    let whole = collect(data.len().max(1));
    let bytes: usize = whole.iter().map(|line| line.fields.len() + line.event.len()).sum();
    // A byte that is no text becomes a character of three.
    assert!(bytes <= 3 * data.len(), "events say {bytes} bytes, and {} were read", data.len());
    whole.iter().for_each(|line| assert!(!context(&line.flags).contains('\0')));
    if data.len() < 4096 {
        assert!(whole == collect(7), "events depend on how the text was cut");
    }
    !whole.is_empty()
}
