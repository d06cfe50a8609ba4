/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The checksum rule of a correspondent, learned from the packets that it sends. An ICMPv6
 * message with its nonce is judged by itself. A checksum over the addresses on the wire
 * and one over NIDs alone differ by the sum of the locators, so a packet shows its rule
 * unless that sum is zero and both rules are one.
 */
#ifndef ROAM_ILNP_CHECKSUMRULE_H
#define ROAM_ILNP_CHECKSUMRULE_H

#include "deliver.h"

#define RULE_CHUNK 32
#define RULE_MOST 1536 /* bytes of a segment that are summed; longer ones show no rule */

static __always_inline int has_rule(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP;
}

/* Adds the bytes [at, end) to a sum; negative if they are not there. The last chunk is
 * filled up with zeros, which do not count. The buffer b is the caller's, as the stack is
 * limited.
 */
static __always_inline __s64 sum_chunks(struct __sk_buff *skb, __u8 b[RULE_CHUNK], __u32 at, __u32 end, __u32 s)
{
	__u32 left;

	for (int i = 0; i < RULE_MOST / RULE_CHUNK && end - at >= RULE_CHUNK; i++) {
		if (bpf_skb_load_bytes(skb, at, b, RULE_CHUNK))
			return -1;
		s = bpf_csum_diff(0, 0, (__be32 *)b, RULE_CHUNK, s);
		at += RULE_CHUNK;
	}
	if (at >= end)
		return s;
	__builtin_memset(b, 0, RULE_CHUNK);
	left = end - at - 1; /* as in load_packet */
	barrier_var(left);
	left = (left & (RULE_CHUNK - 1)) + 1;
	if (bpf_skb_load_bytes(skb, at, b, left))
		return -1;
	return bpf_csum_diff(0, 0, (__be32 *)b, RULE_CHUNK, s);
}

static __always_inline __u32 checksum_at(__u8 proto)
{
	return proto == IPPROTO_TCP ? TCP_CSUM_AT : proto == IPPROTO_UDP ? UDP_CSUM_AT : ICMP6_CSUM_AT;
}

/* The rule under which the checksum of this packet is right. Without a wire between the
 * hosts, most checksums are not finished, and hold only the seed over the pseudo-header.
 * Those of GSO packets always do; those of ICMPv6 never, as every kernel finishes them
 * itself. Global: the verifier looks at it once.
 */
__noinline int rule_shown(struct __sk_buff *skb, const struct chain *c, __u32 l3)
{
	__u32 at, end, field_at, locators, seed;
	union {
		struct addr ends[2];
		__u8 b[RULE_CHUNK];
	} u;
	__s64 whole;
	__u16 field;
	__be16 len;

	if (!c || (!has_rule(c->proto) && c->proto != IPPROTO_ICMPV6) || c->fragment != WHOLE)
		return RULE_NOT_FOUND;
	at = c->at;
	field_at = at + checksum_at(c->proto);
	if (bpf_skb_load_bytes(skb, l3 + 4, &len, 2) || bpf_skb_load_bytes(skb, l3 + 8, u.ends, sizeof(u.ends)) ||
	    bpf_skb_load_bytes(skb, field_at, &field, 2))
		return RULE_NOT_FOUND;
	end = len ? l3 + IP6_LEN + bpf_ntohs(len) : skb->len;
	if (!field || end <= at)
		return RULE_NOT_FOUND;
	locators = sum_fold(sum_half(u.ends[0].l64) + sum_half(u.ends[1].l64));
	seed = bpf_htons(end - at) + bpf_htons((end - at) >> 16) + bpf_htons(c->proto);
	seed = sum_fold(sum_half(u.ends[0].nid) + sum_half(u.ends[1].nid) + seed);
	if (!skb->gso_size && end - at <= RULE_MOST) {
		whole = sum_chunks(skb, u.b, at, end, seed);
		if (whole < 0)
			return RULE_NOT_FOUND;
		whole = sum_fold(whole);
		if (sum_fold(whole + locators) == 0xffff)
			return RULE_IPV6;
		if (whole == 0xffff)
			return RULE_RFC6741;
	}
	if (!has_rule(c->proto))
		return RULE_NOT_FOUND;
	if (field == sum_fold(seed + locators))
		return RULE_IPV6;
	return field == seed ? RULE_RFC6741 : RULE_NOT_FOUND;
}

