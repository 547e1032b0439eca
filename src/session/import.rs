//! Profiles of other programs: `perf.data`, and folded text. They enter as if a probe had given them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use thiserror::Error;

use super::armor::Kind as ArmorKind;
use rdiag_kernel::mechanism::perf_data::{self, PerfDataError, Recorded, Symbols};
use rdiag_model::ProbeResult;
use rdiag_model::probe::{Frame, Output, Stack, Stacks};

/// Longest line of folded text.
const MAX_LINE: u64 = 1 << 20;
/// Distinct stacks of folded text, counted in frames.
const MAX_FRAMES: usize = 16 << 20;
/// Distinct names.
const MAX_NAMES: usize = 1 << 20;

/// A profile that cannot be used.
#[derive(Debug, Error)]
pub enum ImportError {
    /// It looks like `perf.data`.
    #[error(transparent)]
    Perf(#[from] PerfDataError),
    /// No line of it is a stack.
    #[error("it is no recording of rdiag, no perf.data and no folded text: {0}")]
    Foreign(String),
    /// There is nothing in it.
    #[error("it holds no sample")]
    Empty,
    /// The disk or the system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A profile as a probe would have given it; none if the file, which then is at its beginning again, seems to be something of rdiag's own.
///
/// # Errors
///
/// When it is nothing that can be read here.
pub fn import(symbols: &mut dyn Symbols, mut file: &File) -> Result<Option<ProbeResult>, ImportError> {
    let mut magic = Vec::new();
    file.by_ref().take(8).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let result = match magic.as_slice() {
        [0x1f, 0x8b, ..] | [b'{', ..] | [] => return Ok(None),
        b"PERFILE2" | b"2ELIFREP" | b"PERFFILE" => perf(symbols, &mut file)?,
        // A recording as text, among whatever lines.
        _ if file.fill_buf()?.split(|byte| *byte == b'\n').any(|line| ArmorKind::of(line) == ArmorKind::First) => {
            file.seek(SeekFrom::Start(0))?;
            return Ok(None);
        }
        _ => folded(&mut file)?,
    };
    let is_empty = |output: &Output| matches!(output, Output::Stacks(stacks) if stacks.stacks.is_empty());
    if result.outputs.iter().all(is_empty) { Err(ImportError::Empty) } else { Ok(Some(result)) }
}

fn perf<R: Read + Seek>(symbols: &mut dyn Symbols, input: &mut R) -> Result<ProbeResult, ImportError> {
    let recorded = Recorded::read(input)?;
    let (seconds, lost) = (recorded.seconds(), recorded.lost());
    let samples = recorded.samples();
    let (stacks, mut notes) = perf_data::stacks(symbols, recorded);
    notes.insert(0, format!("{samples} samples"));
    let mut result = ProbeResult { probe: "perf.data".into(), seconds, notes, ..ProbeResult::default() };
    result.outputs = stacks.into_iter().map(Output::Stacks).collect();
    if lost > 0 {
        result.lost.insert("perf could not keep up".into(), lost);
    }
    Ok(result)
}

/// Stacks out of folded text: `owner;outer;inner 12`, one line each.
fn folded<R: BufRead>(input: &mut R) -> Result<ProbeResult, ImportError> {
    let mut reading = Folding::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        reading.line(&String::from_utf8_lossy(&line));
        if reading.bad > 100 && reading.good == 0 {
            break;
        }
    }
    if reading.good < reading.bad || (reading.good == 0 && reading.bad > 0) {
        return Err(ImportError::Foreign(format!("{} of its first lines are no stacks with a number", reading.bad)));
    }
    Ok(reading.finish())
}

/// Folded text as far as it is read.
#[derive(Debug, Default)]
struct Folding {
    frames: Vec<Frame>,
    index: HashMap<Frame, u32>,
    sums: HashMap<(String, Vec<u32>), (f64, u64)>,
    kept: usize,
    others: f64,
    good: u64,
    bad: u64,
}

impl Folding {
    fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        let parsed = line.rsplit_once(' ').and_then(|(stack, value)| Some((stack, value.parse::<f64>().ok()?)));
        let Some((stack, value)) = parsed.filter(|(_, value)| value.is_finite() && *value >= 0.0) else {
            self.bad += 1;
            return;
        };
        self.good += 1;
        let mut names = stack.split(';');
        let owner = names.next().unwrap_or_default().to_owned();
        let frames: Vec<u32> = names.filter_map(|name| self.frame(name)).collect();
        let length = frames.len();
        let key = (owner, frames);
        let room = self.kept + length < MAX_FRAMES;
        match self.sums.get_mut(&key) {
            Some(sum) => *sum = (sum.0 + value, sum.1 + 1),
            None if room => {
                self.kept += length + 1;
                self.sums.insert(key, (value, 1));
            }
            None => self.others += value,
        }
    }

