/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Control messages from outside: the program answers probes itself, and hands the others
 * to the daemon.
 */
#ifndef ROAM_ILNP_CONTROL_H
#define ROAM_ILNP_CONTROL_H

#include "deliver.h"
#include "pathreport.h"
#include "policy.h"

#define PROBE_LEN 16 /* bytes of data */
#define PROBE_PER_FLOW_LEN 20
#define ANSWER_HOPS 64
#define RESYNC_AT 26 /* offset of the mark of a conntrack resync segment in its TCP header */

/* Makes an echo request its answer without a call, where it lies in the linear part of a frame, right behind a header
 * with the nonce alone, and no device has summed it, or is to. 0: it does not.
 */
static __always_inline int turn_linear(struct __sk_buff *skb, const struct inbound *in, const struct nonce *own)
{
	void *data = (void *)(long)skb->data;
	struct ip6 *ip = data + ETH_LEN;
	__u8 *option = (__u8 *)(ip + 1), *echo, mac[6];
	struct addr src;

	if (in->l3 != ETH_LEN || in->encap || in->c.nonce_at != ETH_LEN + IP6_LEN ||
	    (in->c.alone != 8 && in->c.alone != 16) || in->c.at != in->c.nonce_at + in->c.alone ||
	    (void *)option + 24 > (void *)(long)skb->data_end || checksum_state(skb) > CHECKSUM_UNNECESSARY)
		return 0;
	echo = in->c.alone == 8 ? option + 8 : option + 16;
	__builtin_memcpy(mac, data, 6);
	__builtin_memcpy(data, data + 6, 6);
	__builtin_memcpy(data + 6, mac, 6);
	src = ip->src;
	ip->src = ip->dst;
	ip->dst = src;
	ip->hop_limit = ANSWER_HOPS;
	csum_adjust_at((__u16 *)(echo + ICMP6_CSUM_AT), IPPROTO_ICMPV6,
		       bpf_htons((ICMP6_ECHO_REPLY - ICMP6_ECHO_REQUEST) << 8), CHECKSUM_NONE);
	*echo = ICMP6_ECHO_REPLY;
	__builtin_memcpy(option + 4, own->b, 4);
	if (in->c.alone == 16)
		__builtin_memcpy(option + 8, own->b + 4, 8);
	return 1;
}

/* Answers an echo request in place. A probe must return on the path that it took, also
 * from a correspondent without a session, also without a daemon. Returns -1 when the
 * stack shall answer.
 */
__noinline int reflect(struct __sk_buff *skb, const struct inbound *in, const struct nonce *own)
{
	struct addr swapped[2];
	__u8 mac[12], back[12];
	__u8 type = ICMP6_ECHO_REPLY, hop_limit = ANSWER_HOPS;

	if (!in || !own || in->c.fragment != WHOLE || own->len != in->c.nonce.len)
		return -1;
	if (turn_linear(skb, in, own)) {
		count(RX_ECHO_REFLECTED);
		return bpf_redirect(skb->ifindex, 0);
	}
	swapped[0] = in->dst;
	swapped[1] = in->src;
	if (in->l3 == ETH_LEN) {
		if (bpf_skb_load_bytes(skb, 0, mac, 12))
			return -1;
		__builtin_memcpy(back, mac + 6, 6);
		__builtin_memcpy(back + 6, mac, 6);
		bpf_skb_store_bytes(skb, 0, back, 12, 0);
	}
	/* The type is the high byte of the first word. The checksum leaves the nonce out,
	 * and swapping the addresses does not change it.
	 */
	if (bpf_l4_csum_replace(skb, in->c.at + ICMP6_CSUM_AT, bpf_htons(ICMP6_ECHO_REQUEST << 8),
				bpf_htons(ICMP6_ECHO_REPLY << 8), 2) ||
	    bpf_skb_store_bytes(skb, in->c.at, &type, 1, 0) ||
	    bpf_skb_store_bytes(skb, in->l3 + 7, &hop_limit, 1, BPF_F_RECOMPUTE_CSUM) ||
	    bpf_skb_store_bytes(skb, in->l3 + 8, swapped, 32, 0))
		return drop(DROP_KERNEL_HELPER);
	if (in->encap && turn_encap(skb, &in->c, own))
		return drop(DROP_KERNEL_HELPER);
	if (own->len == 12)
		bpf_skb_store_bytes(skb, in->c.option_at + 2, own->b, 12, 0);
	else
		bpf_skb_store_bytes(skb, in->c.option_at + 2, own->b, 4, 0);
	count(RX_ECHO_REFLECTED);
	return bpf_redirect(skb->ifindex, 0);
}

