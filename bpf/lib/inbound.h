/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From the wire to session addresses: whose packet is it, may it pass, and the
 * rewriting back.
 */
#ifndef ROAM_INBOUND_H
#define ROAM_INBOUND_H

#include "session.h"

/* One packet on its way in. */
struct inbound {
	struct addr src, dst; /* as on the wire; in this order in the packet */
	struct chain c;
	__u32 l3;             /* offset of the IPv6 header */
};

static __always_inline void about_inbound(struct event *e, const struct inbound *in)
{
	__builtin_memset(e, 0, sizeof(*e));
	e->key.local = in->dst.nid;
	e->key.remote = in->src.nid;
	e->remote = in->src;
	e->local = in->dst;
	e->nonce = in->c.nonce;
}

/* Takes the nonce out: its header goes when it holds nothing else and stands
 * right behind the IPv6 header; else the option becomes padding.
 */
static __always_inline int strip_nonce(struct __sk_buff *skb, const struct inbound *in)
{
	__u32 size = in->c.alone;
	__u8 pad[14] = { OPT_PADN };
	__be16 len;

	if (!size || in->c.nonce_at != in->l3 + IP6_LEN) {
		pad[1] = in->c.nonce.len;
		if (in->c.nonce.len == 12)
			return bpf_skb_store_bytes(skb, in->c.option_at, pad, 14, BPF_F_RECOMPUTE_CSUM);
		return bpf_skb_store_bytes(skb, in->c.option_at, pad, 6, BPF_F_RECOMPUTE_CSUM);
	}
	if (bpf_skb_load_bytes(skb, in->l3 + 4, &len, 2))
		return -1;
	len = bpf_htons(bpf_ntohs(len) - size);
	if (bpf_skb_store_bytes(skb, in->l3 + 4, &len, 2, BPF_F_RECOMPUTE_CSUM) ||
	    bpf_skb_store_bytes(skb, in->l3 + 6, &in->c.nonce_next, 1, BPF_F_RECOMPUTE_CSUM))
		return -1;
	return bpf_skb_adjust_room(skb, -(__s32)size, BPF_ADJ_ROOM_NET,
				   BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET);
}

/* A device may have summed the whole packet (CHECKSUM_COMPLETE), and that sum
 * has to stay true: it changes by what the addresses change, less what the
 * transport checksum takes back of that. BPF_F_IPV6 takes the two for equal;
 * without it the kernel sees the change of the checksum only.
 */
static __always_inline void keep_device_sum(struct __sk_buff *skb, __u32 addresses, __u32 taken_back)
{
	if (csum_flags & CSUM_IPV6)
		addresses = sum_fold(addresses + sum_neg(taken_back));
	if (addresses)
		bpf_csum_update(skb, sum_neg(addresses));
}

static __always_inline int deliver(struct __sk_buff *skb, const struct inbound *in, const struct pair_key *handle,
				   __u32 nid_delta, int rfc6741)
{
	__u32 whole = sum_fold(nid_delta + sum_half(in->src.l64) + sum_half(in->dst.l64)), diff = 0;
	struct host *h = this_host();
	struct addr session[2];

	if (!h)
		return drop(DROP_KERNEL_HELPER);
	if (in->c.fragment != LATER_FRAGMENT && least_header(in->c.proto)) {
		diff = rfc6741 && in->c.proto != IPPROTO_ICMPV6 ? nid_delta : whole;
		if (csum_adjust(skb, in->c.at, in->c.proto, sum_neg(diff)))
			return drop(DROP_KERNEL_HELPER);
	}
	keep_device_sum(skb, whole, diff);
	session[0].l64 = h->session_prefix;
	session[0].nid = handle->remote;
	session[1].l64 = h->session_prefix;
	session[1].nid = handle->local;
	if (bpf_skb_store_bytes(skb, in->l3 + 8, session, 32, 0))
		return drop(DROP_KERNEL_HELPER);
	if (in->c.nonce.len) {
		if (strip_nonce(skb, in))
			return drop(DROP_KERNEL_HELPER);
		count(RX_NONCE);
	}
	count(RX_PACKETS);
	return PASS_ON;
}

