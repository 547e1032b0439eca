//! Sums by address → sums by name.

use std::collections::{BTreeMap, HashMap};

use super::attributes::{MAX_NAME, short};
use super::{KERNEL, MAX_FRAMES, NOWHERE, Object, Recorded, Sum};
use crate::mechanism::symbols::{Files, is_start};
use rdiag_model::Unit;
use rdiag_model::probe::{Activity, Frame, Stack, Stacks};

/// Stacks of one event that are kept.
const MAX_STACKS: usize = 100_000;
/// Bytes of all names together; each is kept a few times.
const MAX_BYTES: usize = 64 << 20;
/// Files that are named in a note.
const NAMED_FILES: usize = 5;

/// The frames at a place, outermost first, and whether they have names.
type Place = (Vec<u32>, bool);

/// Functions at some places, outermost first, or why they have no names.
pub type Functions = Result<Vec<Vec<Frame>>, String>;

/// Who knows the names of functions.
pub trait Symbols {
    /// Those at these addresses of the kernel that has this build id and function at that address.
    fn of_kernel(&mut self, build_id: Option<&[u8]>, landmark: Option<(&str, u64)>, addresses: &[u64]) -> Functions;
    /// Those at these offsets of the file that has this build id.
    fn of_file(&mut self, path: &str, build_id: Option<&[u8]>, offsets: &[u64]) -> Functions;
}

impl Symbols for Files<'_> {
    fn of_kernel(&mut self, build_id: Option<&[u8]>, landmark: Option<(&str, u64)>, addresses: &[u64]) -> Functions {
        self.kernel_names(build_id, landmark, addresses)
    }

    fn of_file(&mut self, path: &str, build_id: Option<&[u8]>, offsets: &[u64]) -> Functions {
        self.names(path, build_id, offsets)
    }
}

/// What was recorded, as stacks: one for each event that has samples; and what the reader must know.
pub fn stacks(symbols: &mut dyn Symbols, recorded: Recorded) -> (Vec<Stacks>, Vec<String>) {
    let Recorded { known, names, objects, places, sums, crowded, cut, landmark, mut notes, damaged, tasks, .. } =
        recorded;
    let objects: Vec<Object> = objects
        .into_list()
        .into_iter()
        .map(|object| {
            let build_id = object.build_id.or_else(|| known.build_ids.get(&object.path).cloned());
            Object { build_id, ..object }
        })
        .collect();
    let kernel_id = known.build_ids.get("[kernel.kallsyms]").map(Vec::as_slice);
    let landmark = landmark.as_ref().map(|(name, at)| (name.as_str(), *at));
    let mut frames = Frames::default();
    let places = named(symbols, &mut frames, &objects, &places.into_list(), (kernel_id, landmark), &mut notes);
    let names = names.into_list();
    let mut all = Vec::new();
    for (at, event) in known.events.iter().enumerate() {
        let own = sums.iter().filter(|(key, _)| key.first() == Some(&(at as u32)));
        let rest = crowded.get(at).copied().unwrap_or_default();
        let cut = cut.get(at).copied().unwrap_or_default();
        let mut stacks = Stacks {
            id: event.title(),
            title: format!("{} by stack", event.title()),
            unit: if event.is_clock() { Unit::Seconds } else { Unit::Count },
            activity: if event.is_running() { Activity::Running } else { Activity::Event },
            ..Stacks::default()
        };
        let has_chains = event.sample_type & super::attributes::CALLCHAIN != 0;
        add_up(&mut stacks, own, &names, &places, &frames, has_chains);
        stacks.truncated += cut;
        stacks.others += rest.value;
        if stacks.stacks.is_empty() {
            continue;
        }
        if !has_chains {
            notes
                .push(format!("{} was recorded without call chains: only the function itself is known", event.title()));
        }
        all.push(stacks);
    }
    for (count, what) in
        [(damaged, "records were damaged and left out"), (tasks.forgotten, "names and mappings of tasks found no room")]
    {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    }
    (all, notes)
}

/// Distinct frames.
#[derive(Default)]
struct Frames {
    list: Vec<Frame>,
    index: HashMap<Frame, u32>,
    bytes: usize,
}

impl Frames {
    /// Its number. What is new when there is no room is all called the same.
    fn place(&mut self, frame: Frame) -> u32 {
        if let Some(place) = self.index.get(&frame) {
            return *place;
        }
        let size = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.bytes += std::mem::size_of::<Frame>() + frame.name.len() + size(&frame.object) + size(&frame.line);
        let is_full = self.bytes > MAX_BYTES;
        let frame = if is_full { Frame { name: "[no room for its name]".into(), ..Frame::default() } } else { frame };
        let next = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let place = *self.index.entry(frame.clone()).or_insert(next);
        if place == next {
            self.list.push(frame);
        }
        place
    }
}

