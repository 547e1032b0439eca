//! What functions of the kernel say about a wait. Functions are renamed and inlined every few releases, so each name says in
//! which kernels it is found.

use crate::model::Component;

/// A rule: any of these functions among the innermost [`DEPTH`].
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Id in reports.
    pub id: &'static str,
    /// What it means.
    pub meaning: Meaning,
    /// The functions.
    pub names: &'static [Name],
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The component.
    Component(Component),
    /// A wait for a disk; what for, the call says.
    Disk,
}

/// A function, and the kernels that have it ("" for all that are known). A `*` at its end stands for anything.
pub type Name = (&'static str, &'static str);

/// So many frames are looked at, from the innermost.
pub const DEPTH: usize = 12;

/// The first rule that fits.
#[must_use]
pub fn find<'r>(rules: &'r [Rule], frames: &[&str]) -> Option<&'r Rule> {
    let fits = |rule: &&Rule| frames.iter().take(DEPTH).any(|frame| fits(rule, bare(frame)));
    rules.iter().find(fits)
}

fn fits(rule: &Rule, frame: &str) -> bool {
    rule.names.iter().any(|(name, _)| match name.strip_suffix('*') {
        Some(beginning) => frame.starts_with(beginning),
        None => frame == *name,
    })
}

/// The name of a function without what the compiler (`.constprop.0`, `.isra.0`, `.cold`, `.llvm.123`) and the kernel
/// (`+0x1/0x2`, `[module]`) append.
#[must_use]
pub fn bare(frame: &str) -> &str {
    frame.split(['.', '+', ' ']).next().unwrap_or_default()
}

const fn rule(id: &'static str, component: Component, names: &'static [Name]) -> Rule {
    Rule { id, meaning: Meaning::Component(component), names }
}

/// Stacks that leave no doubt, whatever the call.
pub const CLEAR: &[Rule] = &[
    rule("frames.freezer", Component::Stopped, &[("do_freezer_trap", ""), ("__refrigerator", "")]),
    rule("frames.pace", Component::IoPace, &[("balance_dirty_pages*", "")]),
    rule(
        "frames.reclaim",
        Component::MemReclaim,
        &[
            ("try_to_free_pages", ""),
            ("try_to_free_mem_cgroup_pages", ""),
            ("shrink_*", ""),
            ("do_shrink_slab", ""),
            ("reclaim_throttle", "5.16.."),
            ("congestion_wait", "..5.15"),
            ("wait_iff_congested", "..5.15"),
            ("compact_zone*", ""),
            ("mem_cgroup_handle_over_high", "..6.5"),
            ("__mem_cgroup_handle_over_high", "6.6.."),
            ("try_charge*", ""),
            ("mem_cgroup_oom_synchronize", ""),
            ("out_of_memory", ""),
            ("oom_*", ""),
        ],
    ),
    rule(
        "frames.netfs",
        Component::IoNetfs,
        &[
            ("rpc_wait_bit_killable", ""),
            ("nfs_wait_*", ""),
            ("nfs4_*", ""),
            ("nfs_file_*", ""),
            ("wait_for_response", ""),
            ("cifs_*", ""),
            ("smb2_*", ""),
            ("ceph_*", ""),
        ],
    ),
    rule(
        "frames.fuse",
        Component::IoFuse,
        &[("request_wait_answer", ""), ("fuse_simple_request", ""), ("__fuse_simple_request", "6.9..")],
    ),
    // The lock of a futex is a lock inside the kernel too.
    rule(
        "frames.futex_lock_pi",
        Component::LockUser,
        &[("futex_lock_pi", ""), ("futex_wait_requeue_pi", ""), ("__futex_lock_pi", "")],
    ),
    rule(
        "frames.lock",
        Component::LockKernel,
        &[
            ("__mutex_lock*", ""),
            ("mutex_lock*", ""),
            ("__ww_mutex_lock*", ""),
            ("rwsem_down_read_slowpath", ""),
            ("rwsem_down_write_slowpath", ""),
            ("call_rwsem_down_*", "..5.1"),
            ("percpu_rwsem_wait", ""),
            ("__percpu_down_read", ""),
            ("percpu_down_write", ""),
            ("__down", ""),
            ("__down_common", "5.18.."),
            ("__down_interruptible", ""),
            ("__down_killable", ""),
            ("__down_timeout", ""),
            ("rt_mutex_slowlock*", ""),
            ("__rt_mutex_slowlock*", ""),
            ("rwbase_read_lock", "5.15.."),
            ("rwbase_write_lock", "5.15.."),
            ("rt_spin_lock_slowlock*", "..5.14"),
            ("rtlock_slowlock*", "5.15.."),
            ("wait_on_inode", ""),
            ("__wait_on_freeing_inode", ""),
            ("d_alloc_parallel", ""),
            ("d_wait_lookup", ""),
        ],
    ),
    rule("frames.fifo_open", Component::IpcPipe, &[("wait_for_partner", ""), ("fifo_open", "")]),
];