/* Does this echo reply answer a probe of the daemon? */
static __always_inline int is_probe_reply(struct __sk_buff *skb, const struct chain *c)
{
	struct host *h = this_host();
	__u16 id;

	if (c->type != ICMP6_ECHO_REPLY || !h || bpf_skb_load_bytes(skb, c->at + 4, &id, 2))
		return 0;
	return id == h->probe_id;
}

/* Hands a control message to the daemon. */
static __always_inline int hand_over_control(struct __sk_buff *skb, const struct inbound *in,
					     const struct event *about, int ring)
{
	if (!tell_packet(skb, in->l3, EV_CONTROL, about, ring))
		count(DROP_CONTROL_HANDED_OVER);
	return SHOT;
}

/* The same for a control message of a session, which is urgent. */
__noinline int hand_over_own(struct __sk_buff *skb, const struct inbound *in, const struct session_entry *p)
{
	struct event about;

	if (!in || !p)
		return drop(DROP_KERNEL_HELPER);
	about_inbound(&about, in);
	about.key = p->alias;
	return hand_over_control(skb, in, &about, RING_URGENT);
}

/* Is this a conntrack resync segment, which opens the state of firewalls and is for no
 * socket? In its SYN our mark stands behind the MSS option, followed by the
 * correspondent's nonce, of which four bytes are compared here.
 */
static __always_inline int is_resync(struct __sk_buff *skb, const struct chain *c, const struct nonce *theirs)
{
	const __u8 mark[4] = { 'r', 'o', 'a', 'm' };
	__u32 o[2];
	__u8 flags;

	if (c->proto != IPPROTO_TCP || c->fragment != WHOLE || bpf_skb_load_bytes(skb, c->at + TCP_FLAGS_AT, &flags, 1) ||
	    !(flags & TCP_SYN) || bpf_skb_load_bytes(skb, c->at + RESYNC_AT, o, sizeof(o)))
		return 0;
	return theirs->len && o[0] == *(__u32 *)mark && o[1] == *(__u32 *)theirs->b;
}

static __always_inline int locator_on_wire(union half l)
{
	return l.v != 0 && l.b[0] != 0xff && !(l.b[0] == 0xfe && (l.b[1] & 0xc0) == 0x80);
}

/* Is this an echo request as the daemon sends them, a probe? It has 16 bytes of data, and
 * four more from a daemon that wants TCP spread by connection, or it asks for a report.
 */
static __always_inline int is_probe(struct __sk_buff *skb, const struct inbound *in)
{
	return in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_ECHO_REQUEST &&
	       (skb->len - in->c.at == 8 + PROBE_LEN || skb->len - in->c.at == 8 + PROBE_PER_FLOW_LEN ||
		report_flags(skb, in->c.at) >= 0);
}

/* Answers an echo request as reflect does, unless a policy of this host diverts packets
 * on that way back. Then a probe stays unanswered, so that its sender takes other paths,
 * and the stack answers any other request along the paths of the session.
 */
static __always_inline int answer_echo(struct __sk_buff *skb, const struct inbound *in, const struct nonce *own)
{
	if (!is_obstructed(&in->dst.l64, &in->src))
		return reflect(skb, in, own);
	return is_probe(skb, in) ? drop(DROP_OBSTRUCTED) : -1;
}

#endif
