/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The compact path: whole TCP and UDP packets of settled sessions, whose header stands
 * right behind that of IPv6 and lies in the linear part of the packet. A session is
 * settled while its packets need neither a nonce, nor a choice or a report. Between the
 * packets of a host the processor forgets code, so this path is one short line, which
 * calls only what every such packet needs. Whatever else a packet may be, the result is
 * UNSETTLED before anything is written, and the packet takes the full path. Both paths
 * give the same result: TestCompactPath compares them.
 */
#ifndef ROAM_ILNP_SETTLED_H
#define ROAM_ILNP_SETTLED_H

#include "inbound.h"
#include "line.h"
#include "outbound.h"
#include "realmarks.h"

/* The protocols of the compact path, as bits: the verifier follows each alternative of a
 * comparison.
 */
#define STRAIGHT_PROTOS (1U << IPPROTO_TCP | 1U << IPPROTO_UDP)

/* Is this a whole packet of TCP or UDP, with its header in the linear part, and no first
 * segment?
 */
static __always_inline int is_straight(const struct __sk_buff *skb, const __u8 *upper, __u8 next)
{
	const __u8 *end = (void *)(long)skb->data_end;

	if (next == IPPROTO_UDP)
		return upper + 8 <= end;
	return next == IPPROTO_TCP && upper + 20 <= end && !(upper[TCP_FLAGS_AT] & TCP_SYN);
}

/* Has the session seen what makes its next packet a special one: a move of the
 * correspondent, or a silence?
 */
static __always_inline int is_quiet(const struct session_live *l, __u64 word, __u32 slot, __u32 now)
{
	const __u32 wanted = STATE_PAST_NONCES | STATE_RULE;

	return (settled_state(l, word) & (wanted | STATE_HINT)) == wanted &&
	       !(l->unanswered_tx && now - l->unanswered_tx >= tick(silence_after) && is_silent(l, slot, now));
}

/* The checksum in the header behind that of IPv6. */
static __always_inline __u16 *checksum_of(struct ip6 *ip, __u8 proto)
{
	return (void *)(ip + 1) + (proto == IPPROTO_UDP ? UDP_CSUM_AT : TCP_CSUM_AT);
}

/* Sends a packet whose source is rewritten, but for its locator, to uplink u. */
static __always_inline int leave_settled(struct __sk_buff *skb, struct ip6 *ip, __u8 proto, __u32 diff,
					 const struct uplink *u, enum hop_way way, __u32 flags)
{
	enum checksum_state state = checksum_state(skb);

	ip->src.l64.v = u->l64.v;
	if (state != CHECKSUM_UNKNOWN)
		csum_adjust_at(checksum_of(ip, proto), proto, diff, state);
	else if (csum_adjust(skb, ETH_LEN + IP6_LEN, proto, diff))
		return drop(DROP_KERNEL_HELPER);
	if (flags & SETTLED_COUNTED)
		count_path(skb, ETH_LEN, ETH_LEN + IP6_LEN, proto, 1);
	count(TX_PACKETS);
	return send_to_hop(skb, u->ifindex, u, way);
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
	struct host *h = this_host();
	union half local_nid, remote_nid;
	struct session_live *l;
	struct session_key key;
	__u32 index, flags, diff;
	struct turn t = {};
	struct uplink *u;
	__u64 now, found = 0, word = 0;
	__u8 proto;
	int left;

	if (!h || skb->protocol != bpf_htons(ETH_P_IPV6) || skb->mark == COPY_MARK || skb->ingress_ifindex ||
	    (void *)(ip + 1) > (void *)(long)skb->data_end || ip->dst.l64.v != h->session_prefix.v ||
	    ip->src.l64.v != h->session_prefix.v)
		return UNSETTLED;
	proto = ip->next;
	if (!is_straight(skb, (void *)(ip + 1), proto))
		return UNSETTLED;
	key.local.v = ip->src.nid.v;
	key.remote.v = ip->dst.nid.v;
	l = search_line(h, &key, &found, &word);
	if (!l)
		return UNSETTLED;
	left = UNSETTLED + 1 + index_place(found);
	flags = settled_flags(word);
	now = coarse_ns_inline();
	if (!is_quiet(l, word, found & INDEX_SLOT, moment(now)))
		return left;
	t.to.v = l->remote.v;
	t.uplink = (__u8)(word >> SETTLED_FIRST) >> 4;
	local_nid.v = l->local_nid.v;
	remote_nid.v = l->remote_nid.v;
	if (!is_still(l, word) || !(flags & (proto == IPPROTO_UDP ? SETTLED_OUT_UDP | SETTLED_OUT_PATHS : SETTLED_OUT_TCP)))
		return left;
	if (flags & SETTLED_OUT_PATHS && !take_turn(skb, index_place(found), found & INDEX_SLOT, word, &t))
		return left;
	index = t.uplink;
	u = bpf_map_lookup_elem(&uplinks, &index);
	if (!u || !(u->flags & UPLINK_USABLE) || (flags & SETTLED_RFC6741 && u->flags & UPLINK_PHYSICAL))
		return left;
	note_tx(l, found & INDEX_SLOT, moment(now), skb->len - ETH_LEN);
	if (!l->unanswered_tx && wants_answer(skb, l, (void *)(ip + 1), proto, moment(now)))
		l->unanswered_tx = moment(now);
	diff = flags & SETTLED_NAMED && key.remote.v == remote_nid.v ? 0 : settled_delta(word);
	if (!(flags & SETTLED_RFC6741))
		diff = sum_halves(u->l64.v, t.to.v, diff);
	if (label_bit)
		ip->class_flow[0] |= LABEL_BIT;
	ip->src.nid.v = local_nid.v;
	ip->dst.l64.v = t.to.v;
	ip->dst.nid.v = remote_nid.v;
	return leave_settled(skb, ip, proto, diff, u, hop_way(u, index, &t.to, now), flags);
}