    /// What stands behind a name says where it ran: `_[k]` in the kernel, `_[j]` compiled at run time, `_[i]` inlined.
    fn frame(&mut self, name: &str) -> Option<u32> {
        let of = |mark: &str| name.strip_suffix(mark);
        let frame = if let Some(name) = of("_[k]") {
            Frame { name: name.to_owned(), object: Some("[kernel]".to_owned()), kernel: true, line: None }
        } else if let Some(name) = of("_[j]") {
            Frame { name: name.to_owned(), object: Some("[compiled at run time]".to_owned()), ..Frame::default() }
        } else {
            Frame { name: of("_[i]").unwrap_or(name).to_owned(), ..Frame::default() }
        };
        if let Some(place) = self.index.get(&frame) {
            return Some(*place);
        }
        let place = u32::try_from(self.frames.len()).ok().filter(|_| self.frames.len() < MAX_NAMES)?;
        self.frames.push(frame.clone());
        self.index.insert(frame, place);
        Some(place)
    }

    fn finish(self) -> ProbeResult {
        let mut sums: Vec<_> = self.sums.into_iter().collect();
        sums.sort_by(|(a_key, a), (b_key, b)| b.0.total_cmp(&a.0).then_with(|| a_key.cmp(b_key)));
        let stack = |((owner, frames), (value, count))| Stack { owner, pid: None, frames, value, count };
        let stacks = Stacks {
            id: "folded".into(),
            title: "Values by stack".into(),
            frames: self.frames,
            stacks: sums.into_iter().map(stack).collect(),
            others: self.others,
            ..Stacks::default()
        };
        let mut result = ProbeResult { probe: "folded text".into(), ..ProbeResult::default() };
        result.outputs.push(Output::Stacks(stacks));
        if self.bad > 0 {
            result.notes.push(format!(
                "{} {} no stack with a number, and left out",
                self.bad,
                if self.bad == 1 { "line is" } else { "lines are" }
            ));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(text: &str) -> (Stacks, Vec<String>) {
        let result = folded(&mut text.as_bytes()).unwrap();
        let [Output::Stacks(stacks)] = result.outputs.as_slice() else { panic!("{result:?}") };
        (stacks.clone(), result.notes)
    }

    #[test]
    fn folded_text_gives_the_stacks_that_it_was_made_of() {
        let text = "app;main;work 30\napp;main;sys_read_[k] 12\nb 3\n";
        let (read, notes) = stacks(text);
        assert_eq!(read.folded(1.0), text);
        assert!(notes.is_empty() && read.frames.iter().filter(|frame| frame.kernel).count() == 1);
    }

    #[test]
    fn lines_that_are_no_stacks_are_counted_and_a_file_without_any_stack_is_refused() {
        let (read, notes) = stacks("# comment\n\na;b c 1.5\na;b c 2\nno number\n");
        assert_eq!((read.stacks.len(), read.stacks[0].value, read.stacks[0].count), (1, 3.5, 2));
        assert_eq!(notes, ["1 line is no stack with a number, and left out"]);
        for bad in ["hello\n", "x NaN\n", "a;b inf\n", "a;b -1\n", "\u{0}\u{1}\n"] {
            assert!(matches!(folded(&mut bad.as_bytes()), Err(ImportError::Foreign(_))), "{bad:?}");
        }
    }
}
