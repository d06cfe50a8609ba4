/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Look-ups that both directions need. */
#ifndef ROAM_ILNP_SESSION_H
#define ROAM_ILNP_SESSION_H

#include "../lib/csum.h"
#include "drop.h"
#include "events.h"
#include "index.h"
#include "live.h"
#include "maps.h"
#include "../lib/parse.h"
#include "../lib/siphash.h"
#include "drop.h"

/* The counter of a negative result of a parser. */
static __always_inline __u32 reason_of(int fault)
{
	return fault == -PARSE_NONCE_LENGTH ? DROP_NONCE_LENGTH : DROP_MALFORMED;
}

static __always_inline path path_at(const struct session_entry *p, __u32 i)
{
	return i ? p->paths[i & (MAX_PATHS - 1)] : p->first;
}

static __always_inline __u32 path_uplink(const struct session_entry *p, __u32 i)
{
	return path_at(p, i) >> 4;
}

static __always_inline __u32 path_remote(const struct session_entry *p, __u32 i)
{
	return path_at(p, i) & (MAX_REMOTE - 1);
}

/* A nonce as one word, never 0. */
static __always_inline __u64 nonce_id(const struct nonce *n)
{
	const __u64 *w = (const __u64 *)n->b;
	__u32 rest = *(const __u32 *)(n->b + 8);

	return (*w ^ (__u64)rest << 16 ^ (__u64)n->len << 56) | 1;
}

/* Our nonce towards a pending peer where its NID is not known to be: one for each of its
 * nonces, at each locator. A node that forges a packet from there does not learn it.
 */
__noinline int unlisted_nonce(const struct session_key *nids, __u64 theirs, __u64 place, struct nonce *out)
{
	struct host *h = this_host();
	struct sip s;
	__u64 a, b;
	__u32 k;

	if (!h || !nids || !out)
		return 0;
	k = h->epoch & 1;
	sip_init(&s, h->secret[2 * k], h->secret[2 * k + 1] ^ 2);
	sip_word(&s, nids->local.v);
	sip_word(&s, nids->remote.v);
	sip_word(&s, theirs);
	sip_word(&s, place);
	a = sip_final(&s, 4);
	__builtin_memset(out, 0, sizeof(*out));
	out->len = h->nonce_len;
	__builtin_memcpy(out->b, &a, 4);
	if (h->nonce_len == 12) {
		sip_init(&s, h->secret[2 * k], h->secret[2 * k + 1] ^ 3);
		sip_word(&s, a);
		b = sip_final(&s, 1);
		__builtin_memcpy(out->b + 4, &b, 8);
	}
	return 0;
}

/* Our nonce towards the pending peers at a place: a locator, or 0 for all those that a
 * record lists. It depends on nothing else, so a node that forges packets from a locator
 * never receives the nonce that the node there receives.
 */
__noinline int place_nonce(const struct session_key *nids, __u64 place, __u32 epoch, struct nonce *out)
{
	struct host *h = this_host();
	struct sip s;
	__u64 a, b;
	__u32 k;

	if (!h || !nids || !out)
		return 0;
	k = epoch & 1;
	sip_init(&s, h->secret[2 * k], h->secret[2 * k + 1]);
	sip_word(&s, nids->local.v);
	sip_word(&s, nids->remote.v);
	sip_word(&s, place);
	a = sip_final(&s, 3);
	__builtin_memset(out, 0, sizeof(*out));
	out->len = h->nonce_len;
	__builtin_memcpy(out->b, &a, 4);
	if (h->nonce_len == 12) {
		sip_init(&s, h->secret[2 * k], h->secret[2 * k + 1] ^ 1);
		sip_word(&s, a);
		b = sip_final(&s, 1);
		__builtin_memcpy(out->b + 4, &b, 8);
	}
	return 0;
}

/* Our nonce towards the pending peer that is answered under its NID. */
static __always_inline int pending_nonce(const struct pending_peer *e, const struct session_key *nids,
					 struct nonce *out)
{
	return place_nonce(nids, e->given ? 0 : e->remote_l64.v, e->epoch, out);
}

#define RATE_COUNT_WINDOW 100000000ULL /* ns */
#define PENDING_MOST 1600 /* first packets of pending peers that are reported in a window, */
#define REPLIES_MOST 1600   /* and answers to probes; */
#define MISSES_MOST 100     /* packets of local programs to nobody */

/* Counts an event of a kind; true if it is beyond so many in a window. */
static __always_inline int exceeds_rate(__u32 kind, __u32 most)
{
	__u64 now = coarse_ns();
	struct rate_window *c = bpf_map_lookup_elem(&rate_windows, &kind);

	if (!c)
		return 0;
	if (now - c->since >= RATE_COUNT_WINDOW) {
		c->last = now - c->since < 2 * RATE_COUNT_WINDOW ? c->now : 0;
		c->now = 0;
		c->since = now;
	}
	__sync_fetch_and_add(&c->now, 1);
	return c->last > most || c->now > most;
}

/* The pending peer that is answered under an alias: its NID. */
static __always_inline struct pending_peer *pending_of(const struct session_key *k)
{
	struct pending_peer *e = bpf_map_lookup_elem(&pending_peers, k);

	return e && e->remote_nonce.len ? e : 0;
}

/* There is no branch for each NID, whose ways the verifier would follow all. */
static __always_inline int is_ours(const struct host *h, union half nid)
{
	__u64 other = -1ULL;

	for (int i = 0; i < MAX_NIDS; i++) {
		__u64 differs = h->nids[i].v ^ nid.v;

		other &= differs | -differs; /* the highest bit: it is not this one */
	}
	return nid.v && !(other >> 63);
}

/* Is a packet for another device of this host on this link, a VLAN or a macvlan? The
 * ingress of that device translates it. A tag with VLAN 0 is a priority only.
 */
static __always_inline int for_another_device(const struct __sk_buff *skb)
{
	return skb->pkt_type == PACKET_OTHERHOST || (unlikely(skb->vlan_tci & VLAN_ID) && skb->vlan_present);
}

#endif
