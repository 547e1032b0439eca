//! What the recorder kept, perhaps on another host: a column of a block, or a sample of a tail.

use rdiag_history as history;
use rdiag_kernel::host::Zone;
use rdiag_report::escape::visible;
use rdiag_session::{HistoryFile, Span, around, incident_in_words};

/// The list of incidents: what is none is named, and what is one can be written again.
pub fn incidents(data: &[u8]) -> bool {
    let Ok((incidents, _)) = history::read_incidents(data) else { return false };
    let written = history::write_incidents(&incidents);
    assert!(written.len() as u64 <= history::MAX_INCIDENTS, "a list that is written is too long to be read");
    let (again, damage) = history::read_incidents(&written).expect("what was written can be read");
    assert!(again == incidents && damage.is_empty(), "a list that is written and read is another one");
    for incident in &incidents {
        let file = incident.file();
        assert!(!file.contains('/') && history::incident_second(&file) == Some(incident.second()), "{file}");
        let (from, to) = incident.span();
        assert!(from <= to);
        super::shown::plain("an incident", &visible(&incident_in_words(incident)));
    }
    !incidents.is_empty()
}

/// The first byte says what the rest is; the checksums around it are right.
pub fn column(data: &[u8]) -> bool {
    let Some((kind, content)) = data.split_first() else { return false };
    let file = history::framed(*kind, content);
    let (block, damage) = history::read_block(&file).expect("its header is right");
    let written = history::write_block(&block);
    let (again, lost) = history::read_block(&written).expect("what was written can be read");
    assert!(
        lost.is_empty() && format!("{again:?}") == format!("{block:?}"),
        "a block that is written and read is another one"
    );
    let thin = history::thin_block(&file, 60.0).expect("its header is right").expect("it has a sample every 5 s");
    let (_, of_thin) = history::read_block(&thin).expect("its header is right");
    assert_eq!(of_thin, damage, "with fewer samples it is damaged in another way");
    // What changed from one block to the next is told of such files, too, and their course.
    let named = |number: u64| HistoryFile { name: format!("{number:010}-0.rdh"), bytes: file.clone() };
    let ever = Span { from: i64::MIN, to: i64::MAX };
    let begun = Span { from: -600_000_000, to: 600_000_000 };
    let _ = around([named(1), named(2)].iter(), (ever, ever), &Zone::utc());
    let _ = around([named(1), named(2)].iter(), (begun, Span { from: 0, to: 0 }), &Zone::utc());
    let (tail, torn) = history::read_tail(&file).expect("its header is right");
    let samples = |record: &rdiag_model::recording::CollectorRecord| record.times.len();
    assert!(
        tail.collectors
            .values()
            .all(|record| record.series.iter().all(|series| series.values.len() == samples(record)))
    );
    damage.is_empty() || torn.is_empty()
}
