/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The table of flows. With many flows each step of a search is a load from memory, of which a hash
 * table of the kernel needs three. So a flow lies in a set of a few places that its key names, next to
 * what packets need of it; one that finds no place there is in a table of the kernel.
 */
#ifndef ROAM_SBR_TABLE_H
#define ROAM_SBR_TABLE_H

#include <linux/errno.h>

#include "rule.h"
#include "../lib/order.h"

/* The number of sets in flow_sets, and how many flows there may be. The loader sets both. */
const volatile __u32 set_count = 1;
const volatile __u32 max_flows = 1;

/* The number of the set of a flow; setOf in internal/dataplane/border is the same. The hash has no secret:
 * nodes that choose their NIDs so that many flows share a set only have theirs in the kernel's table.
 */
static __always_inline __u32 set_of(const struct flow_key *k)
{
	__u64 x = (k->inside.v ^ k->inside.v >> 32) * 0xd6e8feb86659fd93ULL ^ k->outside.v;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return (x >> 32) * set_count >> 32;
}

/* A hash of a locator or NID, in which those that follow each other differ. */
static __always_inline __u32 hash_of(union half h)
{
	return (h.v ^ h.v >> 32) * 0xd6e8feb86659fd93ULL >> 32;
}

/* Where a flow lies; null: there is none. */
struct known {
	struct flow *flow;
	struct flow_nonces *nonces;
};

/* 1 more than the place of a flow in its set; 0: it is not there. There is no branch for each place: the
 * right one differs for each packet, and after a misprediction the load of its line begins anew.
 */
static __always_inline __u64 place_in(struct flow_set *s, const struct flow_key *k)
{
	__u64 found = 0;

	for (int i = 0; i < SET_FLOWS; i++) {
		const struct flow *f = &s->flow[i];
		__u64 inside = *(const volatile __u64 *)&f->key.inside.v;
		__u64 other = inside ^ k->inside.v;

		f = after(f, inside); /* else outside may be that of a flow that was there before */
		other |= *(const volatile __u64 *)&f->key.outside.v ^ k->outside.v;
		other |= -other;
		asm volatile("%0 s>>= 63" : "+r"(other)); /* no bit of the right one is set now */
		found |= ~other & (i + 1);
	}
	return k->inside.v ? found : 0;
}

/* Finds a flow; null: there is none. n: where the number of its set is left. found: 1 more than its place there, or
 * 0.
 */
static __always_inline struct flow *known_place(const struct flow_key *k, __u32 *n, __u64 *found)
{
	struct flow_key key = *k;
	struct flow_set *s;
	struct whole_flow *w;

	*n = set_of(&key);
	s = bpf_map_lookup_elem(&flow_sets, n);
	*found = s ? place_in(s, &key) : 0;
	if (*found)
		return after(&s->flow[(*found - 1) & (SET_FLOWS - 1)], *found);
	w = bpf_map_lookup_elem(&flows, &key);
	return w ? &w->flow : 0;
}

/* Finds a flow; null: there is none. */
static __always_inline struct flow *known_flow(const struct flow_key *k)
{
	__u64 found;
	__u32 n;

	return known_place(k, &n, &found);
}

/* Finds a flow with its nonces. */
static __always_inline struct known known_whole(const struct flow_key *k)
{
	struct flow_key key = *k;
	__u32 n = set_of(&key);
	struct flow_set *s = bpf_map_lookup_elem(&flow_sets, &n);
	struct nonce_set *rest = bpf_map_lookup_elem(&nonce_sets, &n);
	__u64 found = s && rest ? place_in(s, &key) : 0;
	struct whole_flow *w;

	if (found) {
		__u64 i = (found - 1) & (SET_FLOWS - 1);

		return (struct known){after(&s->flow[i], found), &rest->nonces[i]};
	}
	w = bpf_map_lookup_elem(&flows, &key);
	return w ? (struct known){&w->flow, &w->nonces} : (struct known){};
}

/* Only one program at a time changes which flows are in a set, or their nonces. Nonzero: it is
 * another one.
 */
static __always_inline int lock_set(struct nonce_set *rest)
{
	return __sync_val_compare_and_swap(&rest->nonces[0].locked, 0, 1);
}

static __always_inline void unlock_set(struct nonce_set *rest)
{
	__sync_lock_test_and_set(&rest->nonces[0].locked, 0);
}

/* How many places of internals are tried for a locator. */
#define INTERNAL_TRIES 8

/* Where in internals a locator is; 0: there was no space. One that is there stays, so no program
 * needs a lock to read it.
 */
static __always_inline __u8 place_internal(union half l64)
{
	for (__u32 i = 0; i < INTERNAL_TRIES; i++) {
		__u32 n = (hash_of(l64) + i) & (INTERNALS - 1);
		union half *there = bpf_map_lookup_elem(&internals, &n);
		__u64 was;

		if (!there || !n)
			continue;
		was = there->v;
		if (!was)
			was = __sync_val_compare_and_swap(&there->v, 0, l64.v);
		if (!was || was == l64.v)
			return n;
	}
	return 0;
}

