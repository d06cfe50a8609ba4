/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The order of loads. BPF has no load that later ones wait for. */
#ifndef ROAM_ORDER_H
#define ROAM_ORDER_H

#include "addr.h"

/* Does this processor keep the order of loads, as x86-64 does? The loader sets it. */
const volatile __u8 loads_in_order = 0;

/* The line, to be read after that value was: address dependencies order loads on all
 * processors, and BPF has no cheaper order of loads. Where loads keep their order anyway,
 * they need not wait.
 */
static __always_inline void *after(const void *line, __u64 value)
{
	if (loads_in_order) {
		asm volatile("" : : : "memory");
		return (void *)line;
	}
	asm volatile("%0 &= 0" : "+r"(value));
	return (void *)line + value;
}

#endif
