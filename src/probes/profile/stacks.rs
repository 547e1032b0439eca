//! Stacks by the names of their functions alone: samples of one function differ in their lines, and those have a table.

use std::collections::{BTreeMap, HashMap};

use rdiag_model::probe::{Frame, Stack, Stacks};

/// What is added up: owner, its process, frames.
type Kind = (String, Option<u32>, Vec<u32>);

/// The same sums without lines, the largest `top` of them.
pub(super) fn by_name(all: Stacks, top: usize) -> Stacks {
    let plain: Vec<Frame> = all.frames.iter().map(|frame| Frame { line: None, ..frame.clone() }).collect();
    // The place of the first frame that is the same without its line.
    let mut first: BTreeMap<&Frame, u32> = BTreeMap::new();
    let place: Vec<u32> = (0..).zip(&plain).map(|(at, frame)| *first.entry(frame).or_insert(at)).collect();
    let mut sums: HashMap<Kind, (f64, u64)> = HashMap::new();
    for stack in all.stacks {
        let frames = stack.frames.iter().filter_map(|at| place.get(*at as usize).copied()).collect();
        let sum = sums.entry((stack.owner, stack.pid, frames)).or_default();
        sum.0 += stack.value;
        sum.1 += stack.count;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(a, (x, _)), (b, (y, _))| y.total_cmp(x).then_with(|| a.cmp(b)));
    let others = all.others + sums.iter().skip(top).map(|(_, (value, _))| value).sum::<f64>();
    sums.truncate(top);
    // Only the frames that are left.
    let mut frames = Vec::new();
    let mut places: HashMap<u32, u32> = HashMap::new();
    let mut kept = |at: u32| {
        *places.entry(at).or_insert_with(|| {
            frames.push(plain.get(at as usize).cloned().unwrap_or_default());
            u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
        })
    };
    let stacks = sums
        .into_iter()
        .map(|((owner, pid, own), (value, count))| Stack {
            owner,
            pid,
            frames: own.into_iter().map(&mut kept).collect(),
            value,
            count,
        })
        .collect();
    Stacks { frames, stacks, others, ..all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_differ_in_lines_only_are_one_and_the_smallest_are_summed() {
        let frame = |name: &str, line: &str| Frame { name: name.into(), line: Some(line.into()), ..Frame::default() };
        let stack =
            |frames: &[u32], value| Stack { owner: "app".into(), frames: frames.to_vec(), value, count: 1, pid: None };
        let all = Stacks {
            frames: vec![frame("main", "a.c:1"), frame("hot", "a.c:2"), frame("hot", "a.c:3"), frame("cold", "a.c:9")],
            stacks: vec![stack(&[0, 1], 2.0), stack(&[0, 3], 1.0), stack(&[0, 2], 2.5)],
            others: 0.5,
            ..Stacks::default()
        };
        let named = by_name(all, 1);
        assert_eq!((named.stacks.len(), named.others), (1, 1.5));
        assert_eq!((named.stacks[0].value, named.stacks[0].count), (4.5, 2));
        let names: Vec<&str> =
            named.stacks[0].frames.iter().map(|at| named.frames[*at as usize].name.as_str()).collect();
        assert_eq!((names, named.frames.len()), (vec!["main", "hot"], 2));
        assert!(named.frames.iter().all(|frame| frame.line.is_none()));
    }
}
