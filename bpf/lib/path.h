/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which way a packet of a session goes, and what becomes of it if there is
 * none.
 */
#ifndef ROAM_PATH_H
#define ROAM_PATH_H

#include "session.h"
#include "trial.h"

/* No usable path. TCP with data in flight is told, and then tries again every
 * 500 ms; an idle connection that was told would die of it, and anything else
 * has timers of its own.
 */
static __always_inline int no_path(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tp;

	if (sk) {
		sk = bpf_sk_fullsock(sk);
		tp = sk ? bpf_tcp_sock(sk) : 0;
		if (tp && tp->packets_out) {
			count(DROP_NO_PATH_RETRY);
			return SHOT;
		}
	}
	count(DROP_NO_PATH_HELD);
	return CONSUMED;
}

/* Index of the path that has carried the fewest bytes among the usable ones
 * whose remote locator is not in skip, or -1; those in reserve count only where
 * something is skipped. Scores start anew with every new entry; of a single path
 * none are kept.
 */
__noinline int choose_path(const struct pair *p, struct pair_live *l, __u32 skip)
{
	__u32 least = 0, end;
	int best = -1;

	if (!p || !l)
		return -1;
	if (p->n_paths > 1 && l->path_seq != p->seq) {
		__builtin_memset(l->path_bytes, 0, sizeof(l->path_bytes));
		l->path_seq = p->seq;
	}
	end = p->n_paths + (skip ? p->n_reserve : 0);
	for (int i = 0; i < MAX_PATHS; i++) {
		struct uplink *u;
		__u32 index, bytes;

		if (i >= end)
			break;
		index = path_uplink(p, i);
		u = bpf_map_lookup_elem(&uplinks, &index);
		if (!u || !(u->flags & UPLINK_USABLE) || skip >> path_remote(p, i) & 1)
			continue;
		bytes = p->n_paths > 1 ? l->path_bytes[i] : 0;
		if (best < 0 || (__s32)(bytes - least) < 0) {
			best = i;
			least = bytes;
		}
	}
	return best;
}

/* The path that a packet takes unless something is skipped; a single one needs no
 * choice.
 */
static __always_inline int default_path(const struct pair *p, struct pair_live *l)
{
	__u32 index = path_uplink(p, 0);
	struct uplink *u;

	if (p->n_paths != 1)
		return choose_path(p, l, 0);
	u = bpf_map_lookup_elem(&uplinks, &index);
	return u && u->flags & UPLINK_USABLE ? 0 : -1;
}

/* Keeps a packet within the allowance of an unproven locator: path i, or the
 * hint. What exceeds it takes a path to a proven locator. Returns the path, or
 * -1 if there is none.
 */
static __always_inline int try_path(struct __sk_buff *skb, const struct pair *p, struct pair_live *l, int i,
				    int *hinted)
{
	union half target = *hinted ? l->hint : p->remote[path_remote(p, i)];
	int proven = choose_path(p, l, p->unproven);

	if (trial_allows(p, l, target, skb->len - ETH_LEN, proven < 0))
		return i;
	*hinted = 0;
	return proven;
}

#endif
