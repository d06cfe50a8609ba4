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
#include "outbound.h"
#include "realmarks.h"

/* Flags of a session whose packets out take the full path; of TCP those with another one
 * too.
 */
#define UNSETTLED_OUT (ENTRY_INITIATED | ENTRY_PLAIN | ENTRY_DEAD | ENTRY_NONCE_ALWAYS | ENTRY_ENCAP | ENTRY_PREINSTALLED)
#define UNSETTLED_OUT_TCP ENTRY_PLAIN_FLOWS

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

/* Is the rule of a correspondent certain? Where packets have confirmed the daemon's guess,
 * it is. A correspondent that runs Roam shows its rule with its first packet that bears a
 * nonce, and until then the guess will do.
 */
static __always_inline int is_rule_settled(const struct session_entry *p, const struct session_live *l)
{
	return !(p->flags & ENTRY_RULE_SOUGHT) || l->rule == (p->flags & ENTRY_RFC6741 ? RULE_RFC6741 : RULE_IPV6) ||
	       (l->asks && l->rule == RULE_NOT_FOUND);
}

/* Does a packet out of this session have a place to go, without a question? Where UDP has
 * several, it takes them by turns.
 */
static __always_inline int is_settled_out(const struct session_entry *p, __u8 next)
{
	if (p->flags & UNSETTLED_OUT || p->unvalidated)
		return 0;
	return next == IPPROTO_UDP ? p->n_paths : p->n_paths == 1 && !(p->flags & UNSETTLED_OUT_TCP);
}

/* Has the session seen what makes its next packet a special one: a move of the
 * correspondent, or a silence?
 */
static __always_inline int is_quiet(const struct session_entry *p, const struct session_live *l, __u64 now)
{
	return l->birth == p->birth && !(l->hint_seq == p->seq && l->hint.v) && now >= p->nonce_until &&
	       !(l->unanswered_tx && is_silence_due(l, now));
}

/* The checksum in the header behind that of IPv6. */
static __always_inline __u16 *checksum_of(struct ip6 *ip, __u8 proto)
{
	return (void *)(ip + 1) + (proto == IPPROTO_UDP ? UDP_CSUM_AT : TCP_CSUM_AT);
}

/* Sends a packet out of session p along path i to uplink u. */
static __always_inline int leave_settled(struct __sk_buff *skb, struct ip6 *ip, __u8 proto,
					 const struct session_entry *p, int i, const struct uplink *u, int hop_known)
{
	union half to = p->remote[path_remote(p, i)];
	__u32 diff = p->flags & ENTRY_NAMED && ip->dst.nid.v == p->remote_nid.v ? 0 : sum_bytes(p->nid_delta);
	enum checksum_state state = checksum_state(skb);

	if (!(p->flags & ENTRY_RFC6741))
		diff = sum_halves(u->l64, to, diff);
	ip->src.l64 = u->l64;
	ip->src.nid = p->local_nid;
	ip->dst.l64 = to;
	ip->dst.nid = p->remote_nid;
	if (state != CHECKSUM_UNKNOWN)
		csum_adjust_at(checksum_of(ip, proto), proto, diff, state);
	else if (csum_adjust(skb, ETH_LEN + IP6_LEN, proto, diff))
		return drop(DROP_KERNEL_HELPER);
	count(TX_PACKETS);
	return send_to_hop(skb, u->ifindex, u, hop_known);
}

/* Egress of roam0. Global, so that its stack is its own. */
__noinline int send_settled(struct __sk_buff *skb)
{
	struct ip6 *ip = (void *)(long)skb->data + ETH_LEN;
	struct host *h = this_host();
	struct session_entry *p;
	struct session_live *l;
	struct session_key key;
	__u32 index, place = 0;
	struct uplink *u;
	__u8 proto;
	__u64 now;
	int i = 0;

	if (!h || skb->protocol != bpf_htons(ETH_P_IPV6) || skb->mark == COPY_MARK || skb->ingress_ifindex ||
	    (void *)(ip + 1) > (void *)(long)skb->data_end || ip->dst.l64.v != h->session_prefix.v ||
	    ip->src.l64.v != h->session_prefix.v)
		return UNSETTLED;
	proto = ip->next;
	if (!is_straight(skb, (void *)(ip + 1), proto))
		return UNSETTLED;
	key.local = ip->src.nid;
	key.remote = ip->dst.nid;
	p = search_session(&key, FETCH_OUT, &place);
	if (!p)
		return UNSETTLED;
	place += UNSETTLED + 1;
	index = p->slot;
	l = bpf_map_lookup_elem(&session_lives, &index);
	now = coarse_ns_inline();
	if (!l || !is_settled_out(p, proto) || !is_quiet(p, l, now) || !is_rule_settled(p, l))
		return place;
	if (p->n_paths > 1)
		i = choose_path(p, l, 0);
	index = path_uplink(p, i);
	u = i < 0 ? 0 : bpf_map_lookup_elem(&uplinks, &index);
	if (!u || !(u->flags & UPLINK_USABLE) || (p->flags & ENTRY_RFC6741 && u->flags & UPLINK_PHYSICAL))
		return place;
	if (p->n_paths > 1)
		__sync_fetch_and_add(&l->path_bytes[i & (MAX_PATHS - 1)], skb->len * path_cost(p, i) / 2);
	rate_note(l, now, skb->len - ETH_LEN);
	__sync_fetch_and_add(&l->tx_packets, 1);
	__sync_fetch_and_add(&l->tx_bytes, skb->len - ETH_LEN);
	l->last_tx = now;
	if (!l->unanswered_tx)
		l->unanswered_tx = now;
	return leave_settled(skb, ip, proto, p, i, u, is_hop_known(u, index, &p->remote[path_remote(p, i)], now));
}