/* The locator of the inside node of a flow; null: it is in flow_nonces alone. */
static __always_inline const union half *placed_internal(const struct flow *f)
{
	__u32 n = f->internal_at;

	return n ? bpf_map_lookup_elem(&internals, &n) : 0;
}

/* The same, wherever it is. */
static __always_inline union half internal_of(const struct flow_key *k, const struct flow *f)
{
	const union half *placed = placed_internal(f);
	const struct flow_nonces *nonces;

	if (placed)
		return *placed;
	nonces = known_whole(k).nonces;
	return nonces ? nonces->internal : (union half){};
}

/* Writes what packets with nonces have shown into a flow, beside which programs read it. They are of a new session,
 * whose outside node has acknowledged nothing.
 */
static __always_inline void write_flow(struct flow *f, struct flow_nonces *n, const struct whole_flow *now)
{
	n->internal = now->nonces.internal;
	f->internal_at = place_internal(now->nonces.internal);
	f->came = now->flow.came;
	f->sent = now->flow.sent;
	f->rule = now->flow.rule;
	f->came_to = 0;
	f->announced = 0;
	f->sealed = 0;
	f->link = now->nonces.ifindex;
	n->remote = now->nonces.remote;
	n->inward = now->nonces.inward;
	n->outward = now->nonces.outward;
	n->ifindex = now->nonces.ifindex;
}

/* Writes that the inside node of a flow is at a locator and link, which a packet with that nonce has shown. 0: the
 * flow has another nonce by now, or its set is in use.
 */
static __always_inline int move_flow(const struct flow_key *k, const struct nonce *shown, union half to, __u32 link)
{
	__u32 n = set_of(k);
	struct nonce_set *rest = bpf_map_lookup_elem(&nonce_sets, &n);
	struct known f;
	int done;

	if (!rest || lock_set(rest))
		return 0;
	f = known_whole(k);
	done = f.flow && f.nonces && same_nonce(&f.nonces->outward, shown);
	if (done) {
		f.nonces->internal = to;
		f.nonces->ifindex = link;
		f.flow->internal_at = place_internal(to);
		f.flow->link = link;
	}
	unlock_set(rest);
	return done;
}

enum change { CHANGED, NOT_CHANGED, SET_LOCKED, NONCE_KNOWN, ADDED };

/* Adds a flow to a set that this program has locked: ADDED. NOT_CHANGED: there is no space. SET_LOCKED: the
 * kernel's table is in use.
 */
static __always_inline enum change add_flow(struct flow_set *s, struct nonce_set *rest,
					    struct whole_flow *now)
{
	__u32 zero = 0;
	__u32 *known = bpf_map_lookup_elem(&flow_counts, &zero);
	const struct flow_key *key = &now->flow.key;
	enum change done = NOT_CHANGED;
	int err; /* before Linux 6.4 the kernel leaves the upper half of a long as it is */

	if (!known)
		return NOT_CHANGED;
	if (__sync_fetch_and_add(known, 1) >= max_flows)
		goto out;
	for (int i = 0; i < SET_FLOWS && key->inside.v; i++) {
		struct flow *f = &s->flow[i];

		if (f->key.inside.v)
			continue;
		write_flow(f, &rest->nonces[i], now);
		/* Each after all before it: a program may have read inside when another flow was here. */
		__sync_lock_test_and_set(&f->key.outside.v, key->outside.v);
		__sync_lock_test_and_set(&f->key.inside.v, key->inside.v);
		return ADDED;
	}
	now->flow.internal_at = place_internal(now->nonces.internal);
	now->flow.link = now->nonces.ifindex;
	err = bpf_map_update_elem(&flows, key, now, BPF_ANY);
	if (!err)
		return ADDED;
	if (err != -E2BIG && err != -ENOMEM)
		done = SET_LOCKED;
out:
	__sync_fetch_and_add(known, -1);
	return done;
}

/* Writes a flow, new: ADDED, or known: CHANGED; NOT_CHANGED: there is no space. NONCE_KNOWN: it has one of the nonces,
 * so the two are of no new session. What was pending may be older than the flow, where another
 * processor has confirmed it meanwhile. SET_LOCKED: its set, or the kernel's table, is in use.
 */
static __always_inline enum change put_flow(struct whole_flow *now)
{
	__u32 n = set_of(&now->flow.key);
	struct flow_set *s = bpf_map_lookup_elem(&flow_sets, &n);
	struct nonce_set *rest = bpf_map_lookup_elem(&nonce_sets, &n);
	enum change done = CHANGED;
	struct known f;

	if (!s || !rest || lock_set(rest))
		return SET_LOCKED;
	f = known_whole(&now->flow.key);
	if (!f.flow || !f.nonces)
		done = add_flow(s, rest, now);
	else if (same_nonce(&f.nonces->inward, &now->nonces.inward) ||
		 same_nonce(&f.nonces->outward, &now->nonces.outward))
		done = NONCE_KNOWN;
	else
		write_flow(f.flow, f.nonces, now);
	unlock_set(rest);
	return done;
}

#endif
