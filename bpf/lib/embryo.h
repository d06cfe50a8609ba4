/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Correspondents that show a nonce and have no session. */
#ifndef ROAM_EMBRYO_H
#define ROAM_EMBRYO_H

#include "control.h"
#include "real.h"
#include "rule.h"
#include "standing.h"

/* A Locator Update of a correspondent whose session the daemon is about to
 * make: it keeps it until then. Whoever begins with one has no session.
 */
static __always_inline int receive_early_update(struct __sk_buff *skb, struct inbound *in,
						const struct event *about, int known)
{
	return known ? hand_over_control(skb, in, about, 0) : refuse(in, DROP_UPDATE_NO_SESSION);
}

/* Does the daemon hear of a stranger by this packet? Of one of whom it does not,
 * nothing may stay here: no packet to it would be a miss.
 */
static __always_inline int is_told(struct __sk_buff *skb, const struct inbound *in)
{
	return in->c.proto != IPPROTO_ICMPV6 || (in->c.type != ICMP6_LOCATOR_UPDATE && !is_probe_reply(skb, &in->c));
}

/* Brings the table up to date with what a packet shows, and e with what the table
 * has. Returns whether that node was there.
 */
static __always_inline int note_embryo(struct __sk_buff *skb, const struct inbound *in, struct embryo *e,
				       const struct pair_key *key)
{
	struct embryo *old = bpf_map_lookup_elem(&embryos, key);
	int known = old && same_nonce(&old->remote_nonce, &e->remote_nonce);

	if (known) {
		e->carried |= old->carried & EMBRYO_SPOKE;
		e->epoch = old->epoch;
		e->first_remote = old->first_remote;
		e->first_local = old->first_local;
	}
	if (known && old->remote_l64.v == e->remote_l64.v && old->local_l64.v == e->local_l64.v) {
		e->rule = old->rule;
		old->carried = e->carried;
		__sync_fetch_and_add(&old->rx_bytes, e->rx_bytes);
		if (e->rule == RULE_NOT_FOUND && has_rule(in->c.proto))
			old->rule = e->rule = rule_shown(skb, &in->c, in->l3);
		return known;
	}
	if (known)
		e->rule = old->rule; /* it moved */
	else if (has_rule(in->c.proto))
		e->rule = rule_shown(skb, &in->c, in->l3);
	if (known || is_told(skb, in))
		bpf_map_update_elem(&embryos, key, e, BPF_ANY);
	return known;
}

/* Is this packet without nonce of a stranger that showed one at the same place?
 * Where it did so in UDP, all of its packets are: on a path that drops options or
 * ICMPv6 it goes without from our answer on, which may be before we have a session.
 * Elsewhere super-packets go without, and come before the daemon has made the
 * session: what is in the middle of a connection that nobody has on the addresses
 * of the wire, and would be answered with a reset.
 */
static __always_inline int speaks_for_embryo(struct __sk_buff *skb, const struct inbound *in)
{
	struct pair_key key = { .local = in->dst.nid, .remote = in->src.nid };
	struct embryo *e = bpf_map_lookup_elem(&embryos, &key);
	__u8 flags;

	if (!e || e->remote_l64.v != in->src.l64.v)
		return 0;
	if (e->carried)
		return in->c.proto != IPPROTO_ICMPV6;
	if (in->c.proto != IPPROTO_TCP || in->c.fragment == LATER_FRAGMENT ||
	    bpf_skb_load_bytes(skb, in->c.at + TCP_FLAGS_AT, &flags, 1) || flags & TCP_SYN)
		return 0;
	return !real_socket(skb, in->l3, 0);
}

/* Notes such a packet. Returns the rule of its checksum. */
static __always_inline __u32 note_by_place(struct __sk_buff *skb, const struct inbound *in, const struct pair_key *key)
{
	struct embryo *e = bpf_map_lookup_elem(&embryos, key);

	if (!e)
		return RULE_NOT_FOUND;
	__sync_fetch_and_add(&e->rx_bytes, skb->len - in->l3);
	if (e->rule == RULE_NOT_FOUND && has_rule(in->c.proto))
		e->rule = rule_shown(skb, &in->c, in->l3);
	return e->rule;
}

/* A probe with another nonce than the session's, and of another length, so that
 * it cannot be reflected: the stack answers it over the session.
 */
static __always_inline int is_answered_by_stack(struct __sk_buff *skb, const struct inbound *in, const struct pair *p)
{
	return in->c.fragment == WHOLE && is_probe(skb, in) && in->c.nonce.len != p->local_nonce.len &&
	       locator_accepted(p, in->src.l64.v);
}