/* Answers an echo request where it stands: a probe must come back on the path
 * that it took, also from a correspondent without a session, also while the
 * daemon is away. Returns -1 when the stack shall answer.
 */
static __always_inline int reflect(struct __sk_buff *skb, const struct inbound *in, const struct nonce *own)
{
	struct addr swapped[2] = { in->dst, in->src };
	__u8 mac[12], back[12];
	__u8 type = ICMP6_ECHO_REPLY, hop_limit = 64;

	if (in->c.fragment != WHOLE || own->len != in->c.nonce.len)
		return -1;
	if (in->l3 == ETH_LEN) {
		if (bpf_skb_load_bytes(skb, 0, mac, 12))
			return -1;
		__builtin_memcpy(back, mac + 6, 6);
		__builtin_memcpy(back + 6, mac, 6);
		bpf_skb_store_bytes(skb, 0, back, 12, 0);
	}
	/* The type is the high octet of the first word; nonce and addresses are
	 * not, or not changed in sum, in the checksum.
	 */
	if (bpf_l4_csum_replace(skb, in->c.at + ICMP6_CSUM_AT, bpf_htons(ICMP6_ECHO_REQUEST << 8),
				bpf_htons(ICMP6_ECHO_REPLY << 8), 2) ||
	    bpf_skb_store_bytes(skb, in->c.at, &type, 1, 0) ||
	    bpf_skb_store_bytes(skb, in->l3 + 7, &hop_limit, 1, BPF_F_RECOMPUTE_CSUM) ||
	    bpf_skb_store_bytes(skb, in->l3 + 8, swapped, 32, 0))
		return drop(DROP_KERNEL_HELPER);
	if (own->len == 12)
		bpf_skb_store_bytes(skb, in->c.option_at + 2, own->b, 12, 0);
	else
		bpf_skb_store_bytes(skb, in->c.option_at + 2, own->b, 4, 0);
	count(RX_ECHO_REFLECTED);
	return bpf_redirect(skb->ifindex, 0);
}

/* Is this echo reply one that the daemon asked for? */
static __always_inline int is_probe_reply(struct __sk_buff *skb, const struct chain *c)
{
	struct host *h = this_host();
	__u16 id;

	if (c->type != ICMP6_ECHO_REPLY || !h || bpf_skb_load_bytes(skb, c->at + 4, &id, 2))
		return 0;
	return id == h->probe_id;
}

static __always_inline int hand_over_control(void *ring, struct __sk_buff *skb, const struct inbound *in,
					     const struct pair_key *key)
{
	struct event about;

	about_inbound(&about, in);
	about.key = *key;
	if (!tell_packet(ring, skb, in->l3, EV_CONTROL, &about))
		count(DROP_CONTROL_HANDED_OVER);
	return SHOT;
}

/* May a packet without nonce come from there? remote[] and accept[] lie side by
 * side, and what is unused in them is zero. Global, so that the verifier looks
 * at the loop once and not for every caller.
 */
__noinline int locator_accepted(const struct pair *p, __u64 l64)
{
	if (!p || !l64)
		return 0;
	for (int i = 0; i < MAX_REMOTE; i++)
		if (p->remote[i].v == l64)
			return 1;
	for (int i = 0; i < MAX_ACCEPT; i++)
		if (p->accept[i].v == l64)
			return 1;
	return 0;
}

static __always_inline void check_proof(struct __sk_buff *skb, const struct pair *p, struct pair_live *l,
					const struct inbound *in)
{
	__u8 t[14];
	__be32 ack;

	if (l->proof_seq != p->seq || in->c.proto != IPPROTO_TCP || in->c.fragment == LATER_FRAGMENT ||
	    bpf_skb_load_bytes(skb, in->c.at, t, sizeof(t)))
		return;
	if (*(__u16 *)t != *(__u16 *)(l->proof_ports + 2) || *(__u16 *)(t + 2) != *(__u16 *)l->proof_ports)
		return;
	__builtin_memcpy(&ack, t + 8, 4);
	if (!(t[13] & 0x10) || (__s32)(bpf_ntohl(ack) - l->proof_ack) < 0)
		return;
	struct event about;
	about_inbound(&about, in);
	about.key = p->handle;
	about.remote.l64 = p->remote[l->proof_remote & (MAX_REMOTE - 1)];
	tell(&urgent, skb, EV_PROOF, &about);
	l->proof_seq = 0;
}

