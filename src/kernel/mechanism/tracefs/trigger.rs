//! Orders that the kernel carries out itself when something happens: to begin to trace, or to end it.

use std::sync::atomic::AtomicBool;

use super::error_log::latest_error;
use super::instance::Instance;
use super::place;
use crate::host::Host;
use rdiag_model::{Reason, Unavailable};

/// How long a kernel may take to pass its busiest event while it is tried out, and how often one looks, in seconds.
const PATIENCE: f64 = 0.5;
const LOOK: f64 = 0.002;
/// An event that happens all the time.
const OFTEN: &str = "events/sched/sched_switch/trigger";
/// The file that takes the orders of functions.
const FUNCTIONS: &str = "set_ftrace_filter";

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// To begin to trace.
    Start,
    /// To end it.
    Stop,
}

impl Order {
    /// The kernel's word; the number lets it happen once.
    fn word(self) -> &'static str {
        match self {
            Self::Start => "traceon",
            Self::Stop => "traceoff",
        }
    }
}

/// What has to happen: `sched:sched_switch if prev_pid == 1`, or a call of a function of the kernel: `vfs_read`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The event with its group, or the function.
    pub point: String,
    /// What its fields must be, in the kernel's own words.
    pub filter: Option<String>,
}

impl Condition {
    /// Parses it; the error is a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (point, filter) = match text.trim().split_once(" if ") {
            Some((point, filter)) => (point.trim(), Some(filter.trim().to_owned())),
            None => (text.trim(), None),
        };
        let name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        let is_plain = match point.split_once(':') {
            Some((group, event)) => name(group) && name(event) && !group.starts_with('.') && !event.starts_with('.'),
            None => name(point),
        };
        let ends = filter.as_ref().is_none_or(|filter| !filter.is_empty() && !filter.contains(['\n', '\r']));
        if !is_plain || !ends {
            return Err(format!(
                "{text:?} is nothing to wait for; write sched:sched_switch if prev_pid == 1, or the name of a kernel function"
            ));
        }
        if filter.is_some() && !point.contains(':') {
            return Err(format!("{point} is a function, and what it is called with cannot be compared"));
        }
        Ok(Self { point: point.to_owned(), filter })
    }

    /// The event, if it is one.
    #[must_use]
    pub fn event(&self) -> Option<(&str, &str)> {
        self.point.split_once(':')
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.filter {
            Some(filter) => write!(out, "{} if {filter}", self.point),
            None => out.write_str(&self.point),
        }
    }
}

/// An order that an instance has been given. It happens once, and goes with the instance.
#[derive(Debug)]
pub struct Armed {
    order: Order,
    /// What has to happen.
    pub condition: Condition,
}

impl Armed {
    /// Gives the order.
    pub fn new(instance: &Instance, host: &Host, order: Order, condition: Condition) -> Result<Self, Unavailable> {
        let word = order.word();
        let wrong = |said: String| {
            Unavailable::new(Reason::Malformed, format!("the kernel does not take {condition} as a condition: {said}"))
        };
        match condition.event() {
            Some((group, name)) => {
                if order == Order::Start && group == "syscalls" && condition.filter.is_some() {
                    compares_calls_while_off(host)?;
                }
                let filter = condition.filter.as_ref().map_or_else(String::new, |filter| format!(" if {filter}"));
                instance.try_set(&format!("events/{group}/{name}/trigger"), &format!("{word}:1{filter}")).map_err(
                    |error| {
                        let log = instance.get(host, "error_log").unwrap_or_default();
                        wrong(latest_error(&log).unwrap_or_else(|| error.to_string()))
                    },
                )?;
            }
            None => instance
                .try_set(FUNCTIONS, &format!("{}:{word}:1", condition.point))
                .map_err(|error| wrong(error.to_string()))?,
        }
        Ok(Self { order, condition })
    }

