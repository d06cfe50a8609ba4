/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The segmentation device: a veth pair whose near end has no offloads, so that the kernel
 * cuts GSO packets and finishes checksums on the way. At its far end, in
 * ilnp_session_egress again, the packets are translated as they are on roam0.
 */
#ifndef ROAM_ILNP_SEGDEV_H
#define ROAM_ILNP_SEGDEV_H

#include "mss.h"
#include "checksumrule.h"
#include "path.h"

#define COPY_AFTER 200   /* ms without an answer before the first probe copy, at least */
#define COPY_UNTIL 30000 /* ms after which the program sends no more probe copies */
#define COPY_MARK 0x726f616d /* mark of a packet that goes under the other rule; CopyMark in Go */
#define HELD_MARK 0x726f616c /* of one that the daemon has held; HeldMark in Go. They differ in the lowest bit alone */

/* Is the packet at the far end of the segmentation device? It arrives there, whereas on
 * roam0 it leaves; if it arrived anywhere before, which is rare, that was on another
 * link.
 */
static __always_inline int is_segmented(const struct __sk_buff *skb)
{
	return skb->ingress_ifindex && skb->ingress_ifindex == skb->ifindex;
}

/* Is this a GSO packet, or one that must stay behind them? Where the GSO packets of TCP
 * take the segmentation device, all its data does, or short segments would overtake them.
 */
static __always_inline int goes_in_order(struct __sk_buff *skb, const struct chain *c)
{
	__u8 t[2]; /* data offset, flags */

	if (skb->gso_size)
		return 1;
	if (c->proto != IPPROTO_TCP || c->fragment != WHOLE || bpf_skb_load_bytes(skb, c->at + TCP_FLAGS_AT - 1, t, 2))
		return 0;
	return !(t[1] & TCP_SYN) && (t[1] & TCP_FIN || skb->len > c->at + (t[0] >> 4) * 4);
}

/* Must this packet be cut before it is translated? A nonce goes into segments only, a
 * device that sums segments itself knows the rule of IPv6 alone, and a whole GSO packet
 * would keep a slow path busy for as long as many segments do a fast one. A rule chose
 * the path by the socket, which segments do not have.
 */
static __always_inline int wants_segdev(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
					const struct chain *c, __u32 i, int ruled)
{
	__u32 index = path_uplink(p, i);
	struct uplink *u;

	if (p->flags & ENTRY_PLAIN || !goes_in_order(skb, c))
		return 0;
	u = bpf_map_lookup_elem(&uplinks, &index);
	if (!u)
		return 0;
	if (p->flags & ENTRY_CUT && c->proto == IPPROTO_TCP && !ruled)
		return 1;
	if (!(p->flags & ENTRY_NONCE_ALWAYS))
		return counts_nids_only(p, d) && u->flags & UPLINK_PHYSICAL;
	if (!skb->gso_size)
		return d->cuts;
	if (bears_nonce(skb, p, u))
		return 0;
	d->cuts = 1;
	return 1;
}

/* The near end of the segmentation device; 0: none. */
static __always_inline __u32 this_segdev(void)
{
	struct host *h = this_host();

	return h ? h->segdev : 0;
}

/* Must this packet to a pending peer be cut before it is translated? Each packet that
 * goes there bears the nonce, as it is not known yet whether the peer accepts others.
 */
static __always_inline int is_cut_for_pending(struct __sk_buff *skb, struct pending_peer *e, const struct chain *c)
{
	if (e->encap & PENDING_CAME || is_segmented(skb) || !goes_in_order(skb, c) || !this_segdev())
		return 0;
	if (!skb->gso_size)
		return e->cuts;
	e->cuts = 1;
	return 1;
}

/* The time without an answer after which a packet goes under the other rule as well, in
 * ms: two round trips, if any was measured.
 */
static __always_inline __u32 copy_after(const struct session_entry *p)
{
	__u32 two_rtt = p->grace;

	return two_rtt > COPY_AFTER ? two_rtt : COPY_AFTER;
}

/* Notes that a packet goes under the other rule, and the ports of datagrams that would
 * answer it.
 */
static __always_inline void note_copy(struct __sk_buff *skb, struct session_details *d, const struct chain *c, __u32 now)
{
	__u16 ports[2];

	d->copy_sent = now;
	d->copy_open = 0;
	if (c->proto != IPPROTO_UDP || bpf_skb_load_bytes(skb, c->at, ports, sizeof(ports)))
		return;
	d->copy_ports[0] = ports[1];
	d->copy_ports[1] = ports[0];
	d->copy_open = 1;
}

/* Sends a probe copy: while the checksum rule of the correspondent is a guess and nothing
 * comes back, the packet goes under the other rule as well, through the segmentation
 * device. The receiver silently drops the wrong one of the two. Against a peer that
 * probes as Roam does there is no copy, as that peer settles on our guess itself.
 */
__noinline int send_probe_copy(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d, const struct chain *c)
{
	__u32 now = coarse_ns() / 1000000;
	struct host *h = this_host();
	__u32 mark = skb->mark;
	__u8 flags = 0;

	if (!h || !h->segdev || !p || !d || !c || d->asks || !has_rule(c->proto) || c->fragment != WHOLE || skb->gso_size)
		return 0;
	if (c->proto == IPPROTO_TCP &&
	    (bpf_skb_load_bytes(skb, c->at + TCP_FLAGS_AT, &flags, 1) || !(flags & TCP_SYN)))
		return 0;
	if (d->sought_since == 0)
		d->sought_since = now;
	if (now - d->sought_since < copy_after(p) || now - d->sought_since > COPY_UNTIL || now - d->copy_sent < copy_after(p))
		return 0;
	note_copy(skb, d, c, now);
	skb->mark = COPY_MARK;
	if (!bpf_clone_redirect(skb, h->segdev, 0))
		count(TX_PROBE_COPY);
	skb->mark = mark;
	return 0;
}

/* Is a probe copy of a first packet not needed any more? The daemon sends one when no
 * answer comes.
 */
__noinline int is_moot(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d, const struct chain *c)
{
	if (!p || !d || !c || !is_rule_sought(p, d) || p->flags & ENTRY_ENCAP || d->retried || d->asks || d->with_nonce ||
	    d->bare) {
		count(TX_PROBE_COPY_MOOT);
		return 1;
	}
	note_copy(skb, d, c, coarse_ns() / 1000000);
	count(TX_PROBE_COPY);
	return 0;
}

#define MOOT -1

/* Decides whether a packet on path i takes the segmentation device: 0 if it goes on from
 * here, MOOT if it is to be dropped, else the verdict. Sets the rule under which it goes.
 */
static __always_inline int segment_or_send(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
				    const struct chain *c, __u32 i, int ruled, int *nids_only)
{
	int round = is_segmented(skb);
	struct host *h = this_host();

	/* Without its nonce the packet is plain IPv6 already, whatever was learned since. */
	*nids_only = !is_plain_soon(p, d) && counts_nids_only(p, d);
	if (skb->mark == COPY_MARK) {
		skb->mark = 0;
		*nids_only = !*nids_only;
		return !round && is_moot(skb, p, d, c) ? MOOT : 0;
	}
	if (round || !h || !h->segdev || !wants_segdev(skb, p, d, c, i, ruled)) {
		if (skb->mark == HELD_MARK)
			skb->mark = 0; /* policy routing would heed it */
		return 0;
	}
	count(TX_SEGDEV);
	return bpf_redirect(h->segdev, 0);
}

#endif
