/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Takes a Nonce option out of a packet, wherever among other options and headers it
 * stands (RFC 6744 §2, RFC 8200 §4.1).
 */
#ifndef ROAM_ILNP_STRIP_H
#define ROAM_ILNP_STRIP_H

#include "maps.h"
#include "../lib/parse.h"

#define LEAD_MOST 512 /* more than the bytes of headers and options before a nonce that can move up */

struct {
	/* What do headers before a nonce hold, while they move up? */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[LEAD_MOST]);
} moving SEC(".maps");

/* The nonce and the padding next to it. */
struct gap {
	__u32 from;
	__u32 to;
};

/* Finds the header at nonce_at. Returns the offset of the next-header field that names
 * it, or negative where nothing may be taken out: behind a Fragment header, as other
 * fragments give offsets of their own.
 */
__noinline int find_header(struct __sk_buff *skb, __u32 at, __u32 nonce_at)
{
	__u32 named = at - IP6_LEN + 6;
	__u8 h[2], next;

	if (bpf_skb_load_bytes(skb, named, &next, 1))
		return -1;
	for (int i = 0; i < MAX_HEADERS; i++) {
		if (at == nonce_at)
			return named;
		if (next == NEXT_FRAGMENT || bpf_skb_load_bytes(skb, at, h, 2))
			return -1;
		named = at;
		next = h[0];
		at += 8 + 8 * (__u32)h[1];
	}
	return -1;
}

/* Finds the gap around the option in its header [at, end), which was read before. */
__noinline int find_gap(struct __sk_buff *skb, __u32 at, __u32 end, __u32 option, struct gap *g)
{
	__u32 o = at + 2;
	__u8 opt[2] = {};

	if (!g)
		return -1;
	g->from = 0;
	g->to = end;
	for (int i = 0; i < MAX_OPTIONS && o < end; i++) {
		__u32 size = 1;

		if (bpf_skb_load_bytes(skb, o, opt, 1))
			return -1;
		if (opt[0] != OPT_PAD1) {
			if (bpf_skb_load_bytes(skb, o, opt, 2))
				return -1;
			size = 2 + opt[1];
		}
		if (opt[0] > OPT_PADN && o != option) {
			if (o > option) {
				g->to = o;
				return 0;
			}
			g->from = 0;
		} else if (!g->from) {
			g->from = o;
		}
		o += size;
	}
	return 0;
}

/* Moves n bytes at the offset at up by cut, fewer than LEAD_MOST. */
static __always_inline int move_up(struct __sk_buff *skb, __u32 at, __u32 n, __u32 cut)
{
	__u32 zero = 0;
	__u8 *b = bpf_map_lookup_elem(&moving, &zero);

	if (n == 0)
		return 0;
	if (!b || n >= LEAD_MOST)
		return -1;
	n--; /* as in load_packet */
	barrier_var(n);
	n = (n & (LEAD_MOST - 1)) + 1;
	return bpf_skb_load_bytes(skb, at, b, n) || bpf_skb_store_bytes(skb, at + cut, b, n, BPF_F_RECOMPUTE_CSUM) ? -1 : 0;
}

/* Writes an option of n bytes of padding, 14 at most. */
static __always_inline int write_padding(struct __sk_buff *skb, __u32 at, __u32 n)
{
	__u8 pad[16] = { OPT_PADN };

	if (n == 0)
		return 0;
	pad[0] = n == 1 ? OPT_PAD1 : OPT_PADN;
	pad[1] = n - 2;
	n--; /* as in load_packet */
	barrier_var(n);
	n = (n & 15) + 1;
	return bpf_skb_store_bytes(skb, at, pad, n, BPF_F_RECOMPUTE_CSUM);
}

/* Takes the option out of the header at nonce_at, in a packet whose IPv6 header is at l3.
 * Of the option and the padding next to it whole multiples of 8 bytes go, so that other
 * options keep their alignment; padding fills the rest, as Linux drops packets with more
 * than 7 bytes of padding in a row. A header that would hold nothing else goes whole. The
 * kernel makes packets shorter only right behind the IPv6 header, so the bytes before the
 * gap move up. 0, or negative.
 */
__noinline int take_out(struct __sk_buff *skb, __u32 l3, __u32 nonce_at, __u32 option)
{
	__u32 base = (l3 & ETH_LEN) + IP6_LEN, len, cut;
	int named = find_header(skb, base, nonce_at);
	struct gap g = {};
	__u8 h[2];
	__be16 all;

	if (bpf_skb_load_bytes(skb, nonce_at, h, 2) || bpf_skb_load_bytes(skb, base - IP6_LEN + 4, &all, 2))
		return -1;
	len = 8 + 8 * (__u32)h[1];
	if (named < 0) {
		if (bpf_skb_load_bytes(skb, option, h, 2))
			return -1;
		return write_padding(skb, option, 2 + (h[1] & 15));
	}
	if (find_gap(skb, nonce_at, nonce_at + len, option, &g))
		return -1;
	cut = (g.to - g.from) & ~7U;
	if (g.to - g.from == len - 2) {
		g.from = nonce_at;
		cut = len;
		if (bpf_skb_store_bytes(skb, named, h, 1, BPF_F_RECOMPUTE_CSUM))
			return -1;
	} else {
		h[1] -= cut / 8;
		if (bpf_skb_store_bytes(skb, nonce_at, h, 2, BPF_F_RECOMPUTE_CSUM))
			return -1;
	}
	if (cut && move_up(skb, base, g.from - base, cut))
		return -1;
	if (write_padding(skb, g.from + cut, g.to - g.from - cut))
		return -1;
	if (!cut)
		return 0;
	all = bpf_htons(bpf_ntohs(all) - cut);
	if (bpf_skb_store_bytes(skb, base - IP6_LEN + 4, &all, 2, BPF_F_RECOMPUTE_CSUM))
		return -1;
	return bpf_skb_adjust_room(skb, -(__s32)cut, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET);
}

#endif
