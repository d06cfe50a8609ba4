/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Flows: which two nodes have a session across the border, out of their nonces. One node
 * alone makes no entry that lasts: a flood of nonces from one side passes through a table
 * of its own, and the flows of nodes that answered each other stay.
 */
#ifndef ROAM_SBR_FLOW_H
#define ROAM_SBR_FLOW_H

#include "ringshare.h"

/* Of the times in a flow: 67 ms. */
#define SEEN_SHIFT 26

/* Gives the daemon a flow, unless its two nodes have begun too many sessions anew: the daemon finds it later. One that
 * was not there before has its whole share, which is not noted: two nodes that would use that can begin flows of ever
 * new NIDs as well.
 */
static __always_inline void hand_flow(struct __sk_buff *skb, const struct flow_key *key, int is_new)
{
	struct share_key share = {.flow = *key, .kind = HAND_FLOW};
	struct handover *h = 0;

	if (!is_new && !take_share(&share)) {
		count(DROP_RING_SHARE);
		return;
	}
	if (has_space(RING_FLOWS))
		h = bpf_ringbuf_reserve(&handovers, __builtin_offsetof(struct handover, data), 0);
	if (!h) {
		count(DROP_RING_FULL);
		return;
	}
	h->kind = HAND_FLOW;
	h->ifindex = skb->ifindex;
	h->len = 0;
	h->detail = 0;
	h->flow = *key;
	bpf_ringbuf_submit(h, 0);
}

/* Notes the nonce of a packet. 0: no flow has come of it. A flow is confirmed once both nodes have sent one, the
 * outside node from the locator that the inside node sends to: anybody off the path could claim its NID
 * elsewhere, and would have its nonce in the flow for good.
 */
__noinline int note_nonce(struct __sk_buff *skb, const struct crossing *x)
{
	struct flow_key key;
	struct whole_flow now = {};
	const struct whole_flow *was;
	enum change done;

	if (!x)
		return 0;
	key = x->key;
	was = bpf_map_lookup_elem(&pending_flows, &key);
	if (was)
		now = *was;
	now.flow.key = key;
	if (x->rule)
		now.flow.rule = x->rule;
	if (x->inward) {
		if (now.nonces.outward.len && now.nonces.remote.v != x->ip.src.l64.v)
			return 0;
		now.flow.came = x->now >> SEEN_SHIFT;
		now.nonces.inward = x->c.nonce;
		now.nonces.remote = x->ip.src.l64;
	} else {
		if (now.nonces.remote.v != x->ip.dst.l64.v)
			now.nonces.inward.len = 0;
		now.flow.sent = x->now >> SEEN_SHIFT;
		now.nonces.outward = x->c.nonce;
		now.nonces.internal = x->ip.src.l64;
		now.nonces.remote = x->ip.dst.l64;
		now.nonces.ifindex = skb->ifindex;
	}
	if (!now.nonces.inward.len || !now.nonces.outward.len) {
		bpf_map_update_elem(&pending_flows, &key, &now, BPF_ANY);
		return 0;
	}
	done = put_flow(&now);
	if (done == NONCE_KNOWN && x->inward)
		now.nonces.outward.len = 0; /* only that of this packet may be of a new session */
	else if (done == NONCE_KNOWN)
		now.nonces.inward.len = 0;
	if (done != CHANGED && done != ADDED) { /* the next nonce of either node may succeed */
		if (done == NOT_CHANGED)
			count(FLOW_TABLE_FULL);
		bpf_map_update_elem(&pending_flows, &key, &now, BPF_ANY);
		return done != NOT_CHANGED;
	}
	bpf_map_delete_elem(&pending_flows, &key);
	count(FLOW_CONFIRMED);
	hand_flow(skb, &key, done == ADDED);
	return 1;
}

/* Notes that a packet of a flow has come from inside, from that locator and by that link. It shows that the inside
 * node is there, but any node inside can send one in its name: so it counts if it comes from the node's locator, by its
 * link.
 */
