/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Packets of sessions from the wire: finds the session of a packet and decides whether to
 * deliver it, answer it, hand it over or drop it.
 */
#ifndef ROAM_ILNP_INBOUND_H
#define ROAM_ILNP_INBOUND_H

#include "pendinginput.h"
#include "answer.h"
#include "preinstalled.h"
#include "mss.h"
#include "realsocket.h"
#include "nonceretry.h"
#include "reportmac.h"

/* Notes that the correspondent has sent a probe, and which extension it asks for. */
__noinline int note_asked(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d, const struct inbound *in)
{
	__u32 asked = ASKED;
	int flags;

	if (!p || !d || !in)
		return 0;
	flags = report_flags(skb, in->c.at);
	if (flags >= 0 ? flags & REPORT_COUNTS : d->asks & ASKED_COUNTS) /* short probes say nothing of it, */
		asked |= ASKED_COUNTS;
	if (flags >= 0 ? flags & REPORT_ANSWERS : d->asks & ASKED_ANSWERS) /* nor of this */
		asked |= ASKED_ANSWERS;
	if (flags >= 0 ? flags & REPORT_PER_FLOW : skb->len - in->c.at == 8 + PROBE_PER_FLOW_LEN)
		asked |= ASKED_PER_FLOW;
	if (asked & ~d->asks & ASKED_PER_FLOW) { /* the withdrawal of that wish is not urgent */
		if (!has_share(d, 0))
			return 0; /* the next probe will do */
		tell_of(skb, in, p, EV_PER_FLOW, 0);
	}
	d->asks = asked;
	return 0;
}

/* Notes what a packet shows of the stack that sent it. A packet of plain IPv6 in a
 * session that is not plain does not show that packets of the session may go without
 * nonce.
 */
static __always_inline void note_stack(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
				       const struct inbound *in, enum match s, int plain)
{
	if (has_rule(in->c.proto) && in->c.nonce.len)
		d->with_nonce++;
	else if (has_rule(in->c.proto) && !plain && !(p->flags & ENTRY_PLAIN_FLOWS && in->c.proto == IPPROTO_TCP))
		d->bare = 1;
	if (s == AUTHENTIC && has_rule(in->c.proto))
		d->nonce_at = in->dst.l64;
	if (s != AUTHENTIC && !(p->flags & ENTRY_ENCAP)) {
		if (is_rule_sought(p, d) && !d->asks && in->c.proto == IPPROTO_UDP && in->c.fragment == WHOLE)
			note_bare(skb, p, d, in);
		return;
	}
	if (is_probe(skb, in))
		note_asked(skb, p, d, in);
	note_rule(skb, p, d, in);
}

/* Of a session with two aliases: does this packet belong to the one that is its NID?
 * Sockets connected to that alias decide. Sockets that accept packets from any peer get
 * the other alias, under which the correspondent was there first.
 */
