/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Counts the data of sessions along each path, and reports the counts in answers to
 * probes: wire/ilnp/report.go has the format. Only sessions with several paths are
 * counted so. The peer subtracts what it reads from what it has sent.
 */
#ifndef ROAM_ILNP_PATHREPORT_H
#define ROAM_ILNP_PATHREPORT_H

#include "cross.h"
#include "live.h"
#include "../lib/parse.h"

#define REPORT_LEN 64        /* bytes of data of a probe that asks for a report, */
#define SEALED_REPORT_LEN 80 /* and of one that asks for a report with a MAC */
#define REPORT_AT 24         /* where the report begins, behind the ICMPv6 header and the token */

enum report_flags {
	REPORT_FILLED = 1,
	REPORT_COUNTS = 2,   /* asked: that the path be counted; answered: the counts are there */
	REPORT_PER_FLOW = 4, /* asked: that TCP be spread by connection */
	REPORT_ANSWERS = 16, /* asked: that marked flows be answered along their paths */
	REPORT_CROSSES = 32, /* answered: blocks of SACK are withheld, see cross.h */
	REPORT_CROSS = 64,   /* asked: that those of the connections which the request names be; answered: they are */
	REPORT_OTHER = 8,    /* asked and answered: of another path of the session, whose locators the request has */
};

struct report_head {
	__u8 mark[4];
	__u8 flags[4]; /* the second byte; the third is what the path costs by the measure of who asks; the others are zero */
};

struct report_counts {
	__be32 epoch, clock;
	__be64 rx_packets, rx_bytes, tx_packets, tx_bytes;
};

static const struct path_counts no_counts; /* here, as the stack is limited */

/* The counts of a path, new ones if there are none. Two processors may both begin to count; the
 * epoch of one stays.
 */
static __always_inline struct path_counts *counts_of(const struct path_key *k)
{
	struct path_counts *c = bpf_map_lookup_elem(&path_counts, k);

	if (!c) {
		bpf_map_update_elem(&path_counts, k, &no_counts, BPF_NOEXIST);
		c = bpf_map_lookup_elem(&path_counts, k);
	}
	if (c && !c->epoch)
		c->epoch = tick(coarse_ns()) | 1;
	return c;
}

/* Counts a packet along path k, whose upper-layer header of protocol proto is at an offset. */
static __always_inline void count_data(struct __sk_buff *skb, const struct path_key *k, __u32 at, __u32 proto, int sent)
{
	__u32 bytes, size = skb->gso_size, header = 8;
	__u64 packets = 1;
	struct path_counts *c;
	__u8 offset;

	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
		return;
	if (proto == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, at + 12, &offset, 1))
			return;
		header = offset >> 4 << 2;
	}
	bytes = at + header < skb->len ? skb->len - at - header : 0;
	if (size && bytes > size)
		packets = (bytes + size - 1) / size;
	c = counts_of(k);
	if (!c)
		return;
	__sync_fetch_and_add(sent ? &c->tx_packets : &c->rx_packets, packets);
	__sync_fetch_and_add(sent ? &c->tx_bytes : &c->rx_bytes, bytes);
}

/* Counts a packet whose addresses on the wire are not in its header yet. */
__noinline int count_sent(struct __sk_buff *skb, const struct path_key *path, __u32 at, __u32 proto)
{
	struct path_key k;

	if (!path)
		return 0;
	k = *path; /* the key must be on this stack */
	count_data(skb, &k, at, proto, 1);
	return 0;
}

/* Counts a packet by the addresses in its header. Global, so that packets of other sessions
 * pay for the test of a flag only.
 */
__noinline int count_path(struct __sk_buff *skb, __u32 l3, __u32 at, __u32 proto, int sent)
{
	struct path_key k;

	if (bpf_skb_load_bytes(skb, l3 + (sent ? 8 : 24), &k.near, sizeof(k.near)) ||
	    bpf_skb_load_bytes(skb, l3 + (sent ? 24 : 8), &k.far, sizeof(k.far)))
		return 0;
	count_data(skb, &k, at, proto, sent);
	return 0;
}

