/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From session addresses to the wire: rewriting and nonce. */
#ifndef ROAM_ILNP_OUTBOUND_H
#define ROAM_ILNP_OUTBOUND_H

#include "udpencap.h"
#include "segdev.h"
#include "preinstalled.h"
#include "flow.h"
#include "flowrule.h"
#include "sent.h"
#include "path.h"
#include "noncefit.h"
#include "nexthop.h"
#include "policy.h"

/* Sends a packet whose addresses are written. */
static __always_inline int leave(struct __sk_buff *skb, const struct outbound *o)
{
	count(TX_PACKETS);
	return send_to_hop(skb, o->ifindex, o->hop, o->hop_way);
}

/* Marks a packet for site borders. Where a rule decides, the label is that of its flow. */
static __always_inline int mark_session(struct __sk_buff *skb, const struct outbound *o)
{
	struct ip6 *ip = ip6_at(skb, ETH_LEN);

	if (!label_bit || !o->marked)
		return 0;
	if (!ip)
		return -1;
	ip->class_flow[0] |= LABEL_BIT;
	return 0;
}

static __always_inline int transmit(struct __sk_buff *skb, const struct outbound *o, const struct chain *c,
				    __u8 next)
{
	if (c->fragment != LATER_FRAGMENT &&
	    csum_adjust_linear(skb, c->at, c->proto, o->csum_diff, checksum_state(skb)))
		return drop(DROP_KERNEL_HELPER);
	if (write_addresses(skb, ETH_LEN, o->ends) || mark_session(skb, o))
		return drop(DROP_KERNEL_HELPER);
	if (o->nonce.len && nonce_fits(skb, o, next)) {
		if (put_nonce(skb, &o->nonce, next, o->encap))
			return drop(DROP_KERNEL_HELPER);
		count(o->encap ? TX_ENCAP : TX_NONCE);
	}
	return leave(skb, o);
}

/* Is a nonce due? It is in the first packets of a session, for a while after a change of
 * locators, on every SYN (the peer may have lost its state) and on every ICMPv6 message
 * (RFC 6744 §7).
 */
static __always_inline int nonce_due(struct __sk_buff *skb, const struct session_entry *p, const struct session_details *d,
				     const struct chain *c, __u64 now)
{
	__u8 flags = 0;

	if (p->flags & ENTRY_PLAIN || is_plain_soon(p, d))
		return 0;
	if (p->flags & (ENTRY_INITIATED | ENTRY_NONCE_ALWAYS) || c->proto == IPPROTO_ICMPV6 ||
	    now >> UNTIL_SHIFT < p->nonce_until)
		return 1;
	if (c->proto == IPPROTO_TCP && c->fragment != LATER_FRAGMENT && skb->gso_size == 0)
		bpf_skb_load_bytes(skb, c->at + TCP_FLAGS_AT, &flags, 1);
	return flags & TCP_SYN;
}

/* The difference of the transport checksum when session addresses become wire addresses.
 * The session prefix itself sums to zero.
 */
static __always_inline __u32 outbound_diff(const struct outbound *o, __u32 nid_delta, __u32 remote_sum, int rfc6741)
{
	if (rfc6741)
		return nid_delta;
	return sum_fold(nid_delta + sum_half(o->ends[0].l64) + remote_sum);
}

/* The sum of the NIDs less that of the aliases of this packet. It is zero where the
 * session is found by its NIDs too, and the packet uses these.
 */
static __always_inline __u32 delta_of(struct __sk_buff *skb, const struct session_entry *p)
{
	union half remote;

	if (p->flags & ENTRY_NAMED && !bpf_skb_load_bytes(skb, ETH_LEN + IP6_LEN - 8, &remote, 8) &&
	    remote.v == p->remote_nid.v)
		return 0;
	return sum_bytes(p->nid_delta);
}

/* Addresses a packet of the session: along path i, or to the locator at which the
 * correspondent was seen last.
 */
