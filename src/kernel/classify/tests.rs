//! The order of evidence.

use super::*;

fn call(name: &str) -> Within<'_> {
    Within::Call(Call { name, arguments: None, in_own_stack: false })
}

fn component(wait: &Wait<'_>) -> Component {
    classify(wait).unwrap().component
}

#[test]
fn the_state_comes_first() {
    let blocked = Wait { within: call("read"), file: FileClass::Pipe, frames: &["io_schedule"], ..Wait::default() };
    for (state, expected) in [('T', Component::Stopped), ('t', Component::Stopped), ('R', Component::RunqPreempt)] {
        assert_eq!(component(&Wait { state, ..blocked }), expected);
    }
    assert_eq!(classify(&Wait { state: 'Z', ..blocked }), None);
    assert_eq!(classify(&Wait { state: 'X', ..blocked }), None);
    let yielded = Wait { state: 'R', within: call("sched_yield"), ..Wait::default() };
    assert_eq!(classify(&yielded).unwrap().evidence, "state.yielded");
    let frozen = Wait { state: 'D', frames: &["do_freezer_trap", "get_signal"], ..Wait::default() };
    assert_eq!(component(&frozen), Component::Stopped);
    // As Linux 6.18 shows it, and a task that dumps its memory on the way out, which is not frozen.
    let inlined = Wait { frames: &["schedule", "get_signal", "arch_do_signal_or_restart"], ..Wait::default() };
    assert_eq!(component(&inlined), Component::Stopped);
    let dumping = Wait { frames: &["pipe_write", "dump_emit", "do_coredump", "get_signal"], ..Wait::default() };
    assert_ne!(component(&dumping), Component::Stopped);
}

#[test]
fn a_clear_stack_outweighs_the_disk_and_the_call() {
    let write = Wait { state: 'D', within: call("write"), file: FileClass::File, in_iowait: true, ..Wait::default() };
    for (frames, expected) in [
        (&["io_schedule_timeout", "balance_dirty_pages", "balance_dirty_pages_ratelimited"][..], Component::IoPace),
        (&["folio_wait_bit_common", "shrink_folio_list", "try_to_free_pages"], Component::MemReclaim),
        (&["rwsem_down_write_slowpath", "ext4_buffered_write_iter"], Component::LockKernel),
        (&["rpc_wait_bit_killable", "__rpc_execute"], Component::IoNetfs),
        (&["request_wait_answer", "fuse_simple_request"], Component::IoFuse),
        (&["folio_wait_bit_common", "filemap_update_page"], Component::IoBlockWrite),
    ] {
        assert_eq!(component(&Wait { frames, ..write }), expected, "{frames:?}");
    }
}

#[test]
fn a_wait_for_a_disk_goes_by_what_the_call_does() {
    for (name, expected) in [
        ("fsync", Component::IoBlockSync),
        ("msync", Component::IoBlockSync),
        ("pread64", Component::IoBlockRead),
        ("getdents64", Component::IoBlockRead),
        ("pwritev2", Component::IoBlockWrite),
        ("fallocate", Component::IoBlockWrite),
        ("openat", Component::IoBlockMeta),
        ("unlinkat", Component::IoBlockMeta),
        ("execve", Component::IoBlockMeta),
        ("io_uring_enter", Component::IoBlockAsync),
        ("io_getevents", Component::IoBlockAsync),
        ("ioctl", Component::IoBlock),
        ("", Component::IoBlock),
    ] {
        let wait = Wait { state: 'D', within: call(name), in_iowait: true, ..Wait::default() };
        assert_eq!(component(&wait), expected, "{name}");
    }
    let unknown = Wait { state: 'D', in_iowait: true, ..Wait::default() };
    assert_eq!(component(&unknown), Component::IoBlock);
}

