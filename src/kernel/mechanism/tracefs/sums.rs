//! The kernel's own sums over an event by its fields (histogram triggers), in an instance: what can be counted where no program may be in
//! the kernel. Such triggers do not heed `set_event_pid`: to limit them to threads, name these in the filter.

use super::error_log::latest_error;
use super::instance::Instance;
use crate::host::Host;
use rdiag_model::{Reason, Unavailable};

/// The thread on the CPU, and the CPU.
pub const THREAD: &str = "common_pid";
/// See [`THREAD`].
pub const CPU: &str = "common_cpu";
/// The CPU in a filter, which does not know the other name.
pub const CPU_IN_FILTER: &str = "CPU";
/// As many keys as the kernel takes at most.
const MOST_KEYS: usize = 3;
/// As many frames as the kernel keeps of a stack (HIST_STACKTRACE_DEPTH).
pub const STACK_DEPTH: usize = 16;
/// What the kernel calls the stack, since Linux 6.3 and before.
const STACK: [&str; 2] = ["common_stacktrace", "stacktrace"];

/// What is to be summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Group of the event.
    pub group: String,
    /// Its name.
    pub event: String,
    /// Whether kernel stacks are part of the key.
    pub by_stack: bool,
    /// The field whose size is part of the key: the power of two that it does not exceed.
    pub power: Option<String>,
    /// Fields that are numbers and part of the key.
    pub keys: Vec<String>,
    /// Whether the thread is part of the key too, with the name of each.
    pub by_name: bool,
    /// The field that is added up.
    pub value: Option<String>,
    /// What must hold, in the kernel's words; "" for nothing.
    pub filter: String,
}

/// The sum of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// Functions of the kernel with offsets, innermost first, where they were asked for: `vfs_read+0x15c/0x200`.
    pub stack: Vec<String>,
    /// Where it was asked for: the field lies above half of 2 to this power, and not above the whole; of 0, also at 0.
    pub power: u32,
    /// As they were asked for.
    pub keys: Vec<u64>,
    /// The name of the thread, where it was asked for.
    pub name: String,
    /// How many events.
    pub count: u64,
    /// Sum of the value, modulo 2⁶⁴.
    pub sum: u64,
}

/// What was summed up since the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// In the order of the kernel.
    pub each: Vec<Sum>,
    /// Events that found no room in the table.
    pub dropped: u64,
    /// Rows that could not be understood.
    pub unread: u64,
}

impl Wanted {
    fn file(&self, name: &str) -> String {
        format!("events/{}/{}/{name}", self.group, self.event)
    }

    /// Whether there are more keys than the kernel takes.
    #[must_use]
    pub fn has_too_many_keys(&self) -> bool {
        let others = [self.by_stack, self.power.is_some(), self.by_name].into_iter().filter(|asked| *asked).count();
        self.keys.len() + others > MOST_KEYS
    }

    /// The order to the kernel, for a table of so many keys; `stack` is what it calls the stack.
    fn order(&self, stack: &str, keys: u32) -> String {
        let mut fields: Vec<String> = self.by_stack.then(|| stack.to_owned()).into_iter().collect();
        fields.extend(self.power.as_ref().map(|field| format!("{field}.log2")));
        fields.extend(self.keys.iter().cloned());
        // Last, since any user chooses it.
        if self.by_name {
            fields.push(format!("{THREAD}.execname"));
        }
        let value = self.value.as_ref().map_or_else(String::new, |value| format!(",{value}"));
        let filter = if self.filter.is_empty() { String::new() } else { format!(" if {}", self.filter) };
        format!("hist:keys={}:vals=hitcount{value}:size={keys}{filter}", fields.join(","))
    }

    /// Has the kernel begin, with room for so many keys, a power of two. It ends with the instance.
    pub fn begin(&self, instance: &Instance, host: &Host, keys: u32) -> Result<(), Unavailable> {
        if instance.get(host, &self.file("hist")).is_err() {
            let why = "this kernel does not sum up events by itself (it was built without CONFIG_HIST_TRIGGERS)";
            return Err(Unavailable::new(Reason::Absent, why));
        }
        let [today, before] = STACK;
        let mut done = instance.try_set(&self.file("trigger"), &self.order(today, keys));
        if done.is_err() && self.by_stack {
            done = instance.try_set(&self.file("trigger"), &self.order(before, keys));
        }
        done.map_err(|error| {
            let log = instance.get(host, "error_log").unwrap_or_default();
            let said = latest_error(&log).unwrap_or_else(|| error.to_string());
            let why = format!("the kernel does not sum up {}:{} like this: {said}", self.group, self.event);
            Unavailable::new(Reason::Malformed, why)
        })
    }

