//! From the samples to the ledger.

use std::collections::BTreeMap;

use super::delays;
use super::estimate::Observed;
use super::sampler::{Sampler, Task, change};
use super::throttling::{Throttled, stopped_by};
use rdiag_kernel::host::{Host, Stolen};
use rdiag_model::ledger::{
    Accuracy, CheckInputs, ComponentStacks, Level, MAX_THREADS, MAX_TIMELINES, Part, Thread, Timeline,
};
use rdiag_model::probe::{Frame, Stack, Stacks};
use rdiag_model::quantity::{number, percent, seconds};
use rdiag_model::{Component, Ledger, Reason, Target, Unavailable, Unit};

/// The account of the whole window; an error says why there is none.
pub(super) fn ledger(
    host: &Host,
    sampler: Sampler,
    throttled: &Throttled,
    stolen: Stolen,
    target: &Target,
) -> Result<Ledger, Unavailable> {
    let tick = 1.0 / host.facts().ticks_per_second.max(1) as f64;
    let (began, ended) = (sampler.first.unwrap_or(0.0), sampler.last);
    let interval = (ended - began) / sampler.sweeps.saturating_sub(1).max(1) as f64;
    let mut ledger =
        Ledger { level: Level::L1, began, ended, notes: notes(host, &sampler, interval), ..Ledger::default() };
    ledger.notes.extend(stolen.note());
    ledger.stacks = stacks(&sampler, interval);
    let processes =
        sampler.processes.iter().map(|(pid, process)| (*pid, (process.ticks, process.group.clone()))).collect();
    let counts_disks = sampler.kernel.gap().is_none();
    if sampler.kernel.lost() > 0 {
        ledger.lost.insert(
            "records of threads that ended (times that the kernel had no room)".to_owned(),
            sampler.kernel.lost(),
        );
    }
    if sampler.unobserved > 0 {
        let reason = "samples of threads beyond the limit, whose time is missing";
        ledger.lost.insert(reason.to_owned(), sampler.unobserved);
    }
    let mut tasks = sampler.into_tasks();
    tasks.retain(|task| task.ended > task.began);
    if tasks.is_empty() {
        return Err(nobody(target));
    }
    let mut observed: Vec<Observed> =
        tasks.iter().map(|task| Observed { stolen, ..observed(task, tick, interval) }).collect();
    level(&mut ledger, counts_disks, &observed);
    throttle(&tasks, &mut observed, &processes, throttled, &mut ledger.notes);
    checks(&mut ledger, &tasks, &observed, &processes, (target, stolen), tick);
    let died = tasks.iter().filter(|task| task.died).count();
    if died > 0 {
        ledger.notes.push(format!(
            "{died} threads ended within the window; what they did since they were last seen, at most {} each, is not in here",
            seconds(interval * 1.25)
        ));
    }
    for (task, observed) in tasks.into_iter().zip(observed) {
        let parts = observed.parts();
        let sum =
            |wanted: Component| parts.iter().filter(|part| part.component == wanted).map(|part| part.seconds).sum();
        let (user, system): (f64, f64) = (sum(Component::CpuUser), sum(Component::CpuSys));
        let share = if user + system > 0.0 { user / (user + system) } else { 1.0 };
        let told = delays::others(&task);
        if let Some(strip) = task.strip {
            ledger.timelines.push(shifted(strip.into_timeline(task.tid, share, stolen), began));
        }
        ledger.threads.push(Thread {
            tid: task.tid,
            pid: task.pid,
            parent: 0,
            comm: task.comm,
            kernel: task.kernel,
            stands_for: 1,
            began: task.began - began,
            ended: task.ended - began,
            born: task.born,
            died: task.died,
            key: None,
            seconds: observed.seconds,
            parts,
            delays: told,
            together: None,
        });
    }
    bound(&mut ledger);
    Ok(ledger)
}

/// Level L2 holds if waits for disks were counted for all threads.
fn level(ledger: &mut Ledger, counts_disks: bool, observed: &[Observed]) {
    if !counts_disks {
        return;
    }
    let sampled = observed.iter().filter(|thread| thread.disk.is_none()).count();
    if sampled == 0 {
        ledger.level = Level::L2;
        ledger.checks.blkio_delay_seconds =
            Some(observed.iter().filter_map(|thread| thread.disk).map(|disk| disk.seconds).sum());
        return;
    }
    ledger.notes.push(format!(
        "for {sampled} of {} threads waits for disks are estimated from samples: they were born before the kernel was told to \
         count them, or ended without a record of it",
        observed.len()
    ));
}

/// No task was there to be observed.
fn nobody(target: &Target) -> Unavailable {
    let whom = match (&target.pids[..], &target.comm, &target.cgroup) {
        ([_, ..], ..) => "the observed processes ended before they could be looked at twice".to_owned(),
        (_, Some(comm), _) => format!("no task with the name {comm:?} was seen within the window"),
        (_, _, Some(group)) => format!("no task of the control group {group:?} was seen within the window"),
        _ => "no task was seen within the window".to_owned(),
    };
    Unavailable::new(Reason::Absent, whom)
}

