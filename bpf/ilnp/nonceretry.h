/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Retransmits a first segment as plain IPv6. A correspondent without ILNP answers a nonce
 * with a Parameter Problem, which quotes our packet. A first segment is quoted whole, and
 * leaves again from here at once: a connection need not wait until the daemon has woken
 * up.
 */
#ifndef ROAM_ILNP_NONCERETRY_H
#define ROAM_ILNP_NONCERETRY_H

#include "deliver.h"

#define ICMP6_PARAMETER_PROBLEM 4
#define UNKNOWN_OPTION 2
#define QUOTED_AT (ETH_LEN + IP6_LEN + 8)
#define OUR_OPTION_AT (IP6_LEN + 2) /* offset in a packet of ours with no other header before it */
#define SEGMENT_MOST 60             /* bytes of a TCP header */
#define TCP_RST 0x04
#define HOP_LIMIT 64                /* routers have lowered that of the quoted packet */

/* Such an error, from its ICMPv6 header to the end of the nonce. */
struct parameter_problem {
	__u8 type, code;
	__u8 sum[2];
	__be32 pointer;
	struct ip6 ip; /* of our packet */
	__u8 next, more;
	__u8 option, len;
	__u8 nonce[12];
};

/* May this session still learn that its peer has no ILNP (RFC 6744 §6), by the rules of
 * the core? Changes beyond the removal of a header are left to the daemon, and so are all
 * errors but the first: an attacker that can quote a nonce makes us send one segment at
 * most. An entry that is unconfirmed before any nonce came is that of a peer to which plain
 * IPv6 is not allowed.
 */
static __always_inline int may_retry(struct __sk_buff *skb, const struct session_entry *p, const struct session_details *d,
				     const struct inbound *in)
{
	const __u32 looked_at = ENTRY_INITIATED | ENTRY_PLAIN | ENTRY_DEAD | ENTRY_RFC6741 | ENTRY_ENCAP |
				ENTRY_UNCONFIRMED;
	__u32 index = path_uplink(p, 0);
	struct uplink *u = bpf_map_lookup_elem(&uplinks, &index);

	return (p->flags & looked_at) == ENTRY_INITIATED && !d->learned.len && !d->retried &&
	       u && u->flags & UPLINK_USABLE && u->l64.v == in->dst.l64.v && u->ifindex == skb->ifindex;
}

/* Does the error refuse our nonce, in a packet of ours to its sender? */
static __always_inline int refuses_nonce(const struct parameter_problem *e, const struct inbound *in,
					 const struct session_entry *p)
{
	struct nonce shown = { .len = e->len };

	__builtin_memcpy(shown.b, e->nonce, 4);
	if (e->len == 12)
		__builtin_memcpy(shown.b, e->nonce, 12);
	return e->type == ICMP6_PARAMETER_PROBLEM && e->code == UNKNOWN_OPTION && e->pointer == bpf_htonl(OUR_OPTION_AT) &&
	       e->ip.next == NEXT_DEST_OPTIONS && e->next == IPPROTO_TCP && e->more == (e->len == 12) &&
	       e->option == OPT_NONCE && same_nonce(&shown, &p->local_nonce) &&
	       e->ip.src.l64.v == in->dst.l64.v && e->ip.src.nid.v == in->dst.nid.v &&
	       e->ip.dst.l64.v == in->src.l64.v && e->ip.dst.nid.v == in->src.nid.v;
}

/* The finished checksum of a segment, which may be quoted as a seed only; -1 if it is
 * neither a seed nor right. The bytes behind the segment are zero.
 */
static __always_inline int whole_sum(struct parameter_problem *e, __u8 b[SEGMENT_MOST], __u32 len)
{
	__u32 pseudo = bpf_htons(len) + bpf_htons(IPPROTO_TCP), whole, field = sum_bytes(b + TCP_CSUM_AT);

	pseudo = bpf_csum_diff(0, 0, (__be32 *)&e->ip.src, 32, pseudo);
	whole = sum_fold(bpf_csum_diff(0, 0, (__be32 *)b, SEGMENT_MOST, pseudo));
	if (whole == 0xffff)
		return field;
	return field == sum_fold(pseudo) ? sum_neg(whole + sum_neg(field)) : -1;
}