/* Bookkeeping of a packet that belongs to the pair. */
static __always_inline void note_heard(struct __sk_buff *skb, const struct pair *p, struct pair_live *l,
				       const struct inbound *in)
{
	struct event about;

	l->last_rx = bpf_ktime_get_coarse_ns();
	l->unanswered_tx = 0;
	__sync_fetch_and_add(&l->rx_packets, 1);
	__sync_fetch_and_add(&l->rx_bytes, skb->len - in->l3);
	if (p->flags & PAIR_DEAD && l->life_seq != p->seq) {
		l->life_seq = p->seq;
		about_inbound(&about, in);
		about.key = p->handle;
		tell(&urgent, skb, EV_LIFE, &about);
	}
	if (p->unproven)
		check_proof(skb, p, l, in);
}

enum standing {
	AUTHENTIC,      /* the right nonce */
	BY_LOCATOR,     /* no nonce, from a locator of the session */
	OTHER_NONCE,    /* RFC 6741 §5.4: never this session */
	NOT_NOW,        /* no nonce, and none seen yet */
	STRANGE_PLACE,  /* no nonce, unknown locator */
};

/* How does the packet stand to the pair? */
static __always_inline enum standing standing_of(struct __sk_buff *skb, const struct pair *p, struct pair_live *l,
						 const struct inbound *in)
{
	struct event about;
	int known = locator_accepted(p, in->src.l64.v);

	if (!in->c.nonce.len) {
		if (!known)
			return STRANGE_PLACE;
		return p->flags & PAIR_INITIATED ? NOT_NOW : BY_LOCATOR;
	}
	if (p->flags & PAIR_PLAIN)
		return OTHER_NONCE;
	about_inbound(&about, in);
	about.key = p->handle;
	if (!p->remote_nonce.len) {
		if (!known)
			return OTHER_NONCE;
		if (!l->learned.len) {
			l->learned = in->c.nonce;
			tell(&urgent, skb, EV_NONCE, &about);
		}
		return same_nonce(&l->learned, &in->c.nonce) ? AUTHENTIC : OTHER_NONCE;
	}
	if (!same_nonce(&p->remote_nonce, &in->c.nonce))
		return OTHER_NONCE;
	l->last_nonce_rx = bpf_ktime_get_coarse_ns();
	if (!known && !(l->hint_seq == p->seq && l->hint.v == in->src.l64.v)) {
		l->hint = in->src.l64;
		l->hint_ifindex = skb->ifindex;
		l->hint_seq = p->seq;
		tell(&urgent, skb, EV_LOCATOR, &about);
	}
	return AUTHENTIC;
}

static __always_inline int locator_on_wire(union half l)
{
	return l.v != 0 && l.b[0] != 0xff && !(l.b[0] == 0xfe && (l.b[1] & 0xc0) == 0x80);
}

/* A nonce from someone without a session, or with another nonce than the
 * session's: an entry in a bounded table, and an answer.
 */
static __always_inline int receive_embryo(struct __sk_buff *skb, const struct inbound *in, int other)
{
	struct embryo e = {
		.remote_l64 = in->src.l64, .local_l64 = in->dst.l64, .remote_nonce = in->c.nonce, .ifindex = skb->ifindex,
	};
	struct host *h = this_host();
	struct event about;
	struct embryo *old;
	int verdict;

	if (!h || !locator_on_wire(in->src.l64))
		return drop(DROP_MALFORMED);
	if (!other && !(h->flags & HOST_ACCEPT_ANY) && !bpf_map_lookup_elem(&known_nids, &in->src.nid))
		return PASS_ON; /* as if we had no ILNP: the stack answers with Parameter Problem */
	about_inbound(&about, in);
	e.epoch = h->epoch;
	old = bpf_map_lookup_elem(&embryos, &about.key);
	if (old && old->remote_l64.v == e.remote_l64.v && old->local_l64.v == e.local_l64.v &&
	    same_nonce(&old->remote_nonce, &e.remote_nonce))
		e.epoch = old->epoch;
	bpf_map_update_elem(&embryos, &about.key, &e, BPF_ANY);
	embryo_nonce(h, &e, in->dst.nid, in->src.nid, &about.own_nonce);
	if (in->c.proto == IPPROTO_ICMPV6) {
		if (is_probe_reply(skb, &in->c))
			return hand_over_control(&requests, skb, in, &about.key);
		if (in->c.type == ICMP6_LOCATOR_UPDATE)
			return drop(DROP_UPDATE_NO_SESSION);
	}
	tell(&requests, skb, other ? EV_OTHER_NONCE : EV_EMBRYO, &about);
	if (in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_ECHO_REQUEST) {
		verdict = reflect(skb, in, &about.own_nonce);
		if (verdict >= 0)
			return verdict;
	}
	if (other)
		return drop(DROP_WRONG_NONCE);
	return deliver(skb, in, &about.key, 0, 0);
}

