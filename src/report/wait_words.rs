//! Waits in words that all formats share: how long they were, who ended them, and what of them the stacks show.

use rdiag_model::chain::Chain;
use rdiag_model::probe::Stack;
use rdiag_model::profile::{Bin, ComponentRow};
use rdiag_model::quantity::{number, percent, seconds};
use rdiag_model::{Component, Profile};

/// What is to be understood before the chains are read.
pub(super) const CHAINS: &str = "The next line is about the task that ended the waits of the line before. All are sums over the window; \
    where two \
                                 overlapped in time, the line says so. A short wait is attributed to the task that ran \
                                 where it ended, even if an interrupt ended it.";

/// What is to be understood before the distributions are read.
pub(super) const LENGTHS: &str = "Outlined: number of waits of this length. Filled: their total time. Where the filled bars stand \
                                  further right, a few long waits dominate.";

/// Marks from nothing to most; no blanks, at which lines would break.
const MARKS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PLAIN_MARKS: [char; 9] = ['_', '.', ':', '-', '=', '+', '*', '#', '@'];

/// A chain, a line for each of its links and one for its end.
pub(super) fn chain(chain: &Chain) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, link) in chain.links.iter().enumerate() {
        let times = if link.count == 1 { "once".to_owned() } else { format!("{} times", number(link.count as f64)) };
        let mut line = format!(
            "{}: {}, {}, {} of its time, ended by {}, {times}",
            link.waiter,
            seconds(link.seconds),
            link.component.def().title,
            percent(link.share),
            link.waker
        );
        if at > 0 {
            let [least, most] = link.together;
            line.push_str(&match least {
                least if least > 0.0 => format!("; of that, {} to {} meanwhile", seconds(least), seconds(most)),
                _ => format!("; of that, at most {} meanwhile", seconds(most)),
            });
        }
        lines.push(line);
    }
    if !chain.end.is_empty() {
        lines.push(chain.end.clone());
    }
    lines
}

/// How much of the waiting the stacks show, and what divides the CPU time.
pub(super) fn with_stacks(profile: &Profile) -> Option<String> {
    let stacks = profile.stacks.as_ref()?;
    let is_wait = |row: &&ComponentRow| !row.id.on_cpu() && !row.id.runnable();
    let waited: f64 = profile.components.iter().filter(is_wait).map(|row| row.seconds).sum();
    let on_cpu = |stack: &&Stack| [Component::CpuUser, Component::CpuSys].iter().any(|id| id.id() == stack.owner);
    let sampled: f64 = stacks.stacks.iter().filter(on_cpu).map(|stack| stack.value).sum();
    let waits = stacks.stacks.iter().filter(|stack| !on_cpu(stack));
    // Of what is left out, what CPU time lacks is none of waits.
    let ran: f64 = profile.components.iter().filter(|row| row.id.on_cpu()).map(|row| row.seconds).sum();
    let others = if sampled > 0.0 { stacks.others - (ran - sampled).max(0.0) } else { stacks.others };
    let taken = (waits.map(|stack| stack.value).sum::<f64>() + others.max(0.0)).min(waited);
    let of_waits = (waited > 0.0).then(|| {
        format!(
            "Of the {} that threads waited, {} ({}) have a stack; short waits are sampled. Run-queue wait is not shown.",
            seconds(waited),
            seconds(taken),
            percent(taken / waited)
        )
    });
    let of_cpus = (sampled > 0.0).then(|| "CPU time is split among functions by samples.".to_owned());
    let said: Vec<String> = of_waits.into_iter().chain(of_cpus).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// Where a distribution begins and ends, `2.05 µs – 67.1 ms`.
pub(super) fn span(bins: &[Bin]) -> Option<String> {
    let (first, last) = (bins.first()?, bins.last()?);
    Some(match first.from {
        from if from > 0.0 => format!("{} – {}", seconds(from), seconds(last.below)),
        _ => format!("below {}", seconds(last.below)),
    })
}

/// A mark for each bar, by its part of the largest; something is never shown as nothing.
fn marks(values: impl Iterator<Item = f64> + Clone, unicode: bool) -> String {
    let most = values.clone().fold(0.0, f64::max);
    let marks = if unicode { MARKS } else { PLAIN_MARKS };
    let mark = |value: f64| {
        let level = if value > 0.0 { (value / most * 8.0).round().clamp(1.0, 8.0) } else { 0.0 };
        marks.get(level as usize).copied().unwrap_or('?')
    };
    values.map(mark).collect()
}

/// A distribution of two bars or more as marks: of the number of waits, and of their time.
pub(super) fn lengths(row: &ComponentRow, unicode: bool) -> Option<(String, String)> {
    let bins = &row.bins;
    (bins.len() > 1).then(|| {
        let count = marks(bins.iter().map(|bin| bin.count as f64), unicode);
        (count, marks(bins.iter().map(|bin| bin.seconds), unicode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_has_a_mark_and_what_is_not_has_none() {
        assert_eq!(marks([0.0, 0.001, 50.0, 100.0].into_iter(), true), "·▁▄█");
        assert_eq!(marks([0.0, 0.001, 50.0, 100.0].into_iter(), false), "_.=@");
        assert_eq!(marks([0.0, f64::NAN].into_iter(), true), "··");
    }
}