fn observed(task: &Task, tick: f64, interval: f64) -> Observed {
    let (cpu, run_delay) = change(task.first, task.last);
    Observed {
        seconds: task.ended - task.began,
        cpu: task.last.sched.map(|_| cpu),
        run_delay,
        queued_at_end: task.queued_since.filter(|_| !task.died).map_or(0.0, |since| task.ended - since),
        user_ticks: task.last.user.saturating_sub(task.first.user),
        system_ticks: task.last.system.saturating_sub(task.first.system),
        life_ticks: (task.last.user, task.last.system),
        tick,
        interval,
        samples: task.samples,
        runnable: task.runnable,
        waits: task.waits.clone(),
        throttled: 0.0,
        stolen: Stolen::Nothing,
        disk: delays::disk(task),
    }
}

type Processes = BTreeMap<u32, (Option<(u64, u64)>, Option<String>)>;

/// Divides the time in which a group was stopped among its threads, by how long each could not run.
fn throttle(
    tasks: &[Task],
    observed: &mut [Observed],
    processes: &Processes,
    throttled: &Throttled,
    notes: &mut Vec<String>,
) {
    if throttled.is_empty() {
        return;
    }
    let stopper = |task: &Task| stopped_by(throttled, processes.get(&task.pid)?.1.as_deref()?);
    let mut waited: BTreeMap<&str, f64> = BTreeMap::new();
    for (task, observed) in tasks.iter().zip(observed.iter()) {
        if let Some((group, _)) = stopper(task) {
            *waited.entry(group).or_default() += observed.waited_for_cpu();
        }
    }
    for (task, observed) in tasks.iter().zip(observed.iter_mut()) {
        let Some((group, stopped)) = stopper(task) else { continue };
        let all = waited.get(group).copied().unwrap_or(0.0);
        let own = observed.waited_for_cpu();
        if all > 0.0 {
            observed.throttled = own.min(stopped * own / all);
        }
    }
    notes.push(
        "how much of the waiting for a CPU is the quota of the control group is estimated from how long the group was \
         stopped"
            .to_owned(),
    );
}

/// Other accounts of the same time, and CPU time that belongs to no thread that was seen.
fn checks(
    ledger: &mut Ledger,
    tasks: &[Task],
    observed: &[Observed],
    processes: &Processes,
    (target, stolen): (&Target, Stolen),
    tick: f64,
) {
    let delay = tasks.iter().map(|task| change(task.first, task.last).1).sum();
    ledger.checks = CheckInputs {
        tick_seconds: Some(tick),
        run_delay_seconds: tasks.iter().all(|task| task.last.sched.is_some()).then_some(delay),
        ..ledger.checks.clone()
    };
    // Of a process of which only some threads are observed, the whole says nothing.
    if target.comm.is_some() {
        return;
    }
    let mut total = 0.0;
    for (pid, (ticks, _)) in processes {
        let Some((first, last)) = ticks else { continue };
        let born = tasks.iter().any(|task| task.tid == *pid && task.born);
        let used = last.saturating_sub(if born { 0 } else { *first }) as f64 * tick;
        let seen: f64 =
            tasks.iter().zip(observed).filter(|(task, _)| task.pid == *pid).map(|(_, observed)| observed.cpu()).sum();
        total += used;
        let unseen = used - seen;
        // Both are rounded to ticks, at different moments.
        if unseen > 2.0 * tick + 0.02 * used {
            ledger.threads.push(unseen_threads(*pid, unseen, stolen));
        }
    }
    ledger.checks.proc_cpu_seconds = Some(stolen.own(total));
}

/// The row for the CPU time of threads of a process that ended without having been seen: nothing else is known of them.
fn unseen_threads(pid: u32, seconds: f64, stolen: Stolen) -> Thread {
    let own = stolen.own(seconds);
    let part = |component, seconds: f64| Part {
        component,
        call: String::new(),
        key: String::new(),
        seconds,
        accuracy: Accuracy::Estimate(Some(seconds)),
        edge_seconds: 0.0,
        open: 0,
        durations: None,
    };
    let parts = [part(Component::CpuUser, own), part(Component::CpuSteal, seconds - own)];
    let parts = parts.into_iter().filter(|part| part.seconds > 0.0).collect();
    Thread { pid, comm: "(ended unseen)".to_owned(), stands_for: 0, seconds, parts, ..Thread::default() }
}