#[test]
fn a_lock_of_the_kernel_outweighs_the_disk_and_the_call_and_is_part_of_making_room() {
    let known = Wait { state: 'D', within: call("write"), file: FileClass::File, kernel_lock: true, ..Wait::default() };
    assert_eq!(classify(&known), Some(Class { component: Component::LockKernel, evidence: "contention" }));
    assert_eq!(component(&Wait { in_iowait: true, ..known }), Component::LockKernel);
    assert_eq!(component(&Wait { frames: &["nfs_file_write"], ..known }), Component::LockKernel);
    assert_eq!(component(&Wait { frames: &["shrink_slab"], ..known }), Component::MemReclaim);
    assert_eq!(component(&Wait { kernel: true, within: Within::Unknown, ..known }), Component::LockKernel);
    // Where the kernel does not tell: a stack that begins with a caller of the lock.
    let told = Wait { kernel_lock: false, frames: &["ext4_buffered_write_iter", "vfs_write"], ..known };
    assert_eq!(classify(&told).unwrap().evidence, "frames.lock_caller");
    assert_eq!(component(&Wait { in_iowait: true, ..told }), Component::IoBlockWrite);
    let fault = Wait { state: 'D', within: Within::User, frames: &["do_user_addr_fault"], ..Wait::default() };
    assert_eq!(component(&fault), Component::LockKernel);
}

#[test]
fn a_move_between_control_groups_waits_for_all_cpus() {
    let frames = &["__wait_rcu_gp", "synchronize_rcu", "rcu_sync_enter", "percpu_down_write", "cgroup_procs_write"];
    let wait = Wait { state: 'D', within: call("pwrite64"), file: FileClass::Kernel, frames, ..Wait::default() };
    assert_eq!(component(&wait), Component::KernelSync);
    assert_eq!(component(&Wait { kernel_lock: true, ..wait }), Component::KernelSync, "told before it takes the lock");
    // Who then waits for a lock does that.
    assert_eq!(
        component(&Wait { frames: &["percpu_down_write", "cgroup_procs_write"], ..wait }),
        Component::LockKernel
    );
    assert_eq!(component(&Wait { frames: &["cgroup_procs_write"], ..wait }), Component::OtherOff);
}

#[test]
fn a_socket_that_lingers_waits_to_send_and_a_file_that_is_closed_for_its_disk() {
    let close = Wait { within: call("close"), frames: &["wait_woken", "sk_stream_wait_close"], ..Wait::default() };
    assert_eq!(component(&close), Component::NetSend);
    assert_eq!(component(&Wait { state: 'D', frames: &["folio_wait_writeback"], ..close }), Component::IoBlockMeta);
    assert_eq!(component(&Wait { state: 'D', frames: &[], ..close }), Component::IoBlockMeta);
    assert_eq!(classify(&Wait { frames: &[], ..close }).unwrap().evidence, NO_RULE);
}

#[test]
fn what_moves_bytes_between_files_waits_for_either() {
    use FileClass as File;
    let on = |name, file| Wait { within: call(name), file, ..Wait::default() };
    let full = &["wait_woken", "sk_stream_wait_memory", "tcp_sendmsg_locked", "splice_to_socket"];
    assert_eq!(component(&Wait { frames: full, ..on("splice", File::Pipe) }), Component::NetSend);
    assert_eq!(component(&Wait { frames: &["pipe_wait_readable"], ..on("splice", File::Pipe) }), Component::IpcPipe);
    assert_eq!(component(&on("splice", File::Pipe)), Component::OtherOff, "the stack alone tells");
    assert_eq!(component(&on("sendfile", File::Inet)), Component::NetSend);
    let disk = |name, file| Wait { state: 'D', in_iowait: true, ..on(name, file) };
    for (wait, expected) in [
        (disk("sendfile", File::Inet), Component::IoBlockRead),
        (disk("sendfile", File::Pipe), Component::IoBlockRead),
        (disk("sendfile", File::File), Component::IoBlock),
        (disk("splice", File::File), Component::IoBlockRead),
        (disk("splice", File::Pipe), Component::IoBlockWrite),
        (disk("copy_file_range", File::File), Component::IoBlock),
    ] {
        assert_eq!(component(&wait), expected, "{wait:?}");
    }
    let reads = &["folio_wait_bit_common", "filemap_get_pages", "filemap_splice_read", "splice_direct_to_actor"];
    assert_eq!(component(&Wait { frames: reads, ..disk("sendfile", File::File) }), Component::IoBlockRead);
    let writes = &["folio_wait_bit_common", "ext4_write_begin", "generic_perform_write", "iter_file_splice_write"];
    assert_eq!(component(&Wait { frames: writes, ..disk("sendfile", File::File) }), Component::IoBlockWrite);
}

