//! What to do next: the steps of the rules with what is known put in, and without those whose answer is in the report already.

use super::causes::{self, Problem};
use super::words;
use rdiag_model::probed::ProbedOutput;
use rdiag_model::{Culprit, NextStep, Report, Status};

/// Next actions.
const MAX_NEXT: usize = 3;
/// What begins a step that only asks who it is.
const ASKS_WHO: [&str; 3] = ["Find the process", "Find the largest consumer", "Find their parents"];
/// What begins a step for one thread, and a reason that one thread would be: several processes, or tasks that wait for a CPU, are more.
const FOR_ONE_THREAD: &str = "For a single thread,";
const IS_ONE_THREAD: &str = "one thread that does all the work (pidstat -t), ";
/// Rules by which several tasks want one CPU.
const OF_QUEUES: [&str; 2] = ["cpu.saturation.core", "cpu.saturation.pinned"];
/// A process that uses less of a CPU has no thread that fills one.
const OF_ONE_CPU: f64 = 0.9;
/// Phrases of the rules that stand for the culprit.
const STANDS_FOR: [&str; 4] =
    ["the process that uses the most CPU time", "the largest consumer", "the culprit", "The culprit"];

/// At most three actions: those that only look come before those that change the host, and the first of each problem before the second of
/// any.
pub(super) fn actions(report: &Report) -> Vec<NextStep> {
    let task = report.profile.iter().flat_map(|profile| &profile.components);
    let task = task.map(|row| row.next.clone());
    let problems = causes::fired(report).problems;
    let mut lists: Vec<Vec<NextStep>> = task.chain(problems.iter().map(|problem| steps(report, problem))).collect();
    if problems.is_empty() && report.verdict.status == Status::Unknown {
        lists.push(remedies(report));
    }
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut chosen: Vec<NextStep> = Vec::new();
    for changes_host in [false, true] {
        for at in 0..longest {
            for step in lists.iter().filter_map(|list| list.get(at)).filter(|step| step.changes_host == changes_host) {
                if chosen.len() < MAX_NEXT && !chosen.contains(step) {
                    chosen.push(step.clone());
                }
            }
        }
    }
    chosen
}

/// The steps of a problem. Where those of its first finding are few, those of the others go on.
pub(super) fn steps(report: &Report, problem: &Problem<'_>) -> Vec<NextStep> {
    let culprit = problem.leads().find_map(|lead| lead.culprit.as_ref());
    let known = Known { report, problem, culprit };
    let mut steps: Vec<NextStep> = known.file().into_iter().collect();
    for lead in problem.leads() {
        if steps.len() >= MAX_NEXT {
            break;
        }
        let open = lead.next.iter().filter(|step| !known.answers(&step.action));
        steps.extend(open.map(|step| NextStep { action: known.fill(step), ..step.clone() }));
    }
    steps
}

/// What the report knows about a problem.
struct Known<'r> {
    report: &'r Report,
    problem: &'r Problem<'r>,
    culprit: Option<&'r Culprit>,
}

