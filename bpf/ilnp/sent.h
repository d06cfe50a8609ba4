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
	       (skb->len - c->at == 8 + PROBE_LEN || skb->len - c->at == 8 + PROBE_PER_FLOW_LEN ||
		skb->len - c->at == 8 + REPORT_LEN || skb->len - c->at == 8 + SEALED_REPORT_LEN);
}

/* Is a silence to be reported? This silence is reported again only after silence_again, a
 * new one at once. Call where packets are unanswered.
 */
static __always_inline int is_silence_due(const struct session_live *l, const struct session_details *d, __u32 now)
{
	if (now - l->unanswered_tx < tick(silence_after))
		return 0;
	return (__s32)(d->silence_told - l->unanswered_tx) <= 0 || now - d->silence_told >= tick(silence_again);
}

/* The same where the details are not at hand, which a settled session that is heard does
 * not need.
 */
__noinline int is_silent(const struct session_live *l, __u32 slot, __u32 now)
{
	const struct session_details *d = bpf_map_lookup_elem(&session_details, &slot);

	return !l || !d || is_silence_due(l, d, now);
}

#define ACKNOWLEDGED 250000000ULL /* ns; Linux acknowledges what has come within 200 ms */

/* Does a segment acknowledge what has come, and nothing else, so that no answer is due? It
 * has no data, SYN or FIN. What leaves later than an acknowledgement can is a keepalive, or
 * asks for the window. offset: data offset and flags; len: of the segment.
 */
static __always_inline int is_acknowledgement(const struct session_live *l, const __u8 *offset, __u32 len, __u32 now)
{
	return now - l->last_rx <= tick(ACKNOWLEDGED) && !(offset[1] & (TCP_SYN | TCP_FIN)) &&
	       len <= (offset[0] >> 4) * 4;
}

/* Notes that a local application sends by the session, be it that the packet leaves or
 * not, which is of 0 bytes then: a session that sends and hears nothing is probed.
 */
__noinline int note_sent(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
			 const struct chain *c, __u32 len)
{
	struct session_live *l = p ? live_of(p) : 0;
	__u32 now = moment(coarse_ns());
	__u8 offset[2];

	if (!p || !d || !c || !l)
		return 0;
	note_tx(l, p->slot, now, len);
	if (l->unanswered_tx == 0) {
		if (c->proto == IPPROTO_TCP && c->fragment == WHOLE &&
		    !bpf_skb_load_bytes(skb, c->at + TCP_OFFSET_AT, offset, 2) &&
		    is_acknowledgement(l, offset, skb->len - c->at, now))
			return 0;
		l->unanswered_tx = now;
		return 0;
	}
	if (p->flags & (ENTRY_INITIATED | ENTRY_PLAIN) || !is_silence_due(l, d, now))
		return 0;
	d->silence_told = now;
	tell_session(skb, p, EV_SILENCE, 0, 0);
	return 0;
}

#endif
