/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Finds a session by its aliases. With many sessions each step of a search is a cache
 * miss, so there are two steps: the index, which is small, and then the line of a settled
 * session, which is all that its packets need; of other sessions, at once the entry and
 * what was seen of them.
 */
#ifndef ROAM_ILNP_INDEX_H
#define ROAM_ILNP_INDEX_H

#include "clock.h"
#include "config.h"
#include "maps.h"
#include "../lib/likely.h"
#include "../lib/order.h"

/* An entry of the index, and the bits of a hash that choose the buckets. */
#define INDEX_TAG 42    /* the hash from this bit on */
#define INDEX_ENTRY 21   /* index in sessions plus one */
#define INDEX_SECOND 20 /* of the hash: where the second bucket's number begins */
#define INDEX_SLOT ((1U << INDEX_ENTRY) - 1)

static __always_inline struct host *this_host(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&hosts, &zero);
}

/* The hash of two aliases. It is keyed, as a validated peer may have chosen its NID. The
 * sum of products over halves collides for any two aliases with a chance of 2^-32; then
 * the bits are mixed.
 */
static __always_inline __u64 index_hash(const struct host *h, const struct session_key *k)
{
	__u64 a = k->local.v, b = k->remote.v, x;

	x = (__u64)((__u32)a + (__u32)h->index_key[0]) * ((__u32)(a >> 32) + (__u32)(h->index_key[0] >> 32)) +
	    (__u64)((__u32)b + (__u32)h->index_key[1]) * ((__u32)(b >> 32) + (__u32)(h->index_key[1] >> 32));
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return x ^ x >> 32;
}

/* The entry with the tag of this hash among half of those of a bucket. There is no branch
 * for each entry: the right one differs for each packet, and mispredictions cost more than
 * looking at all.
 */
static __always_inline __u64 search_half(const __u64 *half, __u64 hash)
{
	__u64 found = 0;

	for (int i = 0; i < BUCKET / 2; i++) {
		__u64 entry = *(const volatile __u64 *)&half[i], other = (entry ^ hash) >> INDEX_TAG;

		other -= 1; /* all bits of the right one are set now */
		asm volatile("%0 s>>= 63" : "+r"(other));
		found |= entry & other;
	}
	return found;
}

/* The entry of a bucket with the tag of this hash; the daemon ensures that no bucket has two,
 * and takes the first free place. So most are found in the first half.
 */
static __always_inline __u64 search_bucket(const struct bucket *b, __u64 hash)
{
	return search_half(b->entry, hash) ?: search_half(b->entry + BUCKET / 2, hash);
}

/* Loads the lines that will be needed later, while other loads are under way. */
static __always_inline void fetch_live(__u32 slot)
{
	const struct session_live *l = bpf_map_lookup_elem(&session_lives, &slot);
	const struct session_details *d = bpf_map_lookup_elem(&session_details, &slot);

	if (!l || !d)
		return;
	*(const volatile __u32 *)&l->state;
	*(const volatile __u32 *)&d->birth;
}

static __always_inline int is_session_of(const struct session_entry *p, const struct session_key *k)
{
	if (p->flags & ENTRY_BY_ALIAS && p->alias.local.v == k->local.v && p->alias.remote.v == k->remote.v)
		return 1;
	if (p->flags & ENTRY_BY_ALIAS && !(p->flags & ENTRY_NAMED))
		return 0;
	return p->local_nid.v == k->local.v && p->remote_nid.v == k->remote.v;
}

static __always_inline __u32 index_place(__u64 entry)
{
	return (entry >> INDEX_ENTRY & INDEX_SLOT) - 1;
}

/* The entry of the index of the session with these aliases, or 0. Global, so that the verifier
 * looks at it once, and that its code lies elsewhere.
 */
