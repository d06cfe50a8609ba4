/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What sending one packet needs, and whether a nonce fits into it. */
#ifndef ROAM_ILNP_NONCEFIT_H
#define ROAM_ILNP_NONCEFIT_H

#include "udpencap.h"
#include "mss.h"

/* Everything that rewriting and sending one packet needs. */
#define BY_SESSION 1 /* of outbound.chosen */
#define BY_RULE 2
struct outbound {
	struct addr ends[2]; /* source and destination on the wire */
	struct nonce nonce;   /* to be put in; len 0: none */
	__u32 csum_diff;
	__u32 ifindex;
	__u32 mtu;
	__u8 bears_nonce; /* a GSO packet may bear the nonce */
	__u8 narrow;      /* of a session with ENTRY_NARROW */
	__u8 encap;       /* in UDP */
	__u8 hop_way;     /* enum hop_way */
	__u8 chosen;      /* BY_SESSION or BY_RULE */
	__u8 marked;      /* bears LABEL_BIT, if packets of sessions do */
	const struct uplink *hop; /* has the next hop, if UPLINK_NEXT_HOP is set; null: the kernel looks it up */
};

/* The source locator of a packet is that of the uplink by which it leaves. */
static __always_inline void source_from_uplink(struct outbound *o, const struct uplink *u)
{
	o->ends[0].l64 = u->l64;
	o->ifindex = u->ifindex;
	o->mtu = u->mtu;
	o->hop = u;
}

/* Does a packet of len bytes fit with a nonce of so many more? The stack sends packets of
 * MIN_MTU on a path that takes no more; larger ones only where it believes the path wider.
 */
static __always_inline int fits_path(const struct outbound *o, __u32 len, __u32 size)
{
	return len + size <= o->mtu && !(o->narrow && len <= MIN_MTU && len + size > MIN_MTU);
}

/* May a nonce go into this packet? On a GSO packet a forwarding Linux router misreads the
 * header behind it; a Hop-by-Hop header must stay the first; and on a link or a path of the
 * minimum MTU full packets leave no space for it. DEVIATION: RFC 6744 §§4, 6 require it in
 * every packet where it is due.
 */
static __always_inline int nonce_fits(struct __sk_buff *skb, const struct outbound *o, __u8 next)
{
	__u32 size = option_len(&o->nonce) + (o->encap ? UDP_LEN : 0);

	if (next != NEXT_HOP_BY_HOP && next != NEXT_ROUTING &&
	    (skb->gso_size ? o->bears_nonce : fits_path(o, skb->len - ETH_LEN, size)))
		return 1;
	count(TX_NONCE_LEFT_OUT);
	return 0;
}

/* The MTU of the uplink by which a pending peer is answered; 0xffff if the host has that locator no
 * more.
 */
__noinline int pending_mtu(const struct pending_peer *e)
{
	for (__u32 i = 0; e && i < MAX_UPLINKS; i++) {
		__u32 index = i;
		struct uplink *u = bpf_map_lookup_elem(&uplinks, &index);

		if (u && u->ifindex == e->ifindex && u->l64.v == e->local_l64.v)
			return u->mtu;
	}
	return 0xffff;
}

#endif
