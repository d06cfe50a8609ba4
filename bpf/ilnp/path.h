/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Chooses the path of a packet of a session. */
#ifndef ROAM_ILNP_PATH_H
#define ROAM_ILNP_PATH_H

#include "session.h"
#include "silentdrop.h"
#include "amplification.h"

/* The cost of a byte on a path, in halves: 2, 3, 4, 6, 8, 12 ... A path of cost 2k gets
 * the 2^-k-th part of the bytes that others get.
 */
static __always_inline __u32 path_cost(const struct session_entry *p, __u32 i)
{
	__u32 k = p->costs >> (4 * i) & 15;

	return (2 + (k & 1)) << (k >> 1);
}

#define NO_PATH 16 /* shift of the paths in skip of choose_path */

/* Index of the path that has carried the fewest bytes among the usable ones, or -1. Those
 * whose remote locator is in the low bits of skip are left out, and path i for bit NO_PATH + i.
 * Only the first end paths count. Scores begin anew with every new entry; a
 * single path has none. They wrap, so they are compared by difference. The index goes with the score and no branch depends on it, or
 * the verifier would look at all that follows once for each index.
 */
__noinline int choose_path(const struct session_entry *p, const struct path_turns *t, __u32 skip, __u32 end)
{
	__u64 best = -1ULL;
	__u32 i;

	if (!p || !t)
		return -1;
	for (i = 0; i < MAX_PATHS; i++) {
		struct uplink *u;
		__u64 score;
		__u32 index;

		if (i >= end)
			break;
		index = path_uplink(p, i);
		u = bpf_map_lookup_elem(&uplinks, &index);
		if (!u || !(u->flags & UPLINK_USABLE) || (skip >> path_remote(p, i) | skip >> (NO_PATH + i)) & 1)
			continue;
		score = (__u64)(t->bytes[i] - t->bytes[0] + (1U << 31)) << 32 | i;
		if (score < best)
			best = score;
	}
	i = best & (2 * MAX_PATHS - 1);
	return i | -(i / MAX_PATHS);
}

/* Counts a packet along a path of several. */
static __always_inline void take_path(const struct session_entry *p, struct path_turns *t, __u32 i, __u32 len)
{
	__sync_fetch_and_add(&t->bytes[i & (MAX_PATHS - 1)], len * path_cost(p, i) / 2);
}

/* Has the program retransmitted a first segment without its nonce, and the daemon not yet
 * made the session plain? Then the session counts as plain, and keeps to the path of that
 * segment: from another locator, later segments would belong to no connection.
 */
static __always_inline int is_plain_soon(const struct session_entry *p, const struct session_details *d)
{
	return p->flags & ENTRY_INITIATED && d->retried;
}

/* Has a packet of this session a choice of paths? */
static __always_inline int has_choice(const struct session_entry *p, const struct session_details *d)
{
	return p->n_paths > 1 && !is_plain_soon(p, d);
}

/* The path of a packet where nothing is skipped; a single one needs no choice. */
static __always_inline int default_path(const struct session_entry *p, struct session_details *d)
{
	__u32 index = path_uplink(p, 0);
	struct uplink *u;

	if (!p->n_paths)
		return -1;
	if (has_choice(p, d))
		return choose_path(p, &d->turns, 0, p->n_paths);
	u = bpf_map_lookup_elem(&uplinks, &index);
	return u && u->flags & UPLINK_USABLE ? 0 : -1;
}

#define HINTED MAX_PATHS /* of try_path: to the hint in place of the locator of the path */

/* Keeps packets within the allowance of an unvalidated locator: that of path i, or the
 * hint. A packet beyond it takes a path to a validated locator. Returns the path, or -1
 * if there is none.
 */
__noinline int try_path(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d, __u32 i, int hinted)
{
	union half target;
	int validated, given;

	if (!p || !d)
		return -1;
	target = hinted ? d->hint : p->remote[path_remote(p, i)];
	validated = choose_path(p, &d->turns, p->unvalidated, p->n_paths + p->n_reserve);
	given = !hinted && p->given >> path_remote(p, i) & 1;
	if (allowance_permits(p, d, target, skb->len - ETH_LEN, validated < 0, given))
		return i | (hinted ? HINTED : 0);
	return validated;
}

#endif