/// The frames at each place.
fn named(
    symbols: &mut dyn Symbols,
    frames: &mut Frames,
    objects: &[Object],
    places: &[(u32, u64)],
    kernel: (Option<&[u8]>, Option<(&str, u64)>),
    notes: &mut Vec<String>,
) -> Vec<Place> {
    let mut by_object: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, (object, _)) in places.iter().enumerate() {
        by_object.entry(*object).or_default().push(at);
    }
    let mut named: Vec<Place> = vec![(Vec::new(), false); places.len()];
    let (mut refused, mut more, mut unchecked): (Vec<String>, usize, usize) = (Vec::new(), 0, 0);
    for (object, mut at) in by_object {
        at.sort_unstable_by_key(|at| places.get(*at).map(|(_, offset)| *offset));
        let offsets: Vec<u64> = at.iter().filter_map(|at| places.get(*at)).map(|(_, offset)| *offset).collect();
        let Some(Object { path, build_id }) = objects.get(object as usize) else { continue };
        let found = match object {
            KERNEL => symbols.of_kernel(kernel.0, kernel.1, &offsets).map_err(|why| notes.push(why)),
            NOWHERE => Err(()),
            _ if path == "[vdso]" => Err(()),
            _ => {
                let found = symbols.of_file(path, build_id.as_deref(), &offsets);
                unchecked += usize::from(found.is_ok() && build_id.is_none());
                found.map_err(|why| match refused.len() < NAMED_FILES {
                    true => refused.push(format!("{path}: {why}")),
                    false => more += 1,
                })
            }
        };
        let found = found.unwrap_or_else(|()| vec![Vec::new(); offsets.len()]);
        for ((at, offset), functions) in at.into_iter().zip(offsets).zip(found) {
            let has_name = !functions.is_empty();
            let functions = if has_name { functions } else { vec![unnamed(object, path, offset)] };
            if let Some(place) = named.get_mut(at) {
                *place = (functions.into_iter().map(|frame| frames.place(frame)).collect(), has_name);
            }
        }
    }
    if !refused.is_empty() {
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        notes.push(format!("no names for {}{more}", refused.join("; ")));
    }
    if unchecked > 0 {
        let files = if unchecked == 1 { "1 file has" } else { &format!("{unchecked} files have") };
        notes.push(format!("{files} no build id on record, and may have changed since"));
    }
    named
}

/// What stands for a place without a name.
fn unnamed(object: u32, path: &str, offset: u64) -> Frame {
    let file = short(path.rsplit('/').next().unwrap_or_default(), MAX_NAME);
    match object {
        KERNEL => Frame { name: format!("{offset:#x}"), object: Some(path.to_owned()), line: None, kernel: true },
        NOWHERE => Frame { name: format!("{offset:#x}"), ..Frame::default() },
        _ => Frame { name: format!("{file}+{offset:#x}"), object: Some(file), ..Frame::default() },
    }
}

/// Adds up what has the same owner and names.
fn add_up<'s>(
    stacks: &mut Stacks,
    sums: impl Iterator<Item = (&'s Box<[u32]>, &'s Sum)>,
    names: &[String],
    places: &[Place],
    frames: &Frames,
    has_chains: bool,
) {
    let mut merged: HashMap<(u32, Vec<u32>), Sum> = HashMap::new();
    let mut kept = 0;
    for (key, sum) in sums {
        let [_, name, chain @ ..] = &**key else { continue };
        let mut stack = Vec::new();
        let mut is_named = true;
        for place in chain.iter().rev() {
            match places.get(*place as usize) {
                Some((functions, named)) => {
                    is_named &= named;
                    stack.extend(functions);
                }
                None => is_named = false,
            }
        }
        let outermost = stack.first().and_then(|frame| frames.list.get(*frame as usize));
        let begins = outermost.is_none_or(|frame| frame.kernel || is_start(&frame.name));
        stacks.unresolved += if is_named { 0.0 } else { sum.value };
        stacks.truncated += if begins || !has_chains { 0.0 } else { sum.value };
        let key = (*name, stack);
        // One place can be many functions.
        if !merged.contains_key(&key) {
            if kept + key.1.len() > MAX_FRAMES {
                stacks.others += sum.value;
                continue;
            }
            kept += key.1.len();
        }
        let all = merged.entry(key).or_default();
        all.value += sum.value;
        all.count += sum.count;
    }
    let mut merged: Vec<_> = merged.into_iter().collect();
    merged.sort_unstable_by(|(a_key, a), (b_key, b)| b.value.total_cmp(&a.value).then_with(|| a_key.cmp(b_key)));
    stacks.others += merged.iter().skip(MAX_STACKS).map(|(_, stack)| stack.value).sum::<f64>();
    merged.truncate(MAX_STACKS);
    let mut kept: HashMap<u32, u32> = HashMap::new();
    for ((name, stack), sum) in merged {
        let mut place = |frame: u32| {
            *kept.entry(frame).or_insert_with(|| {
                stacks.frames.push(frames.list.get(frame as usize).cloned().unwrap_or_default());
                u32::try_from(stacks.frames.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let own = stack.into_iter().map(&mut place).collect();
        let owner = names.get(name as usize).cloned().unwrap_or_default();
        stacks.stacks.push(Stack { owner, pid: None, frames: own, value: sum.value, count: sum.count });
    }
}
