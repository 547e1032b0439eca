//! The profile in words: the observed task, where the time is, what limits the conclusion. An account whose budget ended it early is that
//! of the beginning (`Partial`): the headline begins with that, and the time observed is taken for no execution.

use rdiag_model::Component;
use rdiag_model::ledger::{Level, Target};
use rdiag_model::profile::{Answer, ComponentRow, Conversation, Grade, Partial, Profile};
use rdiag_model::quantity::{percent, seconds};

use super::account::{Account, share};
use super::book::Mentioned;
use super::names::cut;
use super::{beyond, limits, percentile};

/// `process 4711 (postgres), 3 threads`.
pub(super) fn subject(account: &Account<'_>, target: &Target, level: Level) -> String {
    let threads = account.threads.iter().map(|thread| u64::from(thread.thread.stands_for)).sum::<u64>();
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    let name_of = |pid: u32| {
        let of =
            |tid: u32| account.threads.iter().find(|own| own.thread.pid == pid && (own.thread.tid == tid || tid == 0));
        of(pid).or_else(|| of(0)).map_or(String::new(), |own| format!(" ({})", cut(&own.thread.comm)))
    };
    // Samples know of no marks: they are of all that the process does.
    if let Some(marks) = target.marks.as_ref().filter(|_| level == Level::L3) {
        let whose = match (target.pids.as_slice(), &target.comm, &target.cgroup) {
            _ if target.command.is_some() => {
                format!("the command `{}`", cut(target.command.as_deref().unwrap_or_default()))
            }
            ([pid, ..], _, _) => format!("process {pid}{}", name_of(*pid)),
            ([], Some(comm), _) => format!("tasks named {}", cut(comm)),
            ([], None, cgroup) => format!("control group {}", cut(cgroup.as_deref().unwrap_or_default())),
        };
        return format!("the runs of {whose} from {} to {}", cut(&marks.from), cut(&marks.to));
    }
    if let (Some(command), true) = (&target.command, target.each) {
        return format!("the runs of the command `{}`, {threads}", cut(command));
    }
    if let (Some(comm), true) = (&target.comm, target.each) {
        return format!("the runs of {}, {threads}", cut(comm));
    }
    if let Some(command) = &target.command {
        return format!("the command `{}`, {threads}", cut(command));
    }
    match (target.pids.as_slice(), &target.comm, &target.cgroup) {
        ([pid], _, _) => format!("process {pid}{}, {threads}", name_of(*pid)),
        ([_, ..], _, _) => {
            let list: Vec<String> = target.pids.iter().take(5).map(|pid| format!("{pid}{}", name_of(*pid))).collect();
            let more = if target.pids.len() > 5 { " and others" } else { "" };
            format!("processes {}{more}, {threads}", list.join(", "))
        }
        ([], Some(comm), _) => format!("tasks named {}, {threads}", cut(comm)),
        ([], None, Some(cgroup)) => format!("control group {}, {threads}", cut(cgroup)),
        ([], None, None) => format!("the whole host, {threads}"),
    }
}

/// The conclusion.
pub(super) fn answer(profile: &Profile, mentioned: &Mentioned) -> Answer {
    let goal = profile.forecast.goal.as_ref().map(|goal| goal.words.clone());
    let doubts = limits::doubts(profile);
    let limits = limits::limits(profile, &doubts);
    Answer { asked: asked(&profile.conversation), headline: headline(profile, mentioned), goal, limits, doubts }
}

fn headline(profile: &Profile, mentioned: &Mentioned) -> String {
    format!("{}{}", of_followed(profile, mentioned), beyond::headline(profile).unwrap_or_default())
}

fn of_followed(profile: &Profile, mentioned: &Mentioned) -> String {
    if profile.task_seconds <= 0.0 {
        return format!("Nothing was observed of {}: there is no time to account for.", profile.subject);
    }
    let mut incomplete =
        if profile.quality.grade == Grade::D { "This profile is incomplete. ".to_owned() } else { String::new() };
    if let Some(partial) = &profile.partial {
        incomplete.push_str(&format!(
            "In {} ({}), all that was observed: ",
            beginning(profile, partial),
            percent(partial.share)
        ));
    }
    if let Some(runs) = profile.runs.as_ref().filter(|runs| !runs.headline.is_empty()) {
        return format!("{incomplete}{}", runs.headline);
    }
    let whole = whole(profile);
    let idle = share(profile.busy.idle_seconds, profile.task_seconds);
    let is_execution = profile.target.command.is_some() && profile.partial.is_none();
    if let Some(text) = serial(profile, mentioned.headline).filter(|_| is_execution) {
        return format!("{incomplete}{text}.");
    }
    let mut rows: Vec<&ComponentRow> = profile.components.iter().filter(|row| row.seconds > 0.0).collect();
    let mut text = incomplete;
    if idle > 0.5 && !is_execution && profile.busy.share > 0.0 {
        // True and useless: a server that waits for clients. What it does with the rest is the question.
        let largest = rows.iter().find(|row| row.idle);
        let largest = largest.map_or(String::new(), |row| format!("{}{}", row.id.def().phrase, mostly_about(row)));
        text.push_str(&format!(
            "{} of {whole} is waiting for work or for others (mostly {largest}). Of the remaining {}, ",
            percent(idle),
            seconds(profile.busy.seconds)
        ));
        rows.retain(|row| !row.idle);
        text.push_str(&clauses(&rows, mentioned.headline, &|row| row.busy_share.unwrap_or(0.0), ""));
    } else {
        text.push_str(&clauses(&rows, mentioned.headline, &|row| row.share, &format!(" of {whole}")));
    }
    let missing = share(profile.unaccounted_seconds, profile.task_seconds);
    if missing > mentioned.unaccounted {
        text.push_str(&format!("; {} is unaccounted", percent(missing)));
    }
    text.push('.');
    text
}