__noinline __u64 search_index(const struct session_key *k)
{
	struct host *h = this_host();
	__u64 hash;

	if (!h || !k)
		return 0;
	hash = index_hash(h, k);
	for (int i = 0; i < 2; i++) {
		__u32 n = (i ? hash >> INDEX_SECOND : hash) & index_mask;
		const struct bucket *b = bpf_map_lookup_elem(&session_index, &n);
		__u64 entry = b ? search_bucket(b, hash) : 0;
		struct session_entry *p;

		if (!entry)
			continue;
		fetch_live(entry & INDEX_SLOT);
		n = index_place(entry);
		p = bpf_map_lookup_elem(&sessions, &n);
		if (p && is_session_of(p, k))
			return entry;
	}
	return 0;
}

/* What the line in a slot says, before which nothing else of it is read. Null if there is no
 * such slot.
 */
static __always_inline struct session_live *read_line(__u32 slot, __u64 *word)
{
	struct session_live *l = bpf_map_lookup_elem(&session_lives, &slot);

	if (unlikely(!l))
		return 0;
	*word = *(const volatile __u64 *)&l->settled;
	return after(l, *word);
}

#define SETTLED_FOUND ((__u64)(SETTLED_WRITTEN | SETTLED_BY_ALIAS) << SETTLED_FLAGS)
#define SETTLED_BY_NIDS ((__u64)SETTLED_WRITTEN << SETTLED_FLAGS)

/* Does a line say that its session is found by its NIDs alone, and are they these? */
static __always_inline int is_line_of(const struct session_live *l, __u64 word, const struct session_key *k)
{
	return (word & SETTLED_FOUND) == SETTLED_BY_NIDS && l->local_nid.v == k->local.v &&
	       l->remote_nid.v == k->remote.v;
}

/* The same as search_index for a packet that needs nothing but the line, which says of most
 * sessions whose it is.
 */
__noinline __u64 search_line_entry(const struct session_key *k)
{
	struct host *h = this_host();
	__u64 hash, word = 0;

	if (!h || !k)
		return 0;
	hash = index_hash(h, k);
	for (int i = 0; i < 2; i++) {
		__u32 n = (i ? hash >> INDEX_SECOND : hash) & index_mask;
		const struct bucket *b = bpf_map_lookup_elem(&session_index, &n);
		__u64 entry = b ? search_bucket(b, hash) : 0;
		const struct session_live *l;
		struct session_entry *p;

		if (!entry)
			continue;
		l = read_line(entry & INDEX_SLOT, &word);
		if (l && is_line_of(l, word, k))
			return entry;
		n = index_place(entry);
		p = bpf_map_lookup_elem(&sessions, &n);
		if (p && is_session_of(p, k))
			return entry;
	}
	return 0;
}

/* The line of the session with these aliases, or null. found becomes its entry of the
 * index, and word what the line says. Most are in the first half of their first bucket, and
 * their line says whose it is.
 */
static __always_inline struct session_live *search_line(const struct host *h, const struct session_key *k,
							__u64 *found, __u64 *word)
{
	__u64 hash = index_hash(h, k);
	__u32 n = hash & index_mask;
	const struct bucket *b = bpf_map_lookup_elem(&session_index, &n);
	struct session_live *l;

	if (unlikely(!b))
		return 0;
	*found = search_half(b->entry, hash);
	l = read_line(*found & INDEX_SLOT, word);
	if (likely(l && *found && is_line_of(l, *word, k)))
		return l;
	*found = search_line_entry(k);
	return *found ? read_line(*found & INDEX_SLOT, word) : 0;
}

/* The result of a compact path that leaves the packet as it is: this, plus one more than
 * the place of its session where the path has found that. Other results are verdicts,
 * which are less.
 */
#define UNSETTLED (1 << 30)

/* The place of the session with these aliases, as a result of a compact path. */
static __always_inline int find_place(const struct session_key *k)
{
	__u64 entry = search_index(k);

	return entry ? UNSETTLED + 1 + index_place(entry) : UNSETTLED;
}

/* The session in a place, or null. */
static __always_inline struct session_entry *session_at(__u32 place)
{
	place -= UNSETTLED + 1;
	return bpf_map_lookup_elem(&sessions, &place); /* has no place as large as -1 */
}

#endif
