//! The kernel's own sums over an event by its fields (histogram triggers), in an instance: what can be counted where no program may be
//! in the kernel.

use super::instance::{Instance, latest_error};
use crate::host::Host;
use crate::model::{Reason, Unavailable};

/// The thread on the CPU, and the CPU.
pub const THREAD: &str = "common_pid";
/// See [`THREAD`].
pub const CPU: &str = "common_cpu";
/// As many keys as the kernel takes at most.
pub const MOST_KEYS: usize = 3;

/// What is to be summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Group of the event.
    pub group: String,
    /// Its name.
    pub event: String,
    /// Fields that are numbers, by which is told apart.
    pub keys: Vec<String>,
    /// Whether threads are told apart too, with the name of each.
    pub by_name: bool,
    /// The field that is added up.
    pub value: Option<String>,
    /// What must hold, in the kernel's words; "" for nothing.
    pub filter: String,
}

/// The sum of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
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

    /// The order to the kernel, for a table of so many keys.
    fn order(&self, keys: u32) -> String {
        let mut fields = self.keys.clone();
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
        instance.try_set(&self.file("trigger"), &self.order(keys)).map_err(|error| {
            let log = instance.get(host, "error_log").unwrap_or_default();
            let said = latest_error(&log).unwrap_or_else(|| error.to_string());
            let why = format!("the kernel does not sum up {}:{} like this: {said}", self.group, self.event);
            Unavailable::new(Reason::Malformed, why)
        })
    }

    /// What was summed up so far.
    pub fn read(&self, instance: &Instance, host: &Host) -> Result<Sums, Unavailable> {
        Ok(self.parse(&instance.get(host, &self.file("hist"))?))
    }

    fn parse(&self, text: &str) -> Sums {
        // Any user chooses names, with line breaks if he likes.
        let end = if self.by_name { "] } hitcount:" } else { "} hitcount:" };
        let (mut sums, mut row) = (Sums::default(), String::new());
        for line in text.lines() {
            if row.is_empty() && !line.starts_with("{ ") {
                let dropped = line.trim().strip_prefix("Dropped: ").and_then(|count| count.trim().parse().ok());
                sums.dropped = dropped.unwrap_or(sums.dropped);
                continue;
            }
            row.push_str(line);
            if line.contains(end) {
                match self.row(&std::mem::take(&mut row)) {
                    Some(sum) => sums.each.push(sum),
                    None => sums.unread += 1,
                }
            }
        }
        sums.unread += u64::from(!row.is_empty());
        sums
    }

    /// `{ node:  1, common_pid: cat    [  77] } hitcount:  3  bytes_req:  48`.
    fn row(&self, row: &str) -> Option<Sum> {
        let (keys, figures) = row.strip_prefix("{ ")?.rsplit_once("} hitcount:")?;
        let mut parts = keys.splitn(self.keys.len() + usize::from(self.by_name), ", ");
        let number = |text: &str| {
            let text = text.trim();
            text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned))
        };
        let numbers = parts.by_ref().take(self.keys.len()).map(|part| number(part.rsplit_once(':')?.1));
        let keys = numbers.collect::<Option<Vec<u64>>>()?;
        let name = if self.by_name { parts.next()?.split_once(": ")?.1.rsplit_once('[')?.0.trim_end() } else { "" };
        let sum = if self.value.is_some() { number(figures.rsplit_once(':')?.1)? } else { 0 };
        let count = figures.split_whitespace().next()?.parse().ok()?;
        (keys.len() == self.keys.len()).then(|| Sum { keys, name: name.to_owned(), count, sum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(keys: &[&str], by_name: bool, value: Option<&str>) -> Wanted {
        Wanted {
            group: "kmem".into(),
            event: "kmalloc".into(),
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
            wanted.order(1024),
            "hist:keys=node,common_pid.execname:vals=hitcount,bytes_req:size=1024 if bytes_req > 1000"
        );
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
        let sum = |key, name: &str, count, sum| Sum { keys: vec![key], name: name.into(), count, sum };
        let each = [sum(u64::MAX, "cat", 3, 48), sum(0, "] } hitcount: 9", 2, 50), sum(1, "a{ b", 1, 7)];
        assert_eq!((sums.each.as_slice(), sums.dropped, sums.unread), (&each[..], 5, 0));
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