/// Waits for a disk, which the kernel counts as such where it can be seen.
pub const BLOCK: &[Rule] = &[Rule {
    id: "frames.block",
    meaning: Meaning::Disk,
    names: &[
        ("io_schedule", ""),
        ("io_schedule_timeout", ""),
        ("bit_wait_io", ""),
        ("wait_on_page_bit", "..5.15"),
        ("wait_on_page_bit_common", "..5.15"),
        ("wait_on_page_bit_killable", "..5.15"),
        ("__lock_page", "..5.15"),
        ("__lock_page_killable", "..5.15"),
        ("put_and_wait_on_page_locked", "..5.15"),
        ("folio_wait_bit", "5.16.."),
        ("folio_wait_bit_common", "5.16.."),
        ("folio_wait_bit_killable", "5.16.."),
        ("folio_wait_writeback", "5.16.."),
        ("folio_put_wait_locked", "5.16.."),
        ("__folio_lock*", "5.16.."),
        ("wait_on_page_writeback", "..5.15"),
        ("__wait_on_buffer", ""),
        ("blk_mq_get_tag", ""),
        ("rq_qos_wait", ""),
        ("wbt_wait", ""),
        ("submit_bio_wait", ""),
        ("blkdev_direct_IO", ""),
        ("__blkdev_direct_IO*", ""),
        ("iomap_dio_rw", ""),
        ("__iomap_dio_rw", ""),
        ("iomap_dio_complete", ""),
        ("do_blockdev_direct_IO", ""),
        ("__blockdev_direct_IO", ""),
        ("dio_await_completion", ""),
        ("read_pages", ""),
        ("filemap_get_pages", "5.12.."),
        ("filemap_read_folio", "5.16.."),
        ("filemap_update_page", "5.12.."),
        ("page_cache_ra_*", ""),
        ("generic_file_buffered_read*", "..5.11"),
    ],
}];

/// A page fault, and which one.
pub const FAULT: &[Rule] = &[
    rule(
        "frames.fault_swap",
        Component::FaultSwap,
        &[("do_swap_page", ""), ("swap_read*", ""), ("swapin_*", ""), ("__read_swap_cache_async", "")],
    ),
    rule(
        "frames.fault_file",
        Component::FaultFile,
        &[
            ("filemap_fault", ""),
            ("__do_fault", ""),
            ("do_read_fault", ""),
            ("do_cow_fault", ""),
            ("do_shared_fault", ""),
        ],
    ),
];