#[test]
fn a_page_fault_is_named_no_more_exactly_than_it_is_known() {
    let fault = Wait { state: 'D', within: Within::User, frames: &["folio_wait_bit_common"], ..Wait::default() };
    assert_eq!(component(&fault), Component::Fault);
    assert_eq!(component(&Wait { without_swap: true, ..fault }), Component::FaultFile);
    let file = &["folio_wait_bit_common", "filemap_read_folio", "filemap_fault"];
    assert_eq!(component(&Wait { frames: file, ..fault }), Component::FaultFile);
    let swap = &["folio_wait_bit_common", "do_swap_page", "__handle_mm_fault"];
    assert_eq!(component(&Wait { frames: swap, ..fault }), Component::FaultSwap);
    // A call that touches a page which is not there.
    let within_call = Wait { within: call("write"), frames: file, ..fault };
    assert_eq!(component(&within_call), Component::FaultFile);
    // Anonymous memory that is only being cleared does not wait; what waits in user mode without D was put to sleep.
    let asleep = Wait { state: 'S', frames: &[], ..fault };
    assert_eq!(classify(&asleep), Some(Class { component: Component::OtherOff, evidence: NO_RULE }));
}

#[test]
fn a_file_decides_what_reading_and_writing_wait_for() {
    use FileClass as File;
    for (file, read, write) in [
        (File::File, Component::IoBlockRead, Component::IoBlockWrite),
        (File::Block, Component::IoBlockRead, Component::IoBlockWrite),
        (File::Inet, Component::NetRecv, Component::NetSend),
        (File::Unix, Component::IpcUnix, Component::IpcUnix),
        (File::Netlink, Component::IpcEvent, Component::IpcEvent),
        (File::Pipe, Component::IpcPipe, Component::IpcPipe),
        (File::Event, Component::IpcEvent, Component::IpcEvent),
        (File::Timer, Component::WaitSleep, Component::WaitSleep),
        (File::Terminal, Component::WaitTty, Component::WaitTty),
        (File::Fuse, Component::WaitPoll, Component::WaitPoll),
        (File::Character, Component::WaitDevice, Component::WaitDevice),
        (File::Socket, Component::NetRecv, Component::NetSend),
        (File::Kernel, Component::OtherOff, Component::OtherOff),
        (File::Unknown, Component::OtherOff, Component::OtherOff),
    ] {
        assert_eq!(component(&Wait { within: call("read"), file, ..Wait::default() }), read, "{file:?}");
        assert_eq!(component(&Wait { within: call("writev"), file, ..Wait::default() }), write, "{file:?}");
    }
    // Who may not look at the file may still see the function.
    let frames = &["anon_pipe_read"];
    assert_eq!(component(&Wait { within: call("read"), frames, ..Wait::default() }), Component::IpcPipe);
    let frames = &["unix_stream_read_generic"];
    assert_eq!(component(&Wait { within: call("recvfrom"), frames, ..Wait::default() }), Component::IpcUnix);
}

