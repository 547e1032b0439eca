//! The kernel's own tracing: its pages, the records in them, and what describes those. The kernel writes them, but names in them are
//! anybody's.

use rdiag_kernel::mechanism::tracefs::format::Format;
use rdiag_kernel::mechanism::tracefs::page::PageLayout;
use rdiag_kernel::mechanism::tracefs::print::Constants;
use rdiag_kernel::mechanism::tracefs::records::Kinds;
use rdiag_kernel::mechanism::tracefs::select::TraceEvent;

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

/// The fields that every record has, and those of a mark.
const MARK: &str = "ID: 5\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
                    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
                    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                    \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n";

/// How the kernel describes an event, up to the first byte of 0, and a record of it. In front stands its group.
pub fn events(data: &[u8]) -> bool {
    let at = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (text, record) = data.split_at(at);
    let record = record.get(1..).unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let (group, text) = text.split_once('\n').unwrap_or(("", &text));
    let name = text.lines().find_map(|line| line.strip_prefix("name:")).unwrap_or_default();
    let event = TraceEvent { group: group.to_owned(), name: name.trim().to_owned() };
    let format = Format::parse(text);
    let constants = Constants::from([("ONE".to_owned(), 1), ("LEAST".to_owned(), i128::from(i64::MIN))]);
    let kinds = Kinds::of(&Format::parse(MARK), &[(&event, format.clone())], &constants).expect("marks are described");
    let mut said = 0;
    for kind in format.id.into_iter().chain([5, 0]) {
        let _ = kinds.head(record).map(|head| head.context());
        let text = kinds.text(kind, record, &|address| (address % 2 == 0).then(|| "function".to_owned()));
        assert!(text.chars().count() <= 1000, "the text of a record of {} bytes has {}", record.len(), text.len());
        said += text.len();
    }
    said > 0
}
