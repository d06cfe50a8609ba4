/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Policies of this host, of IPsec or of routing, which the programs would bypass: packets
 * that they redirect do not pass the stack.
 */
#ifndef ROAM_ILNP_POLICY_H
#define ROAM_ILNP_POLICY_H

#include "session.h"

/* Would a policy divert packets from this locator of ours to that node? The daemon checks
 * the paths of sessions before it writes them, so only packets that go back to where a
 * packet came from are checked here.
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

/* May packets follow a correspondent to the locator where it was seen, before the daemon
 * has checked that path? Not where any path is obstructed.
 */
static __always_inline int may_follow(void)
{
	struct host *h = this_host();

	return h && !(h->flags & HOST_OBSTRUCTED);
}

#endif
