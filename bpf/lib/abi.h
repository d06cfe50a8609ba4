/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The ABI number of the objects that share pinned maps. A folder defines `enum abi_number { ABI = n }`
 * in its types.h, includes this in the object that has most of its maps, and raises the
 * number with every change of a struct in a pinned map. The loader replaces pinned maps
 * of another number, and those of no other folder.
 */
#ifndef ROAM_ABI_H
#define ROAM_ABI_H

#include "addr.h"

struct {
	/* Which layout have the maps that are pinned beside this one? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, enum abi_number);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} abi SEC(".maps");

#endif
