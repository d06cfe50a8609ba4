/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The MAC of reports in keyed sessions: wire/ilnp/reportmac.go says what it covers. Its key is that
 * of the updates of who asks, so that the programs have no key by which an update could be made.
 */
#ifndef ROAM_ILNP_REPORTMAC_H
#define ROAM_ILNP_REPORTMAC_H

#include "pathreport.h"
#include "updatemac.h"

#define REPORT_COUNTS_AT (REPORT_AT + 16) /* where a request about another path has the locators of that */

/* Writes the MAC behind a report whose ICMPv6 header is at an offset. near, far: the locators of
 * the path that it is about.
 */
__noinline int seal_report(struct __sk_buff *skb, const struct update_key *k, __u32 at, __u64 near, __u64 far)
{
	__u64 mac[2], was[2], w;
	struct sip s;
	__s64 sum;

	if (!k || bpf_skb_load_bytes(skb, at + 8 + REPORT_LEN, was, sizeof(was)))
		return 0;
	sip_init(&s, k->key[0], k->key[1]);
	s.v1 ^= 0xee;
	for (int i = 0; i < REPORT_LEN / 8; i++) {
		if (bpf_skb_load_bytes(skb, at + 8 + 8 * i, &w, 8))
			return 0;
		sip_word(&s, w);
	}
	sip_word(&s, near);
	sip_word(&s, far);
	sip_word(&s, (__u64)(REPORT_LEN + 16) << 56);
	s.v2 ^= 0xee;
	mac[0] = sip_sum(&s);
	s.v1 ^= 0xdd;
	mac[1] = sip_sum(&s);
	sum = bpf_csum_diff((__be32 *)was, sizeof(was), (__be32 *)mac, sizeof(mac), 0);
	if (bpf_l4_csum_replace(skb, at + ICMP6_CSUM_AT, 0, sum, 0) ||
	    bpf_skb_store_bytes(skb, at + 8 + REPORT_LEN, mac, sizeof(mac), 0))
		count(DROP_KERNEL_HELPER);
	return 0;
}

/* Fills in the report that a probe of the session has asked for, in its answer, and seals it if that was asked
 * for, too. Without a key it stays as it came.
 */
__noinline int report(struct __sk_buff *skb, const struct session_entry *p, const struct inbound *in)
{
	struct update_key *k = 0;
	__u64 ends[2];
	int flags;

	if (!p || !in)
		return 0;
	flags = report_flags(skb, in->c.at);
	if (flags < 0)
		return 0;
	if (skb->len - in->c.at == 8 + SEALED_REPORT_LEN) {
		k = key_of(p);
		if (!k)
			return 0;
	}
	ends[0] = in->dst.l64.v;
	ends[1] = in->src.l64.v;
	if (flags & REPORT_OTHER && bpf_skb_load_bytes(skb, in->c.at + REPORT_COUNTS_AT, ends, sizeof(ends)))
		return 0;
	fill_report(skb, p, &in->dst, &in->src, in->c.at);
	if (k)
		seal_report(skb, k, in->c.at, ends[0], ends[1]);
	return 0;
}

#endif