__noinline int is_for_name(struct __sk_buff *skb, const struct inbound *in)
{
	struct bpf_sock_tuple t = {};
	struct host *h = this_host();
	struct bpf_sock *sk;
	int is;

	if (!h || !in)
		return 0;
	if (in->c.proto == IPPROTO_ICMPV6)
		return in->c.type == ICMP6_ECHO_REPLY;
	if (in->c.fragment != WHOLE || bpf_skb_load_bytes(skb, in->c.at, &t.ipv6.sport, 4))
		return 0;
	__builtin_memcpy(t.ipv6.saddr, &h->session_prefix, 8);
	__builtin_memcpy(&t.ipv6.saddr[2], &in->src.nid, 8);
	__builtin_memcpy(t.ipv6.daddr, &h->session_prefix, 8);
	__builtin_memcpy(&t.ipv6.daddr[2], &in->dst.nid, 8);
	if (in->c.proto == IPPROTO_TCP)
		return is_connection(skb, &t);
	if (in->c.proto != IPPROTO_UDP)
		return 0;
	sk = bpf_sk_lookup_udp(skb, &t, sizeof(t.ipv6), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	is = !!sk->dst_port; /* connected, hence to this very address */
	bpf_sk_release(sk);
	return is;
}

/* Answers an echo request that bears the nonce of its session. Negative: it is the stack's. The
 * answer to any request but a probe is a packet of this host, so where the host has rules these
 * decide how it leaves.
 */
static __always_inline int answer_in_session(struct __sk_buff *skb, const struct session_entry *p, struct inbound *in,
					     int known)
{
	int verdict;

	if (p->rules && !is_probe(skb, in))
		return -1;
	if (is_unvalidated(p, known))
		spend_allowance(p, in->src.l64.v, skb->len - in->l3);
	verdict = answer_echo(skb, in, &p->local_nonce);
	if (verdict == REDIRECT)
		report(skb, p, in);
	return verdict;
}

/* Notes by which path a packet has come, for reports, for answers and for acknowledgements. */
static __always_inline void note_way(struct __sk_buff *skb, const struct session_entry *p, const struct inbound *in)
{
	if (in->c.fragment != WHOLE)
		return;
	if (p->flags & ENTRY_COUNTED)
		count_path(skb, in->l3, in->c.at, in->c.proto, 0);
	if (p->flags & ENTRY_ANSWERS)
		note_flow(skb, in->l3, in->c.at, in->c.proto);
	if (p->flags & ENTRY_PLACED && in->c.proto == IPPROTO_TCP)
		note_data_path(skb, p, in->l3, in->c.at);
}

/* Returns a verdict, or what shall become of the packet. */
static __always_inline int receive_in_session(struct __sk_buff *skb, const struct session_entry *p, struct inbound *in)
{
	struct session_details *d = details_of(p);
	enum match s;
	int verdict, known, message, plain;

	if (!d)
		return drop(DROP_KERNEL_HELPER);
	known = locator_known(p, in->src.l64);
	s = match_of(skb, p, d, in, known);
	switch (s) {
	case OTHER_NONCE:
		return FOR_PENDING;
	case STRANGE_PLACE:
		return refuse(in, DROP_UNKNOWN_LOCATOR);
	case NOT_NOW:
		return drop(DROP_NO_NONCE_YET);
	case BY_LOCATOR:
		if (in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_LOCATOR_UPDATE)
			return refuse(in, DROP_UPDATE_NO_NONCE);
		if (p->flags & ENTRY_PLAIN)
			count(RX_PLAIN);
		else if (in->c.proto == IPPROTO_ICMPV6)
			return refuse(in, DROP_ICMP_NO_NONCE);
		break;
	case UNCONFIRMED: /* the core can tell by the token of a reply, or by an acknowledged update, whose it is */
		return takes_unconfirmed(skb, p, d, in) ? hand_over_own(skb, in, p) : refuse(in, DROP_UNKNOWN_LOCATOR);
	case AUTHENTIC:
		break;
	}
	if (known > p->n_remote)
		count(RX_STALE_LOCATOR);
	note_heard(skb, p, d, in, known);
	note_way(skb, p, in);
	plain = counts_nids_only(p, d) && !sums_nids_only(skb, in);
	note_stack(skb, p, d, in, s, plain);
	settle(p, d);
	/* The stack reassembles fragments; the daemon listens there as well. */
	message = in->c.proto == IPPROTO_ICMPV6 && s == AUTHENTIC && in->c.fragment == WHOLE;
	if (message && in->c.type == ICMP6_LOCATOR_UPDATE)
		return takes_update(skb, p, d, in, 0) ? hand_over_own(skb, in, p) : refuse(in, DROP_RING_SHARE);
	if (is_resync(skb, &in->c, &p->remote_nonce) || (message && is_probe_reply(skb, &in->c)))
		return has_share(d, skb->len - in->l3) ? hand_over_own(skb, in, p) : refuse(in, DROP_RING_SHARE);
	if (message && in->c.type == ICMP6_ECHO_REQUEST) {
		verdict = answer_in_session(skb, p, in, known);
		if (verdict >= 0)
			return verdict;
	}
	if (clamp_mss(skb, p, in) || forget_old_echo(skb, d, in))
		return drop(DROP_KERNEL_HELPER);
	if (p->flags & ENTRY_BY_ALIAS && !(p->flags & ENTRY_NAMED && is_for_name(skb, in))) {
		in->src.nid = p->alias.remote;
		in->dst.nid = p->alias.local;
	}
	return counts_nids_only(p, d) && !plain ? FOR_STACK_6741 : FOR_STACK;
}

/* The aliases of the session between two nodes on the wire: their NIDs, or, when several
 * correspondents claim that NID, those of the one at that locator.
 */
static __always_inline struct session_key aliases_of(union half local_nid, const struct addr *remote)
{
	struct session_key key = { .local = local_nid, .remote = remote->nid };
	struct collision_key where = { .local_nid = local_nid, .remote = *remote };
	struct host *h = this_host();
	struct session_key *alias = h && h->flags & HOST_NID_COLLISIONS ? bpf_map_lookup_elem(&nid_collisions, &where) : 0;

	return alias ? *alias : key;
}

/* Among correspondents with one NID, the session of the one whose nonce a packet bears,
 * from any locator (RFC 6741 §5.4), as find_place has it. The session whose alias is its
 * NID is not listed.
 */
static __always_inline int collision_by_nonce(const struct inbound *in)
{
	struct session_key key = { .local = in->dst.nid, .remote = in->src.nid };
	struct collision_key what = { .local_nid = in->dst.nid, .remote.nid = in->src.nid };
	struct host *h = this_host();
	struct session_key *alias;
	struct session_entry *p;
	__u32 place;

	if (!h || !(h->flags & HOST_NID_COLLISIONS))
		return UNSETTLED;
	what.remote.l64.b[0] = NO_LOCATOR;
	__builtin_memcpy(what.remote.l64.b + 1, in->c.nonce.b, 7);
	alias = bpf_map_lookup_elem(&nid_collisions, &what);
	if (alias)
		key = *alias;
	place = find_place(&key);
	p = session_at(place);
	return p && same_nonce(&p->remote_nonce, &in->c.nonce) ? place : UNSETTLED;
}

/* The place of the session of a packet from outside, as find_place has it. Global, so
 * that its keys are not on the stack of the program.
 */
__noinline int place_of(const struct inbound *in)
{
	struct session_entry *p;
	struct session_key key;
	int place;

	if (!in)
		return UNSETTLED;
	place = in->c.nonce.len ? collision_by_nonce(in) : UNSETTLED;
	if (place != UNSETTLED)
		return place;
	key = aliases_of(in->dst.nid, &in->src);
	place = find_place(&key);
	p = session_at(place);
	return p && is_waiting(p) ? UNSETTLED : place;
}

/* The session of a packet from outside, or null. place: that of the session, if the
 * compact path has found it.
 */
static __always_inline struct session_entry *session_of(const struct inbound *in, __u32 place)
{
	return session_at(place == UNSETTLED ? place_of(in) : place);
}

/* Hands an ICMPv6 error over, after kind says what the program did with it. spoilt: the
 * packet is no more what it was, and only the event goes.
 */
__noinline int tell_error(struct __sk_buff *skb, const struct inbound *in, const struct session_key *key, __u32 kind,
			  int spoilt)
{
	struct event about;

	if (!in || !key)
		return SHOT;
	about_inbound(&about, in);
	about.key = *key;
	if (spoilt)
		tell(&requests, skb, kind, &about);
	else if (tell_packet(skb, in->l3, kind, &about, kind == EV_RETRIED ? RING_REQUESTS : RING_UNVALIDATED))
		return SHOT;
	count(DROP_ERROR_HANDED_OVER);
	return SHOT;
}

/* Receives an ICMPv6 error about a packet of ours. The daemon translates it, as it quotes
 * wire addresses that no socket knows.
 */
__noinline int receive_error(struct __sk_buff *skb, const struct inbound *in)
{
	struct addr quoted[2];
	struct session_key key;
	struct session_entry *p;
	int left;

	if (!in || bpf_skb_load_bytes(skb, in->c.at + 8 + 8, quoted, sizeof(quoted)))
		return PASS_ON;
	key = aliases_of(quoted[0].nid, &quoted[1]);
	p = session_at(find_place(&key));
	/* An error with a nonce may answer a probe to a pending peer that waits. */
	if ((!p || is_waiting(p)) && !pending_of(&key) && !(in->c.nonce.len && bpf_map_lookup_elem(&pending_peers, &key)))
		return PASS_ON; /* about a packet of no session */
	if (p && p->flags & ENTRY_REAL_SOCKETS && real_socket(skb, in->c.at + 8, 1))
		return PASS_ON; /* about a packet of plain IPv6 */
	left = p && in->c.type == ICMP6_PARAMETER_PROBLEM ? retry_without_nonce(skb, in, p) : -1;
	if (left >= 0) /* the report follows the segment, as waking the daemon takes longer */
		return tell_error(skb, in, &key, EV_RETRIED, !left);
	return tell_error(skb, in, &key, EV_ERROR_IN, 0);
}

#endif
