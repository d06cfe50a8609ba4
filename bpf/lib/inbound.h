/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From the wire to session addresses: whose packet is it, and what becomes of
 * it.
 */
#ifndef ROAM_INBOUND_H
#define ROAM_INBOUND_H

#include "mss.h"
#include "real.h"
#include "rule.h"
#include "standing.h"

/* Answers an echo request where it stands: a probe must come back on the path
 * that it took, also from a correspondent without a session, also while the
 * daemon is away. Returns -1 when the stack shall answer.
 */
static __always_inline int reflect(struct __sk_buff *skb, const struct inbound *in, const struct nonce *own)
{
	struct addr swapped[2] = { in->dst, in->src };
	__u8 mac[12], back[12];
	__u8 type = ICMP6_ECHO_REPLY, hop_limit = 64;

	if (in->c.fragment != WHOLE || own->len != in->c.nonce.len)
		return -1;
	if (in->l3 == ETH_LEN) {
		if (bpf_skb_load_bytes(skb, 0, mac, 12))
			return -1;
		__builtin_memcpy(back, mac + 6, 6);
		__builtin_memcpy(back + 6, mac, 6);
		bpf_skb_store_bytes(skb, 0, back, 12, 0);
	}
	/* The type is the high octet of the first word; nonce and addresses are
	 * not, or not changed in sum, in the checksum.
	 */
	if (bpf_l4_csum_replace(skb, in->c.at + ICMP6_CSUM_AT, bpf_htons(ICMP6_ECHO_REQUEST << 8),
				bpf_htons(ICMP6_ECHO_REPLY << 8), 2) ||
	    bpf_skb_store_bytes(skb, in->c.at, &type, 1, 0) ||
	    bpf_skb_store_bytes(skb, in->l3 + 7, &hop_limit, 1, BPF_F_RECOMPUTE_CSUM) ||
	    bpf_skb_store_bytes(skb, in->l3 + 8, swapped, 32, 0))
		return drop(DROP_KERNEL_HELPER);
	if (own->len == 12)
		bpf_skb_store_bytes(skb, in->c.option_at + 2, own->b, 12, 0);
	else
		bpf_skb_store_bytes(skb, in->c.option_at + 2, own->b, 4, 0);
	count(RX_ECHO_REFLECTED);
	return bpf_redirect(skb->ifindex, 0);
}

/* Is this echo reply one that the daemon asked for? */
static __always_inline int is_probe_reply(struct __sk_buff *skb, const struct chain *c)
{
	struct host *h = this_host();
	__u16 id;

	if (c->type != ICMP6_ECHO_REPLY || !h || bpf_skb_load_bytes(skb, c->at + 4, &id, 2))
		return 0;
	return id == h->probe_id;
}

static __always_inline int hand_over_control(void *ring, struct __sk_buff *skb, const struct inbound *in,
					     const struct pair_key *key)
{
	struct event about;

	about_inbound(&about, in);
	about.key = *key;
	if (!tell_packet(ring, skb, in->l3, EV_CONTROL, &about))
		count(DROP_CONTROL_HANDED_OVER);
	return SHOT;
}

static __always_inline int locator_on_wire(union half l)
{
	return l.v != 0 && l.b[0] != 0xff && !(l.b[0] == 0xfe && (l.b[1] & 0xc0) == 0x80);
}

/* A Locator Update of a correspondent whose session the daemon is about to
 * make: it keeps it until then. Whoever begins with one has no session.
 */
static __always_inline int receive_early_update(struct __sk_buff *skb, const struct inbound *in,
						const struct event *about, int known)
{
	if (!known)
		return drop(DROP_UPDATE_NO_SESSION);
	return hand_over_control(&requests, skb, in, &about->key);
}

/* An echo request as the daemon sends them: 16 octets of data. */
static __always_inline int is_probe(struct __sk_buff *skb, const struct inbound *in)
{
	return in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_ECHO_REQUEST && skb->len - in->c.at == 8 + 16;
}

