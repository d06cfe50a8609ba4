/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Control messages in UDP, for paths that drop destination options or ICMPv6. The bytes
 * behind the IPv6 header, a Destination Options header with the nonce and the ICMPv6
 * message, stand unchanged behind a UDP header. So the nonce is checked as in any packet,
 * and one rule of authenticity holds for both forms. DEVIATION: no RFC has this form.
 */
#ifndef ROAM_ILNP_UDPENCAP_H
#define ROAM_ILNP_UDPENCAP_H

#include "../lib/csum.h"
#include "../lib/parse.h"
#include "session.h"

#define UDP_LEN 8

/* Does what csum_adjust does for the header at l4, without the kernel's helper where it lies in the linear part of the
 * packet, and the kernel shows that no device has summed the whole of it. Global, so that the verifier looks at it
 * once.
 */
__noinline int csum_adjust_linear(struct __sk_buff *skb, __u32 l4, __u32 proto, __u32 diff, __u32 state)
{
	__u32 at = proto == IPPROTO_TCP ? TCP_CSUM_AT : proto == IPPROTO_UDP ? UDP_CSUM_AT : ICMP6_CSUM_AT;
	void *field = (void *)(long)skb->data + (l4 & 0x1ff) + at;

	if (l4 > 0x1ff || !is_summed_by_nobody(state) || field + 2 > (void *)(long)skb->data_end ||
	    (proto != IPPROTO_TCP && proto != IPPROTO_UDP && proto != IPPROTO_ICMPV6))
		return csum_adjust(skb, l4, proto, diff);
	csum_adjust_at(field, proto, diff, state);
	return 0;
}

/* May this be such a datagram? body is the offset behind the IPv6 header. The port
 * decides for most datagrams, without a call.
 */
static __always_inline int is_encap(struct __sk_buff *skb, const struct chain *c, __u32 body)
{
	const __be16 *udp = (void *)(long)skb->data + body;

	if (!encap_port || c->proto != IPPROTO_UDP)
		return 0;
	return c->at != body || (void *)udp + UDP_LEN > (void *)(long)skb->data_end || udp[1] == encap_port;
}

/* Looks into a UDP datagram to our port. If it holds a control message, c describes that
 * message from then on, and encap is set. 0, or the negative fault; other datagrams to
 * that port stay as they are.
 */
static __always_inline int open_encap(struct __sk_buff *skb, struct chain *c, __u8 *encap)
{
	__u8 h[UDP_LEN + 4];
	int err;

	if (!encap_port || c->proto != IPPROTO_UDP || c->fragment != WHOLE || c->nonce.len ||
	    bpf_skb_load_bytes(skb, c->at, h, sizeof(h)))
		return 0;
	if ((h[2] | (__u16)h[3] << 8) != encap_port || h[UDP_LEN] != IPPROTO_ICMPV6 || h[UDP_LEN + 2] != OPT_NONCE)
		return 0;
	err = parse_chain(skb, c, c->at + UDP_LEN, NEXT_DEST_OPTIONS);
	if (err)
		return err;
	*encap = 1;
	count(RX_ENCAP);
	return c->alone ? 0 : -PARSE_MALFORMED;
}

/* Makes the UDP header of a probe that of its answer: ports change places, and the
 * checksum follows the nonce. The checksum of the ICMPv6 message compensates all other
 * changes of an answer.
 */
static __always_inline int turn_encap(struct __sk_buff *skb, const struct chain *c, const struct nonce *own)
{
	__u32 at = c->nonce_at - UDP_LEN;
	__u16 ports[2], back[2];
	__s64 diff = bpf_csum_diff((__be32 *)c->nonce.b, 12, (__be32 *)own->b, 12, 0);

	if (diff < 0 || bpf_skb_load_bytes(skb, at, ports, 4))
		return -1;
	back[0] = ports[1];
	back[1] = ports[0];
	if (bpf_l4_csum_replace(skb, at + UDP_CSUM_AT, 0, diff, BPF_F_MARK_MANGLED_0))
		return -1;
	return bpf_skb_store_bytes(skb, at, back, 4, 0);
}