impl Known<'_> {
    /// Whether several processes are behind it.
    fn is_of_several(&self) -> bool {
        self.task().is_some_and(|culprit| culprit.count > 1)
    }

    /// Whether it is known that no single thread fills a CPU.
    fn is_no_single_thread(&self) -> bool {
        let queues = |lead: &rdiag_model::Finding| OF_QUEUES.contains(&lead.id.as_str());
        let seconds = |culprit: &&Culprit| culprit.metric.as_deref() == Some("process.cpu.seconds");
        let used = self.task().filter(seconds).and_then(|culprit| culprit.value);
        let window = self.problem.leads().map(|lead| lead.window_seconds).next().unwrap_or(0.0);
        self.is_of_several()
            || self.problem.leads().any(queues)
            || used.is_some_and(|used| window > 0.0 && used / window < OF_ONE_CPU)
    }

    fn task(&self) -> Option<&Culprit> {
        self.culprit.filter(|culprit| ["process", "task"].contains(&culprit.kind.as_str()))
    }

    /// The id of the thread that a finding of the problem names. Of a CPU that is full, the first finding names the process.
    fn thread(&self) -> Option<&str> {
        let mut culprits = self.problem.leads().filter_map(|lead| lead.culprit.as_ref());
        let thread = culprits.find(|culprit| culprit.kind == "thread" && culprit.count <= 1)?;
        let tid = thread.labels.get("tid").map(String::as_str)?;
        tid.bytes().all(|byte| byte.is_ascii_digit()).then_some(tid).filter(|tid| !tid.is_empty())
    }

    /// The step that begins where the probes ended: at the file.
    fn file(&self) -> Option<NextStep> {
        let culprit = self.task()?;
        let file = culprit.labels.get("file").filter(|_| culprit.count <= 1)?;
        let (who, file) = (words::who(culprit), words::instance(file));
        Some(NextStep {
            action: format!("Check why {who} uses the file {file} now, and whether it has to be on this disk."),
            changes_host: false,
        })
    }

    /// Whether a step asks for what the report says: who it is, which file, what a probe gave, what another finding of the problem is
    /// about.
    fn answers(&self, action: &str) -> bool {
        let asks_who = ASKS_WHO.iter().any(|asks| action.starts_with(asks)) && !action.contains(", and ");
        let has_file = self.task().is_some_and(|culprit| culprit.labels.contains_key("file"));
        let asks_file = ["filetop", "biotop", "fileslower"].iter().any(|tool| action.contains(tool));
        let compares = ["Check the ", "Compare with the "].iter().any(|asks| action.starts_with(asks))
            && self.problem.leads().any(|lead| action.contains(&format!("({})", lead.id)));
        let is_for_another = action.starts_with(FOR_ONE_THREAD) && self.is_no_single_thread();
        is_for_another || asks_who && self.task().is_some() || asks_file && has_file || compares || self.has_run(action)
    }

    /// Whether a step is to run a probe that has run, or the tool that it is named after, without asking it for more.
    fn has_run(&self, action: &str) -> bool {
        let command = action.split_once("rdiag probe ").or_else(|| action.rsplit_once(": "));
        let Some((_, rest)) = command else { return false };
        let (id, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let asks_more = ["--pid", "--param", "--threshold"].iter().any(|option| rest.contains(option));
        let gave = |output: &ProbedOutput| match output {
            ProbedOutput::Table(rows) | ProbedOutput::Events(rows) => !rows.rows.is_empty(),
            ProbedOutput::Histogram(all) => all.rows.iter().any(|row| row.count > 0),
            ProbedOutput::Stacks(sums) => !sums.stacks.stacks.is_empty(),
            _ => true,
        };
        let id = id.trim_end_matches(['.', ',', ';']);
        !asks_more && self.report.probes.iter().any(|probed| probed.probe == id && probed.outputs.iter().any(gave))
    }

    /// A step with names in the place of what stands for them.
    fn fill(&self, step: &NextStep) -> String {
        let mut filled = step.action.clone();
        if self.is_no_single_thread() {
            filled = filled.replacen(IS_ONE_THREAD, "", 1);
        }
        if let Some(culprit) = self.task() {
            for phrase in STANDS_FOR {
                // Once is enough: "it" is understood.
                filled = filled.replacen(phrase, &words::who(culprit), 1);
            }
            if let ([pid], 0 | 1) = (culprit.pids.as_slice(), culprit.count) {
                filled = word_by_word(&filled, "PID", &pid.to_string());
            } else if let (Some(first), false) = (culprit.pids.first(), step.changes_host) {
                // Of several, the one that has most of it is where to look; what changes something is for all of them, or for none.
                filled = word_by_word(&filled, "PID", &first.to_string());
            }
        }
        if let Some(tid) = self.thread() {
            filled = word_by_word(&filled, "TID", tid);
        }
        let device = self.problem.leads().filter(|lead| lead.resource == rdiag_model::Resource::Disk);
        if let Some(device) = device.filter_map(|lead| lead.instance.as_deref()).next() {
            filled = word_by_word(&filled, "DEVICE", &words::instance(device));
        }
        // A user who may mount chooses the name, and the command is pasted into a shell.
        let is_plain = |path: &&str| path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        let mounts = self.problem.leads().filter(|lead| lead.resource == rdiag_model::Resource::Filesystem);
        if let Some(mount) = mounts.filter_map(|lead| lead.instance.as_deref()).find(is_plain) {
            filled = word_by_word(&filled, "MOUNT", mount);
        }
        filled
    }
}