    /// Whether it has happened.
    #[must_use]
    pub fn has_happened(&self, instance: &Instance, host: &Host) -> bool {
        let (file, done) = match self.condition.event() {
            Some((group, name)) => (format!("events/{group}/{name}/trigger"), format!("{}:count=0", self.order.word())),
            None => (FUNCTIONS.to_owned(), format!("{}:{}:count=0", self.condition.point, self.order.word())),
        };
        instance.get(host, &file).is_ok_and(|text| text.lines().any(|line| line.starts_with(&done)))
    }
}

/// Makes sure that the fields of system calls are compared while nothing is traced: Linux 5.10 does not, and such a start would
/// never come. Tried with a call that rdiag makes itself, in an instance of its own: the other may be limited to other processes.
fn compares_calls_while_off(host: &Host) -> Result<(), Unavailable> {
    const TRIGGER: &str = "events/syscalls/sys_enter_getppid/trigger";
    const ORDER: &str = "traceon:1 if __syscall_nr >= 0";
    let instance = Instance::create(host)?;
    instance.set(TRIGGER, ORDER)?;
    let _ = rustix::process::getppid();
    let has_obeyed = instance.get(host, "tracing_on").is_ok_and(|text| text.trim() == "1");
    instance.set(TRIGGER, &format!("!{ORDER}"))?;
    if has_obeyed {
        return Ok(());
    }
    let why = "this kernel does not compare the fields of system calls while nothing is traced, so the start would never come";
    Err(Unavailable::new(Reason::Absent, why).with_remedy("start at another event, or at any such call, without `if`"))
}

/// Makes sure that orders at events concern the instance that they are given to: on kernels before 5.17 without the fix they
/// switch the global tracing. Tried where it changes nothing: in an instance that is off, while the global one is on. The instance is
/// off afterwards.
pub fn keep_to_themselves(instance: &Instance, host: &Host) -> Result<(), Unavailable> {
    let global = host.read(&format!("{}/tracing_on", place::find(host)?))?;
    if global.trim() != "1" {
        let why = "the kernel's tracing is switched off, and orders to start and stop might switch it on again";
        return Err(Unavailable::new(Reason::NotApplicable, why)
            .with_remedy("leave out start_when and stop_when, or have it switched on again"));
    }
    instance.set(OFTEN, "traceon:1")?;
    let until = host.now() + PATIENCE;
    let is_on = || instance.get(host, "tracing_on").is_ok_and(|text| text.trim() == "1");
    let mut has_obeyed = is_on();
    while !has_obeyed && host.now() < until {
        host.wait(host.now() + LOOK, 0, &AtomicBool::new(false));
        has_obeyed = is_on();
    }
    instance.set(OFTEN, "!traceon:1")?;
    instance.set("tracing_on", "0")?;
    if has_obeyed {
        return Ok(());
    }
    let why = "this kernel does not keep orders to start and stop tracing to the instance that they are given to";
    Err(Unavailable::new(Reason::Absent, why)
        .with_remedy("use Linux 5.17 or later, or leave out start_when and stop_when"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_an_event_with_what_its_fields_must_be_or_a_function() {
        let condition = Condition::parse(" kmem:kmalloc if bytes_req > 1000 && call_site != 0 ").unwrap();
        assert_eq!(condition.event(), Some(("kmem", "kmalloc")));
        assert_eq!(condition.filter.as_deref(), Some("bytes_req > 1000 && call_site != 0"));
        assert_eq!(condition.to_string(), "kmem:kmalloc if bytes_req > 1000 && call_site != 0");
        assert_eq!(Condition::parse("vfs_read").unwrap().event(), None);
        assert_eq!(Condition::parse("vfs_read").unwrap().to_string(), "vfs_read");
    }

    #[test]
    fn what_would_be_another_order_is_no_condition() {
        for text in [
            "",
            "a b",
            "sched:",
            ":x",
            "../x:y",
            "a:b:traceoff",
            "vfs_read if x == 1",
            "s:s if ",
            "s:s if a\nb",
            "*:*",
            "!x",
        ] {
            assert!(Condition::parse(text).is_err(), "{text:?}");
        }
    }
}