/* Does this packet of a correspondent under RFC 6741's rule follow that rule? With a
 * nonce it must. Without one it may come from a stack that answers as plain IPv6 peers
 * whose nonce it does not have, so its own checksum decides.
 */
static __always_inline int sums_nids_only(struct __sk_buff *skb, const struct inbound *in)
{
	return in->c.nonce.len || !has_rule(in->c.proto) || rule_shown(skb, &in->c, in->l3) != RULE_IPV6;
}

/* Do locators count as zero in this ICMPv6 message? Only a nonce permits that, which the
 * caller has checked; without one the message is plain IPv6. A first fragment cannot be
 * summed: it follows the rule of the session.
 */
__noinline int is_icmp_over_nids(struct __sk_buff *skb, const struct session_entry *p, const struct inbound *in)
{
	if (!in || !in->c.nonce.len)
		return 0;
	if (in->c.fragment != WHOLE)
		return p && p->flags & ENTRY_ICMP_RFC6741;
	return rule_shown(skb, &in->c, in->l3) == RULE_RFC6741;
}

/* Do locators count as zero towards this correspondent? */
static __always_inline int counts_nids_only(const struct session_entry *p, const struct session_details *d)
{
	if (p->flags & ENTRY_PLAIN)
		return 0;
	if (p->flags & ENTRY_RULE_SOUGHT && d->rule != RULE_NOT_FOUND)
		return d->rule == RULE_RFC6741;
	return !!(p->flags & ENTRY_RFC6741);
}

/* Is the rule of this correspondent still a guess? */
static __always_inline int is_rule_sought(const struct session_entry *p, const struct session_details *d)
{
	return p->flags & ENTRY_RULE_SOUGHT && !(p->flags & ENTRY_PLAIN) && d->rule == RULE_NOT_FOUND;
}

/* Learns the rule from a packet, if it shows one. Reports EV_RULE where the daemon's
 * guess was wrong.
 */
__noinline int learn_rule(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d, const struct inbound *in)
{
	int found;

	if (!p || !d || !in)
		return 0;
	found = rule_shown(skb, &in->c, in->l3);
	if (found == RULE_NOT_FOUND)
		return 0;
	d->rule = found;
	if ((found == RULE_RFC6741) != !!(p->flags & ENTRY_RFC6741))
		tell_of(skb, in, p, EV_RULE, found);
	return 0;
}

/* Call for packets with the right nonce only: others could be forged. */
static __always_inline void note_rule(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
				      const struct inbound *in)
{
	if (is_rule_sought(p, d) && has_rule(in->c.proto))
		learn_rule(skb, p, d, in);
}

#define COPY_ANSWERS 2      /* so many answers decide for the other rule */
#define COPY_ANSWER_IN 20   /* ms behind a probe copy, or two round trips: later datagrams answer something else */

/* Counts a datagram without nonce, of a session whose rule is sought. It shows no rule by
 * its checksum, as some stacks answer by the ordinary rule whichever they expect. But if
 * the peer answers only packets that went under both rules, each time at once, then the
 * other rule is the one that reaches it. An attacker off the path who forges that must
 * know ports and moments, twice, and only sways a guess: the first packet with the right
 * nonce shows the rule.
 */
__noinline int note_bare(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d, const struct inbound *in)
{
	__u32 since, within;
	__u16 ports[2];

	if (!p || !d || !in || bpf_skb_load_bytes(skb, in->c.at, ports, sizeof(ports)))
		return 0;
	since = (__u32)(coarse_ns() / 1000000) - d->copy_sent;
	within = p->grace;
	if (within < COPY_ANSWER_IN)
		within = COPY_ANSWER_IN;
	if (!d->copy_open || since > within || ports[0] != d->copy_ports[0] || ports[1] != d->copy_ports[1]) {
		d->sought_since = 0; /* the peer answers packets under our guess */
		d->copy_answers = 0;
		return 0;
	}
	d->copy_open = 0;
	d->copy_answers++;
	if (d->copy_answers < COPY_ANSWERS)
		return 0;
	d->sought_since = 0;
	d->copy_answers = 0;
	d->bare = 0; /* those were plain IPv6 */
	tell_of(skb, in, p, EV_RULE, RULE_OTHER);
	return 0;
}

#endif