/* Is a datagram or segment whole, as its IPv6 header says, and not an encapsulated message?
 * A datagram without checksum is left to the full path, as nothing in it takes back the
 * change of the addresses.
 */
static __always_inline int is_plain_upper(const struct __sk_buff *skb, const struct ip6 *ip, __u8 proto,
					  __u32 body)
{
	__u32 len = (__u32)ip->payload_len[0] << 8 | ip->payload_len[1];
	const __be16 *ports = (const void *)(ip + 1);

	if (proto == IPPROTO_UDP && (!ports[UDP_CSUM_AT / 2] || (encap_port && ports[1] == encap_port)))
		return 0;
	return len >= (proto == IPPROTO_UDP ? 8 : 20) && body + len <= skb->len;
}

/* May the session receive a packet from this locator without a nonce, and without a
 * report?
 */
static __always_inline int is_settled_in(const struct session_live *l, __u64 word, __u32 place, union half from,
					 __u8 proto, __u32 now)
{
	__u32 state = settled_state(l, word), flags = settled_flags(word);
	const struct session_entry *p;
	int known;

	if (!(flags & SETTLED_IN) || ~state & (STATE_BARE | STATE_RULE) || (proto == IPPROTO_TCP && state & STATE_RETURNED) ||
	    (l->unanswered_tx && now - l->unanswered_tx > tick(OUTAGE)))
		return 0;
	if (l->remote.v == from.v)
		return flags & SETTLED_IN_FIRST && is_still(l, word);
	p = settled_entry(place, word);
	known = p ? locator_known(p, from) : 0;
	return known && known <= p->n_remote && !(p->unvalidated >> (known - 1) & 1);
}

/* Rewrites a packet to the aliases of its session, which are its NIDs. */
static __always_inline int deliver_settled(struct __sk_buff *skb, struct ip6 *ip, __u8 proto, __u32 l3,
					   __u32 delta, __u64 prefix)
{
	__u32 whole = sum_halves(ip->src.l64.v, ip->dst.l64.v, delta);
	enum checksum_state state = checksum_state(skb);

	ip->src.l64.v = prefix;
	ip->dst.l64.v = prefix;
	if (state != CHECKSUM_UNKNOWN) {
		csum_adjust_at(checksum_of(ip, proto), proto, sum_neg(whole), state);
	} else {
		if (csum_adjust(skb, l3 + IP6_LEN, proto, sum_neg(whole)))
			return drop(DROP_KERNEL_HELPER);
		keep_device_sum(skb, whole, whole);
	}
	count(RX_PACKETS);
	return PASS_ON;
}

/* Ingress of an uplink, with the IPv6 header at l3. */
static __always_inline int receive_straight(struct __sk_buff *skb, __u32 l3)
{
	struct ip6 *ip = (void *)(long)skb->data + l3;
	struct host *h = this_host();
	struct session_live *l;
	struct session_key key;
	__u64 found = 0, word = 0;
	union half to, from;
	__u32 flags, now;
	__u8 proto;
	int left;

	if (!h || skb->protocol != bpf_htons(ETH_P_IPV6) || for_another_device(skb))
		return PASS_ON;
	if ((void *)(ip + 1) > (void *)(long)skb->data_end || h->flags & HOST_NID_COLLISIONS ||
	    ip->dst.l64.v == h->session_prefix.v || ip->src.l64.v == h->session_prefix.v)
		return UNSETTLED;
	proto = ip->next;
	if (proto > 31 || !(STRAIGHT_PROTOS >> proto & 1))
		return UNSETTLED;
	key.local.v = ip->dst.nid.v;
	to.v = ip->dst.l64.v;
	if ((h->nids[0].v != key.local.v && !is_ours(h, key.local)) || !locator_on_wire(to))
		return PASS_ON;
	if (!is_straight(skb, (void *)(ip + 1), proto) || !is_plain_upper(skb, ip, proto, l3 + IP6_LEN))
		return UNSETTLED;
	key.remote.v = ip->src.nid.v;
	l = search_line(h, &key, &found, &word);
	if (!l)
		return UNSETTLED;
	flags = settled_flags(word);
	if (!(flags & SETTLED_WRITTEN) || flags & SETTLED_PREINSTALLED) /* which may have to wait: see place_of */
		return UNSETTLED;
	left = UNSETTLED + 1 + index_place(found);
	if (flags & SETTLED_REAL_SOCKETS && may_be_real(key.remote, ((const __be16 *)(ip + 1))[1]))
		return left;
	now = moment(coarse_ns_inline());
	from.v = ip->src.l64.v;
	if (!is_settled_in(l, word, index_place(found), from, proto, now))
		return left;
	note_rx(l, found & INDEX_SLOT, now, skb->len - l3);
	if (flags & SETTLED_COUNTED)
		count_path(skb, l3, l3 + IP6_LEN, proto, 0);
	if (flags & SETTLED_ANSWERS)
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