/* The first nonces of a correspondent that was taken for one without ILNP: its packets
 * without would pass from there as well.
 */
static __always_inline int is_believed_plain(const struct pair *p, const struct inbound *in)
{
	return p->flags & PAIR_PLAIN && locator_accepted(p, in->src.l64.v);
}

#define CROWD_WINDOW 100000000ULL /* ns */
#define CROWD_MOST 1600           /* first packets of strangers in a window that the daemon hears of */

/* Is this first packet of a stranger one of too many? In a flood of them, with as
 * many identifiers, the daemon hears of those only that send again: they are few,
 * unless the flood takes twice the packets. All are answered from the table.
 */
static __always_inline int is_one_of_many(void)
{
	__u64 now = bpf_ktime_get_coarse_ns();
	__u32 zero = 0;
	struct crowd *c = bpf_map_lookup_elem(&crowds, &zero);

	if (!c)
		return 0;
	if (now - c->since >= CROWD_WINDOW) {
		c->last = now - c->since < 2 * CROWD_WINDOW ? c->now : 0;
		c->now = 0;
		c->since = now;
	}
	__sync_fetch_and_add(&c->now, 1);
	if (c->last <= CROWD_MOST && c->now <= CROWD_MOST)
		return 0;
	count(RX_STRANGER_UNTOLD);
	return 1;
}

/* A nonce from someone without a session (p is 0), or with another nonce than
 * the session's: an entry in a bounded table, and an answer.
 *
 * Where the session's packets go anyway, the answer bears the session's own
 * nonce. So the nonce of a host that remembers does not change, whatever the
 * other end forgets, and two ends that each take the other for new agree after
 * one exchange; if each made up a nonce for the other's new one, they could go
 * on for ever. Elsewhere it is a stranger's: whoever claims a NID must not learn
 * the nonce that its true owner takes for ours.
 *
 * Returns a verdict, or what shall become of the packet.
 */
__noinline int receive_embryo(struct __sk_buff *skb, struct inbound *in, const struct pair *p)
{
	struct host *h = this_host();
	struct embryo e = {};
	struct event about;
	int verdict, known;
	union half nid; /* a key stands on the stack: Linux 6.1 */

	if (!h || !in || !locator_on_wire(in->src.l64))
		return drop(DROP_MALFORMED);
	nid = in->src.nid;
	if (!p && !(h->flags & HOST_ACCEPT_ANY) && !bpf_map_lookup_elem(&known_nids, &nid))
		return PASS_ON; /* as if we had no ILNP: the stack answers with Parameter Problem */
	about_inbound(&about, in);
	e.remote_l64 = e.first_remote = in->src.l64;
	e.local_l64 = e.first_local = in->dst.l64;
	e.remote_nonce = in->c.nonce;
	e.ifindex = skb->ifindex;
	e.epoch = h->epoch;
	e.carried = in->c.carried ? EMBRYO_CAME | EMBRYO_SPOKE : 0;
	e.rx_bytes = skb->len - in->l3;
	if (!in->c.nonce.len) {
		return note_by_place(skb, in, &about.key) == RULE_RFC6741 ? FOR_STACK_6741 : FOR_STACK;
	}
	known = note_embryo(skb, in, &e, &about.key);
	about.rule = is_probe(skb, in) ? IS_PROBE : e.rule;
	if (p && locator_accepted(p, in->src.l64.v))
		about.own_nonce = p->local_nonce;
	else
		embryo_nonce(&e, &about.key, &about.own_nonce);
	if (in->c.proto == IPPROTO_ICMPV6) {
		if (is_probe_reply(skb, &in->c))
			return hand_over_control(skb, in, &about, 0);
		if (in->c.type == ICMP6_LOCATOR_UPDATE)
			return receive_early_update(skb, in, &about, known);
	}
	if (known || !is_one_of_many())
		tell(&requests, skb, p ? EV_OTHER_NONCE : EV_EMBRYO, &about);
	if (in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_ECHO_REQUEST) {
		verdict = answer_echo(skb, in, &about.own_nonce);
		if (verdict >= 0)
			return verdict;
	}
	if (p) {
		if (!is_believed_plain(p, in) && !is_answered_by_stack(skb, in, p))
			return refuse(in, DROP_WRONG_NONCE);
		in->src.nid = p->handle.remote;
		in->dst.nid = p->handle.local;
	}
	return e.rule == RULE_RFC6741 ? FOR_STACK_6741 : FOR_STACK;
}

#endif
