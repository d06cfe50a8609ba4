/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Preinstalled entries: sessions that are installed before their first packet. */
#ifndef ROAM_ILNP_PREINSTALLED_H
#define ROAM_ILNP_PREINSTALLED_H

#include "session.h"

/* Has no packet of ours used this preinstalled entry yet? Then packets from outside do
 * not see it: a correspondent that contacts us first is a pending peer that has to be
 * validated.
 */
__noinline int is_unused(const struct session_entry *p)
{
	struct session_details *d;
	struct session_live *l;
	__u32 slot;

	if (!p)
		return 1;
	slot = p->slot;
	d = bpf_map_lookup_elem(&session_details, &slot);
	l = live_of(p);
	return !d || !l || d->birth != p->birth || !l->last_tx;
}

static __always_inline int is_waiting(const struct session_entry *p)
{
	return p->flags & ENTRY_PREINSTALLED && is_unused(p);
}

/* How many packets of ours has a session sent? */
static __always_inline __u64 packets_sent(const struct session_entry *p, const struct session_details *d)
{
	const struct session_live *l = live_of(p);

	return d->tx_packets + (l ? tally_packets(l->tx) : 0);
}

#define FIRST_TOLD 16 /* packets that are reported; as many as the daemon keeps */

/* Reports a packet of ours that leaves by a preinstalled entry. The daemon gets a copy,
 * to send it again if the correspondent refuses the nonce. The report is not urgent where
 * no packet could be handed over: the daemon reads the counters.
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
