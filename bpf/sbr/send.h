/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Rewrites locators, sends packets by the link of their site locator, and gives the daemon
 * what it has to decide. sbr/rewrite.go is the model of the rewriting.
 */
#ifndef ROAM_SBR_SEND_H
#define ROAM_SBR_SEND_H

#include "choose.h"
#include "refusal.h"
#include "../lib/ring.h"
#include "../lib/skbuff.h"

#define SOURCE_AT 8
#define DESTINATION_AT 24
#define AF_INET6 10
#define MACS_LEN 12
#define GSO_BY_FRAGS 0xffff
#define JUMBO_LEN 8 /* of a Hop-by-Hop header with the jumbo payload option alone */
#define SENT_HERE 0x5b72 /* in tc_index: the program at the link need not look at the packet again */

/* How often a packet of each site locator and processor takes the kernel's way, in ns. */
#define HOP_CHECK 100000000ULL

/* Is a packet for another device of this host or of the network on this link: one of a VLAN, or to
 * another hardware address, which a link shows in promiscuous mode? A tag with VLAN 0 is a priority
 * only.
 */
static __always_inline int is_of_other_link(struct __sk_buff *skb)
{
	return skb->pkt_type == PACKET_OTHERHOST || (skb->vlan_present && skb->vlan_tci & VLAN_ID);
}

/* Keeps the sum of a device over the whole packet (CHECKSUM_COMPLETE) true: the change of
 * the checksum takes that of the address back. With BPF_F_IPV6 the kernel knows; without
 * it the kernel has counted the change of the checksum alone.
 */
static __always_inline void keep_device_sum(struct __sk_buff *skb, __u32 diff, int adjusted)
{
	if (!adjusted || !(csum_flags & CSUM_IPV6))
		bpf_csum_update(skb, diff);
}

/* Must the checksum of the packet follow its locators? */
static __always_inline int is_covered(const struct crossing *x)
{
	return x->c.fragment != LATER_FRAGMENT && least_header(x->c.proto) &&
	       (x->rule != RULE_RFC6741 || x->c.proto == IPPROTO_ICMPV6);
}

/* Has the packet a checksum that does? UDP may have none. */
static __always_inline int is_adjusted(struct __sk_buff *skb, const struct crossing *x)
{
	__u16 field = 1;

	if (!is_covered(x))
		return 0;
	if (x->c.proto == IPPROTO_UDP && bpf_skb_load_bytes(skb, x->c.at + UDP_CSUM_AT, &field, 2))
		return 0;
	return field != 0;
}

/* Does all of a rewriting in place, without a call of the kernel, where a TCP or UDP header lies
 * right behind that of IPv6. 0: it has not.
 */
static __always_inline int rewrite_at(struct __sk_buff *skb, const struct crossing *x, __u32 at, union half to, __u32 diff)
{
	void *ip = (void *)(long)skb->data + (x->l3 & 0xff), *upper = ip + IP6_LEN;
	__u32 field = x->c.proto == IPPROTO_TCP ? TCP_CSUM_AT : UDP_CSUM_AT;

	if ((x->c.proto != IPPROTO_TCP && x->c.proto != IPPROTO_UDP) || x->c.at != x->l3 + IP6_LEN ||
	    x->c.fragment != WHOLE || !is_covered(x) || upper + TCP_CSUM_AT + 2 > (void *)(long)skb->data_end)
		return 0;
	if (x->c.proto == IPPROTO_UDP && !*(__u16 *)(upper + UDP_CSUM_AT))
		return 0;
	csum_adjust_at(upper + field, x->c.proto, diff, x->state);
	*(union half *)(ip + at) = to;
	return 1;
}

/* Replaces the locator at that offset of the IPv6 header. */
static __always_inline int rewrite(struct __sk_buff *skb, const struct crossing *x, __u32 at, union half from,
				   union half to)
{
	__u32 diff = sum_fold(sum_half(to) + sum_neg(sum_half(from))), l3 = x->l3;
	void *there;
	int adjusts;

