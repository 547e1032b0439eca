//! A folder given to `--from`: an unpacked sosreport, or one in which sysstat keeps its files. Which file is of that day, and what makes it
//! readable here: the files themselves are those of their program and its version.

use std::path::Path;

use super::input::{Input, SentFolder};
use crate::cli::exit::Failure;
use rdiag_kernel::host::Zone;
use rdiag_session::Span;
use rdiag_session::sosreport::{self, Day, Found, Given, Kind};

/// What is read.
pub(super) struct Meant {
    /// The file that is meant: itself, or of a folder what sadf printed of the day on which that time ends (`sa10.xml`). After it come
    /// those of the days before and after, since the day of the host may be another one.
    pub(super) files: Vec<Input>,
    /// What else to try.
    pub(super) hint: Option<String>,
}

/// Which file of a folder it is.
pub(super) fn meant(path: &Path, span: Span, zone: &Zone) -> Result<Meant, Failure> {
    if !path.is_dir() {
        return Ok(Meant { files: vec![Input::open(path, &[])?], hint: None });
    }
    let folder = SentFolder::open(path)?;
    let [day, beside @ ..] = Day::around(span, zone);
    let find = |day: &Day, kind: Kind| -> Option<String> {
        let places = day.places.iter().filter(|place| place.kind == kind);
        places.map(|place| place.path.clone()).find(|place| folder.is_file(place))
    };
    let named = |place: &str| path.join(place).display().to_string();
    let kept = |kind| find(&day, kind).map(|place| named(&place));
    let others = sosreport::other_days().into_iter().filter(|name| folder.is_file(name));
    let found = Found {
        sysstat: kept(Kind::Sysstat),
        atop: kept(Kind::Atop),
        pcp: folder.is_dir(sosreport::PCP_ARCHIVES).then(|| named(sosreport::PCP_ARCHIVES)),
        text: kept(Kind::Text),
        report: None,
        other_days: others.filter_map(|name| name.rsplit('/').next().map(str::to_owned)).collect(),
    };
    let (what, hint) = found.refusal(&day, Given::Folder);
    match find(&day, Kind::Printed) {
        Some(printed) => {
            let beside = beside.iter().filter_map(|day| find(day, Kind::Printed));
            let all = [printed].into_iter().chain(beside);
            let files = all.map(|place| folder.input(&place)).collect::<Result<_, _>>()?;
            Ok(Meant { files, hint: found.sysstat.is_some().then_some(hint) })
        }
        None => Err(Failure::usage(format!("reading {}: {what}", path.display()), Some(&hint))),
    }
}
