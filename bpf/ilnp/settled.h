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

/* Has the state of the session these bits, and not those, and is it that of the entry? */
static __always_inline int has_state(const struct session_live *l, __u64 word, __u32 wanted, __u32 unwanted)
{
	__u32 differs = *(const volatile __u32 *)&l->state ^ ((__u32)word << STATE_EDITION | wanted);

	return !(differs & (-1U << STATE_EDITION | wanted | unwanted));
}

/* Has the session seen what makes its next packet a special one: a move of the
 * correspondent, or a silence?
 */
static __always_inline int is_quiet(const struct session_live *l, __u64 word, __u32 slot, __u32 now)
{
	__u32 since = l->unanswered_tx;

	return has_state(l, word, STATE_PAST_NONCES | STATE_RULE, STATE_HINT) &&
	       !unlikely(since && now - since >= tick(silence_after) && is_silent(l, slot, now));
}

/* The checksum in the header behind that of IPv6. */
static __always_inline __u16 *checksum_of(struct ip6 *ip, __u8 proto)
{
	return (void *)(ip + 1) + (proto == IPPROTO_UDP ? UDP_CSUM_AT : TCP_CSUM_AT);
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

/* Sends a packet of the session at an entry of the index, 0: that is to be searched. */
static __always_inline int send_straight(struct __sk_buff *skb, __u64 found)
{
	struct ip6 *ip = (void *)(long)skb->data + ETH_LEN;
	struct host *h = only_value(&hosts);
	union half local_nid, remote_nid;
	int left = UNSETTLED;
	struct session_live *l;
	struct session_key key;
	__u32 index, flags, diff;
	struct turn t = {};
	__u64 now, word = 0;
	struct uplink *u;
	__u8 proto;

	keep(left);
	if (unlikely(skb->protocol != bpf_htons(ETH_P_IPV6) || skb->mark == COPY_MARK || skb->ingress_ifindex ||
		     (void *)(ip + 1) > (void *)(long)skb->data_end || ip->dst.l64.v != h->session_prefix.v ||
		     ip->src.l64.v != h->session_prefix.v))
		return left;
	proto = ip->next;
	if (unlikely(!is_straight(skb, (void *)(ip + 1), proto)))
		return left;
	key.local.v = ip->src.nid.v;
	key.remote.v = ip->dst.nid.v;
	if (found)
		l = read_line(found & INDEX_SLOT, &word);
	else if (unlikely(!(l = search_line(h, &key, &found, &word))))
		return ELSEWHERE;
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

/* Egress of roam0. Global, so that its stack is its own. */
__noinline int send_settled(struct __sk_buff *skb)
{
	return send_straight(skb, 0);
}

/* The entry of the index of the session of a packet with its IPv6 header at an offset. */
static __always_inline __u64 index_entry(const struct __sk_buff *skb, __u32 l3, int sent)
{
	const struct ip6 *ip = (void *)(long)skb->data + l3;
	struct session_key key;

	if ((void *)(ip + 1) > (void *)(long)skb->data_end)
		return 0;
	key.local.v = sent ? ip->src.nid.v : ip->dst.nid.v;
	key.remote.v = sent ? ip->dst.nid.v : ip->src.nid.v;
	return search_index(&key);
}

/* The same where the place that is looked at first does not have the session. A function of its own,
 * so that its code lies elsewhere.
 */
__noinline int send_elsewhere(struct __sk_buff *skb)
{
	__u64 found = index_entry(skb, ETH_LEN, 1);

	return found ? send_straight(skb, found) : UNSETTLED;
}

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

/* Receives a packet whose IPv6 header is at l3, and whose session is at an entry of the index, 0: to
 * be searched.
 */
static __always_inline int receive_straight(struct __sk_buff *skb, __u32 l3, __u64 found)
{
	struct ip6 *ip = (void *)(long)skb->data + l3;
	struct host *h = only_value(&hosts);
	struct session_live *l;
	struct session_key key;
	int left = PASS_ON;
	union half from, to;
	__u32 flags, now;
	__u64 word = 0;
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
	if (found)
		l = read_line(found & INDEX_SLOT, &word);
	else if (unlikely(!(l = search_line(h, &key, &found, &word))))
		return ELSEWHERE;
	if (unlikely(!l))
		return left;
	flags = settled_flags(word);
	if (unlikely((flags & (SETTLED_WRITTEN | SETTLED_PREINSTALLED)) != SETTLED_WRITTEN)) /* which may have to wait: see place_of */
		return left;
	left = UNSETTLED + 1 + index_place(found);
	if (unlikely(flags & SETTLED_REAL_SOCKETS) && may_be_real(key.remote, ((const __be16 *)(ip + 1))[1]))
		return left;
	now = moment(coarse_ns_inline());
	from.v = ip->src.l64.v;
	if (unlikely(!is_settled_in(l, word, index_place(found), from, proto, now)))
		return left;
	note_rx(l, found & INDEX_SLOT, now, skb->len - l3);
	if (unlikely(flags & SETTLED_COUNTED))
		count_path(skb, l3, l3 + IP6_LEN, proto, 0);
	if (unlikely(flags & SETTLED_ANSWERS))
		note_flow(skb, l3, l3 + IP6_LEN, proto);
	return deliver_settled(skb, ip, proto, l3, settled_delta(word), h->session_prefix.v);
}

/* Global, as send_settled: for links with a MAC header, and without one. */
__noinline int receive_settled(struct __sk_buff *skb)
{
	return receive_straight(skb, ETH_LEN, 0);
}

__noinline int receive_settled_raw(struct __sk_buff *skb)
{
	return receive_straight(skb, 0, 0);
}

/* As send_elsewhere. */
__noinline int receive_elsewhere(struct __sk_buff *skb)
{
	__u64 found = index_entry(skb, ETH_LEN, 0);

	return found ? receive_straight(skb, ETH_LEN, found) : UNSETTLED;
}

__noinline int receive_elsewhere_raw(struct __sk_buff *skb)
{
	__u64 found = index_entry(skb, 0, 0);

	return found ? receive_straight(skb, 0, found) : UNSETTLED;
}

#endif
