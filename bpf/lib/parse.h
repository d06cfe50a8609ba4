/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The IPv6 header and the chain of extension headers behind it.
 *
 * One rule for all parsers: bounds are checked by the kernel helper that loads
 * the bytes, and a negative result is the reason to drop the packet. They are
 * global functions: the verifier looks at each one once.
 */
#ifndef ROAM_PARSE_H
#define ROAM_PARSE_H

#include "drop.h"
#include "types.h"

#define ETH_LEN 14
#define IP6_LEN 40
#define ETH_P_IPV6 0x86dd
#define PACKET_OTHERHOST 3 /* of pkt_type: to another hardware address */
#define VLAN_ID 0x0fff /* of vlan_tci */
#define NEXT_HOP_BY_HOP 0
#define NEXT_ROUTING 43
#define NEXT_FRAGMENT 44
#define NEXT_DEST_OPTIONS 60
#define OPT_PAD1 0
#define OPT_PADN 1
#define OPT_NONCE 0x8b
#define MAX_HEADERS 6
#define MAX_OPTIONS 16

#define TCP_FLAGS_AT 13
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

#define ICMP6_ERROR_LAST 127
#define ICMP6_KNOWN_ERRORS 4 /* unreachable, too big, time exceeded, parameter problem */
#define ICMP6_ECHO_REQUEST 128
#define ICMP6_ECHO_REPLY 129
#define ICMP6_MLD_FIRST 130
#define ICMP6_ND_LAST 137
#define ICMP6_MLDV2_REPORT 143
#define ICMP6_LOCATOR_UPDATE 156

struct ip6 {
	__u8 version_class;
	__u8 class_flow[3];
	__u8 payload_len[2];
	__u8 next;
	__u8 hop_limit;
	struct addr src;
	struct addr dst;
};

enum fragment {
	WHOLE,
	FIRST_FRAGMENT,
	LATER_FRAGMENT, /* has no upper-layer header */
};

/* What the chain of headers says. */
struct chain {
	__u32 at;        /* offset of the upper-layer header */
	__u32 nonce_at;  /* offset of the Destination Options header with the nonce; 0: none */
	__u32 option_at; /* offset of the Nonce option itself */
	__u8 proto;      /* upper layer */
	__u8 fragment;
	__u8 nonce_next; /* next header of the header with the nonce */
	__u8 alone;      /* length of that header when it holds nothing else, or 0 */
	__u8 type;       /* ICMPv6: message type */
	__u8 encap;    /* stands in UDP: see udpencap.h */
	__u8 refused;    /* enum counter: why it is dropped, where its sender may be a forger */
	__u8 plain;      /* it is for a socket of plain IPv6 */
	struct nonce nonce;
};

/* Loads the nonce option at c->option_at, of len bytes. What follows a second
 * one is looked at for the log only.
 */
static __always_inline int parse_nonce(struct __sk_buff *skb, struct chain *c, __u8 len)
{
	if (c->nonce.len) {
		c->refused = DROP_TWO_NONCES;
		return 0;
	}
	c->nonce.len = len;
	if (len == 4)
		return bpf_skb_load_bytes(skb, c->option_at + 2, c->nonce.b, 4) ? -DROP_MALFORMED : 0;
	if (len == 12)
		return bpf_skb_load_bytes(skb, c->option_at + 2, c->nonce.b, 12) ? -DROP_MALFORMED : 0;
	return -DROP_NONCE_LENGTH;
}

/* Looks for the nonce among the options of the header [at, at + len). */
__noinline int parse_options(struct __sk_buff *skb, struct chain *c, __u32 at, __u32 len)
{
	__u32 o = at + 2, end = at + len;
	__u8 opt[2] = {};
	int err;

	if (!c)
		return -DROP_MALFORMED;
	for (int i = 0; i < MAX_OPTIONS; i++) {
		if (o >= end)
			return 0;
		if (bpf_skb_load_bytes(skb, o, opt, 1))
			return -DROP_MALFORMED;
		if (opt[0] == OPT_PAD1) {
			o++;
			continue;
		}
		if (bpf_skb_load_bytes(skb, o, opt, 2) || o + 2 + opt[1] > end)
			return -DROP_MALFORMED;
		if (opt[0] == OPT_NONCE) {
			c->option_at = o;
			err = parse_nonce(skb, c, opt[1]);
			if (err)
				return err;
			c->nonce_at = at;
			c->alone = opt[1] + 4 == len ? len : 0;
		}
		o += 2 + opt[1];
	}
	return o >= end ? 0 : -DROP_MALFORMED; /* more options than anybody needs */
}