/* Flags of a session whose packets in take the full path. */
#define UNSETTLED_IN (ENTRY_INITIATED | ENTRY_PLAIN | ENTRY_DEAD | ENTRY_RFC6741 | ENTRY_BY_ALIAS)

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
static __always_inline int is_settled_in(const struct session_entry *p, const struct session_live *l, union half from,
					 __u8 proto, __u64 now)
{
	int known;

	if (p->flags & UNSETTLED_IN || l->birth != p->birth ||
	    !is_rule_settled(p, l) || (proto == IPPROTO_TCP && l->returned) ||
	    (l->unanswered_tx && now - l->unanswered_tx > OUTAGE))
		return 0;
	known = locator_known(p, from);
	return known && known <= p->n_remote && !(p->unvalidated >> (known - 1) & 1);
}

/* Rewrites a packet to the aliases of its session, which are its NIDs. */
static __always_inline int deliver_settled(struct __sk_buff *skb, struct ip6 *ip, __u8 proto, __u32 l3,
					   const struct session_entry *p, union half prefix)
{
	__u32 whole = sum_halves(ip->src.l64, ip->dst.l64, sum_bytes(p->nid_delta));
	enum checksum_state state = checksum_state(skb);

	ip->src.l64 = prefix;
	ip->dst.l64 = prefix;
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
	struct session_entry *p;
	struct session_live *l;
	struct session_key key;
	__u32 slot, place = 0;
	__u8 proto;
	__u64 now;

	if (!h || skb->protocol != bpf_htons(ETH_P_IPV6) || for_another_device(skb))
		return PASS_ON;
	if ((void *)(ip + 1) > (void *)(long)skb->data_end || h->flags & HOST_NID_COLLISIONS ||
	    ip->dst.l64.v == h->session_prefix.v || ip->src.l64.v == h->session_prefix.v)
		return UNSETTLED;
	proto = ip->next;
	if (proto > 31 || !(STRAIGHT_PROTOS >> proto & 1))
		return UNSETTLED;
	if (!is_ours(h, ip->dst.nid) || !locator_on_wire(ip->dst.l64))
		return PASS_ON;
	if (!is_straight(skb, (void *)(ip + 1), proto) || !is_plain_upper(skb, ip, proto, l3 + IP6_LEN))
		return UNSETTLED;
	key.local = ip->dst.nid;
	key.remote = ip->src.nid;
	p = search_session(&key, FETCH_IN, &place);
	if (!p || p->flags & ENTRY_PREINSTALLED) /* which may have to wait: see place_of */
		return UNSETTLED;
	if (p->flags & ENTRY_REAL_SOCKETS && may_be_real(key.remote, ((const __be16 *)(ip + 1))[1]))
		return UNSETTLED + 1 + place;
	slot = p->slot;
	l = bpf_map_lookup_elem(&session_lives, &slot);
	now = coarse_ns_inline();
	if (!l || !is_settled_in(p, l, ip->src.l64, proto, now))
		return UNSETTLED + 1 + place;
	l->last_rx = now;
	l->unanswered_tx = 0;
	__sync_fetch_and_add(&l->rx_packets, 1);
	__sync_fetch_and_add(&l->rx_bytes, skb->len - l3);
	if (!(p->flags & ENTRY_PLAIN_FLOWS && proto == IPPROTO_TCP))
		l->without_nonce++;
	return deliver_settled(skb, ip, proto, l3, p, h->session_prefix);
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