static __always_inline void address(struct outbound *o, struct __sk_buff *skb, const struct session_entry *p,
				    struct session_details *d, const struct chain *c, const struct uplink *u, int i,
				    int hinted, int nids_only)
{
	__u8 remote = path_remote(p, i);
	__u32 remote_sum;

	source_from_uplink(o, u);
	o->marked = o->chosen == BY_SESSION && !(p->flags & ENTRY_PLAIN) && !is_plain_soon(p, d);
	o->bears_nonce = p->flags & ENTRY_NONCE_ALWAYS && bears_nonce(skb, p, u);
	o->narrow = !!(p->flags & ENTRY_NARROW);
	o->ends[0].nid = p->local_nid;
	o->ends[1].nid = p->remote_nid;
	if (hinted) {
		o->ends[1].l64 = d->hint;
		remote_sum = sum_half(d->hint);
	} else {
		o->ends[1].l64 = p->remote[remote];
		remote_sum = sum_half(p->remote[remote]);
	}
	if (c->proto == IPPROTO_ICMPV6)
		nids_only = !!(p->flags & ENTRY_ICMP_RFC6741);
	o->csum_diff = outbound_diff(o, delta_of(skb, p), remote_sum, nids_only);
}

/* Does this packet count for the balance of the paths? TCP that goes by its connections does
 * not, or all other packets would have to take the other paths.
 */
static __always_inline int is_spread(const struct session_entry *p, const struct chain *c)
{
	return p->n_paths > 1 && !(p->flags & (ENTRY_PER_FLOW | ENTRY_PLACED) && c->proto == IPPROTO_TCP);
}

/* Counts a packet for the choice of paths, unless a rule chose, and for the reports of the peer. */
static __always_inline void note_path(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
				      const struct chain *c, int i, const struct outbound *o)
{
	if (o->chosen == BY_SESSION && is_spread(p, c))
		take_path(p, &d->turns, i, skb->len);
	if (p->flags & ENTRY_COUNTED && c->fragment == WHOLE)
		count_sent(skb, (const struct path_key *)o->ends, c->at, c->proto);
}

/* The path of a packet for which there is no rule, as table_path has it, or -1. */
static __always_inline int unruled_path(struct __sk_buff *skb, const struct session_entry *p,
					struct session_details *d, const struct chain *c)
{
	int i = -1;

	if (has_choice(p, d) && c->proto == IPPROTO_TCP && c->fragment == WHOLE)
		i = flow_path(skb, p, d, c->at);
	return i < 0 ? default_path(p, d) : i;
}

/* The path of a packet, as table_path has it, or -1. Sets who chose it. */
static __always_inline int chosen_path(struct __sk_buff *skb, const struct session_entry *p,
				       struct session_details *d, const struct chain *c, struct outbound *o)
{
	int ruled = p->flags & ENTRY_RULED && !is_plain_soon(p, d) ? ruled_path(skb, p, c) : -1;
	int way = ruled < 0 ? unruled_path(skb, p, d, c) : ruled;

	o->chosen = ruled < 0 ? BY_SESSION : BY_RULE;
	return way;
}

