//! Lessons: predict, measure, compare, explain, and a quiz.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::ui::{Text, Ui};
use super::{as_it_is, live, wrapped};
use crate::cli::exit::{Exit, Failure};
use rdiag_lab::lesson::{self, Lesson, LessonStep, Quiz, Score, View};
use rdiag_lab::place::Place;
use rdiag_model::quantity::with_unit;
use rdiag_model::{Finding, Status};
use rdiag_playbook as playbook;
use rdiag_report::escape::visible;
use rdiag_report::shown;
use rdiag_session as session;

/// Which lesson.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The lesson; without it all are listed.
    id: Option<String>,
    /// Look at this host as it is now, instead of the recording that belongs to the lesson.
    #[arg(long)]
    here: bool,
    /// How long this host is looked at.
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "here")]
    duration: String,
}

/// Readings behind a finding that are shown.
const MOST_READINGS: usize = 4;
/// Conditions of rules that are shown have no more characters.
const LONGEST_CONDITION: usize = 80;

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let place = Place::of_user()?;
    let Some(id) = &args.id else { return list(&place, ui) };
    let lesson = lesson::find(id)?;
    let mut out = format!("\n{}: {}\n\n", lesson.id, lesson.title);
    let view = if args.here {
        playbook::duration("--duration", &args.duration)?;
        ui.note(shown!("looking at this host for {} …", Text::seen(&args.duration)));
        View::measured(&Arc::new(live()), &lesson, &args.duration, &AtomicBool::new(false))?
    } else {
        let _ = writeln!(out, "{}\n", wrapped(&lesson.story, "  ", ui));
        View::recorded(&lesson)?
    };
    let facts = view.host();
    let _ = writeln!(
        out,
        "{}: {} CPUs, Linux {}, {:.0} s of it{}",
        visible(&facts.hostname),
        facts.cpus,
        visible(&facts.kernel),
        view.seconds(),
        if args.here { "" } else { ", recorded" }
    );
    ui.print(&Text::lines(&out))?;
    let Some(score) = play(&lesson, &view, ui)? else {
        ui.note("the lesson was left before its end; nothing is kept of it");
        return Ok(Exit::Done);
    };
    keep(&place, &lesson, score)?;
    let mut end = format!(
        "\nForeseen: {} of {}. Answered rightly: {} of {}.\n",
        score.foreseen, score.predictions, score.right, score.questions
    );
    end.push_str(match (score.is_passed(), args.here) {
        (true, false) => "Passed. The same on your own host: add --here.\n",
        (true, true) => "Passed.\n",
        (false, _) => "Not passed yet: all questions must be answered rightly in one go. Predictions may be wrong.\n",
    });
    ui.print(&Text::lines(&end))?;
    Ok(Exit::Done)
}

fn list(place: &Place, ui: &Ui) -> Result<Exit, Failure> {
    let progress = place.progress()?;
    let mut out = String::new();
    for lesson in lesson::all()? {
        let reached = progress.get(&lesson.id);
        let passed = if reached.is_some_and(|reached| reached.passed) { "passed" } else { "" };
        let _ = writeln!(out, "{:<10} {:>3} min  {:<8} {}", lesson.id, lesson.minutes, passed, lesson.title);
        let _ = writeln!(out, "             {}", lesson.teaches.join("; "));
    }
    ui.print(&Text::lines(&out))?;
    Ok(Exit::Done)
}

fn keep(place: &Place, lesson: &Lesson, score: Score) -> Result<(), Failure> {
    let _lock = place.lock()?;
    let mut progress = place.progress()?;
    let reached = progress.entry(lesson.id.clone()).or_default();
    reached.checks += 1;
    reached.score = Some(score);
    if score.is_passed() {
        reached.passed = true;
        reached.when = Some(live().wall_clock());
    }
    Ok(place.keep_progress(&progress)?)
}

/// None if the person left before the end.
fn play(lesson: &Lesson, view: &View, ui: &Ui) -> Result<Option<Score>, Failure> {
    let mut score = Score::default();
    for (index, step) in lesson.steps.iter().enumerate() {
        let mut out = format!("\nStep {} of {}\n", index + 1, lesson.steps.len());
        if let Some(asked) = view.step(&step.step) {
            let _ = writeln!(out, "{}\n\n{}", wrapped(&asked.question, "", ui), wrapped(&asked.teach, "  ", ui));
        }
        ui.print(&Text::lines(&out))?;
        if !compare(step, view, &mut score, ui)? {
            return Ok(None);
        }
        ui.print(&Text::lines(format!("\n{}\n", wrapped(&step.explain, "", ui))))?;
        for quiz in &step.quiz {
            match ask(quiz, ui)? {
                Some(right) => score.answered(right),
                None => return Ok(None),
            }
        }
    }
    Ok(Some(score))
}

