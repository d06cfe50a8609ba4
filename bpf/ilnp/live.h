/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the programs note of a session: in its line what every packet needs, the rest in
 * its details. The details decide, and the state in the line follows them.
 */
#ifndef ROAM_ILNP_LIVE_H
#define ROAM_ILNP_LIVE_H

#include "clock.h"
#include "config.h"
#include "maps.h"

/* Time in ticks of 2^20 ns, to be compared by difference. */
static __always_inline __u32 tick(__u64 ns)
{
	return ns >> 20;
}

/* The same as a moment of something that may not have been yet, which is 0. */
static __always_inline __u32 moment(__u64 ns)
{
	return tick(ns) ?: 1;
}

/* Differs between an entry and those before it in the same slot: the daemon ensures it. */
static __always_inline __u16 edition_of(const struct session_entry *p)
{
	return p->seq + p->birth;
}

static __always_inline struct session_live *live_of(const struct session_entry *p)
{
	__u32 slot = p->slot;

	return bpf_map_lookup_elem(&session_lives, &slot);
}

/* Clears what does not belong to this session, or not to this entry of it. */
__noinline int renew(const struct session_entry *p, struct session_details *d)
{
	struct session_live *l;

	if (!p || !d)
		return 0;
	if (d->birth != p->birth) {
		l = live_of(p);
		if (l) {
			l->state = l->unanswered_tx = l->last_tx = l->last_rx = 0;
			l->tx = l->rx = 0;
		}
		__builtin_memset(d, 0, sizeof(*d));
		d->birth = p->birth;
	}
	__builtin_memset(&d->turns, 0, sizeof(d->turns));
	d->hint.v = 0;
	d->life_told = 0;
	d->seq = p->seq;
	return 0;
}

/* The details of a session; what is not its own is cleared. */
static __always_inline struct session_details *details_of(const struct session_entry *p)
{
	__u32 slot = p->slot;
	struct session_details *d = bpf_map_lookup_elem(&session_details, &slot);

	if (d && (d->birth != p->birth || d->seq != p->seq))
		renew(p, d);
	return d;
}

/* Is the rule of a correspondent certain? Where packets have confirmed the daemon's guess,
 * it is. A correspondent that runs Roam shows its rule with its first packet that bears a
 * nonce, and until then the guess will do. Where the path drops options, none bears one, and
 * all of them show it.
 */
static __always_inline int is_rule_settled(const struct session_entry *p, __u8 rule, __u8 asks)
{
	return !(p->flags & ENTRY_RULE_SOUGHT) || rule == (p->flags & ENTRY_RFC6741 ? RULE_RFC6741 : RULE_IPV6) ||
	       (asks && rule == RULE_NOT_FOUND && !(p->flags & ENTRY_ENCAP));
}

/* The state that the details make. */
static __always_inline __u32 state_of(const struct session_entry *p, const struct session_details *d, __u64 now)
{
	const volatile struct session_details *v = d;
	__u32 state = (__u32)edition_of(p) << STATE_EDITION;

	if (v->birth != p->birth || v->seq != p->seq)
		return state; /* another processor has a newer entry: then nothing is settled */
	return state | (now >> UNTIL_SHIFT >= p->nonce_until ? STATE_PAST_NONCES : 0) | (v->hint.v ? STATE_HINT : 0) |
	       (v->returned ? STATE_RETURNED : 0) | (v->bare ? STATE_BARE : 0) |
	       (is_rule_settled(p, v->rule, v->asks) ? STATE_RULE : 0);
}

/* Has the state in the line follow the details. Another processor may change these
 * meanwhile, and write the state too. The exchange orders what both write and read, so the
 * one whose state stays has seen all changes before it, and looks whether it was right.
 * Where others write all the time, nothing is settled. Call after every change of what the
 * state depends on. 0 if the session has a line.
 */