static __always_inline int send_in_session(struct __sk_buff *skb, const struct session_entry *p, const struct chain *c, __u8 next)
{
	struct session_details *d = details_of(p);
	__u64 now = coarse_ns();
	struct outbound o = {};
	struct uplink *u;
	__u32 index;
	int i, way, hinted, verdict, nids_only;

	if (!d || settle(p, d))
		return drop(DROP_KERNEL_HELPER);
	if (p->flags & ENTRY_DEAD && !d->life_told) {
		note_sent(skb, p, d, c, skb->len - ETH_LEN);
		return drop_without_path(skb);
	}
	/* Only listed uplinks are used: the Locator Update must have left an uplink
	 * before data does.
	 */
	way = chosen_path(skb, p, d, c, &o);
	asm volatile("" : : "r"(&o) : "memory"); /* in a register, the verifier would follow both values to the end */
	if (way < 0)
		return drop_without_path(skb);
	i = way & (MAX_PATHS - 1);
	verdict = segment_or_send(skb, p, d, c, i, o.chosen == BY_RULE, &nids_only);
	if (verdict)
		return verdict == MOOT ? drop_silently(skb) : verdict;
	if (way & WAY_BY_TABLE)
		count_turn(p, way, skb->len);
	hinted = d->hint.v && may_follow();
	if (!(p->flags & (ENTRY_INITIATED | ENTRY_PLAIN)) && (hinted || p->unvalidated >> path_remote(p, i) & 1)) {
		i = try_path(skb, p, d, i, hinted);
		if (i < 0) {
			count(DROP_UNVALIDATED);
			note_sent(skb, p, d, c, 0);
			return drop_without_path(skb);
		}
		hinted = i & HINTED;
		i &= MAX_PATHS - 1;
	}
	index = path_uplink(p, i);
	u = bpf_map_lookup_elem(&uplinks, &index);
	if (!u)
		return drop_without_path(skb);
	address(&o, skb, p, d, c, u, i, hinted, nids_only);
	note_path(skb, p, d, c, i, &o);
	o.hop_way = hop_way(u, index, &o.ends[1].l64, now);
	o.encap = p->flags & ENTRY_ENCAP && is_encapsulated(c, next);
	if (o.encap || (!(p->flags & ENTRY_ENCAP) && nonce_due(skb, p, d, c, now)))
		o.nonce = p->local_nonce;
	if (p->flags & ENTRY_PREINSTALLED && !(p->flags & ENTRY_PLAIN) && packets_sent(p, d) < FIRST_TOLD)
		tell_first(skb, p);
	/* A packet without nonce is for a stack that sums as plain IPv6 does. */
	if (o.nonce.len && is_rule_sought(p, d) && !is_segmented(skb))
		send_probe_copy(skb, p, d, c);
	if (!is_probe_answer(skb, c))
		note_sent(skb, p, d, c, skb->len - ETH_LEN);
	if (p->flags & ENTRY_PLAIN)
		count(TX_PLAIN);
	return transmit(skb, &o, c, next);
}

#define NOT_YET -5 /* of send_pending: the packet waits until the peer is validated */

/* Answers a pending peer: back to where its packet came from, always with the nonce,
 * unless the path would drop the option.
 */
__noinline int send_pending(struct __sk_buff *skb, const struct session_key *k, struct pending_peer *e, const struct chain *c,
			   __u8 next)
{
	struct outbound o = { .marked = 1 };

	if (!k || !e || !c)
		return drop(DROP_KERNEL_HELPER);
	if (is_cut_for_pending(skb, e, c)) {
		count(TX_SEGDEV);
		return bpf_redirect(this_segdev(), 0);
	}
	if (!pending_allows(e, skb->len - ETH_LEN))
		return NOT_YET;
	o.ends[0].l64 = e->local_l64;
	o.ends[0].nid = k->local;
	o.ends[1].l64 = e->remote_l64;
	o.ends[1].nid = k->remote;
	if (is_obstructed(&o.ends[0].l64, &o.ends[1])) {
		count(DROP_OBSTRUCTED);
		return drop_without_path(skb);
	}
	o.ifindex = e->ifindex;
	o.mtu = pending_mtu(e);
	o.encap = e->encap & PENDING_CAME && is_encapsulated(c, next);
	if (o.encap || !(e->encap & PENDING_CAME))
		pending_nonce(e, k, &o.nonce);
	o.csum_diff = outbound_diff(&o, 0, sum_half(e->remote_l64), e->rule == RULE_RFC6741 && c->proto != IPPROTO_ICMPV6);
	if (c->proto == IPPROTO_TCP && c->fragment == WHOLE)
		note_syn_ack(skb, e, c->at, o.ends[1].l64.v);
	count(TX_PENDING);
	return transmit(skb, &o, c, next);
}

#endif
