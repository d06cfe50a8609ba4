/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The table of pending peers: peers that have sent a nonce and have no session. */
#ifndef ROAM_ILNP_PENDING_H
#define ROAM_ILNP_PENDING_H

#include "control.h"
#include "realsocket.h"
#include "checksumrule.h"
#include "match.h"
#include "synack.h"

/* Is the NID of this packet known to be where it comes from? A record may list it there,
 * or the session p with another nonce may send there; an NID without a record is in place
 * anywhere. A packet from elsewhere may be from anybody: it is not delivered before its
 * sender is validated.
 */
static __always_inline int is_in_place(const struct inbound *in, const struct session_entry *p)
{
	struct addr at = in->src;
	__u8 *known;

	if (p) /* a session that is not found by its NIDs vouches for its own alias only */
		return (!(p->flags & ENTRY_BY_ALIAS) || p->flags & ENTRY_NAMED) && locator_accepted(p, at.l64.v);
	known = bpf_map_lookup_elem(&known_nids, &at.nid);
	return !known || *known == KNOWN_ANYWHERE || bpf_map_lookup_elem(&places, &at);
}

/* Does this packet make the program report its sender? A pending peer that is not
 * reported must leave no entry here, or packets to it would be no misses.
 */
static __always_inline int is_told(struct __sk_buff *skb, const struct inbound *in)
{
	return in->c.proto != IPPROTO_ICMPV6 || (in->c.type != ICMP6_LOCATOR_UPDATE && !is_probe_reply(skb, &in->c));
}

static const struct pending_peer no_pending = {}; /* static, as the stack is limited */

/* The entry of an NID. It is made if it is not there and make is set. */
static __always_inline struct pending_peer *entry_of(const struct session_key *key, int make)
{
	struct pending_peer *e = bpf_map_lookup_elem(&pending_peers, key);

	if (e || !make)
		return e;
	bpf_map_update_elem(&pending_peers, key, &no_pending, BPF_NOEXIST);
	return bpf_map_lookup_elem(&pending_peers, key);
}

#define IS_KNOWN 1     /* it has sent this nonce before */
#define WAITS 2        /* its packets wait until it is validated */
#define IS_ELSEWHERE 4 /* it was first seen at another locator, and may get another nonce of ours there */
#define BEGAN_ELSEWHERE 8 /* the same, but it is answered here, and not there */

/* Notes a pending peer that is not answered under its NID. There are three of them; a
 * further one replaces one of these. Returns IS_KNOWN and IS_ELSEWHERE.
 */
__noinline int note_other(struct __sk_buff *skb, const struct inbound *in)
{
	struct session_key key;
	struct pending_peer *e;
	int elsewhere;
	__u64 id;
	__u32 i;

	if (!in)
		return 0;
	key.local = in->dst.nid;
	key.remote = in->src.nid;
	id = nonce_id(&in->c.nonce);
	e = entry_of(&key, is_told(skb, in));
	if (!e)
		return 0;
	elsewhere = e->remote_l64.v != in->src.l64.v && same_nonce(&e->remote_nonce, &in->c.nonce) ? IS_ELSEWHERE : 0;
	for (i = 0; i < OTHERS; i++) {
		if (e->others[i].nonce != id)
			continue;
		e->others[i].encap |= in->encap;
		return IS_KNOWN | (e->others[i].l64.v != in->src.l64.v ? IS_ELSEWHERE : elsewhere);
	}
	i = e->next;
	if (i >= OTHERS)
		i = 0;
	e->next = i + 1;
	e->others[i].nonce = id;
	e->others[i].l64 = in->src.l64;
	e->others[i].encap = in->encap;
	return elsewhere;
}

/* Counts a packet of the pending peer that is answered under its NID. */
static __always_inline void note_received(struct __sk_buff *skb, const struct inbound *in, struct pending_peer *e)
{
	__sync_fetch_and_add(&e->rx_bytes, skb->len - in->l3);
	__sync_fetch_and_add(&e->rx_packets, 1);
	/* A packet without nonce may be an answer of plain IPv6, which shows no rule. */
	if (e->rule == RULE_NOT_FOUND && (in->c.nonce.len || e->encap) && has_rule(in->c.proto))
		e->rule = rule_shown(skb, &in->c, in->l3);
}

/* Does a record list the locator that a packet comes from? A function of its own, as the
 * stack is limited.
 */
__noinline int is_given(const struct inbound *in)
{
	struct addr at;

	if (!in)
		return 0;
	at = in->src;
	return !!bpf_map_lookup_elem(&places, &at);
}

#define STAYS 1000000000ULL /* ns after its last packet: how long a pending peer is answered at one locator */

/* Has the node been seen at another locator, where it is not in its place? */
static __always_inline int has_begun_elsewhere(const struct pending_peer *e, const struct inbound *in)
{
	__u64 id = nonce_id(&in->c.nonce);
	int is = 0;

	for (int i = 0; i < OTHERS; i++)
		is |= e->others[i].nonce == id && e->others[i].l64.v != in->src.l64.v;
	return is;
}

/* Updates the entry with a packet of a pending peer that is in its place. Another nonce
 * from the locator where the first peer is answered gets the same answer; the first peer
 * stays, also against another nonce from elsewhere. It also stays where it is while it
 * sends from two links, so that it gets one nonce of ours. Returns the flags above.
 */
