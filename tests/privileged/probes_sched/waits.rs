//! Waits for a CPU, against /proc/PID/schedstat and loads of known length.

use serde_json::Value;

use super::{
    BURSTS, Running, SPIN, STEADY, Truth, Windows, assert_lasts, last_cpu, number, output, pid, python, reading_took,
    ready, rows, schedstat,
};
use crate::support::{Lateness, Load, alone};

/// Runs runqlat over some loads for four seconds, and compares each one's waits with the kernel's account of it.
fn waits_agree(what: &str, loads: &[Load], more: &[&str]) {
    let pids: Vec<String> = loads.iter().map(pid).collect();
    let list = pids.join(",");
    let mut running = Running::start(&[&["runqlat", "--duration", "4s", "--pid", &list], more].concat());
    let truth = Truth::begin(&pids, |pid| schedstat(pid).1);
    let late = Lateness::begin();
    let reading = running.reading();
    let (after, elapsed) = (Truth::begin(&pids, |pid| schedstat(pid).1).counts, truth.began.elapsed().as_secs_f64());
    let seconds = reading["seconds"].as_f64().unwrap();
    let windows = Windows { elapsed, seconds, late: late.end().0 };
    let rows = rows(output(&reading, "tasks"));
    assert_eq!(rows.len(), pids.len(), "other tasks are not in it: {rows:?}");
    for (at, (pid, after)) in pids.iter().zip(after).enumerate() {
        let row = rows.iter().find(|row| row["pid"] == pid.as_str()).unwrap_or_else(|| panic!("{pid} is missing"));
        truth.compare(what, at, after, (number(row, "wait"), number(row, "max")), &windows);
    }
    let dist = &output(&reading, "wait")["rows"][0];
    let sum: f64 = rows.iter().map(|row| number(row, "wait")).sum();
    // Waits that end between the readings of the two maps are in the second one only, the table: as many as in so much time before, or three
    // times that, as they do not come evenly. One more may end while the table's own row is read and removed.
    let (all, longest) = (dist["sum"].as_f64().unwrap(), dist["max"].as_f64().unwrap());
    let rate = rows.iter().map(|row| number(row, "count")).sum::<f64>() / seconds;
    let between = (3.0 * rate * reading_took(&reading, 4.0) + 1.0) * longest;
    assert!(
        (-between..=longest).contains(&(all - sum)),
        "{all} s in the distribution, {sum} s in the table, {between} s between them at most"
    );
    println!("{what}: {:.4} s are only in the table, of {between:.4} s at most", sum - all);
}

fn waits_of_pinned_spinners_agree() {
    let loads: Vec<Load> = (0..3).map(|_| python(Some(last_cpu()), None, SPIN)).collect();
    waits_agree("pinned", &loads, &[]);
}
holds!(
    runqlat_agrees_with_schedstat_for_tasks_that_share_a_cpu,
    vm_runqlat_agrees_with_schedstat_for_tasks_that_share_a_cpu,
    waits_of_pinned_spinners_agree
);

fn waits_of_migrating_spinners_agree() {
    let loads: Vec<Load> = (0..2 * last_cpu() + 3).map(|_| python(None, None, SPIN)).collect();
    waits_agree("migrating", &loads, &[]);
}
holds!(
    runqlat_agrees_with_schedstat_for_tasks_that_move_between_cpus,
    vm_runqlat_agrees_with_schedstat_for_tasks_that_move_between_cpus,
    waits_of_migrating_spinners_agree
);

fn waits_behind_and_of_real_time_tasks_agree() {
    let cpu = Some(last_cpu());
    let loads = [python(cpu, Some(10), BURSTS), python(cpu, Some(10), BURSTS), python(cpu, None, SPIN)];
    waits_agree("real time", &loads, &[]);
}
holds!(
    runqlat_agrees_with_schedstat_for_real_time_tasks_and_those_they_hold_up,
    vm_runqlat_agrees_with_schedstat_for_real_time_tasks_and_those_they_hold_up,
    waits_behind_and_of_real_time_tasks_agree
);

