use super::super::testing::{Story, gap, instances, stats};
use super::*;

const LISTENER: &str = "tasks.stopped_listener.count";

fn stat(pid: u32, name: &str, state: char, ticks: u32) -> String {
    format!("{pid} ({name}) {state} 1 1 1 0 -1 0 7 0 0 0 {ticks} 0 0 0 20 0 1 0 500 9 5 1\n")
}

/// What a look sees: id, name, state and ticks of CPU time of each process.
fn story(looks: &[&[(u32, &str, char, u32)]]) -> Story {
    let mut story = Story::of_seconds(looks.len());
    for (at, look) in looks.iter().enumerate() {
        for (pid, name, state, ticks) in *look {
            story = story.file(at, &format!("proc/{pid}/stat"), stat(*pid, name, *state, *ticks));
        }
    }
    story
}

fn listens(story: &Story, pid: u32, inode: u32) {
    let row = format!(
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000001 00:00000000 00000000  1000        0 {inode} 1 0 100 0 0 10 0\n"
    );
    story.put(&format!("proc/{pid}/net/tcp"), format!("  sl  local_address\n{row}"));
}

#[test]
fn a_process_is_stopped_that_is_so_at_both_ends_and_did_not_run() {
    let both =
        [(7, "job", 'T', 5), (8, "limited", 'T', 5), (9, "idle", 'S', 5), (10, "traced", 't', 5), (11, "late", 'S', 5)];
    let then =
        [(7, "job", 'T', 5), (8, "limited", 'T', 6), (9, "idle", 'S', 5), (10, "traced", 't', 5), (11, "late", 'T', 5)];
    let metrics = story(&[&both, &then]).metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "tasks.stopped.count", "").last, 1.0);
    assert_eq!(instances(&metrics, "tasks.stopped_process.count"), ["7:500"]);
    assert_eq!(metrics.labels["process"]["7:500"]["name"], "job");
    assert_eq!(stats(&metrics, LISTENER, "7:500").last, 0.0, "it listens on nothing");
}

#[test]
fn where_nothing_is_stopped_the_count_is_zero() {
    let one = [(9, "idle", 'S', 5)];
    let metrics = story(&[&one, &one]).metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "tasks.stopped.count", "").last, 0.0);
    assert_eq!(gap(&metrics, LISTENER, "").why, "no process is stopped");
}

#[test]
fn a_stopped_server_is_one_whose_socket_nothing_else_has_open() {
    let server = [(1, "systemd", 'S', 9), (7, "server", 'T', 5), (8, "worker", 'S', 5)];
    let told = |others: &[u32]| {
        let story = story(&[&server, &server]);
        listens(&story, 7, 77);
        story.link("proc/7/fd/0", "/dev/null").link("proc/7/fd/3", "socket:[77]").link("proc/7/fd/4", "socket:[78]");
        for pid in others {
            story.link(&format!("proc/{pid}/fd/3"), "socket:[77]");
            story.put(&format!("proc/{pid}/comm"), if *pid == 1 { "systemd\n" } else { "worker\n" });
        }
        let metrics = story.metrics(&COLLECTOR);
        let listens = metrics.labels["process"]["7:500"].get("listens").cloned();
        (stats(&metrics, LISTENER, "7:500").last, listens)
    };
    assert_eq!(told(&[]), (1.0, Some("127.0.0.1:8080".into())));
    assert_eq!(told(&[1]), (1.0, Some("127.0.0.1:8080".into())), "the service manager accepts nothing on it");
    assert_eq!(told(&[8]), (0.0, None), "a worker serves");
    assert_eq!(told(&[1, 8]), (0.0, None));
}

#[test]
fn where_the_search_for_other_holders_ended_early_it_is_not_known_who_listens_alone() {
    let server = [(1, "init", 'S', 9), (7, "server", 'T', 5)];
    let story = story(&[&server, &server]);
    listens(&story, 7, 77);
    story.link("proc/7/fd/3", "socket:[77]");
    // More processes than are searched.
    for pid in 10_000..30_000 {
        story.put(&format!("proc/{pid}"), "");
    }
    let metrics = story.metrics(&COLLECTOR);
    assert!(gap(&metrics, LISTENER, "7:500").why.starts_with("not all open files could be searched"));
}

#[test]
fn any_number_of_processes_may_have_the_name_of_a_service_manager() {
    let named: Vec<(u32, &str, char, u32)> = (100..1100).map(|pid| (pid, "systemd", 'S', 1)).collect();
    let server = [&[(1, "init", 'S', 9), (7, "server", 'T', 5)][..], &named].concat();
    let story = story(&[&server, &server]);
    listens(&story, 7, 77);
    story.link("proc/7/fd/3", "socket:[77]");
    for (pid, ..) in &named {
        story.link(&format!("proc/{pid}/fd/3"), "socket:[77]").put(&format!("proc/{pid}/comm"), "systemd\n");
    }
    // A search for each of them took as many times half a second.
    assert_eq!(stats(&story.metrics(&COLLECTOR), LISTENER, "7:500").last, 1.0);
}