/// What else the stack tells, where the call leaves it open or may not be seen.
pub const HINTS: &[Rule] = &[
    rule(
        "frames.userfault",
        Component::IpcEvent,
        &[("handle_userfault", ""), ("userfaultfd_read*", ""), ("userfaultfd_ctx_read", "")],
    ),
    rule(
        "frames.futex",
        Component::WaitFutex,
        &[
            ("futex_wait_queue_me", "..5.15"),
            ("futex_wait_queue", "5.16.."),
            ("futex_do_wait", "6.16.."),
            ("futex_wait_multiple*", "5.16.."),
            ("__futex_wait", ""),
            ("futex_wait", ""),
            ("do_futex", ""),
        ],
    ),
    rule(
        "frames.poll",
        Component::WaitPoll,
        &[
            ("ep_poll", ""),
            ("do_epoll_wait", ""),
            ("poll_schedule_timeout", ""),
            ("do_poll", ""),
            ("do_select", ""),
            ("do_sys_poll", ""),
            ("io_cqring_wait", ""),
            ("io_wqe_worker", "..6.4"),
            ("io_wq_worker", "6.5.."),
            ("io_sq_thread", ""),
            ("read_events", ""),
            ("fuse_dev_do_read", ""),
        ],
    ),
    rule(
        "frames.sleep",
        Component::WaitSleep,
        &[("hrtimer_nanosleep", ""), ("do_nanosleep", ""), ("timerfd_read*", ""), ("alarm_timer_nsleep", "")],
    ),
    rule(
        "frames.pipe",
        Component::IpcPipe,
        &[
            ("pipe_wait", "..5.4"),
            ("pipe_wait_readable", "5.5.."),
            ("pipe_wait_writable", "5.5.."),
            ("pipe_read", "5.5..6.14"),
            ("pipe_write", "5.5..6.14"),
            ("anon_pipe_read", "6.15.."),
            ("anon_pipe_write", "6.15.."),
            ("wait_for_space", ""),
        ],
    ),
    // Before those of the inet sockets: some functions serve all families.
    rule(
        "frames.unix",
        Component::IpcUnix,
        &[
            ("unix_stream_*", ""),
            ("unix_dgram_*", ""),
            ("__unix_dgram_recvmsg", ""),
            ("unix_wait_for_peer", ""),
            ("unix_accept", ""),
        ],
    ),
    rule(
        "frames.netlink",
        Component::IpcEvent,
        &[("netlink_recvmsg", ""), ("netlink_sendmsg", ""), ("netlink_unicast", "")],
    ),
    rule("frames.accept", Component::NetAccept, &[("inet_csk_accept", ""), ("inet_accept", ""), ("do_accept", "")]),
    rule(
        "frames.connect",
        Component::NetConnect,
        &[("inet_stream_connect", ""), ("__inet_stream_connect", ""), ("inet_wait_for_connect", "")],
    ),
    rule(
        "frames.send",
        Component::NetSend,
        &[
            ("sk_stream_wait_memory", ""),
            ("sk_stream_wait_connect", ""),
            ("sock_wait_for_wmem", ""),
            ("tcp_sendmsg*", ""),
            ("udp_sendmsg", ""),
            ("udpv6_sendmsg", ""),
            ("raw_sendmsg", ""),
            ("vsock_connectible_sendmsg", ""),
            ("tls_sw_sendmsg*", ""),
        ],
    ),
    rule(
        "frames.receive",
        Component::NetRecv,
        &[
            ("sk_wait_data", ""),
            ("tcp_recvmsg*", ""),
            ("__skb_recv_udp", ""),
            ("udp_recvmsg", ""),
            ("udpv6_recvmsg", ""),
            ("raw_recvmsg", ""),
            ("vsock_*", ""),
            ("tls_sw_recvmsg", ""),
            ("tls_rx_rec_wait", ""),
        ],
    ),
    rule(
        "frames.child",
        Component::WaitChild,
        &[
            ("do_wait", ""),
            ("kernel_wait4", ""),
            ("kernel_waitid", ""),
            ("wait_for_vfork_done", ""),
            ("kernel_clone", "5.10.."),
            ("_do_fork", "..5.9"),
        ],
    ),
    rule(
        "frames.file_lock",
        Component::LockFile,
        &[
            ("locks_lock_inode_wait", ""),
            ("flock_lock_inode_wait", ""),
            ("posix_lock_inode_wait", ""),
            ("fcntl_setlk", ""),
            ("fcntl_setlk64", ""),
            ("do_lock_file_wait", ""),
        ],
    ),
    rule(
        "frames.journal",
        Component::IoBlockSync,
        &[
            ("jbd2_log_wait_commit", ""),
            ("wait_transaction_locked", ""),
            ("do_get_write_access", ""),
            ("xfs_log_force*", ""),
            ("xlog_wait*", ""),
            ("xlog_grant_head_wait", ""),
            ("btrfs_commit_transaction", ""),
            ("wait_current_trans", ""),
            ("file_write_and_wait_range", ""),
            ("fsync_buffers_list", ""),
            ("blkdev_issue_flush", ""),
        ],
    ),
    rule(
        "frames.signal",
        Component::WaitSignal,
        &[("do_sigtimedwait", ""), ("sigsuspend", ""), ("__do_sys_pause", ""), ("__x64_sys_pause", "")],
    ),
    rule("frames.stopped", Component::Stopped, &[("do_signal_stop", ""), ("ptrace_stop", ""), ("do_jobctl_trap", "")]),
    rule(
        "frames.terminal",
        Component::WaitTty,
        &[("n_tty_read", ""), ("n_tty_write", ""), ("tty_wait_until_sent", "")],
    ),
    rule(
        "frames.event",
        Component::IpcEvent,
        &[
            ("eventfd_read", ""),
            ("eventfd_write", ""),
            ("inotify_read", ""),
            ("fanotify_read", ""),
            ("signalfd_read*", ""),
            ("signalfd_dequeue", ""),
            ("devkmsg_read", ""),
        ],
    ),
    rule(
        "frames.sysv",
        Component::IpcSysv,
        &[("do_msgrcv", ""), ("do_msgsnd", ""), ("do_semtimedop", ""), ("__do_semtimedop", "5.15.."), ("wq_sleep", "")],
    ),
    rule(
        "frames.device",
        Component::WaitDevice,
        &[
            ("kvm_vcpu_block", ""),
            ("kvm_vcpu_halt", "5.17.."),
            ("dma_fence_*", ""),
            ("dma_resv_wait_timeout*", ""),
            ("drm_*", ""),
        ],
    ),
    // Known, and none of the components: so that they do not count as unknown stacks.
    rule(
        "frames.exec_exit",
        Component::OtherOff,
        &[("coredump_wait", ""), ("do_coredump", ""), ("vfs_coredump", "6.16.."), ("de_thread", ""), ("do_exit", "")],
    ),
    rule(
        "frames.kernel_sync",
        Component::OtherOff,
        &[
            ("synchronize_rcu*", ""),
            ("__wait_rcu_gp", ""),
            ("wait_rcu_exp_gp", ""),
            ("synchronize_srcu*", ""),
            ("flush_work", ""),
            ("__flush_work", ""),
            ("cgroup_*", ""),
        ],
    ),
];