/* The checksum of the first segment that an error quotes, or -1 if it is none that may be
 * retransmitted. It must be quoted whole, with nothing behind it.
 */
__noinline int refused_first(struct __sk_buff *skb, const struct inbound *in, const struct session_entry *p)
{
	__u8 b[SEGMENT_MOST] = {};
	struct parameter_problem e;
	__u32 at, len;

	if (!in || !p || in->l3 != ETH_LEN || in->c.at != ETH_LEN + IP6_LEN ||
	    bpf_skb_load_bytes(skb, ETH_LEN + IP6_LEN, &e, sizeof(e)) || !refuses_nonce(&e, in, p))
		return -1;
	at = QUOTED_AT + IP6_LEN + e.len + 4;
	len = skb->len - at;
	if (len < 20 || len > SEGMENT_MOST)
		return -1;
	len--; /* as in load_packet */
	barrier_var(len);
	len = (len & 63) + 1;
	if (len > SEGMENT_MOST || bpf_skb_load_bytes(skb, at, b, len))
		return -1;
	if (len != (b[12] >> 4) * 4 || e.ip.payload_len[0] || e.ip.payload_len[1] != len + e.len + 4 ||
	    (b[TCP_FLAGS_AT] & (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK)) != TCP_SYN)
		return -1;
	return whole_sum(&e, b, len);
}

/* Turns an error into the packet that it quotes, without our option, and sends that back
 * to where the error came from. All but the last 40 bytes before the segment go, and
 * these become its header. 0, or negative.
 */
__noinline int send_quoted(struct __sk_buff *skb, const struct session_entry *p, __u32 sum)
{
	__u8 mac[12], back[12];
	__u16 field = sum;
	struct ip6 ip;
	__u32 gone;

	if (!p || bpf_skb_load_bytes(skb, 0, mac, 12) || bpf_skb_load_bytes(skb, QUOTED_AT, &ip, sizeof(ip)))
		return -1;
	__builtin_memcpy(back, mac + 6, 6);
	__builtin_memcpy(back + 6, mac, 6);
	gone = p->local_nonce.len + 4;
	ip.payload_len[1] -= gone;
	ip.next = IPPROTO_TCP;
	ip.hop_limit = HOP_LIMIT;
	if (bpf_skb_adjust_room(skb, -(__s32)(QUOTED_AT - ETH_LEN + gone), BPF_ADJ_ROOM_MAC, 0) ||
	    bpf_skb_store_bytes(skb, 0, back, 12, 0) ||
	    bpf_skb_store_bytes(skb, ETH_LEN, &ip, sizeof(ip), BPF_F_RECOMPUTE_CSUM) ||
	    bpf_skb_store_bytes(skb, ETH_LEN + IP6_LEN + TCP_CSUM_AT, &field, 2, BPF_F_RECOMPUTE_CSUM))
		return -1;
	return bpf_clone_redirect(skb, skb->ifindex, 0);
}

/* Retransmits a first segment whose nonce was refused. 1 if it did; 0 if it failed, and
 * the packet is spoilt; -1 if the error is left to the daemon, and the packet is as it
 * was.
 */
static __always_inline int retry_without_nonce(struct __sk_buff *skb, const struct inbound *in,
					       const struct session_entry *p)
{
	struct session_details *d = details_of(p);
	int sum = d && may_retry(skb, p, d, in) ? refused_first(skb, in, p) : -1;

	if (sum < 0)
		return -1;
	d->retried = 1; /* the answer has no nonce, and may come before the daemon has changed the entry */
	if (send_quoted(skb, p, sum)) {
		count(DROP_KERNEL_HELPER);
		return 0;
	}
	count(TX_RETRIED);
	return 1;
}

#endif