/* Walks the headers from at, where next is the type of the first. */
__noinline int parse_chain(struct __sk_buff *skb, struct chain *c, __u32 at, __u8 next)
{
	__u8 h[8] = {};
	int err;

	if (!c)
		return -DROP_MALFORMED;
	for (int i = 0; i < MAX_HEADERS; i++) {
		__u32 len;

		switch (next) {
		case NEXT_FRAGMENT:
			if (bpf_skb_load_bytes(skb, at, h, 8))
				return -DROP_MALFORMED;
			c->fragment = (h[2] || h[3] & 0xf8) ? LATER_FRAGMENT : FIRST_FRAGMENT;
			len = 8;
			if (c->fragment == LATER_FRAGMENT) {
				c->proto = h[0];
				c->at = at + 8;
				return 0;
			}
			break;
		case NEXT_HOP_BY_HOP:
		case NEXT_ROUTING:
		case NEXT_DEST_OPTIONS:
			if (bpf_skb_load_bytes(skb, at, h, 8) || (next == NEXT_HOP_BY_HOP && i > 0))
				return -DROP_MALFORMED;
			if (next == NEXT_ROUTING && h[3])
				return -DROP_MALFORMED; /* segments left: not its last destination */
			len = 8 + 8 * (__u32)h[1];
			if (next == NEXT_DEST_OPTIONS) {
				err = parse_options(skb, c, at, len);
				if (err)
					return err;
				if (c->nonce_at == at)
					c->nonce_next = h[0];
			}
			break;
		default:
			c->proto = next;
			c->at = at;
			if (next == IPPROTO_ICMPV6 && bpf_skb_load_bytes(skb, at, &c->type, 1))
				return -DROP_MALFORMED;
			return 0;
		}
		next = h[0];
		at += len;
	}
	return -DROP_MALFORMED;
}

/* The same, for most packets without a call: where the kernel guards returns
 * against speculation each costs some 10 ns, and a helper has several. c is zero.
 */
static __always_inline int read_chain(struct __sk_buff *skb, struct chain *c, __u32 at, __u8 next)
{
	if (next != IPPROTO_TCP && next != IPPROTO_UDP)
		return parse_chain(skb, c, at, next);
	c->proto = next;
	c->at = at;
	return 0;
}

/* The IPv6 header at l3, where it lies in the linear part of the packet, as it
 * nearly always does; else null.
 */
static __always_inline struct ip6 *ip6_at(struct __sk_buff *skb, __u32 l3)
{
	void *ip = (void *)(long)skb->data + l3;

	return ip + IP6_LEN <= (void *)(long)skb->data_end ? ip : 0;
}

static __always_inline int read_ip6(struct __sk_buff *skb, __u32 l3, struct ip6 *ip)
{
	const struct ip6 *there = ip6_at(skb, l3);

	if (!there)
		return bpf_skb_load_bytes(skb, l3, ip, sizeof(*ip));
	*ip = *there;
	return 0;
}

/* Writes both addresses of the header at l3. */
static __always_inline int write_addresses(struct __sk_buff *skb, __u32 l3, const struct addr ends[2])
{
	struct ip6 *there = ip6_at(skb, l3);

	if (!there)
		return bpf_skb_store_bytes(skb, l3 + 8, ends, 32, 0);
	there->src = ends[0];
	there->dst = ends[1];
	return 0;
}

/* Bytes of an upper-layer header that must be there; 0: one without a checksum
 * over addresses, as far as we know.
 */
static __always_inline __u32 least_header(__u8 proto)
{
	switch (proto) {
	case IPPROTO_TCP:
		return 20;
	case IPPROTO_DCCP:
		return 12;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		return 8;
	case IPPROTO_ICMPV6:
		return 4;
	}
	return 0;
}

/* Is the packet as long as it says, and the upper-layer header within that?
 * body is the offset behind the IPv6 header. Only a GSO packet may leave its
 * length open.
 */
static __always_inline int length_holds(struct __sk_buff *skb, const struct chain *c, const struct ip6 *ip,
					__u32 body)
{
	__u32 len = (__u32)ip->payload_len[0] << 8 | ip->payload_len[1];
	__u32 upper = c->fragment == LATER_FRAGMENT ? 0 : least_header(c->proto);

	if (!len && skb->gso_size)
		return 1;
	return body + len <= skb->len && c->at + upper <= body + len;
}

#endif