/* Notes what a packet shows of its sender's stack. */
static __always_inline void note_stack(struct __sk_buff *skb, const struct pair *p, struct pair_live *l,
				       const struct inbound *in, enum standing s)
{
	if (has_rule(in->c.proto) && in->c.nonce.len)
		l->with_nonce++;
	else if (has_rule(in->c.proto))
		l->without_nonce++;
	if (s != AUTHENTIC)
		return;
	if (is_probe(skb, in))
		l->asks = 1;
	note_rule(skb, p, l, in);
}

/* Does the daemon hear of a stranger by this packet? Of one of whom it does not,
 * nothing may stay here: no packet to it would be a miss.
 */
static __always_inline int is_told(struct __sk_buff *skb, const struct inbound *in)
{
	return in->c.proto != IPPROTO_ICMPV6 || (in->c.type != ICMP6_LOCATOR_UPDATE && !is_probe_reply(skb, &in->c));
}

/* A nonce from someone without a session, or with another nonce than the
 * session's: an entry in a bounded table, and an answer.
 */
static __always_inline int receive_embryo(struct __sk_buff *skb, const struct inbound *in, int other)
{
	struct embryo e = {
		.remote_l64 = in->src.l64, .local_l64 = in->dst.l64, .remote_nonce = in->c.nonce, .ifindex = skb->ifindex,
		.first_remote = in->src.l64, .first_local = in->dst.l64,
	};
	struct host *h = this_host();
	struct event about;
	struct embryo *old;
	int verdict, known;

	if (!h || !locator_on_wire(in->src.l64))
		return drop(DROP_MALFORMED);
	if (!other && !(h->flags & HOST_ACCEPT_ANY) && !bpf_map_lookup_elem(&known_nids, &in->src.nid))
		return PASS_ON; /* as if we had no ILNP: the stack answers with Parameter Problem */
	about_inbound(&about, in);
	e.epoch = h->epoch;
	e.rx_bytes = skb->len - in->l3;
	old = bpf_map_lookup_elem(&embryos, &about.key);
	known = old && same_nonce(&old->remote_nonce, &e.remote_nonce);
	if (known) {
		e.epoch = old->epoch;
		e.first_remote = old->first_remote;
		e.first_local = old->first_local;
	}
	if (known && old->remote_l64.v == e.remote_l64.v && old->local_l64.v == e.local_l64.v) {
		e.rule = old->rule;
		__sync_fetch_and_add(&old->rx_bytes, e.rx_bytes);
		if (e.rule == RULE_NOT_FOUND && has_rule(in->c.proto))
			old->rule = e.rule = rule_shown(skb, &in->c, in->l3);
	} else {
		if (known)
			e.rule = old->rule; /* it moved */
		else if (has_rule(in->c.proto))
			e.rule = rule_shown(skb, &in->c, in->l3);
		if (known || is_told(skb, in))
			bpf_map_update_elem(&embryos, &about.key, &e, BPF_ANY);
	}
	about.rule = is_probe(skb, in) ? IS_PROBE : e.rule;
	embryo_nonce(h, &e, in->dst.nid, in->src.nid, &about.own_nonce);
	if (in->c.proto == IPPROTO_ICMPV6) {
		if (is_probe_reply(skb, &in->c))
			return hand_over_control(&requests, skb, in, &about.key);
		if (in->c.type == ICMP6_LOCATOR_UPDATE)
			return receive_early_update(skb, in, &about, known);
	}
	tell(&requests, skb, other ? EV_OTHER_NONCE : EV_EMBRYO, &about);
	if (in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_ECHO_REQUEST) {
		verdict = reflect(skb, in, &about.own_nonce);
		if (verdict >= 0)
			return verdict;
	}
	if (other)
		return drop(DROP_WRONG_NONCE);
	return deliver(skb, in, 0, e.rule == RULE_RFC6741);
}

#define FOR_EMBRYO -2 /* of receive_pair: a stranger in the correspondent's name */