/// Replaces a word, but not where it is part of another.
fn word_by_word(text: &str, word: &str, by: &str) -> String {
    let is_part = |of: Option<char>| of.is_some_and(|of| of.is_alphanumeric() || of == '_');
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, from) = rest.split_at(at);
        let behind = from.strip_prefix(word).unwrap_or_default();
        let is_own = !is_part(before.chars().next_back()) && !is_part(behind.chars().next());
        out.push_str(before);
        out.push_str(if is_own { by } else { word });
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// What would make an inconclusive run conclusive.
fn remedies(report: &Report) -> Vec<NextStep> {
    let mut of_remedy: Vec<(&String, Vec<String>)> = Vec::new();
    for group in report.coverage.groups.iter().filter(|group| !group.rules.is_empty()) {
        let Some(remedy) = &group.gap.remedy else { continue };
        match of_remedy.iter_mut().find(|(known, _)| *known == remedy) {
            Some((_, rules)) => rules.extend(group.rules.iter().cloned()),
            None => of_remedy.push((remedy, group.rules.clone())),
        }
    }
    let step = |(remedy, rules): (&String, Vec<String>)| NextStep {
        action: format!("To judge {}: {remedy}", words::some(&rules, 2)),
        changes_host: false,
    };
    of_remedy.into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probed;
    use crate::sample::{finding, report, stress};
    use crate::sample_probes::{histogram, result};
    use rdiag_model::Finding;
    use rdiag_model::probe::Output;

    fn read(action: &str) -> NextStep {
        NextStep { action: action.into(), changes_host: false }
    }

    fn change(action: &str) -> NextStep {
        NextStep { action: action.into(), changes_host: true }
    }

    fn chosen(findings: Vec<Finding>) -> Vec<String> {
        actions(&report(findings)).into_iter().map(|step| step.action).collect()
    }

    #[test]
    fn names_stand_in_the_steps_and_what_is_known_is_not_asked() {
        let mut slow = finding("disk.saturation", Status::Critical);
        slow.instance = Some("vda".into());
        slow.next = vec![
            read("Find the processes that read and write: pidstat -d 1 10"),
            read("Read the device's own log: smartctl -a /dev/DEVICE"),
            change("Lower its priority: ionice -c 3 -p PID; not PIDS."),
        ];
        let mut culprit = Culprit { pids: vec![4711], count: 1, ..stress() };
        slow.culprit = Some(culprit.clone());
        assert_eq!(
            chosen(vec![slow.clone()]),
            ["Read the device's own log: smartctl -a /dev/vda", "Lower its priority: ionice -c 3 -p 4711; not PIDS."]
        );
        culprit.labels.insert("file".into(), "/srv/db/1".into());
        slow.culprit = Some(culprit);
        slow.next.truncate(1);
        let mut pressure = finding("disk.saturation.pressure", Status::Warning);
        pressure.next = vec![
            read("Find the files: filetop"),
            read("Compare with the depth (disk.saturation)"),
            read("Look at the waiting tasks."),
        ];
        assert_eq!(
            chosen(vec![slow, pressure]),
            [
                "Check why stress-ng (pid 4711) uses the file /srv/db/1 now, and whether it has to be on this disk.",
                "Look at the waiting tasks."
            ]
        );
    }

    #[test]
    fn of_several_processes_no_single_pid_is_put_in_and_nobody_is_made_up() {
        let mut busy = finding("cpu.saturation", Status::Critical);
        busy.next = vec![
            read("Check whether the culprit, which uses the most CPU time, should run now."),
            read("Find the processes that wait, and the memory: vmstat"),
            change("renice -n 10 -p PID"),
        ];
        busy.culprit = Some(stress());
        assert_eq!(
            chosen(vec![busy.clone()]),
            [
                "Check whether stress-ng (8 processes), which uses the most CPU time, should run now.",
                "Find the processes that wait, and the memory: vmstat",
                "renice -n 10 -p PID"
            ]
        );
        let largest = Culprit { pids: vec![4711, 12], ..stress() };
        busy.culprit = Some(largest);
        busy.next.truncate(1);
        busy.next.push(read("See whether it loops: rdiag probe profile --pid PID, or perf top -p PID"));
        busy.next.push(change("prlimit --pid PID --nofile=…"));
        let steps = chosen(vec![busy.clone()]);
        assert_eq!(steps[1], "See whether it loops: rdiag probe profile --pid 4711, or perf top -p 4711");
        assert_eq!(steps[2], "prlimit --pid PID --nofile=…");
        busy.culprit = None;
        assert!(chosen(vec![busy])[0].starts_with("Check whether the culprit"));
    }

    #[test]
    fn several_processes_are_given_no_step_for_one_thread() {
        let rules = include_str!("../../playbooks/rules/cpu.yaml");
        assert!(rules.contains(FOR_ONE_THREAD) && rules.contains(IS_ONE_THREAD), "the rule has other words");
        let why =
            "Find the reason: one thread that does all the work (pidstat -t), tasks pinned to this CPU, or interrupts.";
        let mut full = finding("cpu.utilization.core", Status::Warning);
        full.next = vec![read(why), read("For a single thread, profile it.")];
        full.culprit = Some(stress());
        assert_eq!(chosen(vec![full.clone()]), ["Find the reason: tasks pinned to this CPU, or interrupts."]);
        let of = |seconds: f64| Some(Culprit { count: 1, value: Some(seconds), ..stress() });
        full.culprit = of(9.5);
        assert_eq!(chosen(vec![full.clone()]), [why, "For a single thread, profile it."]);
        let waiting = finding("cpu.saturation.pinned", Status::Warning);
        assert_eq!(chosen(vec![full.clone(), waiting]), ["Find the reason: tasks pinned to this CPU, or interrupts."]);
        full.culprit = of(8.5);
        assert_eq!(chosen(vec![full]), ["Find the reason: tasks pinned to this CPU, or interrupts."], "half a CPU");
    }

    #[test]
    fn a_thread_that_is_known_stands_in_the_step() {
        let mut full = finding("cpu.utilization.core", Status::Warning);
        full.culprit = Some(Culprit { count: 1, ..stress() });
        let mut thread = finding("cpu.utilization.single_thread", Status::Warning);
        thread.next = vec![read("Profile the thread: perf top -t TID")];
        let mut culprit = Culprit { kind: "thread".into(), name: "worker".into(), count: 1, ..stress() };
        culprit.labels.insert("tid".into(), "4713".into());
        thread.culprit = Some(culprit.clone());
        assert_eq!(chosen(vec![full.clone(), thread.clone()]), ["Profile the thread: perf top -t 4713"]);
        // A recording that was sent may have anything there.
        culprit.labels.insert("tid".into(), "1; reboot".into());
        thread.culprit = Some(culprit);
        assert_eq!(chosen(vec![full, thread]), ["Profile the thread: perf top -t TID"]);
    }

    #[test]
    fn what_a_probe_has_shown_is_no_step_by_whatever_name() {
        let mut slow = finding("disk.saturation.read_latency", Status::Warning);
        slow.next = vec![
            read("Show the distribution: biolatency -D 10 1"),
            read("Find the files: rdiag probe biolatency"),
            read("Separate reads from writes: rdiag probe biolatency --param flags=true"),
            read("Find the processes that read: pidstat -d 1 10"),
        ];
        let mut report = report(vec![slow]);
        let steps = |report: &Report| actions(report).into_iter().map(|step| step.action).collect::<Vec<_>>();
        assert_eq!(steps(&report).len(), MAX_NEXT);
        let taken = result("biolatency", vec![Output::Histogram(histogram(&["vda"]))]);
        report.probes = vec![probed::alone(&taken, "What is the latency of block requests?")];
        assert_eq!(
            steps(&report),
            [
                "Separate reads from writes: rdiag probe biolatency --param flags=true",
                "Find the processes that read: pidstat -d 1 10"
            ]
        );
    }

    #[test]
    fn an_inconclusive_run_says_what_would_make_it_conclusive_and_a_good_one_nothing() {
        let gap = crate::sample::unknown("memory.saturation", "PSI is switched off");
        let mut findings = crate::sample::core_ok();
        assert_eq!(chosen(findings.clone()), Vec::<String>::new());
        findings.retain(|finding| finding.id != "memory.saturation");
        findings.push(gap);
        assert_eq!(chosen(findings.clone()), ["To judge memory.saturation: boot with psi=1"]);
        // One remedy for two reasons is one step.
        findings.retain(|finding| finding.id != "cpu.saturation");
        findings.push(crate::sample::unknown("cpu.saturation", "PSI is missing"));
        assert_eq!(chosen(findings), ["To judge memory.saturation, cpu.saturation: boot with psi=1"]);
    }
}
