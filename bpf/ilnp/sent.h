/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a packet that a local application sends shows of its session. */
#ifndef ROAM_ILNP_SENT_H
#define ROAM_ILNP_SENT_H

#include "control.h"
#include "amplification.h"

/* Does our own stack answer a probe, whose nonce is not as long as ours? What the program
 * answers itself counts for nothing either: two ends that ask each other about their paths
 * would take that for use of the session, and it would never end.
 */
static __always_inline int is_probe_answer(struct __sk_buff *skb, const struct chain *c)
{
	return c->proto == IPPROTO_ICMPV6 && c->type == ICMP6_ECHO_REPLY &&
	       (skb->len - c->at == 8 + PROBE_LEN || skb->len - c->at == 8 + PROBE_PER_FLOW_LEN);
}

/* Is a silence to be reported? This silence is reported again only after silence_again, a
 * new one at once. Call where packets are unanswered.
 */
static __always_inline int is_silence_due(const struct session_live *l, __u64 now)
{
	if (now - l->unanswered_tx < silence_after)
		return 0;
	return (__s32)(l->silence_told - tick(l->unanswered_tx)) <= 0 || tick(now) - l->silence_told >= tick(silence_again);
}

/* Notes that a local application sends by the session, be it that the packet leaves or not:
 * a session that sends and hears nothing is probed.
 */
static __always_inline void note_tried(struct __sk_buff *skb, const struct session_entry *p, struct session_live *l, __u64 now)
{
	l->last_tx = now;
	if (l->unanswered_tx == 0) {
		l->unanswered_tx = now;
		return;
	}
	if (p->flags & (ENTRY_INITIATED | ENTRY_PLAIN) || !is_silence_due(l, now))
		return;
	l->silence_told = tick(now);
	tell_session(skb, p, EV_SILENCE);
}

static __always_inline void note_sent(struct __sk_buff *skb, const struct session_entry *p, struct session_live *l, __u64 now)
{
	rate_note(l, now, skb->len - ETH_LEN);
	__sync_fetch_and_add(&l->tx_packets, 1);
	__sync_fetch_and_add(&l->tx_bytes, skb->len - ETH_LEN);
	note_tried(skb, p, l, now);
}

#endif
