/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads packets for the straight way (plain.h). */
#ifndef ROAM_SBR_PLAINREAD_H
#define ROAM_SBR_PLAINREAD_H

#include "direct.h"

struct plain {
	struct ip6 *ip;
	void *upper;         /* header of TCP, UDP or ICMPv6 */
	struct flow *f;
	const struct way *way; /* of packets from outside */
	union half internal;
	__u64 now;
	__u32 bytes;   /* from the IPv6 header on, without padding */
	__u32 largest; /* what must fit into a link */
	__u32 packets; /* that a GSO packet stands for */
	__u32 is_tcp;
	__u32 state; /* enum checksum_state */
	__u32 option; /* length of a header with the nonce alone in front of an echo, or 0 */
};

static __always_inline int is_local(const struct addr *a)
{
	return a->l64.b[0] == 0xff || (a->l64.b[0] == 0xfe && (a->l64.b[1] & 0xc0) == 0x80);
}

#define SHORT_OPTION_LEN 8 /* of a header with a Nonce option of 4 bytes alone */
#define LONG_OPTION_LEN 16 /* the same, of 12 bytes */
#define ECHO_LEN 8	   /* of the header */

#define TCP_LEAST 20

/* The length of a header that holds the Nonce option alone, in front of an echo; 0: it is none. What is behind it is as
 * long as a TCP header: the verifier of Linux 6.1 does not see that it is none.
 */
static __always_inline __u32 option_of(const __u8 *h, void *end)
{
	__u32 len = 0;

	if (h + LONG_OPTION_LEN + TCP_LEAST > (__u8 *)end || h[0] != IPPROTO_ICMPV6 || h[2] != OPT_NONCE)
		return 0;
	if (h[1] == 0 && h[3] == SHORT_OPTION_LEN - 4)
		len = SHORT_OPTION_LEN;
	else if (h[1] == 1 && h[3] == LONG_OPTION_LEN - 4)
		len = LONG_OPTION_LEN;
	return len;
}

/* May a message of that length be a probe of a daemon, or its answer? These take the full path. */
static __always_inline int is_probe_len(__u32 len)
{
	return len == ECHO_LEN + PROBE_LEN || len == ECHO_LEN + PROBE_PER_FLOW_LEN ||
	       len == ECHO_LEN + PROBE_REPORT_LEN || len == ECHO_LEN + PROBE_SEALED_LEN;
}

/* Reads an Ethernet frame of len bytes; nonzero: it is no plain packet. */
static __always_inline int read_plain(void *data, void *end, __u32 len, struct plain *p)
{
	struct ip6 *ip = data + ETH_LEN;
	__u8 *upper = (__u8 *)(ip + 1);
	__u32 payload, least = 8;

	if (upper + 8 > (__u8 *)end || *(__be16 *)(data + ETH_LEN - 2) != bpf_htons(ETH_P_IPV6))
		return -1;
	payload = (__u32)ip->payload_len[0] << 8 | ip->payload_len[1];
	p->option = p->is_tcp = 0;
	if (ip->next == IPPROTO_TCP) {
		if (upper + TCP_LEAST > (__u8 *)end)
			return -1;
		least = TCP_LEAST;
		p->is_tcp = 1;
	} else if (ip->next == NEXT_DEST_OPTIONS) {
		p->option = option_of(upper, end);
		upper += p->option == SHORT_OPTION_LEN ? SHORT_OPTION_LEN : LONG_OPTION_LEN;
		least = LONG_OPTION_LEN + ECHO_LEN;
		if (!p->option || (*upper != ICMP6_ECHO_REQUEST && *upper != ICMP6_ECHO_REPLY) ||
		    is_probe_len(len - ETH_LEN - IP6_LEN - p->option))
			return -1;
	} else if (ip->next == IPPROTO_ICMPV6) {
		if (*upper != ICMP6_ECHO_REQUEST && *upper != ICMP6_ECHO_REPLY)
			return -1;
	} else if (ip->next != IPPROTO_UDP || !*(__u16 *)(upper + UDP_CSUM_AT) ||
		   (encap_port && *(__be16 *)(upper + 2) == encap_port)) {
		return -1;
	}
	if (payload < least || ETH_LEN + IP6_LEN + payload > len || ip->hop_limit <= 1 || is_local(&ip->src) ||
	    is_local(&ip->dst))
		return -1;
	p->ip = ip;
	p->upper = upper;
	p->bytes = IP6_LEN + payload;
	p->largest = len - ETH_LEN;
	p->packets = 1;
	return 0;
}

/* Reads a packet at tc; nonzero: it is no plain one. The sum of a device over the whole packet is
 * kept by the full path.
 */
static __always_inline int read_skb(struct __sk_buff *skb, struct plain *p)
{
	struct packet_facts facts;

	if (skb->pkt_type == PACKET_OTHERHOST || skb->vlan_present)
		return -1;
	facts = facts_of(skb);
	if (facts.l3 != ETH_LEN || facts.ip_summed == CHECKSUM_COMPLETE ||
	    read_plain((void *)(long)skb->data, (void *)(long)skb->data_end, skb->len, p))
		return -1;
	p->state = facts.ip_summed;
	if (skb->gso_size) {
		p->packets = skb->gso_segs ? skb->gso_segs : 1;
		p->largest = IP6_LEN + skb->gso_size +
			     (p->is_tcp ? 4 * (*(__u8 *)(p->upper + TCP_OFFSET_AT) >> 4) : UDP_LEN);
	}
	return 0;
}

/* Reads a frame at XDP; nonzero: it is no plain packet. A field that holds the seed of a sum belongs
 * to a packet that a device is to finish, and only the stack can have it do so. A finished sum looks
 * like one in one packet of 2^15, which takes the stack for nothing.
 */
static __always_inline int read_frame(struct xdp_md *ctx, struct plain *p)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 nids, whole, len;
	__u16 field;

	if (read_plain(data, end, end - data, p) || p->option)
		return -1;
	field = *(__u16 *)(p->upper + (p->is_tcp			 ? TCP_CSUM_AT :
				       p->ip->next == IPPROTO_UDP ? UDP_CSUM_AT :
								    ICMP6_CSUM_AT));
	len = p->bytes - IP6_LEN;
	nids = sum_halves(p->ip->src.nid.v, p->ip->dst.nid.v, bpf_htons(len) + bpf_htons(p->ip->next));
	whole = sum_halves(p->ip->src.l64.v, p->ip->dst.l64.v, nids);
	p->state = CHECKSUM_NONE;
	return field == nids || field == whole ? -1 : 0;
}

#endif
