/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The path of a file, part by part, as it is named in the tree of mounts that its opener sees. */
#pragma once
#include "fileops.h"
#include "parts.h"

/* Of what a directory entry names, seen in a mount. Out of line: it is the bulk, and called from many programs. */
static __noinline int read_path(struct dentry___op *dentry, struct vfsmount___op *seen, struct parts *parts)
{
	struct mount___op *mount = (void *)seen - bpf_core_field_offset(struct mount___op, mnt);
	struct dentry___op *root = BPF_CORE_READ(seen, mnt_root);
	u32 at;

	clear_parts(parts, 0);
#pragma unroll
	for (at = 0; at < PARTS; at++) {
		if (dentry == root) {
			struct mount___op *above = BPF_CORE_READ(mount, mnt_parent);
			if (above == mount) {
				parts->is_whole = 1;
				return 0;
			}
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mount = above;
			root = BPF_CORE_READ(mount, mnt.mnt_root);
			continue;
		}
		struct dentry___op *parent = BPF_CORE_READ(dentry, d_parent);
		/* It hangs below no mount. */
		if (parent == dentry)
			return 0;
		bpf_probe_read_kernel_str(parts->names[at], PART, BPF_CORE_READ(dentry, d_name.name));
		dentry = parent;
	}
	return 0;
}
