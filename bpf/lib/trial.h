/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The right nonce proves who, not where: whoever knows it could name a victim's
 * locator and have us flood it. Towards a locator that has not been proven
 * reachable no more is sent than three times what came from it, and ten
 * packets, as long as there is a proven one to send the rest to; with none, no
 * more than the rate before, for two round trips.
 */
#ifndef ROAM_TRIAL_H
#define ROAM_TRIAL_H

#include "maps.h"

#define TRIAL_FACTOR 3
#define TRIAL_PACKETS 10
#define TRIAL_OCTETS 1500 /* of a packet; a super-packet becomes as many as it has of these */
#define TRIAL_AFRESH 5000000000ULL /* ns after which a locator gets its allowance anew */

static __always_inline struct trial_key trial_key_of(const struct pair *p, union half l64)
{
	struct trial_key k = { .l64 = l64, .slot = p->slot, .birth = p->birth };

	return k;
}

static __always_inline struct trial *trial_of(const struct pair *p, union half l64)
{
	struct trial_key k = trial_key_of(p, l64);
	struct trial *t = bpf_map_lookup_elem(&trials, &k);
	struct trial fresh = { .since = bpf_ktime_get_coarse_ns() };

	if (t && fresh.since - t->since < TRIAL_AFRESH)
		return t;
	bpf_map_update_elem(&trials, &k, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&trials, &k);
}

/* Notes what came from an unproven locator. */
__noinline int trial_heard(const struct pair *p, __u64 l64, __u32 len)
{
	struct trial *t = p ? trial_of(p, (union half){ .v = l64 }) : 0;

	if (t)
		__sync_fetch_and_add(&t->rx_bytes, len);
	return 0;
}

/* May so many octets go to this unproven locator? With rate the looser rule
 * holds, that of a pair without any proven locator. What may is counted.
 */
static __always_inline int trial_allows(const struct pair *p, const struct pair_live *l, union half l64, __u32 len,
					int rate)
{
	struct trial *t = trial_of(p, l64);
	__u64 elapsed;

	if (!t)
		return 1; /* no memory: rather a packet too many than a session lost */
	if (t->tx_packets < TRIAL_PACKETS || t->tx_bytes + len <= TRIAL_FACTOR * t->rx_bytes)
		goto allowed;
	elapsed = bpf_ktime_get_coarse_ns() - t->since;
	if (!rate || elapsed > p->grace)
		return 0;
	/* The rate before, with one more window's worth for bursts. */
	if (t->tx_bytes + len > (__u64)l->rate_last * (elapsed + RATE_WINDOW) / RATE_WINDOW)
		return 0;
allowed:
	__sync_fetch_and_add(&t->tx_packets, 1 + len / TRIAL_OCTETS);
	__sync_fetch_and_add(&t->tx_bytes, len);
	return 1;
}

/* Keeps the octets of the last full window of sending. */
static __always_inline void rate_note(struct pair_live *l, __u64 now, __u32 len)
{
	if (now - l->rate_since >= RATE_WINDOW) {
		l->rate_last = now - l->rate_since < 2 * RATE_WINDOW ? l->rate_now : 0;
		l->rate_now = 0;
		l->rate_since = now;
	}
	l->rate_now += len;
}

/* The same for a correspondent without a session: nothing there is proven. */
static __always_inline int embryo_allows(struct embryo *e, __u32 len)
{
	if (e->tx_packets >= TRIAL_PACKETS && e->tx_bytes + len > TRIAL_FACTOR * e->rx_bytes)
		return 0;
	__sync_fetch_and_add(&e->tx_packets, 1 + len / TRIAL_OCTETS);
	__sync_fetch_and_add(&e->tx_bytes, len);
	return 1;
}

#endif
