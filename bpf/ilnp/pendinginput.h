/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Packets of pending peers: delivers, holds, answers or refuses them. */
#ifndef ROAM_ILNP_PENDINGINPUT_H
#define ROAM_ILNP_PENDINGINPUT_H

#include "pending.h"

/* A Locator Update of a pending peer: the daemon keeps it until it has made the session.
 * A peer whose first packet is an update has no session to update.
 */
static __always_inline int receive_early_update(struct __sk_buff *skb, struct inbound *in,
						const struct event *about, int known)
{
	return known ? hand_over_control(skb, in, about, RING_UNVALIDATED) : refuse(in, DROP_UPDATE_NO_SESSION);
}

/* Is this a probe with another nonce than the session's and of another length, so that
 * the program cannot reflect it? The stack answers it over the session.
 */
static __always_inline int is_answered_by_stack(struct __sk_buff *skb, const struct inbound *in, const struct session_entry *p)
{
	return in->c.fragment == WHOLE && is_probe(skb, in) && in->c.nonce.len != p->local_nonce.len &&
	       locator_accepted(p, in->src.l64.v);
}

/* Are these the first nonces of a correspondent whose session is plain IPv6? Its packets
 * without nonce would be delivered from there as well.
 */
static __always_inline int is_believed_plain(const struct session_entry *p, const struct inbound *in)
{
	return p->flags & ENTRY_PLAIN && locator_accepted(p, in->src.l64.v);
}

/* Is this first packet of a pending peer beyond the rate that is reported? In a flood of
 * first packets with as many identifiers, the daemon gets only peers that retransmit:
 * these are few, unless the flood costs twice the packets. The table answers all of them.
 */
static __always_inline int is_untold(void)
{
	if (!exceeds_rate(RATE_PENDING, PENDING_MOST))
		return 0;
	count(RX_PENDING_UNREPORTED);
	return 1;
}

/* Hands a packet to the daemon that waits until its sender, a pending peer, is validated.
 */
__noinline int hold(struct __sk_buff *skb, struct inbound *in, const struct session_entry *p, const struct event *about,
		    int how)
{
	if (!in || !about)
		return drop(DROP_KERNEL_HELPER);
	if (!(how & IS_KNOWN) && is_untold())
		return refuse(in, DROP_NOT_HELD);
	if (tell_packet(skb, in->l3, p ? EV_OTHER_NONCE : EV_PENDING, about, RING_UNVALIDATED))
		return refuse(in, DROP_NOT_HELD);
	count(RX_HELD);
	return SHOT;
}

/* A packet without nonce that belongs to a pending peer by its locator. Its rule may
 * differ from that of packets with the nonce.
 */
static __always_inline int receive_by_place(struct __sk_buff *skb, struct inbound *in, const struct event *about)
{
	struct pending_peer *e = pending_of(&about->key);
	int rule;

	if (!e || !sends_from(e, in->src.l64))
		return hold(skb, in, 0, about, IS_KNOWN);
	if (e->remote_l64.v == in->src.l64.v)
		note_received(skb, in, e);
	rule = rule_shown(skb, &in->c, in->l3);
	if (rule == RULE_NOT_FOUND)
		rule = e->rule;
	return rule == RULE_RFC6741 ? FOR_STACK_6741 : FOR_STACK;
}

/* Delivers or refuses a packet with the nonce of a pending peer that is in its place. */
static __always_inline int take_pending(struct __sk_buff *skb, struct inbound *in, const struct session_entry *p, __u32 rule)
{
	if (p) {
		if (!is_believed_plain(p, in) && !is_answered_by_stack(skb, in, p))
			return refuse(in, DROP_WRONG_NONCE);
		in->src.nid = p->alias.remote;
		in->dst.nid = p->alias.local;
	}
	return rule == RULE_RFC6741 ? FOR_STACK_6741 : FOR_STACK;
}

/* Charges an echo request that is answered in place as bytes to a pending peer. A
 * function of its own, as the key stands on the stack: Linux 6.1.
 */
__noinline int note_answered(const struct inbound *in, __u32 len)
{
	struct session_key key;
	struct pending_peer *e;

	if (!in)
		return 0;
	key.local = in->dst.nid;
	key.remote = in->src.nid;
	e = pending_of(&key);
	if (!e || e->remote_l64.v != in->src.l64.v)
		return 0;
	__sync_fetch_and_add(&e->tx_packets, 1);
	__sync_fetch_and_add(&e->tx_bytes, len);
	return 1;
}

/* An ICMPv6 message with the nonce of a pending peer. The program answers an echo request
 * in place: a peer asks by it about this host. Where the answer may have another nonce
 * than those at another locator of the peer, the daemon decides when to answer.
 */