__noinline int note_pending(struct __sk_buff *skb, const struct inbound *in, struct pending_peer *e, __u32 epoch)
{
	__u64 now = coarse_ns();
	int there, known, here, same_place, given;

	if (!in || !e)
		return 0;
	there = !!e->remote_nonce.len;
	known = there && same_nonce(&e->remote_nonce, &in->c.nonce);
	here = there && e->remote_l64.v == in->src.l64.v;
	same_place = here && e->local_l64.v == in->dst.l64.v;
	given = is_given(in);
	if (there && !known) {
		if (same_place)
			note_received(skb, in, e);
		return note_other(skb, in) & IS_KNOWN;
	}
	if (known && !here && !(e->given && given) && now - e->heard < STAYS) {
		e->also = in->src.l64;
		return IS_KNOWN | IS_ELSEWHERE;
	}
	if (!here)
		e->also = e->remote_l64;
	e->heard = now;
	if (!known) {
		e->epoch = epoch;
		e->encap = e->cuts = 0;
		e->rule = RULE_NOT_FOUND;
		e->since = now;
	}
	if (!same_place) {
		e->syn_ack = 0;
		e->remote_l64 = in->src.l64;
		e->local_l64 = in->dst.l64;
		e->ifindex = skb->ifindex;
		e->rx_bytes = e->rx_packets = e->tx_bytes = e->tx_packets = 0;
	}
	e->encap = in->encap ? PENDING_CAME | PENDING_SPOKE : e->encap & PENDING_SPOKE;
	e->given = given;
	note_received(skb, in, e);
	e->remote_nonce = in->c.nonce; /* last: from now on the peer is answered */
	return (known ? IS_KNOWN : 0) | (has_begun_elsewhere(e, in) ? BEGAN_ELSEWHERE : 0);
}

/* Is another pending peer answered under the NID, elsewhere? Then this one waits too. */
static __always_inline int is_second(const struct inbound *in, const struct session_key *key)
{
	struct pending_peer *e = pending_of(key);

	return e && e->remote_l64.v != in->src.l64.v && !same_nonce(&e->remote_nonce, &in->c.nonce);
}

/* Has a pending peer that is not answered under the NID sent its nonce in UDP from there?
 */
static __always_inline int is_encap_elsewhere(const struct pending_peer *e, union half l64)
{
	int is = 0;

	for (int i = 0; i < OTHERS; i++)
		is |= e->others[i].encap && e->others[i].l64.v == l64.v;
	return is;
}

#define FRESH 3000000000ULL /* ns after its first nonce: a peer that answers probes at all has answered several by then */

/* Does a datagram or an ICMPv6 message without nonce follow the nonces of a pending peer?
 * A node that forges addresses can have sent those nonces, and the node there may speak
 * plain IPv6. So packets count as the pending peer's for FRESH after its first nonce
 * only, and never if that node was seen to speak plain IPv6. Later it counts as a node
 * that does.
 */
static __always_inline int is_right_behind(struct __sk_buff *skb, const struct inbound *in, const struct pending_peer *e,
					   const struct session_key *key)
{
	int is_datagram = in->c.proto == IPPROTO_UDP;
	__u8 one = 1;

	if (!is_datagram && (in->c.proto != IPPROTO_ICMPV6 || in->c.type == ICMP6_LOCATOR_UPDATE ||
			     (in->c.fragment == WHOLE && is_probe_reply(skb, &in->c))))
		return 0;
	if (bpf_map_lookup_elem(&plain_nodes, key))
		return 0;
	if (coarse_ns() - e->since < FRESH)
		return !is_datagram || in->c.fragment != WHOLE || !real_datagram_of(skb, in->l3);
	bpf_map_update_elem(&plain_nodes, key, &one, BPF_ANY);
	return 0;
}

/* Has the pending peer that is answered under the NID sent its nonce from there? */
static __always_inline int sends_from(const struct pending_peer *e, union half l64)
{
	return e->remote_nonce.len && (e->remote_l64.v == l64.v || e->also.v == l64.v);
}

/* True if a packet without nonce comes from a locator where a pending peer sent its
 * nonce. If that nonce came in UDP, all its packets count: on a path that drops options
 * or ICMPv6 data goes without nonce after our answer, maybe before we have a session.
 * Otherwise GSO packets go without, and come before the daemon has made the session:
 * segments in the middle of a connection that no socket has on the wire addresses, and
 * that the stack would answer with a reset. Global: the verifier looks at it once.
 */
__noinline int speaks_for_pending(struct __sk_buff *skb, const struct inbound *in)
{
	struct session_key key;
	struct pending_peer *e;
	__u8 flags;

	if (!in)
		return 0;
	key.local = in->dst.nid;
	key.remote = in->src.nid;
	e = bpf_map_lookup_elem(&pending_peers, &key);
	if (!e)
		return 0;
	if (!sends_from(e, in->src.l64))
		return in->c.proto != IPPROTO_ICMPV6 && is_encap_elsewhere(e, in->src.l64);
	if (e->encap)
		return in->c.proto != IPPROTO_ICMPV6;
	if (in->c.proto != IPPROTO_TCP)
		return is_right_behind(skb, in, e, &key);
	if (in->c.fragment == LATER_FRAGMENT || bpf_skb_load_bytes(skb, in->c.at + TCP_FLAGS_AT, &flags, 1) ||
	    flags & TCP_SYN)
		return 0;
	return !real_socket(skb, in->l3, 0);
}

#endif
