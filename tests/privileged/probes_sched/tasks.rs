//! Queues, stays on a CPU and moves between CPUs, with loads of known length and number.

use serde_json::Value;

use super::{
    BURSTS, Running, SPIN, STEADY, Truth, Windows, assert_lasts, assert_near, last_cpu, number, output, pid, python,
    reading_took, ready, rows, schedstat,
};
use crate::support::{Disturbance, Lateness, Load, alone, skip};

fn the_queue_of_pinned_spinners_is_their_number_less_one() {
    let cpu = last_cpu().to_string();
    let _load = Load::start(20, "taskset", &["--cpu-list", &cpu, "sh", "-c", "while :; do :; done"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let disturbance = Disturbance::begin();
    let reading = Running::start(&["runqlen", "--duration", "4s", "--param", "per_cpu=true"]).reading();
    let figures = disturbance.so_far();
    let cpus = rows(output(&reading, "cpus"));
    let busy = cpus.iter().find(|row| row["cpu"] == cpu.as_str()).unwrap();
    // 19 wait and one runs; other tasks of the machine come and go, rdiag among them, the more the more of the CPUs others had.
    let most = 20.0 + 10.0 * figures.share_of_one();
    assert!(number(busy, "queued") > 0.98 && number(busy, "max") >= 19.0, "{busy:?}");
    assert!((18.5..most).contains(&number(busy, "mean")), "at most {most}, as {figures}: {busy:?}");
    let dist = output(&reading, "length_by_cpu")["rows"].as_array().unwrap();
    let own = dist.iter().find(|row| row["instance"] == cpu.as_str()).unwrap();
    assert_eq!(own["count"].as_f64().unwrap(), number(busy, "samples"));
    let host = &rows(output(&reading, "host"))[0];
    let samples: f64 = cpus.iter().map(|row| number(row, "samples")).sum();
    assert_eq!(number(host, "samples"), samples);
    let queued: f64 = cpus.iter().map(|row| number(row, "queued") * number(row, "samples")).sum();
    assert_near("the host's share", number(host, "queued"), queued / samples, 1e-6);
}
holds!(
    runqlen_shows_the_spinners_that_wait,
    vm_runqlen_shows_the_spinners_that_wait,
    the_queue_of_pinned_spinners_is_their_number_less_one
);

fn stays_on_the_cpu_add_up_to_the_cpu_time() {
    let loads = [python(Some(last_cpu()), None, SPIN), python(Some(last_cpu()), None, BURSTS)];
    let pids: Vec<String> = loads.iter().map(pid).collect();
    let mut running =
        Running::start(&["cpudist", "--duration", "4s", "--param", "by_task=true", "--pid", &pids.join(",")]);
    let truth = Truth::begin(&pids, |pid| schedstat(pid).0);
    let late = Lateness::begin();
    let reading = running.reading();
    let (after, elapsed) = (Truth::begin(&pids, |pid| schedstat(pid).0).counts, truth.began.elapsed().as_secs_f64());
    let seconds = reading["seconds"].as_f64().unwrap();
    let windows = Windows { elapsed, seconds, late: late.end().0 };
    let tasks = rows(output(&reading, "tasks"));
    assert_eq!(tasks.len(), 2, "other tasks are not in it: {tasks:?}");
    for (at, (pid, after)) in pids.iter().zip(after).enumerate() {
        let task = tasks.iter().find(|task| task["pid"] == pid.as_str()).unwrap();
        truth.compare("CPU", at, after, (number(task, "time"), number(task, "max")), &windows);
    }
    let dist = &output(&reading, "on_cpu")["rows"][0];
    let counts: f64 = tasks.iter().map(|task| number(task, "count")).sum();
    // Stays that end between the readings of the two maps are in the second one only: as many as in so much time before, or three times
    // that, as they do not come evenly.
    let (all, rate) = (dist["count"].as_f64().unwrap(), counts / seconds);
    let between = 3.0 * rate * reading_took(&reading, 4.0) + 4.0;
    assert!(
        (-between..=2.0).contains(&(all - counts)),
        "{all} stays, {counts} by task, {between} between them at most"
    );
    println!("stays: {} are only in the table, of {between:.1} at most", counts - all);
}
holds!(
    cpudist_adds_up_to_the_cpu_time_of_each_task,
    vm_cpudist_adds_up_to_the_cpu_time_of_each_task,
    stays_on_the_cpu_add_up_to_the_cpu_time
);

fn times_off_the_cpu_tell_sleep_from_preemption() {
    let cpu = Some(last_cpu());
    let (bursts, victim) = (python(cpu, Some(10), BURSTS), python(cpu, Some(1), STEADY));
    let late = Lateness::begin();
    let off = |pid: &str| {
        let reading = Running::start(&["cpudist", "--duration", "4s", "--param", "off=true", "--pid", pid]).reading();
        let rows = output(&reading, "off_cpu")["rows"].as_array().unwrap().clone();
        let mean = |way: &str| {
            let row = rows.iter().find(|row| row["instance"] == way).unwrap();
            (
                row["count"].as_u64().unwrap(),
                row["sum"].as_f64().unwrap() / row["count"].as_f64().unwrap().max(1.0),
                row["max"].as_f64().unwrap(),
            )
        };
        (mean("slept"), mean("preempted"))
    };
    let ((slept, mean, _), (_, _, preempted)) = off(&pid(&bursts));
    assert!((9..=13).contains(&slept), "{slept} sleeps");
    assert!(preempted < 0.05, "{preempted} s");
    let ((slept_less, _, _), (preempted_often, _, longest)) = off(&pid(&victim));
    let (longest_delay, delay) = late.end();
    assert_lasts("sleep", mean, 0.27, delay);
    assert!(slept_less >= 20 && preempted_often >= 6, "{slept_less} sleeps, {preempted_often} preemptions");
    assert_lasts("the longest preemption", longest, 0.06, longest_delay);
}
holds!(
    cpudist_off_tells_a_sleep_from_a_preemption,
    vm_cpudist_off_tells_a_sleep_from_a_preemption,
    times_off_the_cpu_tell_sleep_from_preemption
);

fn each_move_is_counted_between_its_cpus() {
    const MOVES: &str =
        "import os, time\ntime.sleep(3)\nfor at in range(200): os.sched_setaffinity(0, {1 - at % 2})\ntime.sleep(60)";
    if last_cpu() == 0 {
        return skip("a single CPU");
    }
    // Where it moves to, another test may have a load; before that it waits for a turn, and 200 of these may outlast the probe.
    let mover = python(Some(0), Some(10), MOVES);
    let reading = Running::start(&["migrations", "--duration", "6s", "--pid", &pid(&mover)]).reading();
    let tasks = rows(output(&reading, "tasks"));
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!((&tasks[0]["pid"], number(&tasks[0], "count")), (&Value::from(pid(&mover)), 200.0));
    // The rate is that of the time until the map was read.
    let late = reading_took(&reading, 6.0) / 6.0;
    assert_near(
        "moves per second",
        number(&tasks[0], "rate"),
        200.0 / reading["seconds"].as_f64().unwrap(),
        0.01 + late,
    );
    let pairs = rows(output(&reading, "pairs"));
    let moves: Vec<(&str, &str, f64)> = pairs
        .iter()
        .map(|row| (row["from"].as_str().unwrap(), row["to"].as_str().unwrap(), number(row, "count")))
        .collect();
    assert_eq!(moves, [("0", "1", 100.0), ("1", "0", 100.0)]);
}
holds!(
    migrations_counts_each_move_between_its_cpus,
    vm_migrations_counts_each_move_between_its_cpus,
    each_move_is_counted_between_its_cpus
);

/// Two that share a CPU: each stay and each wait of both is seen, and where there is no place left, that is said.
fn stays_and_waits_add_up_to_the_kernels_account() {
    let cpu = last_cpu();
    let loads = [python(Some(cpu), None, SPIN), python(Some(cpu), None, BURSTS)];
    let pids: Vec<String> = loads.iter().map(pid).collect();
    let both = pids.join(",");
    // In a guest what the program costs may be more than its share of the CPUs, and the probe would end before its time.
    let all = ["timeline", "--budget", "100%"];
    let args = [&all[..], &["--duration", "3s", "--param", "slices=20000", "--pid", &both]].concat();
    let accounts = || pids.iter().map(|pid| schedstat(pid)).collect::<Vec<_>>();
    let before = accounts();
    let mut running = Running::start(&args);
    let attached = accounts();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let nearly_over = accounts();
    let reading = running.reading();
    let after = accounts();
    let tasks = rows(output(&reading, "tasks"));
    assert_eq!(tasks.len(), 2, "other tasks are not in it: {tasks:?}");
    for (at, pid) in pids.iter().enumerate() {
        let task = tasks.iter().find(|task| task["pid"] == pid.as_str()).unwrap();
        // At least what the kernel counted within the time of the probe, and at most what it counted around it; at either end a stay or a
        // wait may be in only one of the accounts.
        let within = |found: f64, longest: f64, field: fn(&(f64, f64)) -> f64| {
            let least = field(&nearly_over[at]) - field(&attached[at]) - 2.0 * longest;
            let most = field(&after[at]) - field(&before[at]) + 2.0 * longest;
            assert!((least..=most).contains(&found), "{found} is not within {least} to {most}: {task:?}");
        };
        within(number(task, "time"), number(task, "longest"), |account| account.0);
        within(number(task, "waited"), number(task, "longest_wait"), |account| account.1);
        assert_eq!(number(task, "moves"), 0.0);
    }
    let schedule = output(&reading, "schedule");
    let mut until = 0.0;
    for own in schedule["cpus"].as_array().unwrap() {
        let slices = own["slices"].as_array().unwrap();
        assert_eq!(slices.is_empty(), own["cpu"] != cpu, "{own:#}");
        for slice in slices {
            assert!(slice["from"].as_f64().unwrap() >= until, "stays overlap: {slice}");
            until = slice["until"].as_f64().unwrap();
            assert!(until <= schedule["until"].as_f64().unwrap(), "{slice}");
        }
    }
    drop(loads);

    let _sleeper = python(Some(cpu), None, "import time\nwhile True: time.sleep(0.0001)");
    let reading = &Running::start(&[&all[..], &["--duration", "2s", "--param", "slices=100"]].concat()).readings()[0];
    let lost: u64 = reading["lost"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert!(lost > 0, "{:#}", reading["lost"]);
    let schedule = output(reading, "schedule");
    let own = schedule["cpus"].as_array().unwrap().iter().find(|own| own["cpu"] == cpu).unwrap();
    let slices = own["slices"].as_array().unwrap();
    // The places, each with a gap where a switch to it was left out, what goes on at the end, and the time without places.
    assert!((100..=210).contains(&slices.len()), "{}", slices.len());
    // Where a kernel leaves a switch out of the event there are more gaps, but this one is the longest.
    let gaps = slices.iter().filter(|slice| slice["task"].is_null());
    let lengths = gaps.map(|gap| gap["until"].as_f64().unwrap() - gap["from"].as_f64().unwrap());
    let longest = lengths.fold(0.0, f64::max);
    assert!(longest > 0.2 * schedule["until"].as_f64().unwrap(), "{longest}");
}
holds!(
    timeline_adds_up_to_the_kernels_account_and_counts_what_finds_no_place,
    vm_timeline_adds_up_to_the_kernels_account_and_counts_what_finds_no_place,
    stays_and_waits_add_up_to_the_kernels_account
);