__noinline int settle(const struct session_entry *p, const struct session_details *d)
{
	struct session_live *l;
	__u32 state;
	__u64 now;

	if (!p || !d)
		return -1;
	l = live_of(p);
	if (!l)
		return -1;
	now = coarse_ns();
	state = state_of(p, d, now);
	for (int i = 0; i < 3; i++) {
		__sync_lock_test_and_set(&l->state, state);
		state = state_of(p, d, now);
		if (*(const volatile __u32 *)&l->state == state)
			return 0;
	}
	__sync_lock_test_and_set(&l->state, 0);
	return 0;
}

static __always_inline __u64 tally_packets(__u64 tally)
{
	return (tally & ~TALLY_RATED) >> TALLY_PACKETS;
}

static __always_inline __u64 tally_bytes(__u64 tally)
{
	return tally & ((1ULL << TALLY_PACKETS) - 1);
}

/* The bits of a tally one of which is set where it has as many bytes as SLOW. */
#define TALLY_SLOW ((1ULL << TALLY_PACKETS) - SLOW)

/* Moves what was counted into the totals. A reader that looks at the totals first misses
 * what is under way, and counts nothing twice.
 */
static __always_inline __u64 move_tally(__u64 *tally, __u64 *packets, __u64 *bytes)
{
	__u64 was = __sync_lock_test_and_set(tally, 0);

	__sync_fetch_and_add(packets, tally_packets(was));
	__sync_fetch_and_add(bytes, tally_bytes(was));
	return was;
}

/* Begins another window of the rate of sending: with the first packet of each window the
 * bytes of the one before are known. After a pause there was no rate. A session that sends
 * little has none, and only adds to its tally, so that its packets touch nothing but its line.
 * Its first window with a rate is counted without what may be from before.
 */
__noinline int begin_window(struct session_live *l, __u32 slot, __u32 now)
{
	struct session_details *d = bpf_map_lookup_elem(&session_details, &slot);
	__u64 was, bytes;
	__u32 since;

	if (!l || !d)
		return 0;
	since = now - l->last_tx;
	l->last_tx = now;
	was = move_tally(&l->tx, &d->tx_packets, &d->tx_bytes);
	bytes = tally_bytes(was);
	if (!(was & TALLY_RATED))
		bytes -= bytes < SLOW ? bytes : SLOW;
	if (bytes < SLOW || since >= 2 << RATE_SHIFT)
		bytes = 0;
	if (bytes > 0xffffffff)
		bytes = 0xffffffff;
	d->rate_last = bytes;
	if (tally_bytes(was) < SLOW || since >= 2 << RATE_SHIFT)
		return 0;
	return __sync_fetch_and_or(&l->tx, TALLY_RATED) >> 63; /* the result makes it a barrier: the rate is first */
}

/* Notes a packet of ours, which may not leave: then len is 0. A window has room for 64 GiB. */
static __always_inline void note_tx(struct session_live *l, __u32 slot, __u32 now, __u32 len)
{
	if ((now ^ l->last_tx) >> RATE_SHIFT && l->tx & (TALLY_RATED | TALLY_SLOW))
		begin_window(l, slot, now);
	l->last_tx = now;
	if (len)
		__sync_fetch_and_add(&l->tx, 1ULL << TALLY_PACKETS | len);
}

__noinline int move_received(struct session_live *l, __u32 slot)
{
	struct session_details *d = bpf_map_lookup_elem(&session_details, &slot);

	if (l && d)
		move_tally(&l->rx, &d->rx_packets, &d->rx_bytes);
	return 0;
}

/* Notes a packet that belongs to the session. */
static __always_inline void note_rx(struct session_live *l, __u32 slot, __u32 now, __u32 len)
{
	l->last_rx = now;
	l->unanswered_tx = 0;
	if (l->rx & TALLY_LARGE) /* before the atomic addition, behind which a load waits */
		move_received(l, slot);
	__sync_fetch_and_add(&l->rx, 1ULL << TALLY_PACKETS | len);
}

#endif
