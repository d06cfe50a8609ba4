/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The compact path in: see settled.h. */
#ifndef ROAM_ILNP_SETTLEDIN_H
#define ROAM_ILNP_SETTLEDIN_H

#include "realmarks.h"
#include "settled.h"

/* Is this an NID of ours besides the first? */
__noinline int is_another_nid(__u64 v)
{
	struct host *h = this_host();
	union half nid = { .v = v };

	return h && is_ours(h, nid);
}

/* May the session receive a packet from this locator, which is not that of its first path? */
__noinline int is_known_from(__u32 place, __u64 word, __u64 l64)
{
	const struct session_entry *p = settled_entry(place, word);
	union half from = { .v = l64 };
	int known = p ? locator_known(p, from) : 0;

	return known && known <= p->n_remote && !(p->unvalidated >> (known - 1) & 1);
}

/* May the session receive a packet from this locator without a nonce, and without a
 * report?
 */
static __always_inline int is_settled_in(const struct session_live *l, __u64 word, __u32 place, union half from,
					 __u8 proto, __u32 now)
{
	__u32 flags = settled_flags(word), since = l->unanswered_tx;

	if (!(flags & SETTLED_IN) ||
	    !has_state(l, word, STATE_BARE | STATE_RULE, proto == IPPROTO_TCP ? STATE_RETURNED : 0) ||
	    (since && now - since > tick(OUTAGE)))
		return 0;
	if (unlikely(l->remote.v != from.v))
		return is_known_from(place, word, from.v);
	return flags & SETTLED_IN_FIRST && is_still(l, word);
}

/* Rewrites a packet to the aliases of its session, which are its NIDs. */
static __always_inline int deliver_settled(struct __sk_buff *skb, struct ip6 *ip, __u8 proto, __u32 l3,
					   __u32 delta, __u64 prefix)
{
	__u32 whole = add_halves(ip->src.l64.v, ip->dst.l64.v, delta);
	enum checksum_state state = checksum_state(skb);

	ip->src.l64.v = prefix;
	ip->dst.l64.v = prefix;
	if (likely(state != CHECKSUM_UNKNOWN)) {
		csum_adjust_at(checksum_of(ip, proto), proto, sum_neg(whole), state);
	} else {
		if (csum_adjust(skb, l3 + IP6_LEN, proto, sum_neg(whole)))
			return drop(DROP_KERNEL_HELPER);
		keep_device_sum(skb, whole, whole);
	}
	count(RX_PACKETS);
	return PASS_ON;
}

/* Is this a whole packet of TCP or UDP, as long as its IPv6 header says, with its own header in
 * the linear part? No first segment, no encapsulated message, and no datagram without checksum, as
 * nothing in that takes back the change of the addresses.
 */
static __always_inline int is_plain_upper(const struct __sk_buff *skb, const struct ip6 *ip, __u8 proto, __u32 body)
{
	const __be16 *ports = (const void *)(ip + 1);
	__u32 least = 20, length;

	if (unlikely(!is_straight(skb, (const void *)ports, proto)))
		return 0;
	if (proto == IPPROTO_UDP) {
		if (unlikely(!ports[UDP_CSUM_AT / 2] || (encap_port && ports[1] == encap_port)))
			return 0;
		least = 8;
	}
	length = bpf_ntohs(*(const __be16 *)ip->payload_len);
	return length >= least && body + length <= skb->len;
}

/* Receives a packet whose IPv6 header is at l3. */
static __always_inline int receive_straight(struct __sk_buff *skb, __u32 l3)
{
	struct ip6 *ip = (void *)(long)skb->data + l3;
	struct host *h = only_value(&hosts);
	struct session_live *l;
	struct session_key key;
	int left = PASS_ON;
	union half from, to;
	__u32 flags, now;
	__u64 found, word = 0;
	__u8 proto;

	keep(left);
	if (unlikely(skb->protocol != bpf_htons(ETH_P_IPV6) || for_another_device(skb)))
		return left;
	left = UNSETTLED;
	keep(left);
	if (unlikely((void *)(ip + 1) > (void *)(long)skb->data_end || h->flags & HOST_NID_COLLISIONS ||
		     ip->dst.l64.v == h->session_prefix.v || ip->src.l64.v == h->session_prefix.v))
		return left;
	proto = ip->next;
	key.local.v = ip->dst.nid.v;
	if (unlikely(h->nids[0].v != key.local.v && !is_another_nid(key.local.v)))
		return proto < 32 && STRAIGHT_PROTOS >> proto & 1 ? PASS_ON : left;
	to.v = ip->dst.l64.v;
	if (unlikely(!is_plain_upper(skb, ip, proto, l3 + IP6_LEN) || !locator_on_wire(to)))
		return left;
	key.remote.v = ip->src.nid.v;
	l = search_line(h, &key, &found, &word);
	if (unlikely(!l))
		return left;
	flags = settled_flags(word);
	/* One that is preinstalled may have to wait: see place_of. */
	if (unlikely((flags & (SETTLED_WRITTEN | SETTLED_PREINSTALLED)) != SETTLED_WRITTEN))
		return left;
	left = UNSETTLED + 1 + index_place(found);
	if (unlikely(flags & SETTLED_REAL_SOCKETS) && may_be_real(key.remote, ((const __be16 *)(ip + 1))[1]))
		return left;
	now = moment(coarse_ns_inline());
	from.v = ip->src.l64.v;
	if (unlikely(!is_settled_in(l, word, index_place(found), from, proto, now)))
		return left;
	note_rx(l, found & INDEX_SLOT, now, skb->len - l3);
	if (unlikely(flags & SETTLED_COUNTED)) {
		count_path(skb, l3, l3 + IP6_LEN, proto, 0);
		if (proto == IPPROTO_TCP)
			note_data_path(skb, settled_entry(index_place(found), word), l3, l3 + IP6_LEN);
	}
	if (unlikely(flags & SETTLED_ANSWERS))
		note_flow(skb, l3, l3 + IP6_LEN, proto);
	return deliver_settled(skb, ip, proto, l3, settled_delta(word), h->session_prefix.v);
}

/* Global, as send_settled: for links with a MAC header, and without one. */
__noinline int receive_settled(struct __sk_buff *skb)
{
	return receive_straight(skb, ETH_LEN);
}

__noinline int receive_settled_raw(struct __sk_buff *skb)
{
	return receive_straight(skb, 0);
}

#endif