/* Reads what a probe, whose ICMPv6 header is at an offset, asks to be reported. Returns
 * the flags, or -1 if it asks for nothing.
 */
__noinline int report_asked(struct __sk_buff *skb, __u32 at, struct report_head *h)
{
	const __u8 mark[4] = { 'R', 'O', 'R', 'P' };
	__u32 len = skb->len - at;

	if (!h || (len != 8 + REPORT_LEN && len != 8 + SEALED_REPORT_LEN) ||
	    bpf_skb_load_bytes(skb, at + REPORT_AT, h, sizeof(*h)) || *(__u32 *)h->mark != *(__u32 *)mark ||
	    h->flags[0] || h->flags[3])
		return -1;
	return h->flags[1];
}

/* Only the flags of that. */
__noinline int report_flags(struct __sk_buff *skb, __u32 at)
{
	struct report_head h;

	return report_asked(skb, at, &h);
}

/* Fills in the report that a probe of the session has asked for, in its answer. near, far:
 * the ends of the probe. The clock is that of the kernel, which counts also where the
 * programs' own one stands still between two ticks.
 */
__noinline int fill_report(struct __sk_buff *skb, const struct session_entry *p, const struct addr *near,
			   const struct addr *far, __u32 at)
{
	struct report_counts r;
	struct path_counts *c;
	struct report_head h;
	struct path_key k;
	__u32 answer;
	__be32 word;
	__s64 sum;

	if (!p || !near || !far || report_asked(skb, at, &h) < 0 ||
	    bpf_skb_load_bytes(skb, at + REPORT_AT + sizeof(h), &r, sizeof(r)))
		return 0;
	k.near = *near;
	k.far = *far;
	if (h.flags[1] & REPORT_OTHER) { /* the NIDs stay: nobody asks about sessions of others */
		k.near.l64.v = r.rx_packets;
		k.far.l64.v = r.rx_bytes;
	}
	c = 0;
	if (p->flags & ENTRY_COUNTED && h.flags[1] & REPORT_OTHER) {
		c = bpf_map_lookup_elem(&path_counts, &k);
	} else if (p->flags & ENTRY_COUNTED) {
		c = counts_of(&k);
		if (c)
			c->told = COST_TOLD | h.flags[2];
	}
	word = *(__be32 *)h.flags;
	answer = REPORT_FILLED | (c ? REPORT_COUNTS : 0) | (crosses(p) ? REPORT_CROSSES : 0);
	if ((h.flags[1] & (REPORT_CROSS | REPORT_OTHER)) == REPORT_CROSS &&
	    cross_asked(p, near->l64.v, far->l64.v, (const struct asked_connections *)&r.rx_packets))
		answer |= REPORT_CROSS;
	h.flags[1] = (h.flags[1] & (REPORT_PER_FLOW | REPORT_OTHER)) | answer;
	sum = bpf_csum_diff(&word, sizeof(word), (__be32 *)h.flags, sizeof(word), 0);
	sum = bpf_csum_diff((__be32 *)&r, sizeof(r), 0, 0, sum);
	__builtin_memset(&r, 0, sizeof(r));
	r.clock = bpf_htonl(bpf_ktime_get_ns() / 1000);
	if (c) {
		r.epoch = bpf_htonl(c->epoch);
		r.rx_packets = bpf_cpu_to_be64(c->rx_packets);
		r.rx_bytes = bpf_cpu_to_be64(c->rx_bytes);
		r.tx_packets = bpf_cpu_to_be64(c->tx_packets);
		r.tx_bytes = bpf_cpu_to_be64(c->tx_bytes);
	}
	sum = bpf_csum_diff(0, 0, (__be32 *)&r, sizeof(r), sum);
	if (bpf_l4_csum_replace(skb, at + ICMP6_CSUM_AT, 0, sum, 0) ||
	    bpf_skb_store_bytes(skb, at + REPORT_AT + 4, h.flags, sizeof(h.flags), 0) ||
	    bpf_skb_store_bytes(skb, at + REPORT_AT + sizeof(h), &r, sizeof(r), 0))
		count(DROP_KERNEL_HELPER);
	return 0;
}

#endif
