/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Compares a packet from the wire with the session that it names: by the right nonce, by
 * a known locator, or not at all. Counts what belongs to the session.
 */
#ifndef ROAM_ILNP_MATCH_H
#define ROAM_ILNP_MATCH_H

#include "tcpecho.h"
#include "ringbudget.h"
#include "amplification.h"

/* May a packet without nonce come from this locator? 0 if not, else the index in remote[]
 * plus one, or more than MAX_REMOTE for a locator of the map sources. Global, so that the
 * verifier looks at the loop once and not for every caller.
 */
__noinline int locator_accepted(const struct session_entry *p, __u64 l64)
{
	if (!p || !l64)
		return 0;
	for (int i = 0; i < MAX_REMOTE; i++)
		if (p->remote[i].v == l64)
			return i + 1;
	if (!p->n_sources)
		return 0;
	struct allowance_key k = { .l64.v = l64, .slot = p->slot, .birth = p->birth };

	return bpf_map_lookup_elem(&sources, &k) ? MAX_REMOTE + 1 : 0;
}

/* The same, without a call for the first locator. */
static __always_inline int locator_known(const struct session_entry *p, union half l64)
{
	return l64.v && p->remote[0].v == l64.v ? 1 : locator_accepted(p, l64.v);
}

/* Is this a locator that the session may send to, and not validated? The session knows a
 * locator that is not listed at all by the nonce only.
 */
static __always_inline int is_unvalidated(const struct session_entry *p, int known)
{
	return !known || (known <= MAX_REMOTE && p->unvalidated >> (known - 1) & 1);
}

/* Counts packets from a locator that is not validated: they bound what may go there.
 * Reports each power of two, as the part of the allowance that is the daemon's grows, and
 * as it asks places that data come from. Packets that are refused, as anybody can write
 * them, count by themselves and only towards the daemon's part.
 */
__noinline int note_more(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
			 const struct inbound *in, int refused)
{
	union half place;
	struct event about;
	struct allowance *t;

	if (!p || !d || !in)
		return 0;
	place = in->src.l64;
	if (refused)
		place.b[0] = NO_LOCATOR;
	t = credit_allowance(p, place, skb->len - in->l3);
	if (!t || t->rx_packets & (t->rx_packets - 1) || !has_share(d, 0))
		return 0;
	about_inbound(&about, in);
	about.key = p->alias;
	about.bytes = t->rx_bytes < 0xffffffff ? t->rx_bytes : 0xffffffff;
	about.packets = t->rx_packets;
	tell(&urgent, skb, EV_MORE, &about);
	return 0;
}

/* Counts a packet that belongs to the session. */
static __always_inline void note_heard(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
				       const struct inbound *in, int known)
{
	note_came(p, d, skb->len - in->l3);
	if (p->flags & ENTRY_DEAD && !d->life_told) {
		d->life_told = 1;
		tell_of(skb, in, p, EV_LIFE, 0);
	}
	/* An acknowledgement of TCP does not prove the place: a peer knows the sequence
	 * numbers of data that never reached it, and may write the victim's address as
	 * its own. Only a node that has received a probe can answer it.
	 */
	if (is_unvalidated(p, known))
		note_more(skb, p, d, in, 0);
}

enum match {
	AUTHENTIC,      /* the right nonce */
	BY_LOCATOR,     /* no nonce, from a locator of the session */
	OTHER_NONCE,    /* another nonce than the session's: never this session (RFC 6741 §5.4) */
	NOT_NOW,        /* no nonce, while the session is being set up */
	STRANGE_PLACE,  /* no nonce, unknown locator */
	UNCONFIRMED,    /* unknown locator, and a nonce that a forger may have made up and could send from anywhere */
};

/* Do packets of the session go to this locator anyway, so that its nonce may? Not before
 * the locator is validated or a record lists it: it may be a pending peer's.
 */
static __always_inline int is_own_place(const struct session_entry *p, int known)
{
	if (known < 1 || known > MAX_REMOTE)
		return 0;
	return !(p->unvalidated >> (known - 1) & 1) || p->given >> (known - 1) & 1;
}

/* May a packet from there be another node's? It may where another node with the
 * correspondent's NID has sent its nonce from there, and at every place that a node
 * without a record has only announced: the first node that claimed the NID may announce
 * the locators of the NID's user. Where this host sends to no other place, the answer
 * goes to the sender in either case.
 */
__noinline int is_claimed(const struct session_entry *p, const struct inbound *in)
{
	struct session_key key;
	struct pending_peer *e;
	__u64 id;
	int is;

	if (!p || !in)
		return 0;
	if (p->flags & ENTRY_UNRECORDED && (p->n_remote != 1 || p->remote[0].v != in->src.l64.v))
		return 1; /* by one that need not have spoken yet */
	key.local = p->local_nid;
	key.remote = p->remote_nid;
	e = bpf_map_lookup_elem(&pending_peers, &key);
	if (!e)
		return 0;
	is = e->remote_nonce.len && e->remote_l64.v == in->src.l64.v && !same_nonce(&e->remote_nonce, &p->remote_nonce);
	id = nonce_id(&p->remote_nonce);
	for (int i = 0; i < OTHERS; i++)
		is |= e->others[i].nonce && e->others[i].nonce != id && e->others[i].l64.v == in->src.l64.v;
	return is;
}

/* Compares a packet with its session. known: the result of locator_accepted for its
 * source.
 *
 * DEVIATION from RFC 6744 §4: from a locator where the right nonce was just seen, packets
 * without it are accepted as well, until the daemon has listed that locator. Most packets
 * that follow a move have none.
 */
static __always_inline enum match match_of(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
						 const struct inbound *in, int known)
{
	int seen = d->hint.v && d->hint.v == in->src.l64.v; /* there, with the nonce, or with a MAC */

	if (!in->c.nonce.len) {
		if (!known && !seen)
			return STRANGE_PLACE;
		if (!(p->flags & ENTRY_PLAIN) && known && !seen && !is_own_place(p, known) &&
		    ((p->flags & ENTRY_UNRECORDED && d->hint.v) || is_claimed(p, in))) {
			if (is_unvalidated(p, known))
				note_more(skb, p, d, in, 1);
			return STRANGE_PLACE; /* answers to a pending peer go to the hint, if there is one */
		}
		return p->flags & ENTRY_INITIATED && !d->retried && !d->learned.len ? NOT_NOW : BY_LOCATOR;
	}
	if (p->flags & ENTRY_PLAIN)
		return OTHER_NONCE;
	if (!p->remote_nonce.len) {
		if (!known)
			return OTHER_NONCE;
		if (!d->learned.len) {
			d->learned = in->c.nonce;
			tell_of(skb, in, p, EV_NONCE, 0);
		}
		return same_nonce(&d->learned, &in->c.nonce) ? AUTHENTIC : OTHER_NONCE;
	}
	if (!same_nonce(&p->remote_nonce, &in->c.nonce))
		return OTHER_NONCE;
	if (!known && !seen && p->flags & ENTRY_UNCONFIRMED) {
		if (has_share(d, 0))
			tell_of(skb, in, p, EV_LOCATOR, 0);
		return UNCONFIRMED; /* no sign of the peer's life: whoever read the nonce once may send it */
	}
	d->last_nonce_rx = moment(coarse_ns());
	/* The program does not follow a peer whose locator changes with every packet. */
	if (!known && !seen && !has_share(d, 0)) {
		count(DROP_RING_SHARE);
	} else if (!known && !seen) {
		d->hint = in->src.l64;
		tell_of(skb, in, p, EV_LOCATOR, 0);
	}
	return AUTHENTIC;
}

#endif
