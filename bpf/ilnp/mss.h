/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* GSO packets with a nonce. A Linux router that forwards one reads the byte 12 bytes
 * behind the IPv6 header as the data offset of TCP, and so may take the segments to be up
 * to 60 bytes and two headers long. That is harmless where such a length still fits into
 * the MTU. So towards a peer that wants every nonce, segments are kept that much shorter.
 */
#ifndef ROAM_ILNP_MSS_H
#define ROAM_ILNP_MSS_H

#include "deliver.h"

#define MISREAD (IP6_LEN + 60) /* headers, as such a router may see them */
#define MSS_OPTIONS 24         /* bytes of TCP options, at most, that make segments shorter than the MSS */
#define OPT_MSS 2

/* May the nonce go into a GSO packet? Segments shorter than the MSS mean that the MTU of
 * the path is less than that of the link, and the bound above does not hold.
 */
static __always_inline int bears_nonce(struct __sk_buff *skb, const struct session_entry *p, const struct uplink *u)
{
	__u32 longest = skb->gso_size + MISREAD;

	if (u->flags & UPLINK_PHYSICAL || p->flags & ENTRY_NARROW)
		return 0;
	return longest <= u->mtu && longest + MSS_OPTIONS >= u->mtu;
}

/* The length of an option with a nonce, and the header of its own. */
static __always_inline __u32 option_len(const struct nonce *n)
{
	return n->len == 12 ? 16 : 8;
}

/* The largest MSS towards a peer that wants every nonce. On a path of the minimum MTU, segments
 * leave space for it.
 */
static __always_inline __u32 most_data(const struct session_entry *p, const struct uplink *u)
{
	if (p->flags & ENTRY_NARROW)
		return MIN_MTU - IP6_LEN - 20 - option_len(&p->local_nonce);
	return u->mtu > MISREAD ? u->mtu - MISREAD : 0;
}

/* Lowers the MSS of a correspondent's SYN at that offset. The option is the first one in
 * the SYNs of all stacks that we know; elsewhere it stays as it is, and GSO packets take
 * the segmentation device.
 */
__noinline int lower_mss(struct __sk_buff *skb, const struct session_entry *p, __u32 at)
{
	struct uplink *u;
	__u32 index, most;
	__u8 t[24];
	__be16 mss;

	if (!p || bpf_skb_load_bytes(skb, at, t, sizeof(t)) || !(t[13] & 0x02) || t[12] >> 4 < 6 || t[20] != OPT_MSS)
		return 0;
	index = path_uplink(p, 0);
	u = bpf_map_lookup_elem(&uplinks, &index);
	most = u ? most_data(p, u) : 0;
	if (!most || ((__u32)t[22] << 8 | t[23]) <= most)
		return 0;
	mss = bpf_htons(most);
	return bpf_l4_csum_replace(skb, at + TCP_CSUM_AT, *(__u16 *)(t + 22), mss, 2) ||
	       bpf_skb_store_bytes(skb, at + 22, &mss, 2, 0);
}

static __always_inline int clamp_mss(struct __sk_buff *skb, const struct session_entry *p, const struct inbound *in)
{
	if (!(p->flags & ENTRY_NONCE_ALWAYS) || in->c.proto != IPPROTO_TCP || in->c.fragment != WHOLE)
		return 0;
	return lower_mss(skb, p, in->c.at);
}

#endif
