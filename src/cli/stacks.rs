//! Stacks as files for other programs: folded text, a flame graph, a profile for speedscope.

use super::output::{Format, Target};
use super::ui::{Text, Ui};
use crate::cli::exit::Failure;
use rdiag_model::probe::{Output, Stacks};
use rdiag_model::probed::ProbedOutput;
use rdiag_model::{ProbeResult, Recording, Report, Unit};
use rdiag_report::shown;
use rdiag_report::shown::{Shown, Whole};
use rdiag_report::{flame, speedscope};

/// Microseconds in a second: folded text knows whole numbers only.
const FOLDED_PER_SECOND: f64 = 1e6;

/// Stacks, and the probe that they come from.
pub(super) struct NamedStacks {
    pub(super) name: String,
    pub(super) stacks: Stacks,
}

/// The stacks of one reading.
pub(super) fn of_result(result: &ProbeResult) -> Vec<NamedStacks> {
    let stacks = result.outputs.iter().filter_map(|output| match output {
        Output::Stacks(stacks) => Some(stacks.clone()),
        _ => None,
    });
    stacks.map(|stacks| NamedStacks { name: result.probe.clone(), stacks }).collect()
}

/// All stacks of a recording.
pub(super) fn of_recording(recording: &Recording) -> Vec<NamedStacks> {
    let results = recording.windows.iter().flat_map(|window| window.probes.values().flatten());
    results.flat_map(of_result).collect()
}

/// The stacks of a report: of many, it holds the largest.
pub(super) fn of_report(report: &Report) -> Vec<NamedStacks> {
    let of = |output: &ProbedOutput| match output {
        ProbedOutput::Stacks(sums) => Some(sums.stacks.clone()),
        _ => None,
    };
    let outputs = report.probes.iter().flat_map(|probed| probed.outputs.iter().map(move |output| (probed, output)));
    outputs
        .filter_map(|(probed, output)| Some(NamedStacks { name: probed.probe.clone(), stacks: of(output)? }))
        .collect()
}

/// Stacks in one of the formats that are made of stacks.
pub(super) fn render(stacks: &Stacks, format: Format) -> Result<Shown<Whole>, Failure> {
    Ok(match format {
        Format::Svg => flame::file(stacks).unwrap_or_default().whole(),
        Format::Speedscope => speedscope::speedscope(stacks)?.whole(),
        _ => {
            let scale = if stacks.unit == Unit::Seconds { FOLDED_PER_SECOND } else { 1.0 };
            // The file may be looked at on a terminal, and names are not trusted.
            let text = stacks.folded(scale);
            text.lines().map(|line| shown!("{}\n", Text::seen_within(line, usize::MAX))).collect::<Text>().whole()
        }
    })
}

/// Writes all stacks in those of the target's formats that are made of stacks. Gives back the names of the files.
pub(super) fn write(named: &[NamedStacks], target: &Target, ui: &Ui) -> Result<Vec<String>, Failure> {
    let none = || Failure::Usage {
        message: "there are no stacks to draw: no probe with stacks has a result in it".into(),
        hint: Some("`rdiag list probes` shows which have".into()),
    };
    match target {
        Target::Stdout(format) => match named {
            [] => Err(none()),
            [one] => ui.print(&render(&one.stacks, *format)?).map(|()| Vec::new()),
            _ => Err(Failure::Usage {
                message: format!("{} probes have stacks, and stdout takes one file", named.len()),
                hint: Some("write files, with --out DIR".into()),
            }),
        },
        Target::File(folder, name, format) if format.is_of_stacks() => match named {
            [] => Err(none()),
            [one] => {
                folder.save(name, &render(&one.stacks, *format)?)?;
                Ok(vec![name.clone()])
            }
            _ => Err(Failure::Usage {
                message: format!("{} probes have stacks, and --out names one file", named.len()),
                hint: Some("name a folder: --out DIR".into()),
            }),
        },
        Target::Folder(folder, formats) => {
            let mut written: Vec<String> = Vec::new();
            for format in formats.iter().filter(|format| format.is_of_stacks()) {
                if named.is_empty() && target.is_of_stacks() {
                    return Err(none());
                }
                for one in named {
                    let name = free_name(&one.name, format.file(), &written);
                    let text = render(&one.stacks, *format)?;
                    folder.save(&name, &text)?;
                    written.push(name);
                }
            }
            Ok(written)
        }
        Target::File(..) | Target::Terminal => Ok(Vec::new()),
    }
}

/// A file name that is not taken. The probe's name comes from a file that is not trusted.
fn free_name(probe: &str, ending: &str, taken: &[String]) -> String {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let stem: String = probe.chars().filter(|c| known(*c)).take(60).collect();
    let stem = if stem.is_empty() { "stacks" } else { &stem };
    let numbered = (2..).map(|number| format!("{stem}-{number}.{ending}"));
    let mut names = std::iter::once(format!("{stem}.{ending}")).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_stay_in_their_folder_and_differ() {
        assert_eq!(free_name("profile", "svg", &[]), "profile.svg");
        assert_eq!(free_name("profile", "svg", &["profile.svg".into()]), "profile-2.svg");
        assert_eq!(free_name("../../etc/x\0", "svg", &[]), "etcx.svg");
        assert_eq!(free_name("/", "folded", &[]), "stacks.folded");
    }
}