static __always_inline int receive_pair(struct __sk_buff *skb, const struct pair *p, struct inbound *in)
{
	struct pair_live *l = live_of(p);
	enum standing s;
	int verdict, known;

	if (!l)
		return drop(DROP_KERNEL_HELPER);
	known = locator_accepted(p, in->src.l64.v);
	s = standing_of(skb, p, l, in, known);
	switch (s) {
	case OTHER_NONCE:
		return FOR_EMBRYO;
	case STRANGE_PLACE:
		return drop(DROP_UNKNOWN_LOCATOR);
	case NOT_NOW:
		return drop(DROP_NO_NONCE_YET);
	case BY_LOCATOR:
		if (in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_LOCATOR_UPDATE)
			return drop(DROP_UPDATE_NO_NONCE);
		if (p->flags & PAIR_PLAIN)
			count(RX_PLAIN);
		else if (in->c.proto == IPPROTO_ICMPV6)
			return drop(DROP_ICMP_NO_NONCE);
		break;
	case AUTHENTIC:
		break;
	}
	note_heard(skb, p, l, in, known);
	note_stack(skb, p, l, in, s);
	if (clamp_mss(skb, p, in))
		return drop(DROP_KERNEL_HELPER);
	/* The stack puts fragments together; the daemon listens there as well. */
	if (in->c.proto == IPPROTO_ICMPV6 && s == AUTHENTIC && in->c.fragment == WHOLE) {
		if (in->c.type == ICMP6_LOCATOR_UPDATE || is_probe_reply(skb, &in->c))
			return hand_over_control(&urgent, skb, in, &p->handle);
		if (in->c.type == ICMP6_ECHO_REQUEST) {
			verdict = reflect(skb, in, &p->local_nonce);
			if (verdict >= 0)
				return verdict;
		}
	}
	if (p->flags & PAIR_BY_HANDLE) {
		in->src.nid = p->handle.remote;
		in->dst.nid = p->handle.local;
	}
	return deliver(skb, in, sum_bytes(p->nid_delta), counts_nids_only(p, l));
}

/* The session between two nodes as they stand on the wire: by the NIDs, or,
 * when several correspondents claim that NID, by where it is.
 */
static __always_inline struct pair_key handle_of(union half local_nid, const struct addr *remote)
{
	struct pair_key key = { .local = local_nid, .remote = remote->nid };
	struct homonym_key where = { .local_nid = local_nid, .remote = *remote };
	struct pair_key *handle = bpf_map_lookup_elem(&homonyms, &where);

	return handle ? *handle : key;
}

/* The pair that a packet from outside speaks to. */
static __always_inline struct pair *pair_of(const struct inbound *in)
{
	struct pair_key key = handle_of(in->dst.nid, &in->src);

	return bpf_map_lookup_elem(&pairs, &key);
}

/* An ICMPv6 error about a packet of ours: the daemon translates it, for it
 * quotes wire addresses that no socket knows.
 */
static __always_inline int receive_error(struct __sk_buff *skb, const struct inbound *in)
{
	struct event about;
	struct addr quoted[2];
	struct pair_key key;
	struct pair *p;

	if (bpf_skb_load_bytes(skb, in->c.at + 8 + 8, quoted, sizeof(quoted)))
		return PASS_ON;
	key = handle_of(quoted[0].nid, &quoted[1]);
	p = bpf_map_lookup_elem(&pairs, &key);
	if (!p && !bpf_map_lookup_elem(&embryos, &key))
		return PASS_ON; /* about a packet that was none of ours */
	if (p && p->flags & PAIR_REAL_SOCKETS && real_socket(skb, in->c.at + 8, 1))
		return PASS_ON; /* about one of plain IPv6 */
	about_inbound(&about, in);
	about.key = key;
	if (!tell_packet(&requests, skb, in->l3, EV_ERROR_IN, &about))
		count(DROP_ERROR_HANDED_OVER);
	return SHOT;
}

#endif
