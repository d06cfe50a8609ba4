/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Removes time stamps by which TCP would misread an outage. After an outage TCP
 * retransmits segments that had arrived, as their acknowledgement was lost, and the
 * acknowledgement of such a segment echoes a time stamp from before the outage (RFC 7323
 * §4.3). Linux takes the outage as an RTT sample, which inflates pacing and RTO, and
 * declares its timeout spurious (RFC 3522), so that it waits for lost segments as if they
 * were in flight. Without an echo it does neither: so for a while after a silence the
 * echoes are zero, which Linux ignores.
 */
#ifndef ROAM_ILNP_TCPECHO_H
#define ROAM_ILNP_TCPECHO_H

#include "deliver.h"

#define OUTAGE 250000000ULL /* ns of silence; TCP retransmits after 200 ms at the earliest */
#define ECHOES_OLD (__s32)tick(5000000000ULL) /* for so long after the silence, in which TCP retransmits */
#define TCP_HEADER 20
#define STAMPS 12 /* bytes of header: time stamps as all stacks that we know place them */

/* Notes a packet of the session in, and the end of a silence. Global, so that the verifier
 * looks at its branches once.
 */
__noinline int note_came(const struct session_entry *p, struct session_details *d, __u32 len)
{
	struct session_live *l = p ? live_of(p) : 0;
	__u32 now = moment(coarse_ns());

	if (!p || !d || !l)
		return 0;
	if (l->unanswered_tx && now - l->unanswered_tx > tick(OUTAGE))
		d->returned = now;
	note_rx(l, p->slot, now, len);
	return 0;
}

/* Sets the echo of the segment at that offset to zero. */
__noinline int forget_echo(struct __sk_buff *skb, __u32 at)
{
	__be32 stamps[STAMPS / 4];
	__u8 words;

	if (bpf_skb_load_bytes(skb, at + 12, &words, 1) || words >> 4 < (TCP_HEADER + STAMPS) / 4 ||
	    bpf_skb_load_bytes(skb, at + TCP_HEADER, stamps, STAMPS))
		return 0;
	/* NOP, NOP, and the option of 10 bytes */
	if (stamps[0] != bpf_htonl(0x0101080a) || !stamps[2])
		return 0;
	count(RX_ECHO_FORGOTTEN);
	if (bpf_l4_csum_replace(skb, at + TCP_CSUM_AT, stamps[2], 0, 4))
		return -1;
	stamps[2] = 0;
	return bpf_skb_store_bytes(skb, at + TCP_HEADER + 8, &stamps[2], 4, 0);
}

/* Removes the echo of a segment that comes soon after a silence. */
__noinline int forget_old_echo(struct __sk_buff *skb, struct session_details *d, const struct inbound *in)
{
	if (!d || !in || !d->returned || in->c.proto != IPPROTO_TCP || in->c.fragment != WHOLE)
		return 0;
	if ((__s32)(tick(coarse_ns()) - d->returned) > ECHOES_OLD) {
		d->returned = 0;
		return 0;
	}
	return forget_echo(skb, in->c.at);
}

#endif
