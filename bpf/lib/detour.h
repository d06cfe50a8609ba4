/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The detour: a veth pair whose near end has no offloads, so that the kernel
 * cuts super-packets and finishes checksums on the way. At its far end, in
 * ilnp_session_egress again, the packets are translated as they are on roam0.
 */
#ifndef ROAM_DETOUR_H
#define ROAM_DETOUR_H

#include "mss.h"
#include "rule.h"

#define TWIN_AFTER 900   /* ms without an answer: just less than the first time-out of a SYN */
#define TWIN_UNTIL 30000 /* a receiver that has not answered by then never will */
#define TWIN_MARK 0x726f616d      /* of packets on the detour that go under the other rule */

/* Is the packet at the far end of the detour? There it arrives; on roam0 it leaves,
 * and if it arrived anywhere before, which few do, that was on another link.
 */
static __always_inline int has_come_round(const struct __sk_buff *skb)
{
	return skb->ingress_ifindex && skb->ingress_ifindex == skb->ifindex;
}

/* Is this a super-packet, or one that belongs behind them? Where those of TCP
 * take the detour all its data does, or the short ones would overtake them.
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

/* Must this packet be cut before it is translated? A nonce goes into segments
 * only; and a device that sums segments itself knows the rule of IPv6 alone.
 */
static __always_inline int wants_detour(struct __sk_buff *skb, const struct pair *p, struct pair_live *l,
					const struct chain *c, __u32 i)
{
	__u32 index = path_uplink(p, i);
	struct uplink *u;

	if (p->flags & PAIR_PLAIN || !goes_in_order(skb, c))
		return 0;
	u = bpf_map_lookup_elem(&uplinks, &index);
	if (!u)
		return 0;
	if (!(p->flags & PAIR_NONCE_ALWAYS))
		return counts_nids_only(p, l) && u->flags & UPLINK_PHYSICAL;
	if (!skb->gso_size)
		return l->cuts;
	if (bears_nonce(skb, u))
		return 0;
	l->cuts = 1;
	return 1;
}

/* The link that cuts GSO packets; 0: none. */
static __always_inline __u32 this_detour(void)
{
	struct host *h = this_host();

	return h ? h->detour : 0;
}

/* Must this packet to a pending peer be cut before it is translated? Each packet that
 * goes there bears the nonce: whether the peer takes others is not known yet.
 */
static __always_inline int is_cut_for_embryo(struct __sk_buff *skb, struct embryo *e, const struct chain *c)
{
	if (e->carried & EMBRYO_CAME || has_come_round(skb) || !goes_in_order(skb, c) || !this_detour())
		return 0;
	if (!skb->gso_size)
		return e->cuts;
	e->cuts = 1;
	return 1;
}

/* Nothing comes back for a second, and we do not know by which rule the
 * correspondent of this session sums: the packet goes under the other one as well, through the
 * detour. The wrong one of the two fails there without a word.
 */
__noinline int send_twin(struct __sk_buff *skb, struct pair_live *l, const struct chain *c, __u32 detour)
{
	__u32 now = bpf_ktime_get_coarse_ns() / 1000000;
	__u32 mark = skb->mark;
	__u8 flags = 0;

	if (!l || !c || !has_rule(c->proto) || c->fragment != WHOLE || skb->gso_size)
		return 0;
	if (c->proto == IPPROTO_TCP &&
	    (bpf_skb_load_bytes(skb, c->at + TCP_FLAGS_AT, &flags, 1) || !(flags & TCP_SYN)))
		return 0;
	if (l->sought_since == 0)
		l->sought_since = now;
	if (now - l->sought_since < TWIN_AFTER || now - l->sought_since > TWIN_UNTIL || now - l->twin_sent < TWIN_AFTER)
		return 0;
	l->twin_sent = now;
	skb->mark = TWIN_MARK;
	if (!bpf_clone_redirect(skb, detour, 0))
		count(TX_TWIN);
	skb->mark = mark;
	return 0;
}

/* What the detour has to do with a packet that takes path i: 0 if it goes on
 * from here, else the verdict; and the rule that it goes under.
 */
static __always_inline int go_round(struct __sk_buff *skb, const struct pair *p, struct pair_live *l,
				    const struct chain *c, __u32 i, int *nids_only)
{
	struct host *h = this_host();

	*nids_only = counts_nids_only(p, l);
	if (has_come_round(skb)) {
		if (skb->mark == TWIN_MARK) {
			skb->mark = 0;
			*nids_only = !*nids_only;
		}
		return 0;
	}
	if (!h || !h->detour)
		return 0;
	if (wants_detour(skb, p, l, c, i)) {
		count(TX_DETOUR);
		return bpf_redirect(h->detour, 0);
	}
	if (p->flags & PAIR_RULE_SOUGHT && !(p->flags & PAIR_PLAIN) && l->rule == RULE_NOT_FOUND)
		send_twin(skb, l, c, h->detour);
	return 0;
}

#endif
