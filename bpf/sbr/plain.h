/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The straight way of plain packets: TCP, UDP and echoes of a known flow, whole, right behind the IPv6
 * header, with a checksum that follows the locators where their rule says so. Echoes of hosts with ILNP have the
 * Nonce option in front, each of them (RFC 6744 section 7). Programs at tc and
 * at XDP share it. It changes nothing before it is certain that it can do all: every other packet
 * then takes the full path.
 */
#ifndef ROAM_SBR_PLAIN_H
#define ROAM_SBR_PLAIN_H

#include "plainread.h"

#define FULL_PATH 0x7fff /* no verdict: the packet is none for the straight way */

static __always_inline const struct border *this_border(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&borders, &zero);
}

/* The number of the bit that stands for a locator or NID. */
static __always_inline __u32 bit_of(union half h)
{
	return h.v * 0x9e3779b97f4a7c15ULL >> 58;
}

/* What the policy says of an internal locator, without a look-up in a hash table where a hint names
 * it; null: there is no hint.
 */
static __always_inline struct locator *hinted_group(const struct border *b, union half l64)
{
	__u32 index = b->group_hint[bit_of(l64) & 63];
	struct locator *g;

	if (!index--)
		return 0;
	g = bpf_map_lookup_elem(&groups, &index);
	return g && g->l64.v == l64.v ? g : 0;
}

/* The index of a site locator, without a look-up where a hint names it; -1: there is no hint. */
static __always_inline int hinted_site(const struct border *b, union half l64)
{
	__u32 index = b->site_hint[bit_of(l64) & 63];
	struct site *s;

	if (!index--)
		return -1;
	s = bpf_map_lookup_elem(&sites, &index);
	return s && s->l64.v == l64.v ? (int)index : -1;
}

/* Is the nonce of an option header in the packet that of a flow? */
static __always_inline int has_nonce(const struct plain *p, const struct nonce *n)
{
	const __u32 *shown = (void *)(p->ip + 1) + 4, *known = (const __u32 *)n->b;

	if (p->option == SHORT_OPTION_LEN)
		return n->len == 4 && shown[0] == known[0];
	return n->len == 12 && shown[0] == known[0] && shown[1] == known[1] && shown[2] == known[2];
}

/* Does a packet show what its flow in that place of a set has: the nonce of its node, and that this is where it was? */
static __always_inline int is_shown(const struct plain *p, __u32 set, __u64 place, __u32 link, int inward)
{
	struct nonce_set *rest = bpf_map_lookup_elem(&nonce_sets, &set);
	struct flow_nonces *n;

	if (!rest || !place)
		return 0;
	n = &rest->nonces[(place - 1) & (SET_FLOWS - 1)];
	if (inward)
		return has_nonce(p, &n->inward);
	if (!has_nonce(p, &n->outward) || n->internal.v != p->ip->src.l64.v || n->ifindex != link)
		return 0;
	if (n->remote.v != p->ip->dst.l64.v)
		n->remote = p->ip->dst.l64;
	return 1;
}

/* Finds the flow of a packet that came by that link; nonzero: it is not known. */
static __always_inline int find_flow(struct plain *p, __u32 link, int inward)
{
	union half from = p->ip->src.nid, to = p->ip->dst.nid;
	struct flow_key key = {.inside = inward ? to : from, .outside = inward ? from : to};
	__u64 place;
	__u32 set;

	p->f = known_place(&key, &set, &place);
	if (!p->f || (p->option && !is_shown(p, set, place, link, inward)))
		return -1;
	p->now = bpf_ktime_get_coarse_ns();
	note_passed(&key, p->f, p->ip->src.l64, link, p->now, inward);
	return 0;
}

/* Writes a locator at that offset of the IPv6 header, lowers the hop limit and writes both hardware
 * addresses.
 */
static __always_inline void write_plain(const struct plain *p, __u32 at, union half to, const __u8 macs[MACS_LEN])
{
	union half *there = (void *)p->ip + at;
	__u32 diff = sum_fold(sum_half(to) + sum_neg(sum_half(*there)));

	/* What is not TCP may be UDP or an echo: the checksum of ICMPv6 follows the locators under both rules. */
	if (!p->is_tcp && p->ip->next != IPPROTO_UDP)
		csum_adjust_at(p->upper + ICMP6_CSUM_AT, IPPROTO_ICMPV6, diff, p->state);
	else if (p->f->rule != RULE_RFC6741 && p->is_tcp)
		csum_adjust_at(p->upper + TCP_CSUM_AT, IPPROTO_TCP, diff, p->state);
	else if (p->f->rule != RULE_RFC6741)
		csum_adjust_at(p->upper + UDP_CSUM_AT, IPPROTO_UDP, diff, p->state);
	*there = to;
	p->ip->hop_limit--;
	__builtin_memcpy((void *)p->ip - ETH_LEN, macs, MACS_LEN);
}

