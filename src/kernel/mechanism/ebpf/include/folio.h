/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Pages that the kernel keeps together as one. */
#pragma once
#include "rdiag.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct folio___flags {
	unsigned long flags;
};
/* Since 6.18. */
struct flags___struct {
	unsigned long f;
};
struct folio___flags_struct {
	struct flags___struct flags;
};
/* Since 6.14; before under the next name; none of both before 6.1, when few file systems had more than one page in a folio. */
struct folio___pages {
	unsigned int _nr_pages;
};
struct folio___old_pages {
	unsigned int _folio_nr_pages;
};
enum pageflags { PG_head };
#pragma clang attribute pop

/* How many pages belong together. */
static __always_inline u64 pages_of(void *folio)
{
	struct folio___flags *word = folio;
	struct folio___flags_struct *words = folio;
	struct folio___pages *now = folio;
	struct folio___old_pages *old = folio;
	u64 flags = 0;

	if (bpf_core_field_exists(words->flags.f))
		flags = BPF_CORE_READ(words, flags.f);
	else if (bpf_core_field_exists(word->flags))
		flags = BPF_CORE_READ(word, flags);
	if (!(flags & 1ULL << bpf_core_enum_value(enum pageflags, PG_head)))
		return 1;
	if (bpf_core_field_exists(now->_nr_pages))
		return BPF_CORE_READ(now, _nr_pages);
	if (bpf_core_field_exists(old->_folio_nr_pages))
		return BPF_CORE_READ(old, _folio_nr_pages);
	return 1;
}