    /// Has the kernel end, and forget the sums. One that was begun for stacks may bear either name.
    pub fn end(&self, instance: &Instance, keys: u32) -> Result<(), Unavailable> {
        let file = self.file("trigger");
        let [today, before] = STACK.map(|stack| format!("!{}", self.order(stack, keys)));
        match instance.try_set(&file, &today) {
            Err(_) if self.by_stack => instance.set(&file, &before),
            Err(_) => instance.set(&file, &today),
            Ok(()) => Ok(()),
        }
    }

    /// How many events came so far, those without room in the table too.
    pub fn hits(&self, instance: &Instance, host: &Host) -> Result<u64, Unavailable> {
        Ok(hits_in(&instance.get(host, &self.file("hist"))?))
    }

    /// What was summed up so far.
    pub fn read(&self, instance: &Instance, host: &Host) -> Result<Sums, Unavailable> {
        Ok(self.parse(&instance.get(host, &self.file("hist"))?))
    }

    fn parse(&self, text: &str) -> Sums {
        // Any user chooses names, even with line breaks.
        let end = match (self.by_name, self.by_stack) {
            (true, true) => "]} hitcount:",
            (true, false) => "] } hitcount:",
            (false, _) => "} hitcount:",
        };
        let (mut sums, mut row) = (Sums::default(), String::new());
        let mut stack: Option<Vec<String>> = None;
        for line in text.lines() {
            // Stacks come first, a line for each function: `{ common_stacktrace:`, and behind them `, node: 1} hitcount: 3`.
            if let Some(frames) = stack.as_mut().filter(|_| row.is_empty()) {
                if !line.starts_with([',', '}']) {
                    frames.push(line.trim().to_owned());
                    continue;
                }
                row.push_str("{ ");
                row.push_str(line.strip_prefix(", ").unwrap_or(line));
            } else if row.is_empty() && !line.starts_with("{ ") {
                let dropped = line.trim().strip_prefix("Dropped: ").and_then(|count| count.trim().parse().ok());
                sums.dropped = dropped.unwrap_or(sums.dropped);
                continue;
            } else if row.is_empty() && self.by_stack && line.ends_with("stacktrace:") {
                stack = Some(Vec::new());
                continue;
            } else {
                row.push_str(line);
            }
            if row.contains(end) {
                match self.row(&std::mem::take(&mut row), stack.take()) {
                    Some(sum) => sums.each.push(sum),
                    None => sums.unread += 1,
                }
            }
        }
        sums.unread += u64::from(!row.is_empty() || stack.is_some());
        sums
    }

    /// `{ bytes_req: ~ 2^5 , node:  1, common_pid: cat    [  77] } hitcount:  3  bytes_req:  48`.
    fn row(&self, row: &str, stack: Option<Vec<String>>) -> Option<Sum> {
        let (keys, figures) = row.strip_prefix("{ ")?.rsplit_once("} hitcount:")?;
        let numbers = usize::from(self.power.is_some()) + self.keys.len();
        let mut parts = keys.splitn(numbers + usize::from(self.by_name), ", ");
        let number = |text: &str| {
            let text = text.trim();
            text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned))
        };
        let power = match self.power {
            Some(_) => parts.next()?.rsplit_once(": ~ 2^")?.1.trim().parse().ok().filter(|power| *power <= 64)?,
            None => 0,
        };
        let keys = parts.by_ref().take(self.keys.len()).map(|part| number(part.rsplit_once(':')?.1));
        let keys = keys.collect::<Option<Vec<u64>>>().filter(|keys| keys.len() == self.keys.len())?;
        let name = if self.by_name { parts.next()?.split_once(": ")?.1.rsplit_once('[')?.0.trim_end() } else { "" };
        let sum = if self.value.is_some() { number(figures.rsplit_once(':')?.1)? } else { 0 };
        let count = figures.split_whitespace().next()?.parse().ok()?;
        let stack = stack.unwrap_or_default();
        (stack.is_empty() != self.by_stack).then(|| Sum { stack, power, keys, name: name.to_owned(), count, sum })
    }
}

