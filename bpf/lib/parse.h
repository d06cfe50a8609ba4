/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The IPv6 header and the chain of extension headers behind it.
 *
 * One rule holds for all parsers: the kernel helper that loads the bytes checks the
 * bounds, and a negative result is the fault (enum parse_fault), for which the object
 * drops the packet and counts. The parsers are global functions, so that the verifier
 * looks at each of them once.
 */
#ifndef ROAM_PARSE_H
#define ROAM_PARSE_H

#include "nonce.h"

#define ETH_LEN 14
#define IP6_LEN 40
#define ETH_P_IPV6 0x86dd
#define PACKET_OTHERHOST 3 /* of pkt_type: to another hardware address */
#define VLAN_ID 0x0fff /* of vlan_tci */
#define NEXT_HOP_BY_HOP 0
#define NEXT_ROUTING 43
#define NEXT_FRAGMENT 44
#define FRAGMENT_LEN 8
#define NEXT_DEST_OPTIONS 60
#define OPT_PAD1 0
#define OPT_PADN 1
#define OPT_NONCE 0x8b
#define MAX_HEADERS 6
#define MAX_OPTIONS 16

#define TCP_OFFSET_AT 12 /* of the data: its upper four bits, in units of 4 bytes */
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

/* The highest bit of the flow label, in class_flow[0]. */
#define LABEL_BIT 0x08

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

/* Why a packet is refused, negative as a result. */
enum parse_fault {
	PARSE_MALFORMED = 1, /* truncated or contradictory headers */
	PARSE_NONCE_LENGTH,  /* a nonce of neither 4 nor 12 bytes */
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
	__u8 two_nonces; /* there is a second Nonce option, which RFC 6744 §2 forbids */
	struct nonce nonce;
};

/* Loads the nonce option at c->option_at, of len bytes. Behind a second one the walk
 * goes on, so that a log can name the upper layer.
 */
static __always_inline int parse_nonce(struct __sk_buff *skb, struct chain *c, __u8 len)
{
	if (c->nonce.len) {
		c->two_nonces = 1;
		return 0;
	}
	c->nonce.len = len;
	if (len == 4)
		return bpf_skb_load_bytes(skb, c->option_at + 2, c->nonce.b, 4) ? -PARSE_MALFORMED : 0;
	if (len == 12)
		return bpf_skb_load_bytes(skb, c->option_at + 2, c->nonce.b, 12) ? -PARSE_MALFORMED : 0;
	return -PARSE_NONCE_LENGTH;
}

/* Looks for the nonce among the options of the header [at, at + len). */
__noinline int parse_options(struct __sk_buff *skb, struct chain *c, __u32 at, __u32 len)
{
	__u32 o = at + 2, end = at + len;
	__u8 opt[2] = {};
	int err;

	if (!c)
		return -PARSE_MALFORMED;
	for (int i = 0; i < MAX_OPTIONS; i++) {
		if (o >= end)
			return 0;
		if (bpf_skb_load_bytes(skb, o, opt, 1))
			return -PARSE_MALFORMED;
		if (opt[0] == OPT_PAD1) {
			o++;
			continue;
		}
		if (bpf_skb_load_bytes(skb, o, opt, 2) || o + 2 + opt[1] > end)
			return -PARSE_MALFORMED;
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
	return o >= end ? 0 : -PARSE_MALFORMED; /* more options than any sender needs */
}

/* Walks the headers from at, where next is the type of the first. */
__noinline int parse_chain(struct __sk_buff *skb, struct chain *c, __u32 at, __u8 next)
{
	__u8 h[8] = {};
	int err;

	if (!c)
		return -PARSE_MALFORMED;
	for (int i = 0; i < MAX_HEADERS; i++) {
		__u32 len;

		switch (next) {
		case NEXT_FRAGMENT:
			if (bpf_skb_load_bytes(skb, at, h, 8))
				return -PARSE_MALFORMED;
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
				return -PARSE_MALFORMED;
			if (next == NEXT_ROUTING && h[3])
				return -PARSE_MALFORMED; /* segments left: not its last destination */
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
				return -PARSE_MALFORMED;
			return 0;
		}
		next = h[0];
		at += len;
	}
	return -PARSE_MALFORMED;
}

/* Does the same without a call for TCP and UDP right behind the IPv6 header. Where the
 * kernel guards returns against speculation a call costs some 10 ns, and each helper
 * makes several. c is zero.
 */
static __always_inline int read_chain(struct __sk_buff *skb, struct chain *c, __u32 at, __u8 next)
{
	if (next != IPPROTO_TCP && next != IPPROTO_UDP)
		return parse_chain(skb, c, at, next);
	c->proto = next;
	c->at = at;
	return 0;
}

/* The IPv6 header at l3 if it lies in the linear part of the packet, as it nearly
 * always does; else null.
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

/* The bytes of the packet from its header at l3 on, without padding behind it. Only a GSO
 * packet, or a jumbogram, may have a payload length of 0.
 */
static __always_inline __u32 ip6_bytes(struct __sk_buff *skb, __u32 l3, const struct ip6 *ip)
{
	__u32 payload = (__u32)ip->payload_len[0] << 8 | ip->payload_len[1], most = skb->len - l3;

	return payload && IP6_LEN + payload < most ? IP6_LEN + payload : most;
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

/* The least length of an upper-layer header, in bytes; 0: a protocol without a known
 * checksum over addresses.
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

/* Is the packet as long as its header says, and does the upper-layer header lie within
 * that? body is the offset behind the IPv6 header. Only a GSO packet may have a payload
 * length of 0.
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
