/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* TCP connections that started as plain IPv6, between the addresses of a session that has
 * ILNP by now. The peer's socket is bound to addresses on the wire, where a segment with
 * a nonce or from another locator belongs to no connection. So these connections stay
 * plain IPv6, between the same locators, until they close.
 */
#ifndef ROAM_ILNP_PLAINFLOW_H
#define ROAM_ILNP_PLAINFLOW_H

#include "outbound.h"

#define FLOW_ILNP -6 /* of send_plain_flow: the segment goes as any other one of the session */

/* The usable uplink with a locator of ours, or null. */
static __always_inline struct uplink *uplink_of(union half l64)
{
	for (__u32 i = 0; i < MAX_UPLINKS; i++) {
		__u32 index = i;
		struct uplink *u = bpf_map_lookup_elem(&uplinks, &index);

		if (u && u->l64.v == l64.v && u->flags & UPLINK_USABLE)
			return u;
	}
	return 0;
}

/* The locators of a connection that started as plain IPv6, or null. A first segment
 * begins another connection with the same ports. The key stands on the stack: Linux 6.1.
 */
static __always_inline struct flow_ends *plain_flow(struct __sk_buff *skb, const struct session_entry *p, __u32 at)
{
	struct flow_key key = {};
	struct flow_ends *ends;
	__u8 flags = 0;

	if (bpf_skb_load_bytes(skb, at, key.ports, 4) || bpf_skb_load_bytes(skb, at + TCP_FLAGS_AT, &flags, 1))
		return 0;
	key.alias = p->alias;
	ends = bpf_map_lookup_elem(&plain_flows, &key);
	if (!ends || (flags & (TCP_SYN | TCP_ACK)) != TCP_SYN)
		return ends;
	bpf_map_delete_elem(&plain_flows, &key);
	return 0;
}

/* Sends a segment of such a connection. Returns FLOW_ILNP for a segment of another one.
 */
__noinline int send_plain_flow(struct __sk_buff *skb, const struct session_entry *p, const struct chain *c)
{
	struct outbound o = {};
	struct flow_ends *ends;
	struct session_live *l;
	struct uplink *u;

	if (!p || !c)
		return drop(DROP_KERNEL_HELPER);
	ends = plain_flow(skb, p, c->at);
	if (!ends)
		return FLOW_ILNP;
	l = details_of(p) ? live_of(p) : 0; /* what is counted is its own */
	u = uplink_of(ends->local_l64);
	if (!l || !u)
		return drop_without_path(skb);
	source_from_uplink(&o, u);
	o.ends[0].nid = p->local_nid;
	o.ends[1].nid = p->remote_nid;
	o.ends[1].l64 = ends->remote_l64;
	o.csum_diff = sum_fold(delta_of(skb, p) + sum_half(u->l64) + sum_half(ends->remote_l64));
	if (csum_adjust(skb, c->at, IPPROTO_TCP, o.csum_diff) || write_addresses(skb, ETH_LEN, o.ends))
		return drop(DROP_KERNEL_HELPER);
	/* Silence on it does not concern the session, whose packets take other paths. */
	note_tx(l, p->slot, moment(coarse_ns()), skb->len - ETH_LEN);
	count(TX_PLAIN);
	return leave(skb, &o);
}

/* May a packet belong to such a connection? */
static __always_inline int has_plain_flows(const struct session_entry *p, const struct chain *c)
{
	return p->flags & ENTRY_PLAIN_FLOWS && c->proto == IPPROTO_TCP && c->fragment == WHOLE;
}

#endif