#[test]
fn a_futex_is_called_a_lock_only_where_it_is_one() {
    let at = |operation, value, in_own_stack| {
        let call = Call { name: "futex", arguments: Some([0x7f00, operation, value]), in_own_stack };
        component(&Wait { within: Within::Call(call), ..Wait::default() })
    };
    let futex = |operation, value| at(operation, value, false);
    assert_eq!(futex(128, 2), Component::LockUser);
    assert_eq!(futex(0, 2), Component::LockUser);
    assert_eq!(futex(128 | 6, 0), Component::LockUser);
    assert_eq!(futex(128 | 13, 0), Component::LockUser);
    // musl: a mutex, one with an owner; its condition variables; its semaphores, of versions until 1.2.3 and since.
    assert_eq!(futex(128, 0xffff_ffff_8000_0010), Component::LockUser);
    assert_eq!(futex(0, 0x8000_1234), Component::LockUser);
    assert_eq!(at(128, 2, true), Component::WaitFutex);
    assert_eq!(futex(128, 0xffff_ffff_ffff_ffff), Component::WaitFutex);
    assert_eq!(futex(128, 0x8000_0000), Component::WaitFutex);
    // A count beside the bit: of a lock of musl, or of threads that are waited for.
    assert_eq!(futex(128, 0x8000_0003), Component::WaitFutex);
    assert_eq!(futex(128 | 11, 0), Component::WaitFutex, "a condition variable of a lock that hands down priorities");
    assert!(futex::in_own_stack(0x7f35_a3c0_2e64, 0x7f35_a3c0_2db8));
    assert!(!futex::in_own_stack(0x7f10, 0x7ffd_0000) && !futex::in_own_stack(0x7ffe_0000, 0x7ffd_0000));
    // A condition variable, a semaphore, a thread that waits for work.
    for (operation, value) in [(128, 0), (128, 7), (128 | 9, 2), (128 | 256 | 9, 0), (9, 0)] {
        assert_eq!(futex(operation, value), Component::WaitFutex, "{operation} {value}");
    }
    assert_eq!(component(&Wait { within: call("futex"), ..Wait::default() }), Component::WaitFutex);
    assert!(
        user::is_lock("_PyRuntime") && !user::is_lock("") && !user::is_lock("queue") && !user::is_lock("_PyRuntimeX")
    );
    let known = Wait { within: call("futex"), user_lock: true, ..Wait::default() };
    assert_eq!(classify(&known), Some(Class { component: Component::LockUser, evidence: "call.futex.known" }));
    assert_eq!(component(&Wait { within: call("epoll_wait"), ..known }), Component::WaitPoll, "of futexes alone");
    assert_eq!(component(&Wait { within: call("futex_wait"), ..Wait::default() }), Component::WaitFutex);
    let frames = &["rt_mutex_schedule", "futex_lock_pi"];
    assert_eq!(component(&Wait { frames, ..Wait::default() }), Component::LockUser);
}

#[test]
fn calls_say_what_they_wait_for() {
    for (name, expected) in [
        ("epoll_wait", Component::WaitPoll),
        ("pselect6", Component::WaitPoll),
        ("io_uring_enter", Component::WaitPoll),
        ("clock_nanosleep", Component::WaitSleep),
        ("fdatasync", Component::IoBlockSync),
        ("mkdirat", Component::IoBlockMeta),
        ("waitid", Component::WaitChild),
        ("fcntl", Component::LockFile),
        ("rt_sigtimedwait", Component::WaitSignal),
        ("semtimedop", Component::IpcSysv),
        ("connect", Component::NetConnect),
        ("accept4", Component::NetAccept),
        ("sendmsg", Component::NetSend),
        ("recvmmsg", Component::NetRecv),
        ("ioctl", Component::WaitDevice),
        ("madvise", Component::OtherOff),
        ("getpid", Component::OtherOff),
    ] {
        assert_eq!(component(&Wait { within: call(name), ..Wait::default() }), expected, "{name}");
    }
    // The parent of a vfork sleeps so that no signal wakes it.
    for name in ["vfork", "clone", "clone3"] {
        assert_eq!(component(&Wait { state: 'D', within: call(name), ..Wait::default() }), Component::WaitChild);
    }
    let restarted = Wait { within: call("restart_syscall"), frames: &["hrtimer_nanosleep"], ..Wait::default() };
    assert_eq!(component(&restarted), Component::WaitSleep);
    let locked = Wait { state: 'D', within: call("mmap"), frames: &["rwsem_down_write_slowpath"], ..Wait::default() };
    assert_eq!(component(&locked), Component::LockKernel);
}

