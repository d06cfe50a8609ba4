/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A packet on its way in, and its rewriting from wire addresses to session addresses. */
#ifndef ROAM_ILNP_DELIVER_H
#define ROAM_ILNP_DELIVER_H

#include "udpencap.h"
#include "strip.h"

/* What shall become of a packet, where that is not a verdict yet. */
#define FOR_PENDING -2     /* its sender is a pending peer with the correspondent's NID */
#define FOR_STACK -3      /* it is to be delivered: in->src.nid and in->dst.nid are the aliases by now */
#define FOR_STACK_6741 -4 /* the same, and locators count as zero in its checksum */

/* One packet on its way in. */
struct inbound {
	struct addr src, dst; /* as on the wire; in this order in the packet */
	struct chain c;
	__u32 l3;             /* offset of the IPv6 header */
	__u8 encap;           /* a control message that came in UDP: see udpencap.h */
	__u8 refused;         /* enum counter: why it is dropped, where its sender may be a forger */
	__u8 plain;           /* it is for a socket of plain IPv6 */
};

/* Does what read_chain does, without a call, for a header in the linear part of the packet that holds the Nonce option
 * alone, in front of TCP, UDP or ICMPv6. 0: there is none. c is zero.
 */
static __always_inline int read_alone(struct __sk_buff *skb, struct chain *c, __u32 at)
{
	const __u8 *h = (void *)(long)skb->data + (at & 0x1ff);
	__u32 len;

	if ((void *)h + 24 > (void *)(long)skb->data_end || h[2] != OPT_NONCE ||
	    (h[0] != IPPROTO_ICMPV6 && h[0] != IPPROTO_TCP && h[0] != IPPROTO_UDP))
		return 0;
	if (h[1] == 0 && h[3] == 4)
		len = 8;
	else if (h[1] == 1 && h[3] == 12)
		len = 16;
	else
		return 0;
	c->type = h[0] != IPPROTO_ICMPV6 ? 0 : len == 8 ? h[8] : h[16];
	c->nonce.len = h[3];
	*(__u32 *)c->nonce.b = *(__u32 *)(h + 4);
	if (len == 16)
		__builtin_memcpy(c->nonce.b + 4, h + 8, 8);
	c->option_at = at + 2;
	c->nonce_at = at;
	c->nonce_next = c->proto = h[0];
	c->alone = len;
	c->at = at + len;
	return 1;
}

/* Drops a packet for a reason that a security log reports. */
static __always_inline int refuse(struct inbound *in, __u32 reason)
{
	in->refused = reason;
	return drop(reason);
}

/* Keeps what a refused packet is like, for one packet a second and reason. */
__noinline int note_refusal(struct __sk_buff *skb, const struct inbound *in)
{
	__u64 now = coarse_ns();
	struct refusal *r;
	__u32 reason;

	if (!in)
		return 0;
	reason = in->refused;
	r = bpf_map_lookup_elem(&refusals, &reason);
	if (!r || now - r->at < REFUSAL_EACH)
		return 0;
	__builtin_memset(r, 0, sizeof(*r));
	r->at = now;
	r->remote = in->src;
	r->local = in->dst;
	r->ifindex = skb->ifindex;
	r->proto = in->c.proto;
	r->type = in->c.type;
	if ((r->proto == IPPROTO_TCP || r->proto == IPPROTO_UDP) && in->c.fragment != LATER_FRAGMENT)
		bpf_skb_load_bytes(skb, in->c.at, r->ports, sizeof(r->ports));
	return 0;
}

static __always_inline void about_inbound(struct event *e, const struct inbound *in)
{
	__builtin_memset(e, 0, sizeof(*e));
	e->key.local = in->dst.nid;
	e->key.remote = in->src.nid;
	e->remote = in->src;
	e->local = in->dst;
	e->nonce = in->c.nonce;
	e->encap = in->encap;
}

/* Reports a packet of the session; with EV_RULE, also the rule that was found. The event
 * is written in the ring itself, as the stack is limited.
 */
