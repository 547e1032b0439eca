//! Functions that can themselves wait for nothing but a lock.
//!
//! The kernel leaves the functions of its locks out of the stacks that it gives (they are `__sched`), so that a stack begins with
//! the function that wanted the lock. That proves it only where whatever else the function waits for is in a function of its own.

use super::{Name, bare};

/// The callers, as the innermost function of a stack.
const LOCK_CALLERS: &[Name] = &[
    // mmap_lock.
    ("vm_mmap_pgoff", ""),
    ("__vm_munmap", ""),
    ("__do_sys_brk", ""),
    ("__x64_sys_brk", ""),
    ("__arm64_sys_brk", ""),
    ("do_mprotect_pkey", ""),
    ("__do_sys_mremap", ""),
    ("__x64_sys_mremap", ""),
    ("__arm64_sys_mremap", ""),
    ("madvise_lock", "6.15.."),
    ("__mm_populate", ""),
    ("do_user_addr_fault", ""),
    ("lock_mm_and_find_vma", "6.5.."),
    ("dup_mmap", ""),
    ("exit_mmap", ""),
    ("__access_remote_vm", ""),
    // The lock of an inode, held by who writes to the file or changes the directory.
    ("ext4_buffered_write_iter", "5.6.."),
    ("ext4_file_read_iter", ""),
    ("ext4_file_write_iter", ""),
    ("ext4_dio_write_iter", "5.5.."),
    ("generic_file_write_iter", ""),
    ("shmem_file_write_iter", "6.6.."),
    ("xfs_ilock", ""),
    ("btrfs_inode_lock", ""),
    ("path_openat", ""),
    ("open_last_lookups", ""),
    ("filename_create", ""),
    ("do_unlinkat", ""),
    ("do_rmdir", ""),
    ("lookup_slow", ""),
    ("iterate_dir", ""),
    ("lock_rename", ""),
    // Others that any task meets.
    ("rtnl_lock", ""),
    ("rtnl_lock_killable", ""),
    ("cgroup_kn_lock_live", ""),
    ("cgroup_attach_lock", "6.1.."),
];

/// Whether a stack can only be that of a wait for a lock.
#[must_use]
pub fn is_lock_caller(frames: &[&str]) -> bool {
    let innermost = frames.first().map(|frame| bare(frame)).unwrap_or_default();
    LOCK_CALLERS.iter().any(|(name, _)| *name == innermost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_proves_a_lock_only_where_the_stack_begins_with_it() {
        assert!(is_lock_caller(&["vm_mmap_pgoff", "do_syscall_64"]));
        assert!(is_lock_caller(&["ext4_buffered_write_iter.isra.0+0x1/0x2", "vfs_write"]));
        assert!(!is_lock_caller(&["folio_wait_bit_common", "ext4_buffered_write_iter"]));
        assert!(!is_lock_caller(&[]) && !is_lock_caller(&["do_syscall_64", "vm_mmap_pgoff"]));
    }

    #[test]
    fn no_caller_stands_twice_or_in_another_rule() {
        let mut seen = std::collections::BTreeSet::new();
        let rules = [super::super::CLEAR, super::super::BLOCK, super::super::FAULT].concat();
        for (name, _) in LOCK_CALLERS {
            assert!(seen.insert(name), "{name} stands twice");
            assert!(!rules.iter().any(|rule| super::super::fits(rule, name)), "{name} stands in another rule too");
        }
    }
}