	if (rewrite_at(skb, x, at, to, diff))
		return 0;
	adjusts = is_adjusted(skb, x);
	if (adjusts && csum_adjust(skb, x->c.at, x->c.proto, diff))
		return -1;
	keep_device_sum(skb, diff, adjusts);
	there = (void *)(long)skb->data + (l3 & 0xff) + at;
	if (there + sizeof(to) > (void *)(long)skb->data_end)
		return bpf_skb_store_bytes(skb, l3 + at, &to, sizeof(to), 0);
	*(union half *)there = to;
	return 0;
}

/* Adds a packet to what passed a site locator. */
static __always_inline void count_share(struct __sk_buff *skb, const struct crossing *x, struct share *s, int inward)
{
	__u64 packets = skb->gso_segs ? skb->gso_segs : 1, bytes = ip6_bytes(skb, x->l3, &x->ip);

	if (inward) {
		s->rx_packets += packets;
		s->rx_bytes += bytes;
	} else {
		s->tx_packets += packets;
		s->tx_bytes += bytes;
	}
}

/* Is the hardware address of the next hop known for certain? Now and then a packet takes the
 * kernel's way, bpf_redirect_neigh: then the kernel checks that the neighbour is still there
 * (RFC 4861 §7.3). Without a daemon that would follow a change, all packets do.
 */
static __always_inline int is_hop_known(const struct site *s, struct share *live, const struct crossing *x, __u64 until)
{
	if (!(s->flags & SITE_MACS) || x->l3 != ETH_LEN || x->now > until)
		return 0;
	if (x->now - live->checked < HOP_CHECK)
		return 1;
	live->checked = x->now;
	return 0;
}

/* Has the kernel resolve the next hop. It is named: a look-up without it would take the best
 * route of all links, and its next hop, though the packet leaves by another link.
 */
static __always_inline int send_to_hop(const struct site *s)
{
	struct bpf_redir_neigh nh = {.nh_family = AF_INET6};

	if (!(s->flags & SITE_NEXT_HOP))
		return bpf_redirect_neigh(s->ifindex, 0, 0, 0);
	__builtin_memcpy(nh.ipv6_nh, s->next_hop, sizeof(s->next_hop));
	return bpf_redirect_neigh(s->ifindex, &nh, sizeof(nh), 0);
}

/* Gives the daemon a packet; it is not forwarded here. Of one that is too big for its link, a GSO packet among
 * them, it needs only what an error quotes.
 */
__noinline int hand_over(struct __sk_buff *skb, const struct crossing *x, enum handover_kind kind, __u32 detail)
{
	enum ring_limit limit;
	struct handover *h = 0;
	__u32 l3, len;

	if (!x)
		return drop(DROP_MALFORMED);
	l3 = x->l3;
	if (skb->len <= l3)
		return refuse(skb, x, DROP_TOO_LONG);
	len = skb->len - l3;
	if (kind == HAND_TOO_BIG && len > ERROR_QUOTES)
		len = ERROR_QUOTES;
	if (len >= HANDOVER_DATA)
		return refuse(skb, x, DROP_TOO_LONG);
	limit = limit_of(skb, x, kind);
	if (limit == NO_SHARE)
		return refuse(skb, x, DROP_RING_SHARE);
	if (has_space(limit))
		h = bpf_ringbuf_reserve(&handovers, sizeof(*h), 0);
	if (!h)
		return refuse(skb, x, DROP_RING_FULL);
	h->kind = kind;
	h->ifindex = skb->ifindex;
	h->detail = detail;
	h->flow = x->key;
	h->len = load_packet(skb, l3, len, h->data, HANDOVER_DATA);
	if (!h->len) {
		bpf_ringbuf_discard(h, 0);
		return refuse(skb, x, DROP_KERNEL_HELPER);
	}
	bpf_ringbuf_submit(h, 0);
	return drop(DROP_HANDED_OVER);
}

