/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The coarse clock: CLOCK_MONOTONIC at the last tick, in ns. The kernel's own helper for
 * that is a call; the counter of ticks is a load. While the kernel derives ticks from
 * CLOCK_MONOTONIC, as it does unless high-resolution timers are off, the two differ by a
 * constant, also after the machine slept. The daemon measures it.
 */
#ifndef ROAM_CLOCK_H
#define ROAM_CLOCK_H

#include "addr.h"

/* Length of a tick in ns. 0: the programs do not count ticks. */
const volatile __u64 tick_ns = 0;

struct {
	/* What was the time, in ns, when the counter of ticks was 0? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64); /* modulo 2^64; 0: unknown */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} tick_zero SEC(".maps");

static __always_inline __u64 coarse_ns_inline(void)
{
	__u32 zero = 0;
	const __u64 *since = bpf_map_lookup_elem(&tick_zero, &zero);
	__u64 length = tick_ns, began = since ? *since : 0;

	if (!length || !began)
		return bpf_ktime_get_coarse_ns();
	return began + bpf_jiffies64() * length;
}

/* The same, where a call does not matter: the verifier looks at it once. */
__noinline __u64 coarse_ns(void)
{
	return coarse_ns_inline();
}

#endif