/// What the reader must know.
fn notes(host: &Host, sampler: &Sampler, interval: f64) -> Vec<String> {
    let share = sampler.cost / (sampler.last - sampler.first.unwrap_or(0.0)).max(1e-9);
    let mut notes = vec![format!(
        "the state of the threads was looked at {} times, about {} apart, which took {} of one CPU",
        number(sampler.sweeps as f64),
        seconds(interval),
        percent(share)
    )];
    let reader = &sampler.reader;
    let samples: u64 = sampler.tasks().map(|task| task.samples).sum();
    if reader.torn as f64 > 0.05 * samples as f64 && reader.torn > 10 {
        notes.push(format!(
            "{} of the looks at threads were torn: the thread went on while its files were read, so that \
             only its system call tells what it waited for",
            percent(reader.torn as f64 / samples.max(1) as f64)
        ));
    }
    if !reader.schedstat {
        notes.push(
            "this kernel keeps no scheduler figures for threads (CONFIG_SCHED_INFO), so CPU time has the resolution of a \
             tick and waiting for a CPU is an estimate from the samples"
                .to_owned(),
        );
    }
    if sampler.processes.values().any(|process| process.syscall_denied) {
        notes.push(denied(host));
    }
    if reader.blind > 0 {
        notes.push(format!("of {} looks at waiting threads nothing could be seen but that they wait", reader.blind));
    }
    if let Some(gap) = sampler.kernel.gap() {
        let remedy = gap.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        notes.push(format!("waits for disks are estimated from samples, not counted: {}{remedy}", gap.why));
    }
    notes
}

/// Why the system calls of a process may not be seen, and what would help.
fn denied(host: &Host) -> String {
    let scope = host.read_line("proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let is_root = host.facts().uid == 0;
    let because = match scope.as_str() {
        "3" => "kernel.yama.ptrace_scope is 3, which forbids it to all users",
        _ if is_root => "this root may not trace it (CAP_SYS_PTRACE, or a security module)",
        "" | "0" => "it belongs to another user, or has changed its own",
        _ => "it belongs to another user, or kernel.yama.ptrace_scope allows it for children of rdiag only",
    };
    let remedy = if is_root { "" } else { "; run rdiag as root, or let it start the command" };
    format!("which system call a thread waits in could not be seen for all processes: {because}{remedy}")
}

/// The stacks that no rule of classification knows.
fn stacks(sampler: &Sampler, interval: f64) -> Vec<ComponentStacks> {
    let unknown = &sampler.reader.unknown;
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    let mut stacks = Stacks {
        id: "unknown_waits".to_owned(),
        title: "Waits that no rule of classification knows".to_owned(),
        unit: Unit::Seconds,
        ..Stacks::default()
    };
    for (functions, count) in unknown {
        let mut frames = Vec::new();
        for name in functions.iter().rev() {
            let index = *names.entry(name).or_insert_with(|| {
                stacks.frames.push(Frame {
                    name: name.clone(),
                    object: Some("[kernel]".to_owned()),
                    kernel: true,
                    ..Frame::default()
                });
                (stacks.frames.len() - 1) as u32
            });
            frames.push(index);
        }
        stacks.stacks.push(Stack { frames, value: *count as f64 * interval, count: *count, ..Stack::default() });
    }
    stacks.stacks.sort_by(|a, b| b.value.total_cmp(&a.value));
    vec![ComponentStacks { component: Component::OtherOff, stacks, functions: Vec::new() }]
}

fn shifted(mut timeline: Timeline, by: f64) -> Timeline {
    for slice in &mut timeline.slices {
        slice.from -= by;
        slice.until -= by;
    }
    timeline
}

/// Keeps the threads in which the most happened; the rest becomes one row.
fn bound(ledger: &mut Ledger) {
    ledger.timelines.sort_by_key(|timeline| std::cmp::Reverse(timeline.slices.len()));
    ledger.timelines.truncate(MAX_TIMELINES);
    let active = |thread: &Thread| -> f64 {
        thread
            .parts
            .iter()
            .filter(|part| part.component.on_cpu() || part.component.runnable())
            .map(|part| part.seconds)
            .sum()
    };
    ledger.threads.sort_by(|a, b| active(b).total_cmp(&active(a)).then(a.tid.cmp(&b.tid)));
    if ledger.threads.len() <= MAX_THREADS {
        return;
    }
    let rest = ledger.threads.split_off(MAX_THREADS - 1);
    let mut row = Thread { comm: "(others)".to_owned(), ended: ledger.ended - ledger.began, ..Thread::default() };
    for thread in rest {
        row.stands_for += thread.stands_for;
        row.seconds += thread.seconds;
        for part in thread.parts {
            match row.parts.iter_mut().find(|known| known.component == part.component) {
                Some(known) => known.seconds += part.seconds,
                None => row.parts.push(Part { call: String::new(), key: String::new(), ..part }),
            }
        }
        for delay in thread.delays {
            match row.delays.iter_mut().find(|known| known.kind == delay.kind) {
                Some(known) => {
                    known.count = known.count.saturating_add(delay.count);
                    known.seconds += delay.seconds;
                }
                None => row.delays.push(delay),
            }
        }
    }
    ledger.threads.push(row);
}