static __always_inline int receive_pair(struct __sk_buff *skb, const struct pair *p, const struct inbound *in)
{
	struct pair_live *l = live_of(p);
	enum standing s;
	int verdict;

	if (!l)
		return drop(DROP_KERNEL_HELPER);
	s = standing_of(skb, p, l, in);
	switch (s) {
	case OTHER_NONCE:
		return receive_embryo(skb, in, 1);
	case STRANGE_PLACE:
		return drop(DROP_UNKNOWN_LOCATOR);
	case NOT_NOW:
		return drop(DROP_NO_NONCE_YET);
	case BY_LOCATOR:
		if (in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_LOCATOR_UPDATE)
			return drop(DROP_UPDATE_NO_NONCE);
		if (p->flags & PAIR_PLAIN)
			count(RX_PLAIN);
		else if (in->c.proto == IPPROTO_ICMPV6)
			return drop(DROP_ICMP_NO_NONCE);
		break;
	case AUTHENTIC:
		break;
	}
	note_heard(skb, p, l, in);
	if (in->c.proto == IPPROTO_ICMPV6 && s == AUTHENTIC) {
		if (in->c.type == ICMP6_LOCATOR_UPDATE || is_probe_reply(skb, &in->c))
			return hand_over_control(&urgent, skb, in, &p->handle);
		if (in->c.type == ICMP6_ECHO_REQUEST) {
			verdict = reflect(skb, in, &p->local_nonce);
			if (verdict >= 0)
				return verdict;
		}
	}
	return deliver(skb, in, &p->handle, sum_bytes(p->nid_delta),
		       (p->flags & (PAIR_RFC6741 | PAIR_PLAIN)) == PAIR_RFC6741);
}

/* The pair that a packet from outside speaks to: by the NIDs, or, when several
 * correspondents claim that NID, by where it came from.
 */
static __always_inline struct pair *pair_of(const struct inbound *in)
{
	struct pair_key key = { .local = in->dst.nid, .remote = in->src.nid };
	struct homonym_key where = { .local_nid = in->dst.nid, .remote = in->src };
	struct pair_key *handle = bpf_map_lookup_elem(&homonyms, &where);

	return bpf_map_lookup_elem(&pairs, handle ? handle : &key);
}

/* An ICMPv6 error about a packet of ours: the daemon translates it, for it
 * quotes wire addresses that no socket knows.
 */
static __always_inline int receive_error(struct __sk_buff *skb, const struct inbound *in)
{
	struct event about;
	struct addr quoted[2];
	struct pair_key key;

	if (bpf_skb_load_bytes(skb, in->c.at + 8 + 8, quoted, sizeof(quoted)))
		return PASS_ON;
	key.local = quoted[0].nid;
	key.remote = quoted[1].nid;
	if (!bpf_map_lookup_elem(&pairs, &key) && !bpf_map_lookup_elem(&embryos, &key))
		return PASS_ON; /* about a packet that was none of ours */
	about_inbound(&about, in);
	about.key = key;
	if (!tell_packet(&requests, skb, in->l3, EV_ERROR_IN, &about))
		count(DROP_ERROR_HANDED_OVER);
	return SHOT;
}

#endif
