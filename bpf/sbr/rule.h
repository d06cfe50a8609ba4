/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The checksum rule of a flow: whether TCP and UDP checksums cover the locators, so that
 * the border adjusts them, or count locators as zero (RFC 6741). A packet with a nonce
 * shows it, as it shows it to the host that receives it; ICMPv6 always covers them.
 */
#ifndef ROAM_SBR_RULE_H
#define ROAM_SBR_RULE_H

#include "maps.h"
#include "../lib/csum.h"
#include "../lib/parse.h"

#define RULE_CHUNK 64
#define RULE_CHUNKS 16 /* longer packets show no rule */

/* A packet that crosses the border, as far as it was read. */
struct crossing {
	struct ip6 ip;
	struct chain c;
	struct flow_key key;
	__u64 now; /* coarse, in ns */
	__u32 l3;
	__u32 inward;
	enum checksum_rule rule;
	__u32 state; /* enum checksum_state */
};

/* The sum of an upper-layer message; 0: it cannot be read. */
static __always_inline __u32 sum_message(struct __sk_buff *skb, __u32 at, __u32 len)
{
	__s64 sum = 0;

	for (__u32 i = 0; i < RULE_CHUNKS; i++) {
		__u8 chunk[RULE_CHUNK] = {};
		__u32 n = len - i * RULE_CHUNK;

		if (i * RULE_CHUNK >= len)
			break;
		n = n > RULE_CHUNK ? RULE_CHUNK : n;
		n = ((n - 1) & (RULE_CHUNK - 1)) + 1;
		if (bpf_skb_load_bytes(skb, at + i * RULE_CHUNK, chunk, n))
			return 0;
		sum = bpf_csum_diff(0, 0, (__be32 *)chunk, sizeof(chunk), sum);
		if (sum < 0)
			return 0;
	}
	return sum_fold((sum & 0xffff) + (sum >> 16));
}

/* The rule that a whole TCP or UDP packet follows, with its checksum finished or only the
 * seed of one.
 */
__noinline int shown_rule(struct __sk_buff *skb, const struct crossing *x)
{
	__u32 at, len, sum, nids, whole;
	__u16 field;

	if (!x || x->c.fragment != WHOLE || skb->gso_size || (x->c.proto != IPPROTO_TCP && x->c.proto != IPPROTO_UDP))
		return RULE_UNKNOWN;
	at = x->c.at;
	len = x->l3 + IP6_LEN + ((__u32)x->ip.payload_len[0] << 8 | x->ip.payload_len[1]) - at;
	if (!len || len > RULE_CHUNK * RULE_CHUNKS ||
	    bpf_skb_load_bytes(skb, at + (x->c.proto == IPPROTO_TCP ? TCP_CSUM_AT : UDP_CSUM_AT), &field, 2) || !field)
		return RULE_UNKNOWN;
	sum = sum_message(skb, at, len);
	nids = sum_halves(x->ip.src.nid.v, x->ip.dst.nid.v, bpf_htons(len) + bpf_htons(x->c.proto));
	whole = sum_halves(x->ip.src.l64.v, x->ip.dst.l64.v, nids);
	if (sum_fold(whole + sum) == 0xffff)
		return RULE_IPV6;
	if (sum_fold(nids + sum) == 0xffff)
		return RULE_RFC6741;
	return field == whole ? RULE_IPV6 : field == nids ? RULE_RFC6741 : RULE_UNKNOWN;
}

#endif
