/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Counters of an object. Each object has an enum of its own and a map `counters`, a
 * per-CPU array of that many numbers, and wraps count_in() for that map.
 */
#ifndef ROAM_COUNTER_H
#define ROAM_COUNTER_H

#include "addr.h"

/* Adds one to a counter. map is a per-CPU array of __u64. */
static __always_inline void count_in(void *map, __u32 which)
{
	__u64 *n = bpf_map_lookup_elem(map, &which);

	if (n)
		*n += 1;
}

#endif
