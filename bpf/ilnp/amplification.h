/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The right nonce proves who a sender is, not where: a peer could name a victim's locator
 * and make us flood it (anti-amplification, RFC 9000 §8). Towards a locator that only the
 * correspondent named, at most three times the bytes that came from it leave, and one
 * packet of 100 bytes, until it is validated. Two of these three parts are for data and
 * for answers to echo requests, the rest is the daemon's (ilnp/allowance.go). Packets
 * beyond that go to a validated locator. Without one, the rate before the move is the
 * bound, for two round trips, and only towards a locator from which something has come. A
 * locator that a record names gets ten packets, and one more each second.
 */
#ifndef ROAM_ILNP_AMPLIFICATION_H
#define ROAM_ILNP_AMPLIFICATION_H

#include "maps.h"

#define ALLOWANCE_FACTOR 2
#define ALLOWANCE_PACKETS 10 /* to a locator that a record names */
#define ALLOWANCE_EACH 1000000000ULL /* ns after which such a locator gets one more */
#define ALLOWANCE_BYTES 1500 /* of a packet; a GSO packet counts as one for each of these */
#define ALLOWANCE_AFRESH 5000000000ULL /* ns after which a locator's allowance begins anew */

static __always_inline struct allowance_key allowance_key_of(const struct session_entry *p, union half l64)
{
	struct allowance_key k = { .l64 = l64, .slot = p->slot, .birth = p->birth };

	return k;
}

static __always_inline struct allowance *allowance_of(const struct session_entry *p, union half l64, int given)
{
	struct allowance_key k = allowance_key_of(p, l64);
	struct allowance *t = bpf_map_lookup_elem(&allowances, &k);
	struct allowance fresh = { .since = coarse_ns() };

	if (t && (given || fresh.since - t->since < ALLOWANCE_AFRESH))
		return t;
	bpf_map_update_elem(&allowances, &k, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&allowances, &k);
}

/* Counts bytes that came from an unvalidated locator. */
static __always_inline struct allowance *credit_allowance(const struct session_entry *p, union half l64, __u32 len)
{
	struct allowance *t = allowance_of(p, l64, 0);

	if (!t)
		return 0;
	__sync_fetch_and_add(&t->rx_bytes, len);
	__sync_fetch_and_add(&t->rx_packets, 1);
	return t;
}

static __always_inline void charge_allowance(struct allowance *t, __u32 len)
{
	__sync_fetch_and_add(&t->tx_packets, 1 + len / ALLOWANCE_BYTES);
	__sync_fetch_and_add(&t->tx_bytes, len);
}

/* Charges an answer to a packet that has just come from there. It is smaller than what
 * that packet added to the allowance.
 */
__noinline int spend_allowance(const struct session_entry *p, __u64 l64, __u32 len)
{
	struct allowance *t = p ? allowance_of(p, (union half){ .v = l64 }, 0) : 0;

	if (t)
		charge_allowance(t, len);
	return 0;
}

/* May len bytes go to this unvalidated locator? With rate, the looser rule of a session
 * without any validated locator holds. given: a record names the locator. Bytes that may
 * go are charged.
 */
static __always_inline int allowance_permits(const struct session_entry *p, const struct session_details *d, union half l64, __u32 len,
					int rate, int given)
{
	struct allowance *t = allowance_of(p, l64, given);
	__u64 elapsed, before;

	if (!t)
		return 1; /* no memory: a packet too many is better than a lost session */
	elapsed = coarse_ns() - t->since;
	if (given && t->tx_packets < ALLOWANCE_PACKETS + elapsed / ALLOWANCE_EACH)
		goto allowed;
	if (t->tx_bytes + len <= ALLOWANCE_FACTOR * t->rx_bytes &&
	    t->tx_packets + 1 + len / ALLOWANCE_BYTES <= ALLOWANCE_FACTOR * t->rx_packets)
		goto allowed;
	if (!rate || elapsed >= p->grace * 1000000ULL || !(t->rx_packets || given))
		return 0;
	/* The rate before, with one more window's worth for bursts; of a session that sends little no
	 * rate is noted, only that it is below SLOW.
	 */
	before = d->rate_last > SLOW ? d->rate_last : SLOW;
	if (t->tx_bytes + len > before * (elapsed + RATE_WINDOW) / RATE_WINDOW)
		return 0;
allowed:
	charge_allowance(t, len);
	return 1;
}

/* The allowance of a pending peer, where nothing is validated. Answers as long as the
 * packets that came are always within it.
 */
static __always_inline int pending_allows(struct pending_peer *e, __u32 len)
{
	if (!(e->given && e->tx_packets < ALLOWANCE_PACKETS) &&
	    (e->tx_bytes + len > ALLOWANCE_FACTOR * e->rx_bytes ||
	     e->tx_packets + 1 + len / ALLOWANCE_BYTES > ALLOWANCE_FACTOR * e->rx_packets))
		return 0;
	__sync_fetch_and_add(&e->tx_packets, 1 + len / ALLOWANCE_BYTES);
	__sync_fetch_and_add(&e->tx_bytes, len);
	return 1;
}

#endif