__noinline int tell_of(struct __sk_buff *skb, const struct inbound *in, const struct session_entry *p, __u32 kind, __u32 found)
{
	struct event *e;

	if (!in || !p)
		return 0;
	e = bpf_ringbuf_reserve(&urgent, sizeof(*e), 0);
	if (!e) {
		count(DROP_RING_FULL);
		return 0;
	}
	about_inbound(e, in);
	e->key = p->alias;
	e->kind = kind;
	e->ifindex = skb->ifindex;
	e->at = bpf_ktime_get_ns();
	e->bytes = skb->len - in->l3;
	if (kind == EV_RULE)
		e->rule = found;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

/* Takes the nonce out. A header that holds nothing else and stands right behind the IPv6
 * header, as nearly always, goes whole. The UDP header of an encapsulated message goes
 * with it.
 */
static __always_inline int strip_nonce(struct __sk_buff *skb, const struct inbound *in, enum checksum_state state)
{
	__u32 lead = in->encap ? UDP_LEN : 0, size = in->c.alone + lead;
	struct ip6 *ip = ip6_at(skb, in->l3 & ETH_LEN);
	__be16 len;

	if (!in->c.alone || in->c.nonce_at != in->l3 + IP6_LEN + lead)
		return lead ? -1 : take_out(skb, in->l3, in->c.nonce_at, in->c.option_at);
	if (ip && is_summed_by_nobody(state)) {
		len = bpf_htons(((__u32)ip->payload_len[0] << 8 | ip->payload_len[1]) - size);
		__builtin_memcpy(ip->payload_len, &len, 2);
		ip->next = in->c.nonce_next;
	} else {
		if (bpf_skb_load_bytes(skb, in->l3 + 4, &len, 2))
			return -1;
		len = bpf_htons(bpf_ntohs(len) - size);
		if (bpf_skb_store_bytes(skb, in->l3 + 4, &len, 2, BPF_F_RECOMPUTE_CSUM) ||
		    bpf_skb_store_bytes(skb, in->l3 + 6, &in->c.nonce_next, 1, BPF_F_RECOMPUTE_CSUM))
			return -1;
	}
	return bpf_skb_adjust_room(skb, -(__s32)size, BPF_ADJ_ROOM_NET,
				   BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET);
}

/* Keeps the sum of a device over the whole packet (CHECKSUM_COMPLETE) true. It changes by
 * the difference of the addresses, less what the transport checksum compensates of that.
 * With BPF_F_IPV6 the kernel treats the two as equal; without it the kernel sees only the
 * change of the checksum.
 */
static __always_inline void keep_device_sum(struct __sk_buff *skb, __u32 addresses, __u32 taken_back)
{
	if (csum_flags & CSUM_IPV6)
		addresses = sum_fold(addresses + sum_neg(taken_back));
	if (addresses && addresses != 0xffff)
		bpf_csum_update(skb, sum_neg(addresses));
}

/* Rewrites a packet to session addresses. The NIDs in in are the session's aliases by
 * now.
 */
static __always_inline int deliver(struct __sk_buff *skb, const struct inbound *in, __u32 nid_delta, int rfc6741)
{
	__u32 whole = sum_fold(nid_delta + sum_half(in->src.l64) + sum_half(in->dst.l64)), diff = 0;
	enum checksum_state state = checksum_state(skb);
	struct host *h = this_host();
	struct addr session[2];

	if (!h)
		return drop(DROP_KERNEL_HELPER);
	if (in->c.fragment != LATER_FRAGMENT && least_header(in->c.proto)) {
		diff = rfc6741 ? nid_delta : whole;
		if (csum_adjust_linear(skb, in->c.at, in->c.proto, sum_neg(diff), state))
			return drop(DROP_KERNEL_HELPER);
	}
	if (!is_summed_by_nobody(state))
		keep_device_sum(skb, whole, diff);
	session[0].l64 = h->session_prefix;
	session[0].nid = in->src.nid;
	session[1].l64 = h->session_prefix;
	session[1].nid = in->dst.nid;
	if (write_addresses(skb, in->l3 & ETH_LEN, session)) /* 0 or ETH_LEN, which the verifier may have forgotten */
		return drop(DROP_KERNEL_HELPER);
	if (in->c.nonce.len) {
		if (strip_nonce(skb, in, state))
			return drop(DROP_KERNEL_HELPER);
		count(RX_NONCE);
	}
	count(RX_PACKETS);
	return PASS_ON;
}

#endif