#[test]
fn a_thread_of_the_kernel_makes_no_calls() {
    // Its file says call number 0, which is read.
    let idle = Wait { kernel: true, within: call("read"), frames: &["worker_thread"], ..Wait::default() };
    assert_eq!(component(&idle), Component::KernelThread);
    assert_eq!(component(&Wait { state: 'I', frames: &[], ..idle }), Component::KernelThread);
    let commits = Wait { state: 'D', frames: &["folio_wait_bit", "jbd2_journal_commit_transaction"], ..idle };
    assert_eq!(component(&commits), Component::IoBlock);
}

#[test]
fn what_no_rule_knows_is_said_to_be_so() {
    let odd = Wait { within: call("no_such_call"), frames: &["some_driver_wait"], ..Wait::default() };
    assert_eq!(classify(&odd), Some(Class { component: Component::OtherOff, evidence: NO_RULE }));
    let deep: Vec<&str> = std::iter::repeat_n("x", 12).chain(["balance_dirty_pages"]).collect();
    let deep = Wait { frames: &deep, ..Wait::default() };
    assert_eq!(component(&deep), Component::OtherOff, "frames further out are not looked at");
}

#[test]
fn names_of_functions_are_compared_without_their_endings() {
    for frame in ["do_sigtimedwait.isra.0", "do_sigtimedwait+0x1/0x2", "do_sigtimedwait.constprop.0.cold+0x8/0x9 [x]"] {
        assert_eq!(component(&Wait { frames: &[frame], ..Wait::default() }), Component::WaitSignal, "{frame}");
    }
    assert_eq!(frames::bare(""), "");
}

#[test]
fn each_rule_has_an_id_of_its_own_and_no_function_stands_in_two() {
    let all = [frames::CLEAR, frames::BLOCK, frames::FAULT, frames::HINTS].concat();
    let mut ids = std::collections::BTreeSet::new();
    let mut names = std::collections::BTreeSet::new();
    for rule in &all {
        assert!(rule.id.starts_with("frames.") && ids.insert(rule.id), "{}", rule.id);
        for (name, kernels) in rule.names {
            assert!(names.insert(*name), "{name} stands twice");
            let release = |text: &str| {
                text.is_empty()
                    || text.split_once('.').is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
            };
            let (from, until) = kernels.split_once("..").unwrap_or_default();
            assert!(release(from) && release(until), "{name}: {kernels:?} names no kernels");
        }
    }
}

proptest::proptest! {
    #[test]
    fn whatever_the_kernel_says_has_one_place(
        state in proptest::char::any(), kernel: bool, in_iowait: bool, without_swap: bool,
        kernel_lock: bool, user_lock: bool, name in ".{0,12}", frame in ".{0,30}", arguments: Option<[u64; 3]>, in_own_stack: bool,
    ) {
        let frames = [frame.as_str()];
        let within = Within::Call(Call { name: &name, arguments, in_own_stack });
        let file = FileClass::of_link(&frame);
        let wait = Wait { state, kernel, within, file, frames: &frames, in_iowait, kernel_lock, user_lock, without_swap };
        let found = classify(&wait);
        proptest::prop_assert!(found.is_some() || matches!(state, 'Z' | 'X' | 'x'));
        let _ = (calls::name(Abi::Compat, i64::from(state as u32)), files::of_protocol(&frame));
    }
}
