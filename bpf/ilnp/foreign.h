/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Packets between session addresses that neither a socket of this host has sent nor its
 * programs have translated. Session addresses belong to the sockets of this host: such a
 * packet is dropped, counted and noted.
 */
#ifndef ROAM_ILNP_FOREIGN_H
#define ROAM_ILNP_FOREIGN_H

#include "drop.h"

/* Drops a packet for this reason, and notes one a second. ends are its source and
 * destination.
 */
static __always_inline int refuse_foreign(enum counter reason, const struct addr ends[2], __u32 ifindex, __u8 proto)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 which = reason;
	struct refusal *r;

	r = bpf_map_lookup_elem(&refusals, &which);
	if (!r || now - r->at < REFUSAL_EACH)
		return drop(reason);
	__builtin_memset(r, 0, sizeof(*r));
	r->at = now;
	r->remote = ends[0];
	r->local = ends[1];
	r->ifindex = ifindex;
	r->proto = proto;
	return drop(reason);
}

#endif
