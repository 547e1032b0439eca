//! Functions that say what a wait is for, whatever the call was.

use super::{Rule, rule};
use rdiag_model::Component;

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
    // Before the locks, some of which wait until no task holds them any more.
    rule(
        "frames.rcu",
        Component::KernelSync,
        &[
            ("synchronize_rcu*", ""),
            ("synchronize_net", ""),
            ("__wait_rcu_gp", ""),
            ("wait_rcu_exp_gp", ""),
            ("synchronize_srcu*", ""),
            ("__synchronize_srcu", ""),
            ("rcu_sync_enter", ""),
            ("rcu_barrier*", ""),
        ],
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
