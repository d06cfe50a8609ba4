/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Packets that do not cross the border: dropped, counted, and the latest one of each reason kept. */
#ifndef ROAM_SBR_REFUSAL_H
#define ROAM_SBR_REFUSAL_H

#include "rule.h"

/* Drops a packet, and keeps what it is like, for one packet a second, reason and processor. Its
 * headers behind that of IPv6 need not have been read.
 */
__noinline int refuse(struct __sk_buff *skb, const struct crossing *x, enum counter why)
{
	__u64 now = bpf_ktime_get_coarse_ns();
	__u32 reason = why, at;
	struct refusal *r;

	count(reason);
	r = bpf_map_lookup_elem(&refusals, &reason);
	if (!x || !r || now - r->at < REFUSAL_EACH)
		return SHOT;
	at = x->c.at ? x->c.at : x->l3 + IP6_LEN;
	__builtin_memset(r, 0, sizeof(*r));
	r->at = now;
	r->remote = x->ip.src;
	r->local = x->ip.dst;
	r->ifindex = skb->ifindex;
	r->proto = x->c.at ? x->c.proto : x->ip.next;
	if (x->c.fragment == LATER_FRAGMENT)
		return SHOT;
	if (r->proto == IPPROTO_ICMPV6)
		bpf_skb_load_bytes(skb, at, &r->type, sizeof(r->type));
	else if (r->proto == IPPROTO_TCP || r->proto == IPPROTO_UDP)
		bpf_skb_load_bytes(skb, at, r->ports, sizeof(r->ports));
	return SHOT;
}

#endif