__noinline int note_sent(const struct flow_key *k, struct flow *f, __u64 from, __u32 link, __u32 time)
{
	if (k && f && f->link == (__u16)link && internal_of(k, f).v == from)
		f->sent = time;
	return 0;
}

/* Notes when a packet of a flow passed. Few come to have their place compared, as a time is noted once. */
static __always_inline void note_passed(const struct flow_key *k, struct flow *f, union half from, __u32 link,
					__u64 now, int inward)
{
	__u32 time = now >> SEEN_SHIFT;

	if (!inward && f->sent != time)
		note_sent(k, f, from.v, link, time);
	else if (inward && f->came != time)
		f->came = time;
}

/* How long an inside node has sent nothing from where it was, in units of 2^26 ns, when its nonce moves its flows: of
 * a node with two locators or links each sends packets with nonces all the time.
 */
#define MOVES_AFTER 3

enum moving {
	STAYS,
	MOVES_WHEN_QUIET, /* once the node has sent nothing from where it was for MOVES_AFTER */
	MOVES,
};

/* Says whether a packet with its nonce moves the inside node of a flow. A Locator Update says that the node has moved,
 * so it needs no waiting: its acknowledgement comes to where it was sent from. An echo request moves nothing: the
 * node probes with its nonce where it does not know whether packets come through.
 */
__noinline int moving_of(const struct crossing *x)
{
	if (!x)
		return STAYS;
	if (x->c.proto != IPPROTO_ICMPV6 || x->c.fragment == LATER_FRAGMENT)
		return MOVES_WHEN_QUIET;
	if (x->c.type == ICMP6_ECHO_REQUEST)
		return STAYS;
	return x->c.type == ICMP6_LOCATOR_UPDATE ? MOVES : MOVES_WHEN_QUIET;
}

/* Follows the inside node of a flow to where a packet with its nonce comes from, and lets the daemon know. */
__noinline int follow_node(struct __sk_buff *skb, const struct crossing *x, const struct flow_nonces *known)
{
	struct flow_key key;
	struct flow *f;
	__u32 time;
	int moving;

	if (!x || !known || (known->internal.v == x->ip.src.l64.v && known->ifindex == skb->ifindex))
		return 0;
	moving = moving_of(x);
	if (!moving)
		return 0;
	key = x->key;
	time = x->now >> SEEN_SHIFT;
	f = known_flow(&key);
	if (!f || (moving != MOVES && time - f->sent < MOVES_AFTER) ||
	    !move_flow(&key, &x->c.nonce, x->ip.src.l64, skb->ifindex))
		return 0;
	f->sent = time;
	hand_flow(skb, &key, 0);
	return 0;
}

/* Finds the flow of a packet, and notes its nonce where that is new. Null: it is of no flow
 * that is confirmed.
 */
static __always_inline struct flow *flow_of(struct __sk_buff *skb, struct crossing *x)
{
	struct flow_key key = x->key;
	struct flow *f = known_flow(&key);
	struct known k = {};

	x->now = bpf_ktime_get_coarse_ns();
	if (f)
		note_passed(&key, f, x->ip.src.l64, skb->ifindex, x->now, x->inward);
	x->rule = f ? f->rule : RULE_UNKNOWN;
	if (!x->c.nonce.len)
		return f;
	if (f)
		k = known_whole(&key);
	if (k.flow && k.nonces && same_nonce(x->inward ? &k.nonces->inward : &k.nonces->outward, &x->c.nonce)) {
		if (!x->inward) {
			k.nonces->remote = x->ip.dst.l64;
			follow_node(skb, x, k.nonces);
		}
		if (!x->rule)
			k.flow->rule = x->rule = shown_rule(skb, x);
		return k.flow;
	}
	x->rule = shown_rule(skb, x);
	return note_nonce(skb, x) && !f ? known_flow(&key) : f;
}

#endif
