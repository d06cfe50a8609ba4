/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The ring to the daemon, which all nodes share: a storm of messages of some must not delay or displace
 * those of others. Each flow has a share, and messages that nothing ties to a flow leave a half of the
 * ring to those of flows.
 */
#ifndef ROAM_SBR_RINGSHARE_H
#define ROAM_SBR_RINGSHARE_H

#include "table.h"

#define SHARE_SHIFT 16                        /* the unit of these times: 2^16 ns */
#define SHARE_EACH (10000000U >> SHARE_SHIFT) /* of a flow's share for a message: a hundred a second, */
#define SHARE_BURST 32                        /* and so many at once, a sixteenth of the ring */
#define SHARE_AHEAD (2 * SHARE_BURST * SHARE_EACH) /* more than take_share leaves: such a time is past */

/* How full the ring may be, in bytes, for a message to enter it. */
enum ring_limit {
	NO_SHARE,
	RING_UNVALIDATED = HANDOVERS_LEN / 2,  /* anybody can send it */
	RING_FLOWS = HANDOVERS_LEN / 4 * 3, /* flows, and errors about packets of flows */
	RING_VALIDATED = HANDOVERS_LEN,        /* it has the right nonce of its flow */
};

static __always_inline int has_space(enum ring_limit most)
{
	return bpf_ringbuf_query(&handovers, BPF_RB_AVAIL_DATA) < most;
}

/* Takes a flow's share for a message; 0: it is used up. In place of a fill level there is the time at
 * which the bucket will be full again, as in ../ilnp/ringbudget.h.
 */
static __always_inline int take_share(const struct share_key *key)
{
	__u32 now = bpf_ktime_get_coarse_ns() >> SHARE_SHIFT, ahead = 0, full;
	__u32 *known = bpf_map_lookup_elem(&ring_shares, key);

	if (known)
		ahead = *known - now;
	if (ahead > SHARE_AHEAD)
		ahead = 0;
	if (ahead > (SHARE_BURST - 1) * SHARE_EACH)
		return 0;
	full = now + ahead + SHARE_EACH;
	if (known)
		*known = full;
	else
		bpf_map_update_elem(&ring_shares, key, &full, BPF_ANY);
	return 1;
}

/* The flow of the packet that an error quotes, which went the other way. Nonzero: it cannot be read. */
static __always_inline int quoted_flow(struct __sk_buff *skb, const struct crossing *x, int inward,
				       struct flow_key *key)
{
	__u32 quoted = x->c.at + 8; /* behind the ICMPv6 header */
	struct addr ends[2];

	if (bpf_skb_load_bytes(skb, quoted + __builtin_offsetof(struct ip6, src), ends, sizeof(ends)))
		return -1;
	key->inside = inward ? ends[0].nid : ends[1].nid;
	key->outside = inward ? ends[1].nid : ends[0].nid;
	return 0;
}

/* Has this message the nonce of its flow? */
static __always_inline int is_validated(const struct crossing *x, const struct flow_key *key, int inward)
{
	struct known k = known_whole(key);

	return k.flow && k.nonces && x->c.nonce.len &&
	       same_nonce(inward ? &k.nonces->inward : &k.nonces->outward, &x->c.nonce);
}

/* How full the ring may be for this message; NO_SHARE: its flow has used up its own. The messages with the
 * nonce of a flow, the errors about its packets, which anybody on their path can send, its packets that
 * are too big and its reports have shares apart, and both directions. Answers to the border from inside
 * have no nonce, and anybody there can send them.
 */
__noinline enum ring_limit limit_of(struct __sk_buff *skb, const struct crossing *x, enum handover_kind kind)
{
	struct share_key key = {.kind = kind};
	enum ring_limit limit = RING_FLOWS;
	int inward = kind == HAND_OUTSIDE;

	if (!x)
		return RING_UNVALIDATED;
	key.flow = x->key;
	if (kind == HAND_TOO_BIG) {
		if (!known_flow(&key.flow))
			return RING_UNVALIDATED;
	} else if (x->c.proto == IPPROTO_ICMPV6 && x->c.type <= ICMP6_ERROR_LAST && x->c.fragment != LATER_FRAGMENT) {
		key.is_error = 1;
		if (quoted_flow(skb, x, inward, &key.flow) || !known_flow(&key.flow))
			return RING_UNVALIDATED;
	} else if (is_validated(x, &key.flow, inward)) {
		limit = RING_VALIDATED;
	} else {
		return RING_UNVALIDATED;
	}
	return take_share(&key) ? limit : NO_SHARE;
}

#endif