__noinline int receive_pending_message(struct __sk_buff *skb, struct inbound *in, const struct session_entry *p,
				       const struct event *about, int how)
{
	int verdict = -1;

	if (!in || !about)
		return drop(DROP_KERNEL_HELPER);
	if (is_probe_reply(skb, &in->c)) {
		if (exceeds_rate(RATE_REPLIES, REPLIES_MOST))
			return refuse(in, DROP_RING_FULL);
		return hand_over_control(skb, in, about, RING_UNVALIDATED);
	}
	if (in->c.type == ICMP6_LOCATOR_UPDATE)
		return receive_early_update(skb, in, about, how & IS_KNOWN);
	if (in->c.type == ICMP6_ECHO_REQUEST && how & (IS_ELSEWHERE | BEGAN_ELSEWHERE)) {
		how |= WAITS;
	} else if (in->c.type == ICMP6_ECHO_REQUEST) {
		note_answered(in, about->bytes);
		verdict = answer_echo(skb, in, &about->own_nonce);
	}
	/* The stack would answer over a session of plain IPv6 without a nonce, which proves
	 * nothing: its correspondent could not have its session back.
	 */
	if (verdict < 0 && (how & WAITS || (p && p->flags & ENTRY_PLAIN && is_probe(skb, in))))
		return hold(skb, in, p, about, how);
	if (how & IS_KNOWN || !is_untold())
		tell(&unvalidated, skb, p ? EV_OTHER_NONCE : EV_PENDING, about);
	return verdict >= 0 ? verdict : take_pending(skb, in, p, RULE_NOT_FOUND);
}

/* Our nonce towards the sender of a packet. e: the entry of its NID, if it is in its place.
 * A function of its own, as the stack is limited.
 */
__noinline int own_nonce(const struct inbound *in, const struct pending_peer *e, struct event *about)
{
	if (!in || !about)
		return 0;
	if (e)
		return place_nonce(&about->key, is_given(in) ? 0 : in->src.l64.v, e->epoch, &about->own_nonce);
	return unlisted_nonce(&about->key, nonce_id(&in->c.nonce), in->src.l64.v, &about->own_nonce);
}

/* Treats an unknown node as a host without ILNP does: the stack answers with Parameter
 * Problem.
 */
static __always_inline int not_admitted(struct inbound *in)
{
	in->refused = RX_NOT_ADMITTED; /* so that the security log can name it */
	count(RX_NOT_ADMITTED);
	return PASS_ON;
}

/* Receives a nonce of a peer without a session (p is 0), or another nonce than the
 * session's: notes it in a bounded table, and answers.
 *
 * At a locator to which the session's packets go anyway, the answer bears the session's
 * own nonce. So the nonce of a host that remembers does not change, whatever the other
 * end forgets, and two ends that each treat the other as new agree after one exchange. If
 * each made up a nonce for the other's new one, they could go on for ever. Elsewhere the
 * answer bears a nonce for pending peers: a node that claims a NID must not learn the
 * nonce that the true owner accepts as ours.
 *
 * Packets from where the NID is not known to be wait with the daemon until their sender
 * is validated.
 *
 * Returns a verdict, or what shall become of the packet.
 */
__noinline int receive_pending(struct __sk_buff *skb, struct inbound *in, const struct session_entry *p)
{
	struct host *h = this_host();
	struct event about;
	struct pending_peer *e;
	int how, waits;
	union half nid; /* the key of a map stands on the stack: Linux 6.1 */

	if (!h || !in || !locator_on_wire(in->src.l64))
		return drop(DROP_MALFORMED);
	nid = in->src.nid;
	if (!p && !(h->flags & HOST_ACCEPT_ANY) && !bpf_map_lookup_elem(&known_nids, &nid))
		return not_admitted(in);
	about_inbound(&about, in);
	about.bytes = skb->len - in->l3;
	if (!in->c.nonce.len)
		return receive_by_place(skb, in, &about);
	waits = !in->plain && (!is_in_place(in, p) || is_second(in, &about.key));
	e = waits ? 0 : entry_of(&about.key, is_told(skb, in));
	if (e) {
		how = note_pending(skb, in, e, h->epoch);
		about.rule = e->rule;
		if (!(how & IS_ELSEWHERE))
			about.packets = e->tx_packets;
	} else {
		how = note_other(skb, in);
	}
	own_nonce(in, e, &about);
	if (is_probe(skb, in))
		about.rule = IS_PROBE;
	if (p && is_own_place(p, locator_accepted(p, in->src.l64.v))) {
		about.own_nonce = p->local_nonce;
		how &= IS_KNOWN;
	}
	if (in->c.proto == IPPROTO_ICMPV6)
		return receive_pending_message(skb, in, p, &about, how | (waits ? WAITS : 0));
	if (waits)
		return hold(skb, in, p, &about, how);
	if (how & IS_KNOWN || !is_untold())
		tell(&unvalidated, skb, e && !(how & IS_ELSEWHERE) && acks_syn_ack(skb, e, in) ? EV_ACKED : p ? EV_OTHER_NONCE : EV_PENDING, &about);
	return take_pending(skb, in, p, about.rule);
}

#endif
