/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Chooses the site locator of a packet from inside. sbr/choose.go is the model. */
#ifndef ROAM_SBR_CHOOSE_H
#define ROAM_SBR_CHOOSE_H

#include "encap.h"

#define PROBE_LEN 16 /* bytes of data in a probe of a daemon */
#define PROBE_PER_FLOW_LEN 20
#define PROBE_REPORT_LEN 64 /* asks for a report, ../ilnp/pathreport.h, */
#define PROBE_SEALED_LEN 80 /* with a MAC */
#define REPORT_AT 24        /* where that begins, from the ICMPv6 header on */
#define REPORT_FLAGS 5      /* where its flags are */
#define REPORT_FILLED 1

/* The member for the next packet by weights: each gains its weight, the richest pays all. */
__noinline __u32 by_packets(const struct locator *g)
{
	__u32 label, best = 0;
	struct credits *c;

	if (!g)
		return 0;
	label = g->label;
	c = bpf_map_lookup_elem(&credits, &label);
	if (!c)
		return 0;
	if (c->generation != g->generation) {
		__builtin_memset(c, 0, sizeof(*c));
		c->generation = g->generation;
	}
	for (__u32 i = 0; i < MAX_GROUP; i++) {
		if (i >= g->n)
			break;
		c->credit[i] += g->weight[i];
		if (c->credit[i] > c->credit[best & (MAX_GROUP - 1)])
			best = i;
	}
	c->credit[best & (MAX_GROUP - 1)] -= g->total;
	return best;
}

/* Takes back what by_packets has done for a packet that another program will choose for. */
static __always_inline void give_back(const struct locator *g, __u32 member)
{
	__u32 label = g->label;
	struct credits *c = bpf_map_lookup_elem(&credits, &label);

	if (!c)
		return;
	c->credit[member & (MAX_GROUP - 1)] += g->total;
	for (__u32 i = 0; i < MAX_GROUP && i < g->n; i++)
		c->credit[i] -= g->weight[i];
}

/* A hash of two locators and both ports, of 27 bits; ../ilnp/flow.h has the same. */
static __always_inline __u32 flow_weight(union half a, union half b, __u32 ports)
{
	__u64 x = bpf_be64_to_cpu(a.v ^ b.v) + ports;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return x >> 37;
}

static __always_inline union half site_locator(__u32 index)
{
	struct site *s = bpf_map_lookup_elem(&sites, &index);
	union half none = {};

	return s ? s->l64 : none;
}

/* The member of a TCP connection: that of the greatest hash, which the other end chooses,
 * too; by weight where weights differ.
 */
__noinline __u32 by_connection(const struct locator *g, __u64 remote, __be16 a, __be16 b)
{
	__u32 ports = (__u32)bpf_ntohs(a) * bpf_ntohs(b) + bpf_ntohs(a ^ b), best = 0, greatest = 0, equal = 1;
	union half none = {}, other = {.v = remote};
	__u64 at;

	if (!g)
		return 0;
	for (__u32 i = 1; i < MAX_GROUP && i < g->n; i++)
		equal &= g->weight[i] == g->weight[0];
	at = (__u64)flow_weight(none, other, ports) * g->total >> 27;
	for (__u32 i = 0; i < MAX_GROUP && i < g->n; i++) {
		__u32 w = 0;

		if (!equal) {
			if (at < g->weight[i])
				return i;
			at -= g->weight[i];
			continue;
		}
		w = flow_weight(site_locator(g->site[i]), other, ports);
		if (!i || w > greatest) {
			greatest = w;
			best = i;
		}
	}
	return best;
}

/* The first member that the outside node knows, or the first of all. A function of its own, so
 * that the compiler leaves no value undefined that older verifiers do not see to be unused.
 */
__noinline __u32 known_member(const struct locator *g, __u32 announced)
{
	if (!g)
		return 0;
	for (__u32 i = 0; i < MAX_GROUP && i < g->n; i++)
		if (announced >> (g->site[i] & (MAX_SITES - 1)) & 1)
			return i;
	return 0;
}

