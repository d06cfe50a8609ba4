/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Control messages in UDP, which hosts send where a path drops destination options or
 * ICMPv6 (../ilnp/udpencap.h). The border treats the message inside as if it stood alone.
 * The checksum of that covers the addresses, too, and is the only one that changes: what
 * it takes back is what the addresses add to the sum of the datagram.
 */
#ifndef ROAM_SBR_ENCAP_H
#define ROAM_SBR_ENCAP_H

#include "flow.h"

#define UDP_LEN 8

/* The UDP port of such messages, in network order; 0: there are none. */
const volatile __be16 encap_port = 0;

/* Spares a load where the header lies right behind that of IPv6, and names another port. */
static __always_inline int is_other_port(struct __sk_buff *skb, const struct chain *c, __u32 l3)
{
	const __u8 *h = (void *)(long)skb->data + (l3 & 0xff) + IP6_LEN;

	return c->at == l3 + IP6_LEN && (void *)h + UDP_LEN <= (void *)(long)skb->data_end &&
	       *(const __be16 *)(h + 2) != encap_port;
}

/* Looks into a datagram to that port. If it holds a control message, c describes that from
 * then on. Nonzero: its headers cannot be read.
 */
static __always_inline int open_encap(struct __sk_buff *skb, struct chain *c, __u32 l3)
{
	__u8 h[UDP_LEN + 4];

	if (!encap_port || c->proto != IPPROTO_UDP || c->fragment == LATER_FRAGMENT || c->nonce.len ||
	    is_other_port(skb, c, l3) || bpf_skb_load_bytes(skb, c->at, h, sizeof(h)))
		return 0;
	if ((h[2] | (__u16)h[3] << 8) != encap_port || h[UDP_LEN] != IPPROTO_ICMPV6 || h[UDP_LEN + 2] != OPT_NONCE)
		return 0;
	return parse_chain(skb, c, c->at + UDP_LEN, NEXT_DEST_OPTIONS);
}

#endif