/* The length of the longest segment of a GSO packet, from the IPv6 header on. The kernel takes the jumbo payload
 * option of BIG TCP out of the segments, which alone has a payload length of 0 behind a Hop-by-Hop header. The
 * segments of SCTP have lengths of their own, as the sender made them for its path: 0.
 */
__noinline __u32 longest(struct __sk_buff *skb, const struct crossing *x)
{
	__u32 header, gso = skb->gso_size;
	__u8 words;

	if (!x || gso == GSO_BY_FRAGS)
		return 0;
	header = least_header(x->c.proto);
	if (x->c.proto == IPPROTO_TCP && !bpf_skb_load_bytes(skb, x->c.at + TCP_FLAGS_AT - 1, &words, 1))
		header = 4 * (words >> 4);
	if (x->ip.next == NEXT_HOP_BY_HOP && !x->ip.payload_len[0] && !x->ip.payload_len[1])
		header -= JUMBO_LEN;
	return x->c.at - x->l3 + header + gso;
}

/* Lowers the hop limit, which is above 1. */
static __always_inline int lower_hop_limit(struct __sk_buff *skb, const struct crossing *x)
{
	struct ip6 *ip = ip6_at(skb, x->l3 & 0xff); /* the verifier has lost the bound */
	__u8 hops = x->ip.hop_limit - 1;

	if (!ip || x->state == CHECKSUM_COMPLETE)
		return bpf_skb_store_bytes(skb, x->l3 + 7, &hops, 1, BPF_F_RECOMPUTE_CSUM);
	ip->hop_limit = hops;
	return 0;
}

/* Writes both hardware addresses; 0: they do not lie in the linear part. */
static __always_inline int write_macs(struct __sk_buff *skb, const __u8 macs[MACS_LEN])
{
	void *data = (void *)(long)skb->data;

	if (data + MACS_LEN > (void *)(long)skb->data_end)
		return 0;
	__builtin_memcpy(data, macs, MACS_LEN);
	return 1;
}

/* Sends a packet from inside from a site locator, by the link of that. Its hop limit is
 * above 1.
 */
static __always_inline int send_from(struct __sk_buff *skb, const struct crossing *x, const struct border *b,
				     __u32 index, enum counter as)
{
	struct share *live = bpf_map_lookup_elem(&shares, &index);
	struct site *s = bpf_map_lookup_elem(&sites, &index);

	if (!s || !live || !(s->flags & SITE_UP))
		return refuse(skb, x, DROP_NO_LINK);
	if ((skb->gso_size ? longest(skb, x) : skb->len - x->l3) > s->mtu)
		return hand_over(skb, x, HAND_TOO_BIG, s->mtu);
	if (rewrite(skb, x, SOURCE_AT, x->ip.src.l64, s->l64) ||
	    lower_hop_limit(skb, x))
		return refuse(skb, x, DROP_KERNEL_HELPER);
	count(as);
	count_share(skb, x, live, 0);
	skb->tc_index = SENT_HERE;
	if (is_hop_known(s, live, x, b->macs_until) && write_macs(skb, s->macs))
		return bpf_redirect(s->ifindex, 0);
	count(TX_KERNEL_HOP);
	return send_to_hop(s);
}

/* Has this echo reply the identifier of the border's own echo requests? */
static __always_inline int has_probe_id(struct __sk_buff *skb, const struct crossing *x, const struct border *b)
{
	__be16 id;

	return x->c.proto == IPPROTO_ICMPV6 && x->c.type == ICMP6_ECHO_REPLY && x->c.fragment == WHOLE && b->probe_id &&
	       !bpf_skb_load_bytes(skb, x->c.at + 4, &id, sizeof(id)) && id == b->probe_id;
}

/* May this answer one of the border's own probes? The daemon passes it on if it does not. */
static __always_inline int is_own_answer(struct __sk_buff *skb, const struct crossing *x, const struct border *b)
{
	return x->c.nonce.len && has_probe_id(skb, x, b);
}

#endif