/// Has everything predicted first and compares then, so that one outcome does not give the next away; whether the person stayed.
fn compare(step: &LessonStep, view: &View, score: &mut Score, ui: &Ui) -> Result<bool, Failure> {
    ui.print(&Text::of("\nPredict: will it be fine, or trouble?\n"))?;
    let mut predictions = Vec::new();
    for rule in &step.checks {
        let title = view.finding(rule).map_or(rule.as_str(), |finding| finding.title.as_str());
        match choose(&shown!("  {} (fine/trouble) = ", Text::seen(title)), &["fine", "trouble"], ui)? {
            Some(word) => predictions.push(word == "trouble"),
            None => return Ok(false),
        }
    }
    for (rule, trouble) in step.checks.iter().zip(predictions) {
        let mut out = match view.finding(rule) {
            Some(finding) => outcome(finding, ui),
            None => format!("\n{rule}: it was not asked here\n"),
        };
        let word = if trouble { "trouble" } else { "fine" };
        let _ = match score.predicted(trouble, view.status(rule)) {
            Some(true) => writeln!(out, "  You said {word}: as it was."),
            Some(false) => writeln!(out, "  You said {word}: it was not so."),
            None => writeln!(out, "  It cannot be judged here, so your prediction does not count."),
        };
        ui.print(&Text::lines(&out))?;
    }
    Ok(true)
}

/// What was found, how one finds it by hand, and what rdiag did instead.
fn outcome(finding: &Finding, ui: &Ui) -> String {
    let instance = finding.instance.as_ref().map_or_else(String::new, |of| format!(" of {of}"));
    let mut out = format!("\n{}{}: {}\n", visible(&finding.title), visible(&instance), finding.status.word());
    let said = finding.unavailable.as_ref().map_or(&finding.summary, |gap| &gap.why);
    let _ = writeln!(out, "{}", wrapped(&visible(said), "  ", ui));
    let _ = writeln!(out, "{}", as_it_is(&format!("By hand: {}", visible(&finding.verify)), "  ", ui));
    let readings = finding.evidence.iter().filter_map(|evidence| {
        let metric = session::metric(&evidence.metric)?;
        Some(format!("{} {}", evidence.metric, with_unit(evidence.mean?, metric.unit)))
    });
    let readings: Vec<String> = readings.take(MOST_READINGS).collect();
    if !readings.is_empty() {
        let _ = writeln!(out, "{}", as_it_is(&format!("rdiag read: {}", visible(&readings.join(", "))), "  ", ui));
    }
    // Long ones are for `rdiag explain`.
    let short = finding.threshold.conditions.iter().filter(|(_, when)| when.len() <= LONGEST_CONDITION);
    let conditions: Vec<String> = short.map(|(status, when)| format!("{status} if {when}")).collect();
    if !conditions.is_empty() {
        let _ = writeln!(out, "{}", as_it_is(&visible(&conditions.join("; ")), "  ", ui));
    }
    if finding.status >= Status::Warning {
        let _ = writeln!(out, "{}", wrapped(&visible(&finding.why), "  ", ui));
    }
    out
}

/// Whether the answer was right; none if the person left.
fn ask(quiz: &Quiz, ui: &Ui) -> Result<Option<bool>, Failure> {
    let mut out = format!("\n{}\n", wrapped(&quiz.ask, "", ui));
    for (option, text) in &quiz.options {
        let _ = writeln!(out, "{}", wrapped(&format!("{option} = {text}"), "    ", ui));
    }
    ui.print(&Text::lines(&out))?;
    let options: Vec<&str> = quiz.options.keys().map(String::as_str).collect();
    let Some(answer) = choose(&Text::of("answer = "), &options, ui)? else { return Ok(None) };
    let is_right = answer == quiz.right;
    let word = if is_right { "Right.".to_owned() } else { format!("No: {}.", quiz.right) };
    ui.print(&Text::lines(format!("{}\n", wrapped(&format!("{word} {}", quiz.because), "", ui))))?;
    Ok(Some(is_right))
}

/// Asks until one of the words is given, of which the beginning is enough; none at the end of input.
fn choose<'w>(prompt: &Text, words: &[&'w str], ui: &Ui) -> Result<Option<&'w str>, Failure> {
    loop {
        let Some(line) = ui.line(prompt) else { return Ok(None) };
        let given = line.to_lowercase();
        let mut meant = words.iter().filter(|word| word.starts_with(given.as_str()) && !given.is_empty());
        let exact = words.iter().find(|word| **word == given);
        match (exact, meant.next(), meant.next()) {
            (Some(word), _, _) | (None, Some(word), None) => return Ok(Some(word)),
            _ => {
                let words = Text::seen(words.join(", "));
                ui.note(shown!("answer with one of: {} (Ctrl-D leaves the lesson)", words));
            }
        }
    }
}
