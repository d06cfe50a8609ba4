/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sessions that stand ready for their first packet. */
#ifndef ROAM_ILNP_PREINSTALLED_H
#define ROAM_ILNP_PREINSTALLED_H

#include "session.h"

/* Is this session expected, and has no packet of ours used it yet? Then it is not
 * there for whoever comes from outside: a correspondent that contacts us first is a
 * pending peer that has to be validated.
 */
__noinline int is_unused(const struct session_entry *p)
{
	struct session_live *l;
	__u32 slot;

	if (!p)
		return 1;
	slot = p->slot;
	l = bpf_map_lookup_elem(&session_lives, &slot);
	return !l || l->birth != p->birth || !l->last_tx;
}

static __always_inline int is_waiting(const struct session_entry *p)
{
	return p->flags & ENTRY_PREINSTALLED && is_unused(p);
}

#define FIRST_TOLD 16 /* packets; as many as the daemon keeps */

/* A packet of ours leaves by a preinstalled entry: the daemon hears of it behind it,
 * and gets it in case the correspondent refuses the nonce and it is to leave again.
 * Where none went in, nothing is urgent: it sees what was counted.
 */
__noinline int tell_first(struct __sk_buff *skb, const struct session_entry *p)
{
	struct event about = {};

	if (!p)
		return 0;
	about.key = p->alias;
	if (skb->len - ETH_LEN >= EVENT_DATA_LARGE)
		tell(&requests, skb, EV_FIRST, &about);
	else
		tell_packet(skb, ETH_LEN, EV_FIRST, &about, RING_REQUESTS);
	return 0;
}

#endif
