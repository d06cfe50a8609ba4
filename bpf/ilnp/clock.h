/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The coarse clock: CLOCK_MONOTONIC at the last tick, in ns. The kernel's own helper for
 * that is a call; the counter of ticks is a load. While the kernel derives ticks from
 * CLOCK_MONOTONIC, as it does unless high-resolution timers are off, the two differ by a
 * constant, also after the machine slept. The daemon measures it.
 */
#ifndef ROAM_ILNP_CLOCK_H
#define ROAM_ILNP_CLOCK_H

#include "../lib/likely.h"
#include "maps.h"

/* The value of an array of one entry, as the loader has it, which is why there is no test for
 * null: internal/dataplane/shorten.go.
 */
static __always_inline void *only_value(void *map)
{
	__u32 zero = 0;
	void *value = bpf_map_lookup_elem(map, &zero);

	if (!value)
		__builtin_unreachable();
	return value;
}

/* Length of a tick in ns. 0: the programs do not count ticks. */
const volatile __u64 tick_ns = 0;

static __always_inline __u64 coarse_ns_inline(void)
{
	const struct host *h = only_value(&hosts);
	__u64 length = tick_ns, began = h->tick_zero;

	if (!length || unlikely(!began))
		return bpf_ktime_get_coarse_ns();
	return began + bpf_jiffies64() * length;
}

/* The same, where a call does not matter: the verifier looks at it once. */
__noinline __u64 coarse_ns(void)
{
	return coarse_ns_inline();
}

#endif