/// `the first 2.00 s of 10.0 s`.
pub(super) fn beginning(profile: &Profile, partial: &Partial) -> String {
    format!("the first {} of {}", seconds(profile.elapsed_seconds), seconds(partial.window_seconds))
}

/// Of a command with one thread that spans all of it, among others: the time that the user waits is that thread's.
fn serial(profile: &Profile, least: f64) -> Option<String> {
    let forecast = &profile.forecast;
    let tid = forecast.thread.filter(|_| profile.population.seen > 1)?;
    let comm = &profile.threads.iter().find(|thread| thread.tid == tid)?.comm;
    let mut clauses: Vec<String> = Vec::new();
    for row in forecast.rows.iter().take(3) {
        let share = share(row.seconds, forecast.response_seconds);
        if !clauses.is_empty() && share < least {
            break;
        }
        let of = if clauses.is_empty() {
            let children: Vec<String> = forecast.children.iter().take(2).map(|child| cut(child)).collect();
            let children = if children.is_empty() {
                String::new()
            } else {
                let that = if forecast.as_one { "these" } else { "that" };
                format!(" and in what {that} waited for ({})", children.join(", "))
            };
            let response = seconds(forecast.response_seconds);
            let whose = if forecast.as_one {
                format!("in the threads of {} (Go) taken as one", cut(comm))
            } else {
                format!("in its first thread ({})", cut(comm))
            };
            format!(" of the {response} that it took, {whose}{children},")
        } else {
            String::new()
        };
        let key = profile.components.iter().find(|own| own.id == row.id).map(mostly_about).unwrap_or_default();
        clauses.push(format!("{}{of} is {}{key}", percent(share), row.id.def().phrase));
    }
    // What the children did stands in place of the wait, which is part of the answer.
    let piped = share(forecast.piped_seconds.unwrap_or(0.0), forecast.response_seconds);
    if !clauses.is_empty() && piped >= least {
        let phrase = Component::IpcPipe.def().phrase;
        clauses.push(format!("meanwhile {} spent {} {phrase}", cut(comm), percent(piped)));
    }
    (!clauses.is_empty()).then(|| clauses.join("; "))
}

/// ` [vda]`: what most of a component was about; "" where that is many things, or not known.
fn mostly_about(row: &ComponentRow) -> String {
    let key = row.keys.first().filter(|key| !key.name.is_empty() && key.share > 0.5);
    key.map(|key| format!(" [{}]", cut(&key.name))).unwrap_or_default()
}

/// What the shares are shares of.
fn whole(profile: &Profile) -> String {
    if profile.population.seen <= 1 {
        // A command may end before the window does.
        return format!("the elapsed {}", seconds(profile.task_seconds));
    }
    format!("the {} that its {} threads lived", seconds(profile.task_seconds), profile.population.seen)
}

/// `62% of … is waiting for disk syncs (vda): 1210 times, 5.1 ms on average; 20% is …`.
fn clauses(rows: &[&ComponentRow], least: f64, share_of: &dyn Fn(&ComponentRow) -> f64, of: &str) -> String {
    let mut clauses: Vec<String> = Vec::new();
    for (at, row) in rows.iter().take(3).enumerate() {
        let share = share_of(row);
        if at > 0 && share < least {
            break;
        }
        let of = if at == 0 { of } else { "" };
        let mut clause = format!("{}{of} is {}", percent(share), row.id.def().phrase);
        clause.push_str(&mostly_about(row));
        if let (0, Some(count @ 2..), Some(mean), false) = (at, row.count, row.mean, row.id.on_cpu()) {
            clause.push_str(&format!(", {count} times, {} on average", seconds(mean)));
        }
        clauses.push(clause);
    }
    clauses.join("; ")
}

/// What was asked, in a sentence; none if nothing was.
fn asked(conversation: &Conversation) -> Option<String> {
    let mut text = conversation.task.as_deref().map(cut).unwrap_or_default();
    if let Some(whom) = &conversation.for_whom {
        text.push_str(&format!(" for {}", cut(whom)));
    }
    let told = if conversation.measured { "took" } else { "takes" };
    let percentile = conversation.goal_share.map(|share| format!("{} ≤ ", percentile::name(share)));
    let goal = conversation.goal_seconds.map(|goal| format!("{}{}", percentile.unwrap_or_default(), seconds(goal)));
    match (conversation.now_seconds, goal) {
        (Some(now), Some(goal)) => text.push_str(&format!(" {told} {}; the goal is {goal}", seconds(now))),
        (Some(now), None) => text.push_str(&format!(" {told} {}", seconds(now))),
        (None, Some(goal)) => text.push_str(&format!(" is to take {goal}")),
        (None, None) => {}
    }
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
