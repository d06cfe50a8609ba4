/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Policies of this host, of IPsec or of routing, which the programs would
 * bypass: the stack never sees where a packet goes.
 */
#ifndef ROAM_ILNP_POLICY_H
#define ROAM_ILNP_POLICY_H

#include "session.h"

/* Would a policy take packets from this locator of ours to that node elsewhere? The
 * paths of sessions are checked before they are written, so only what is sent to
 * where a packet came from asks here.
 */
__noinline int is_obstructed(const union half *from, const struct addr *to)
{
	struct obstruction_key key = {};
	struct host *h = this_host();
	__u8 *found;

	if (!h || !from || !to || !(h->flags & HOST_OBSTRUCTED))
		return 0;
	key.local_l64 = *from;
	key.remote = *to;
	found = bpf_map_lookup_elem(&obstructed, &key);
	if (found)
		return *found;
	__builtin_memset(&key.remote, 0, sizeof(key.remote));
	return !!bpf_map_lookup_elem(&obstructed, &key);
}

/* May a packet follow its correspondent to where that was seen, before the daemon
 * has checked the path? Not where any path is obstructed.
 */
static __always_inline int may_follow(void)
{
	struct host *h = this_host();

	return h && !(h->flags & HOST_OBSTRUCTED);
}

#endif