fn waits_by_stamps_agree() {
    let pinned: Vec<Load> = (0..2).map(|_| python(Some(last_cpu()), None, SPIN)).collect();
    waits_agree("stamps, pinned", &pinned, &["--param", "stamps=true"]);
    let free: Vec<Load> = (0..last_cpu() + 2).map(|_| python(None, None, SPIN)).collect();
    waits_agree("stamps, migrating", &free, &["--param", "stamps=true"]);
}
holds!(
    runqlat_without_the_kernels_account_agrees_with_it,
    vm_runqlat_without_the_kernels_account_agrees_with_it,
    waits_by_stamps_agree
);

fn the_way_of_measuring_is_told() {
    for probe in ["runqlat", "runqslower"] {
        let reading =
            Running::start(&[probe, "--duration", "500ms", "--param", "stamps=true"]).readings().pop().unwrap();
        let events: Vec<&str> =
            reading["attached"].as_array().unwrap().iter().map(|a| a["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["sched_wakeup", "sched_wakeup_new", "sched_switch"]);
        assert!(reading["notes"][0].as_str().unwrap().contains("time stamps"), "{:#}", reading["notes"]);
        let reading = Running::start(&[probe, "--duration", "500ms"]).readings().pop().unwrap();
        assert_eq!(reading["attached"].as_array().unwrap().len(), 1);
        assert!(reading["notes"].is_null(), "{:#}", reading["notes"]);
    }
}
holds!(runqlat_tells_how_it_measures, vm_runqlat_tells_how_it_measures, the_way_of_measuring_is_told);

fn each_wait_behind_a_real_time_task_is_told() {
    for stamps in ["stamps=false", "stamps=true"] {
        let cpu = Some(last_cpu());
        let (bursts, victim) = (python(cpu, Some(10), BURSTS), python(cpu, Some(1), STEADY));
        let victim_pid = pid(&victim);
        let running = Running::start(&[
            "runqslower",
            "--duration",
            "4s",
            "--threshold",
            "30ms",
            "--pid",
            &victim_pid,
            "--param",
            stamps,
        ]);
        let late = Lateness::begin();
        let readings = running.readings();
        let waits: Vec<_> = readings.iter().flat_map(|reading| rows(output(reading, "waits"))).collect();
        // A burst every 330 ms.
        assert!((10..=14).contains(&waits.len()), "{waits:#?}");
        for wait in &waits {
            assert_eq!((&wait["pid"], &wait["tid"]), (&Value::from(&*victim_pid), &Value::from(&*victim_pid)));
            assert_eq!(wait["cpu"].as_str(), Some(&*last_cpu().to_string()));
            assert!(number(wait, "wait") >= 0.03, "{wait:?}");
        }
        let mut lengths: Vec<f64> = waits.iter().map(|wait| number(wait, "wait")).collect();
        lengths.sort_by(f64::total_cmp);
        assert_lasts("the median wait", lengths[lengths.len() / 2], 0.06, late.end().0);
        let bursts = pid(&bursts);
        // With PREEMPT_RT threads of the kernel do what interrupts do elsewhere, and some have waited for the end of the burst too.
        let is_real_time = std::path::Path::new("/sys/kernel/realtime").exists();
        assert!(is_real_time || waits.iter().all(|wait| wait["prev_tid"] == bursts.as_str()), "{waits:#?}");
        assert!(waits.windows(2).all(|pair| number(&pair[0], "time") < number(&pair[1], "time")), "{waits:#?}");
    }
}
holds!(
    runqslower_tells_each_wait_behind_a_real_time_task,
    vm_runqslower_tells_each_wait_behind_a_real_time_task,
    each_wait_behind_a_real_time_task_is_told
);
