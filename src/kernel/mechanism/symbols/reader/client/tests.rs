use super::*;
use crate::mechanism::symbols::open::find_mapped;

#[test]
fn tables_that_take_long_all_together_are_read_no_more_and_count_against_their_owner() {
    let program = std::env::current_exe().unwrap();
    let found = find_mapped(&program).unwrap();
    let open = || Ok(std::fs::File::open(&program)?.into());
    let source = Source { identity: found.identity.clone(), owner: 1000, open: &open, build_id: None };
    let mut client = Client::default();
    assert!(!client.rows_took(&source, ALL_ROWS / 2));
    assert!(client.bad.is_empty());
    assert!(client.rows_took(&source, ALL_ROWS));
    assert!(client.bad[&1000].contains(&found.identity));
    let told = client.rows(&source, &[0]);
    assert_eq!(told, Err("its unwind tables took too long".to_owned()));
    assert_eq!(client.rows(&source, &[0]), Err("its unwind tables could not be read".to_owned()));
    let (names, _) = client.names(&source, &[0], false).unwrap();
    assert_eq!(names.len(), 1, "what else is in it may be read");
}

#[test]
fn a_process_that_lacks_a_layer_is_noted_and_one_that_has_all_is_not() {
    let mut client = Client::default();
    assert_eq!(client.less_confined(), None);
    client.missing = vec!["Landlock".to_owned(), "seccomp".to_owned()];
    assert!(client.less_confined().unwrap().ends_with("missing here: Landlock, seccomp"));
}

#[test]
fn bad_files_of_a_user_cost_that_user_alone_the_names_of_further_ones() {
    let program = std::env::current_exe().unwrap();
    let found = find_mapped(&program).unwrap();
    let open = || Ok(std::fs::File::open(&program)?.into());
    let of = |owner| Source { identity: found.identity.clone(), owner, open: &open, build_id: None };
    let bad = |count: usize| (1..=count as u64).map(Identity::numbered).collect::<HashSet<_>>();
    let mut client = Client::default();
    client.bad.insert(1000, bad(MANY));
    client.bad.insert(1001, bad(MANY - 1));
    client.bad.insert(0, bad(10 * MANY));
    client.bad.insert(one_of_many(100_000), bad(MANY));
    for (owner, is_read) in [(1000, false), (1001, true), (0, true), (100_001, false)] {
        // What was refused once is not asked again, whatever user it is said to belong to.
        client.refused.clear();
        let names = client.names(&of(owner), &[0], false);
        assert_eq!(names.is_ok(), is_read, "{owner}: {names:?}");
        client.process = None;
    }
}

#[test]
fn a_slow_file_shortens_the_time_for_files_of_its_owner_alone() {
    let mut client = Client::default();
    client.hasty.extend([0, 1000, one_of_many(100_000)]);
    let patience = [0, 1000, 1001, 100_001].map(|owner| client.patience(owner));
    assert_eq!(patience, [PATIENCE, SHORT_PATIENCE, PATIENCE, SHORT_PATIENCE]);
}

/// A process that nothing answers for.
fn sleeping() -> Process {
    let (socket, _) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    Process { socket, child: Some(child), files: HashMap::new() }
}

#[test]
fn a_process_that_another_one_ends_costs_no_file_its_names_once() {
    let ended = |signal| is_killed(ExitStatus::from_raw(signal));
    let by = [libc::SIGKILL, libc::SIGTERM, libc::SIGXCPU, libc::SIGABRT, libc::SIGSEGV, 1 << 8, 0];
    assert_eq!(by.map(ended), [true, true, false, false, false, false, false]);
    let program = std::env::current_exe().unwrap();
    let found = find_mapped(&program).unwrap();
    let open = || Ok(std::fs::File::open(&program)?.into());
    let source = Source { identity: found.identity.clone(), owner: 1000, open: &open, build_id: None };
    let killed = || {
        let mut process = sleeping();
        process.child.as_mut().unwrap().kill().unwrap();
        Some(process)
    };
    let mut client = Client { process: killed(), ..Client::default() };
    assert!(client.names(&source, &[0], false).is_ok() && client.bad.is_empty() && client.ends == 0);
    client.process = killed();
    assert_eq!(client.names(&source, &[0], false), Err(ended_words()));
    assert!(client.bad[&1000].contains(&found.identity), "the second time it counts");
}

fn ended_words() -> Why {
    ended(&io::ErrorKind::UnexpectedEof.into())
}

#[test]
fn a_process_that_was_left_behind_is_no_zombie_after_the_next_start() {
    let process = sleeping();
    let folder = format!("/proc/{}", process.child.as_ref().unwrap().id());
    drop(process);
    std::thread::sleep(ENDING);
    drop(Process::start().unwrap());
    assert!(!std::path::Path::new(&folder).exists(), "{folder}");
}
