//! What readers say of hosts, rolled up, and what students hand in: names that senders chose, in every format. Recordings on stdin, taken
//! apart.

use std::collections::BTreeMap;
use std::io::{self, Read};

use rdiag_fleet::{Fleet, Gathering, Host, NotJudged};
use rdiag_lab::class::{Student, overview};
use rdiag_lab::place::Progress;
use rdiag_report::{self as report, Style, fleet};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::shown;

/// `rdiag fleet`: `hosts` that were judged, and those that are `absent`.
pub fn hosts(data: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return false };
    let (hosts, absent): (Vec<Host>, Vec<NotJudged>) = (list(&value, "hosts"), list(&value, "absent"));
    let (judged, missing) = (hosts.len(), absent.len());
    if judged == 0 && missing == 0 {
        return false;
    }
    let mut all = Gathering::default();
    hosts.into_iter().for_each(|host| all.add(host));
    absent.into_iter().for_each(|host| all.absent(host));
    let rolled = all.conclude();
    assert!(rolled.hosts.len() == judged && rolled.judged <= judged, "each host is listed once");
    assert!(rolled.not_judged.len() >= missing, "each host that is absent is listed");
    let json = fleet::json(&rolled).expect("a roll-up has a JSON form");
    shown::json("fleet.json", &json);
    let again: Fleet = serde_json::from_str(&json).expect("what was written can be read");
    assert!(again == rolled, "a roll-up that is written and read is another one");
    shown::markup("fleet.html", &fleet::html(&rolled).expect("a roll-up can be drawn"));
    shown::document("fleet.md", &fleet::markdown(&rolled));
    for unicode in [true, false] {
        shown::plain("the terminal", &fleet::text(&rolled, &Style { width: 80, color: false, unicode }));
    }
    true
}

fn list<T: DeserializeOwned>(value: &Value, key: &str) -> Vec<T> {
    let all = value.get(key).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()
}

/// `rdiag lab class`: by student, what `rdiag lab progress` prints.
pub fn class(data: &[u8]) -> bool {
    let Ok(handed_in) = serde_json::from_slice::<BTreeMap<String, Progress>>(data) else { return false };
    let students = handed_in.into_iter().map(|(name, progress)| Student { name, progress }).collect();
    let overview = overview(students, &[("01-cpu-hot".to_owned(), "A busy loop".to_owned())]);
    shown::document("the class", &overview.markdown());
    shown::json("the class as JSON", &report::shown::json(&overview).expect("a class has a JSON form"));
    true
}

/// Damaged recordings in a row that are listed one by one: see src/cli/fleet/stream.rs.
const MOST_DAMAGED: usize = 100;

/// Bytes that come one at a time.
struct Slowly<'b>(&'b [u8]);

impl Read for Slowly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer.get_mut(..1).unwrap_or_default())
    }
}

/// `cat RECORDING… | rdiag fleet -`.
pub fn stream(data: &[u8]) -> bool {
    let pieces = rdiag::cli::taken_apart(data).expect("memory can be read");
    let slowly = rdiag::cli::taken_apart(Slowly(data)).expect("memory can be read");
    // Behind so many damaged ones in a row, where it goes on depends on what was passed over at once. What is found there may be alike, and
    // what follows it not.
    let alike = pieces.iter().zip(&slowly).take_while(|(piece, slow)| piece == slow);
    let (longest, _) = alike.fold((0, 0), |(longest, row): (usize, usize), (piece, _)| {
        let row = if piece.is_none() { row + 1 } else { 0 };
        (longest.max(row), row)
    });
    assert!(pieces == slowly || longest >= MOST_DAMAGED, "what comes in pieces is taken apart otherwise");
    let bytes: usize = pieces.iter().flatten().map(Vec::len).sum();
    assert!(bytes <= data.len(), "more comes out than went in");
    pieces.iter().any(Option::is_some)
}
