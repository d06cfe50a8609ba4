/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The compact path out: see settled.h. */
#ifndef ROAM_ILNP_SETTLEDOUT_H
#define ROAM_ILNP_SETTLEDOUT_H

#include "settled.h"

/* Has the session seen what makes its next packet a special one: a move of the
 * correspondent, or a silence?
 */
static __always_inline int is_quiet(const struct session_live *l, __u64 word, __u32 slot, __u32 now)
{
	__u32 since = l->unanswered_tx;

	return has_state(l, word, STATE_PAST_NONCES | STATE_RULE, STATE_HINT) &&
	       !unlikely(since && now - since >= tick(silence_after) && is_silent(l, slot, now));
}

/* Hands a packet that is translated to the kernel, or to another link. A function of its own, as
 * the direct route has brought most packets to the link by which they leave.
 */
__noinline int leave_by(struct __sk_buff *skb, __u32 index, __u32 way)
{
	struct uplink *u = bpf_map_lookup_elem(&uplinks, &index);

	return u ? send_to_hop(skb, u->ifindex, u, way) : drop(DROP_KERNEL_HELPER);
}

/* Sends a packet whose addresses are rewritten, but for its locator, by an uplink. */
static __always_inline int leave_settled(struct __sk_buff *skb, struct ip6 *ip, __u8 proto, __u32 diff,
					 const struct uplink *u, __u32 index, enum hop_way way, __u32 flags)
{
	enum checksum_state state = checksum_state(skb);

	ip->src.l64.v = u->l64.v;
	if (label_bit)
		ip->class_flow[0] |= LABEL_BIT;
	if (likely(way == HOP_KNOWN))
		write_macs_at((void *)ip - ETH_LEN, u);
	if (likely(state != CHECKSUM_UNKNOWN))
		csum_adjust_at(checksum_of(ip, proto), proto, diff, state);
	else if (csum_adjust(skb, ETH_LEN + IP6_LEN, proto, diff))
		return drop(DROP_KERNEL_HELPER);
	if (unlikely(flags & SETTLED_COUNTED))
		count_path(skb, ETH_LEN, ETH_LEN + IP6_LEN, proto, 1);
	count(TX_PACKETS);
	if (likely(way == HOP_KNOWN && is_at_uplink(skb, u->ifindex)))
		return PASS_ON;
	return leave_by(skb, index, way);
}

/* Where a datagram goes that takes several paths by turns. */
struct turn {
	union half to;
	__u64 uplink;
};

/* Takes the path whose turn it is, and counts the datagram there: the entry has the paths,
 * and the details what they have carried. Global, as few sessions have several.
 */
__noinline int take_turn(struct __sk_buff *skb, __u32 place, __u32 slot, __u64 word, struct turn *t)
{
	struct session_details *d = bpf_map_lookup_elem(&session_details, &slot);
	struct session_entry *p = settled_entry(place, word);
	int i = p && d ? choose_path(p, &d->turns, 0, p->n_paths) : -1;
	struct uplink *u;

	if (!t || !p || !d || i < 0)
		return 0;
	i &= MAX_PATHS - 1;
	slot = path_uplink(p, i);
	u = bpf_map_lookup_elem(&uplinks, &slot);
	if (!u || (p->flags & ENTRY_RFC6741 && u->flags & UPLINK_PHYSICAL))
		return 0;
	take_path(p, &d->turns, i, skb->len);
	t->to = p->remote[path_remote(p, i)];
	t->uplink = slot;
	return 1;
}

/* Does a packet want an answer? The verifier of Linux 6.1 wants its end looked at again. */
static __always_inline int wants_answer(const struct __sk_buff *skb, const struct session_live *l, const __u8 *upper,
					__u8 proto, __u32 now)
{
	return proto != IPPROTO_TCP || upper + 20 > (__u8 *)(long)skb->data_end ||
	       !is_acknowledgement(l, upper + TCP_OFFSET_AT, skb->len - ETH_LEN - IP6_LEN, now);
}

/* Egress of roam0. Global, so that its stack is its own. */
__noinline int send_settled(struct __sk_buff *skb)
{
	struct ip6 *ip = (void *)(long)skb->data + ETH_LEN;
	struct host *h = only_value(&hosts);
	union half local_nid, remote_nid;
	int left = UNSETTLED;
	struct session_live *l;
	struct session_key key;
	__u32 index, flags, diff;
	struct turn t = {};
	__u64 now, found, word = 0;
	struct uplink *u;
	__u8 proto;

	keep(left);
	if (unlikely(skb->protocol != bpf_htons(ETH_P_IPV6) || (skb->mark | 1) == COPY_MARK || skb->ingress_ifindex ||
		     (void *)(ip + 1) > (void *)(long)skb->data_end || ip->dst.l64.v != h->session_prefix.v ||
		     ip->src.l64.v != h->session_prefix.v))
		return left;
	proto = ip->next;
	if (unlikely(!is_straight(skb, (void *)(ip + 1), proto)))
		return left;
	key.local.v = ip->src.nid.v;
	key.remote.v = ip->dst.nid.v;
	l = search_line(h, &key, &found, &word);
	if (unlikely(!l))
		return left;
	left = UNSETTLED + 1 + index_place(found);
	flags = settled_flags(word);
	now = coarse_ns_inline();
	if (unlikely(!is_quiet(l, word, found & INDEX_SLOT, moment(now))))
		return left;
	t.to.v = l->remote.v;
	t.uplink = (__u8)(word >> SETTLED_FIRST) >> 4;
	local_nid.v = l->local_nid.v;
	remote_nid.v = l->remote_nid.v;
	if (unlikely(!is_still(l, word) ||
		     !(flags & (proto == IPPROTO_UDP ? SETTLED_OUT_UDP | SETTLED_OUT_PATHS : SETTLED_OUT_TCP))))
		return left;
	if (unlikely(flags & SETTLED_OUT_PATHS) && !take_turn(skb, index_place(found), found & INDEX_SLOT, word, &t))
		return left;
	index = t.uplink;
	u = bpf_map_lookup_elem(&uplinks, &index);
	if (unlikely(!u || !(u->flags & UPLINK_USABLE) || (flags & SETTLED_RFC6741 && u->flags & UPLINK_PHYSICAL)))
		return left;
	note_tx(l, found & INDEX_SLOT, moment(now), skb->len - ETH_LEN);
	if (!l->unanswered_tx && wants_answer(skb, l, (void *)(ip + 1), proto, moment(now)))
		l->unanswered_tx = moment(now);
	diff = unlikely(flags & SETTLED_NAMED) && key.remote.v == remote_nid.v ? 0 : settled_delta(word);
	if (!(flags & SETTLED_RFC6741))
		diff = add_halves(u->l64.v, t.to.v, diff);
	ip->src.nid.v = local_nid.v;
	ip->dst.l64.v = t.to.v;
	ip->dst.nid.v = remote_nid.v;
	return leave_settled(skb, ip, proto, diff, u, index, hop_way(u, index, &t.to, now), flags);
}

#endif
