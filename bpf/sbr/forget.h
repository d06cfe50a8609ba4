/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Removes flows from their table, for the daemon. */
#ifndef ROAM_SBR_FORGET_H
#define ROAM_SBR_FORGET_H

#include "table.h"

/* Removes a flow; NOT_CHANGED: there is none. SET_LOCKED: it, or the kernel's table, is in use. */
static __always_inline enum change remove_flow(const struct flow_key *k)
{
	__u32 n = set_of(k), zero = 0;
	struct flow_set *s = bpf_map_lookup_elem(&flow_sets, &n);
	struct nonce_set *rest = bpf_map_lookup_elem(&nonce_sets, &n);
	__u32 *known = bpf_map_lookup_elem(&flow_counts, &zero);
	enum change done = CHANGED;
	__u64 found;
	int err; /* as in add_flow */

	if (!s || !rest || !known)
		return NOT_CHANGED;
	if (lock_set(rest))
		return SET_LOCKED;
	found = place_in(s, k);
	if (found) {
		__sync_lock_test_and_set(&s->flow[(found - 1) & (SET_FLOWS - 1)].key.inside.v, 0);
	} else {
		err = bpf_map_delete_elem(&flows, k);
		if (err)
			done = err == -ENOENT ? NOT_CHANGED : SET_LOCKED;
	}
	if (done == CHANGED)
		__sync_fetch_and_add(known, -1);
	unlock_set(rest);
	return done;
}

#endif