/* Do packets of a flow turn to all members, and not keep to one? */
static __always_inline int is_spread(const struct locator *g, const struct flow *f)
{
	return g->n > 1 && g->spread && (f->announced & g->sites) == g->sites;
}

/* The member for a packet of a flow. */
static __always_inline __u32 choose(struct __sk_buff *skb, const struct locator *g, const struct crossing *x,
				    const struct flow *f, const struct border *b)
{
	__be16 ports[2];

	if (!is_spread(g, f))
		return known_member(g, f->announced);
	if (x->c.proto == IPPROTO_TCP && !b->tcp_packets && x->c.fragment != LATER_FRAGMENT &&
	    !bpf_skb_load_bytes(skb, x->c.at, ports, sizeof(ports)))
		return by_connection(g, x->ip.dst.l64.v, ports[0], ports[1]);
	return by_packets(g);
}

/* Loads the head of the report in a probe or its answer; 0: there is none. */
static __always_inline int load_report(struct __sk_buff *skb, const struct crossing *x, __u8 head[8])
{
	const __u8 mark[4] = {'R', 'O', 'R', 'P'};
	__u32 len = skb->len - x->c.at;

	return (len == 8 + PROBE_REPORT_LEN || len == 8 + PROBE_SEALED_LEN) &&
	       !bpf_skb_load_bytes(skb, x->c.at + REPORT_AT, head, 8) && *(__u32 *)head == *(__u32 *)mark;
}

/* Has the answer to a probe of either side say that it has no report. The ends would compare
 * what one of them counts along one path with what the other counts along several: behind a
 * border these are not the same paths. Nonzero: the kernel refused.
 */
__noinline int hide_report(struct __sk_buff *skb, const struct crossing *x)
{
	__u8 head[8] __attribute__((aligned(8))) = {};
	__u16 was;

	if (!x || x->c.proto != IPPROTO_ICMPV6 || x->c.type != ICMP6_ECHO_REPLY || !x->c.nonce.len ||
	    x->c.fragment != WHOLE || !load_report(skb, x, head) || !(head[REPORT_FLAGS] & REPORT_FILLED))
		return 0;
	was = *(__u16 *)(head + 4);
	head[REPORT_FLAGS] &= ~REPORT_FILLED;
	return bpf_l4_csum_replace(skb, x->c.at + ICMP6_CSUM_AT, was, *(__u16 *)(head + 4), 2) ||
	       bpf_skb_store_bytes(skb, x->c.at + REPORT_AT + 4, head + 4, 2, 0);
}

/* Reads what names a probe, or its answer; 0: the packet is none of that type. */
static __always_inline int read_probe(struct __sk_buff *skb, const struct crossing *x, __u8 type, struct probe *p)
{
	__u8 head[8] __attribute__((aligned(8))) = {};
	__u32 len = skb->len - x->c.at;

	if (x->c.proto != IPPROTO_ICMPV6 || x->c.type != type || !x->c.nonce.len || x->c.fragment != WHOLE ||
	    (len != 8 + PROBE_LEN && len != 8 + PROBE_PER_FLOW_LEN && !load_report(skb, x, head)))
		return 0;
	p->flow = x->key;
	p->pad = 0;
	return !bpf_skb_load_bytes(skb, x->c.at + 4, &p->id, 4);
}

/* Notes which site locator a probe from outside came to. */
__noinline int note_probe(struct __sk_buff *skb, const struct crossing *x, __u32 site)
{
	struct probe p = {};

	if (x && read_probe(skb, x, ICMP6_ECHO_REQUEST, &p))
		bpf_map_update_elem(&probes, &p, &site, BPF_ANY);
	return 0;
}

/* The index in sites of the locator that the answer to a probe leaves from; -1: this is no
 * such answer.
 */
__noinline int probe_site(struct __sk_buff *skb, const struct crossing *x)
{
	struct probe p = {};
	__u32 *site;

	if (!x || !read_probe(skb, x, ICMP6_ECHO_REPLY, &p))
		return -1;
	site = bpf_map_lookup_elem(&probes, &p);
	return site ? (int)(*site & (MAX_SITES - 1)) : -1;
}

#endif
