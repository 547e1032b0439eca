//! Profiles of other programs: `perf.data`, and folded text.

use std::io::{Cursor, Seek as _, Write as _};

use rdiag_kernel::mechanism::perf_data::{self, Functions, Recorded, Symbols};
use rdiag_model::probe::{Output, Stacks};
use rdiag_model::{ProbeResult, Unit};
use rdiag_report::{self as report, Style, flame, hot, speedscope};
use rdiag_session as session;

use super::shown;

/// Knows no names: what those of files are is no part of this.
struct Nobody;

impl Symbols for Nobody {
    fn of_kernel(&mut self, _: Option<&[u8]>, _: Option<(&str, u64)>, _: &[u64]) -> Functions {
        Err("nobody knows".to_owned())
    }

    fn of_file(&mut self, _: &str, _: Option<&[u8]>, _: &[u64]) -> Functions {
        Err("nobody knows".to_owned())
    }
}

/// `rdiag analyze perf.data`.
pub fn perf_data(data: &[u8]) -> bool {
    let Ok(recorded) = Recorded::read(&mut Cursor::new(data)) else { return false };
    let (samples, seconds) = (recorded.samples(), recorded.seconds());
    assert!(samples <= data.len() as u64 / 8, "more samples than there is room for");
    assert!(seconds.is_finite() && seconds >= 0.0);
    let (stacks, notes) = perf_data::stacks(&mut Nobody, recorded);
    let counted: u64 = stacks.iter().flat_map(|stacks| &stacks.stacks).map(|stack| stack.count).sum();
    assert!(counted <= samples, "{counted} samples in stacks, and {samples} in all");
    let outputs = stacks.into_iter().map(Output::Stacks).collect();
    told(&ProbeResult { probe: "perf.data".into(), seconds, notes, outputs, ..ProbeResult::default() });
    true
}

/// `rdiag analyze` of folded text.
pub fn folded(data: &[u8]) -> bool {
    if data.starts_with(b"PERFFILE") || data.starts_with(b"PERFILE2") || data.starts_with(b"2ELIFREP") {
        return false;
    }
    let Some(result) = imported(data) else { return false };
    told(&result);
    let [Output::Stacks(stacks)] = result.outputs.as_slice() else { panic!("folded text is one set of stacks") };
    // Marks of where a function ran are said anew, and sums are in another order; the text of that is the same text from then on.
    let text = stacks.folded(1.0);
    let Some(again) = imported(text.as_bytes()) else { return false };
    let [Output::Stacks(again)] = again.outputs.as_slice() else { panic!("folded text is one set of stacks") };
    let sum = |stacks: &Stacks| stacks.stacks.iter().map(|stack| stack.value).sum::<f64>() + stacks.others;
    let (one, other) = (sum(stacks), sum(again));
    let rounded = stacks.stacks.len() as f64 + one.abs() * 1e-6;
    assert!((one - other).abs() <= rounded || !one.is_finite(), "the sum was {one} and is {other}");
    true
}

fn imported(data: &[u8]) -> Option<ProbeResult> {
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file in memory");
    file.write_all(data).expect("a file in memory");
    file.rewind().expect("a file in memory");
    session::import(&mut Nobody, file.as_file()).ok().flatten()
}

/// A profile in every format.
fn told(result: &ProbeResult) {
    let style = Style { width: 80, color: false, unicode: true };
    shown::plain("the terminal", &report::probe::text(result, &style));
    shown::markup("the page", &report::profile_html(result, "x").expect("a profile can be drawn"));
    shown::document("the document", &report::profile_markdown(result, "x"));
    shown::json("the result", &report::result_json(result).expect("a profile has a JSON form"));
    result.outputs.iter().for_each(|output| match output {
        Output::Stacks(stacks) => drawn(stacks),
        other => panic!("a profile gives stacks, not {other:?}"),
    });
}

/// Stacks in every format that is made of stacks.
pub fn drawn(stacks: &Stacks) {
    let _ = hot::hot(stacks);
    flame::svg(stacks).iter().chain(&flame::file(stacks)).for_each(|picture| shown::markup("the flame graph", picture));
    let _ = stacks.folded(if stacks.unit == Unit::Seconds { 1e6 } else { 1.0 });
    shown::json("the profile for speedscope", &speedscope::speedscope(stacks).expect("stacks have that form"));
}