/* Writes the UDP header at the offset at, before len bytes, of which the first size ones
 * are the options header at h and the rest an ICMPv6 message with its checksum. That
 * message and its own pseudo-header sum to zero, so its bytes need not be read, and the
 * addresses cancel out.
 */
static __always_inline int put_encap(struct __sk_buff *skb, __u32 at, __u32 len, __u8 *h, const __u32 size)
{
	__be16 udp[4] = { encap_port, encap_port, bpf_htons(len + UDP_LEN), 0 };
	__u32 message = bpf_htons(len - size) + bpf_htons(IPPROTO_ICMPV6);
	__s64 sum = bpf_csum_diff(0, 0, (__be32 *)h, size, sum_neg(message));

	if (sum < 0)
		return -1;
	sum = sum_fold(sum) + 2 * encap_port + 2 * udp[2] + bpf_htons(IPPROTO_UDP);
	udp[3] = sum_neg(sum_fold(sum));
	if (!udp[3])
		udp[3] = 0xffff;
	return bpf_skb_store_bytes(skb, at, udp, sizeof(udp), 0);
}

/* Can this ICMPv6 message go in UDP? */
static __always_inline int is_encapsulated(const struct chain *c, __u8 next)
{
	return encap_port && next == IPPROTO_ICMPV6 && c->fragment == WHOLE;
}

/* Inserts a nonce behind the IPv6 header, with a UDP header before it where the message
 * is to be encapsulated.
 */
__noinline int put_nonce(struct __sk_buff *skb, const struct nonce *n, __u8 next, int encap)
{
	__u8 h[16] = { next, 0, OPT_NONCE }, type = encap ? IPPROTO_UDP : NEXT_DEST_OPTIONS;
	__u32 size, lead = encap ? UDP_LEN : 0;
	struct ip6 *ip = ip6_at(skb, ETH_LEN);
	__be16 len;

	if (!n)
		return -1;
	size = n->len == 12 ? 16 : 8;
	h[1] = size / 8 - 1;
	h[3] = n->len;
	if (ip)
		__builtin_memcpy(&len, ip->payload_len, 2);
	else if (bpf_skb_load_bytes(skb, ETH_LEN + 4, &len, 2))
		return -1;
	if (bpf_skb_adjust_room(skb, size + lead, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	len = bpf_htons(bpf_ntohs(len) + size + lead);
	__builtin_memcpy(h + 4, n->b, 12);
	if (encap && (size == 16 ? put_encap(skb, ETH_LEN + IP6_LEN, bpf_ntohs(len) - UDP_LEN, h, 16) :
				   put_encap(skb, ETH_LEN + IP6_LEN, bpf_ntohs(len) - UDP_LEN, h, 8)))
		return -1;
	ip = ip6_at(skb, ETH_LEN);
	if (ip && !lead && (void *)(ip + 1) + 16 <= (void *)(long)skb->data_end) {
		__builtin_memcpy(ip->payload_len, &len, 2);
		ip->next = type;
		__builtin_memcpy(ip + 1, h, 8);
		if (size == 16)
			__builtin_memcpy((void *)(ip + 1) + 8, h + 8, 8);
		return 0;
	}
	if (bpf_skb_store_bytes(skb, ETH_LEN + 4, &len, 2, 0) ||
	    bpf_skb_store_bytes(skb, ETH_LEN + 6, &type, 1, 0))
		return -1;
	if (size == 16)
		return bpf_skb_store_bytes(skb, ETH_LEN + IP6_LEN + lead, h, 16, 0);
	return bpf_skb_store_bytes(skb, ETH_LEN + IP6_LEN + lead, h, 8, 0);
}

#endif