/// `    Hits: 6` in the totals, which come last: names of tasks stand before them.
fn hits_in(text: &str) -> u64 {
    let hits = text.lines().rev().find_map(|line| line.trim().strip_prefix("Hits: "));
    hits.and_then(|hits| hits.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(keys: &[&str], by_name: bool, value: Option<&str>) -> Wanted {
        Wanted {
            group: "kmem".into(),
            event: "kmalloc".into(),
            by_stack: false,
            power: None,
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            by_name,
            value: value.map(str::to_owned),
            filter: String::new(),
        }
    }

    #[test]
    fn an_order_names_keys_value_room_and_filter() {
        let mut wanted = wanted(&["node"], true, Some("bytes_req"));
        wanted.filter = "bytes_req > 1000".into();
        assert_eq!(
            wanted.order("", 1024),
            "hist:keys=node,common_pid.execname:vals=hitcount,bytes_req:size=1024 if bytes_req > 1000"
        );
        assert!(!wanted.has_too_many_keys());
        (wanted.by_stack, wanted.power) = (true, Some("bytes_req".into()));
        let keys = "keys=stacktrace,bytes_req.log2,node,common_pid.execname:";
        assert!(wanted.order("stacktrace", 64).contains(keys), "{}", wanted.order("stacktrace", 64));
        assert!(wanted.has_too_many_keys());
    }

    #[test]
    fn rows_have_their_keys_counts_and_sums_whatever_a_task_is_called() {
        let wanted = wanted(&["node"], true, Some("bytes_req"));
        let text = "# event histogram\n#\n# trigger info: hist:keys=node [active]\n#\n\n\
            { node: 18446744073709551615, common_pid: cat             [        77] } hitcount:          3  bytes_req:         48\n\
            { node:          0, common_pid: ] } hitcount: 9 [         8] } hitcount:          2  bytes_req:         50\n\
            { node:          1, common_pid: a\n{ b           [         9] } hitcount:          1  bytes_req:          7\n\
            \nTotals:\n    Hits: 6\n    Entries: 3\n    Dropped: 5\n";
        let sums = wanted.parse(text);
        let sum = |key, name: &str, count, sum| Sum {
            stack: Vec::new(),
            power: 0,
            keys: vec![key],
            name: name.into(),
            count,
            sum,
        };
        let each = [sum(u64::MAX, "cat", 3, 48), sum(0, "] } hitcount: 9", 2, 50), sum(1, "a{ b", 1, 7)];
        assert_eq!((sums.each.as_slice(), sums.dropped, sums.unread), (&each[..], 5, 0));
        assert_eq!((hits_in(text), hits_in("{ a\n  Hits: 9\n"), hits_in("")), (6, 9, 0));
    }

    #[test]
    fn rows_of_a_size_have_the_power_of_two() {
        let wanted = Wanted { power: Some("bytes_req".into()), ..wanted(&["node"], false, Some("bytes_req")) };
        let sums = wanted.parse(
            "{ bytes_req: ~ 2^5 , node:          1 } hitcount:          3  bytes_req:         90\n\
             { bytes_req: ~ 2^12, node:          0 } hitcount:          1  bytes_req:       4096\n\
             { bytes_req: ~ 2^99, node:          0 } hitcount:          1  bytes_req:       4096\n",
        );
        let told: Vec<_> = sums.each.iter().map(|sum| (sum.power, sum.keys[0], sum.count, sum.sum)).collect();
        assert_eq!((told, sums.unread), (vec![(5, 1, 3, 90), (12, 0, 1, 4096)], 1));
    }

    #[test]
    fn rows_of_a_stack_have_its_functions() {
        let mut wanted = Wanted { by_stack: true, ..wanted(&[], false, None) };
        let frames = "{ common_stacktrace:\n         vfs_read+0x15/0x20\n         ksys_read+0x1/0x9\n";
        let stack = ["vfs_read+0x15/0x20", "ksys_read+0x1/0x9"];
        let sums = wanted.parse(&format!("# event histogram\n\n{frames}}} hitcount:          7\n{frames}"));
        assert_eq!((sums.each[0].stack.as_slice(), sums.each[0].count), (&stack.map(str::to_owned)[..], 7));
        assert_eq!((sums.each.len(), sums.unread), (1, 1), "the second one is cut off");
        (wanted.keys, wanted.by_name) = (vec!["node".into()], true);
        let tail = ", node:          1, common_pid: a} b             [        77]} hitcount:          2\n";
        let sums = wanted.parse(&format!("{frames}{tail}{frames}{tail}"));
        assert_eq!((sums.each.len(), sums.unread), (2, 0));
        let second = &sums.each[1];
        assert_eq!((second.stack.len(), second.keys.as_slice(), second.name.as_str()), (2, &[1][..], "a} b"));
    }

    #[test]
    fn what_is_no_row_is_counted_and_harms_nobody() {
        let wanted = wanted(&["node", "order"], false, None);
        let sums = wanted.parse(
            "{ node: 1, order: 2 } hitcount: 4\n{ node: 1 } hitcount: 4\n{ node: x, order: 2 } hitcount: 4\n{ no",
        );
        assert_eq!((sums.each.len(), sums.unread), (1, 3));
        assert_eq!((sums.each[0].keys.as_slice(), sums.each[0].count), (&[1, 2][..], 4));
    }
}