/* Where a plain packet from inside leaves. */
struct leaving {
	const struct locator *g;
	const struct site *s;
	struct share *live;
	__u32 member;
	__u32 by_turn; /* the member's turn counts; undo it with give_back */
};

/* Finds out where a packet from inside, by that link, leaves; nonzero: it takes the full path. */
static __always_inline int find_leaving(struct plain *p, __u32 from, struct leaving *l)
{
	const struct border *b = this_border();
	const __be16 *ports = p->upper;
	__u32 index;

	if (!b || b->locator_bits >> bit_of(p->ip->dst.l64) & 1 || b->own_bits >> bit_of(p->ip->dst.nid) & 1)
		return -1;
	l->g = hinted_group(b, p->ip->src.l64);
	if (!l->g || !l->g->n || find_flow(p, from, 0) || p->now > b->macs_until)
		return -1;
	if (!is_spread(l->g, p->f)) {
		l->member = l->g->n > 1 ? known_member(l->g, p->f->announced) : 0;
	} else if (p->is_tcp && !b->tcp_packets) {
		l->member = by_connection(l->g, p->ip->dst.l64.v, ports[0], ports[1]);
	} else {
		l->member = by_packets(l->g);
		l->by_turn = 1;
	}
	index = l->g->site[l->member & (MAX_GROUP - 1)];
	l->live = bpf_map_lookup_elem(&shares, &index);
	l->s = bpf_map_lookup_elem(&sites, &index);
	if (l->s && l->live && (l->s->flags & (SITE_UP | SITE_MACS)) == (SITE_UP | SITE_MACS) &&
	    p->largest <= l->s->mtu && p->now - l->live->checked < HOP_CHECK)
		return 0;
	if (l->by_turn)
		give_back(l->g, l->member);
	return -1;
}

/* Rewrites a packet from inside for its link. */
static __always_inline void leave(const struct plain *p, const struct leaving *l)
{
	write_plain(p, SOURCE_AT, l->s->l64, l->s->macs);
	l->live->tx_packets += p->packets;
	l->live->tx_bytes += p->bytes;
	count(TX_FLOW);
}

/* Finds out whether a packet from outside, by that link, can go to the inside at once; null: it takes the full
 * path. Else the share to count it in.
 */
static __always_inline struct share *find_entering(struct plain *p, __u32 from)
{
	const struct border *b = this_border();
	const union half *internal;
	__u32 index;
	int site;

	if (!b || !b->direct || b->locator_bits >> bit_of(p->ip->src.l64) & 1 || b->own_bits >> bit_of(p->ip->dst.nid) & 1)
		return 0;
	site = hinted_site(b, p->ip->dst.l64);
	if (site < 0 || find_flow(p, from, 1) || p->now > b->macs_until)
		return 0;
	internal = placed_internal(p->f);
	p->way = internal ? way_to(p->ip->dst.nid, *internal, from) : 0;
	if (!p->way || !is_fresh(p->way, p->ip->dst.nid, *internal, from, p->now) || p->largest > p->way->mtu)
		return 0;
	p->internal = *internal;
	index = site;
	if (p->f->came_to != index + 1)
		p->f->came_to = index + 1;
	return bpf_map_lookup_elem(&shares, &index);
}

/* Rewrites a packet from outside for its link. */
static __always_inline void enter(const struct plain *p, struct share *live)
{
	write_plain(p, DESTINATION_AT, p->internal, p->way->macs);
	live->rx_packets += p->packets;
	live->rx_bytes += p->bytes;
	count(RX_FLOW);
	count(RX_DIRECT);
}

/* A packet from inside at tc. */
static __always_inline int plain_outward(struct __sk_buff *skb)
{
	struct plain p;
	struct leaving l = {};

	if (read_skb(skb, &p) || find_leaving(&p, skb->ifindex, &l))
		return FULL_PATH;
	leave(&p, &l);
	skb->tc_index = SENT_HERE;
	return bpf_redirect(l.s->ifindex, 0);
}

/* A packet from outside at tc. */
static __always_inline int plain_inward(struct __sk_buff *skb)
{
	struct plain p;
	struct share *live;

	if (read_skb(skb, &p))
		return FULL_PATH;
	live = find_entering(&p, skb->ifindex);
	if (!live)
		return FULL_PATH;
	enter(&p, live);
	skb->tc_index = SENT_HERE;
	return bpf_redirect(p.way->dev, 0);
}

#endif
