/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Connections of which a long path carries data beside short ones (multipath/cross.go). What came by the short ones
 * waits in the socket for what is still under way by the long one. TCP at the other end takes that for lost once a
 * block of SACK tells it that later data are there, so programs withhold the blocks about data behind the newest that
 * came by the long path. What is missing before these was lost: by the long path it would have come in order, and by a
 * short one sooner. Only when nothing has moved for longer than the long path takes more, all blocks tell what is
 * there.
 * Programs withhold what they see to be due, or are asked to by the peer before it begins: the worst that
 * data on odd paths bring about is that the peer that sent them learns of losses late.
 */
#ifndef ROAM_ILNP_CROSS_H
#define ROAM_ILNP_CROSS_H

#include "flowtable.h"

#define CROSSED_LASTS 1000 /* ms, from the last data on that came by a long path */
#define TCP_BEGINS 0x06    /* SYN, RST */
#define ASKED_CONNECTIONS 8

/* Connections that a probe names, by the ports of the peer and ours. */
struct asked_connections {
	struct {
		__be16 far, near;
	} ports[ASKED_CONNECTIONS];
};

/* What crossing needs of a TCP header. */
struct cross_tcp {
	__be16 from, to;
	__be32 seq, ack;
	__u8 words, flags;
};

/* May connections of the session be crossed? Those of one whose data are not counted are not, as the
 * compact path notes no way of its packets.
 */
static __always_inline int may_cross(const struct session_entry *p)
{
	return p->flags & ENTRY_PLACED && p->flags & ENTRY_COUNTED;
}

/* Does this host withhold blocks in the session? */
__noinline int crosses(const struct session_entry *p)
{
	struct flow_table *t;

	if (!p || !may_cross(p))
		return 0;
	t = table_of(p, 0);
	return t && t->longs;
}

static __always_inline __u32 now_ms(void)
{
	return bpf_ktime_get_ns() / 1000000;
}

/* For how long, in ms, data of a connection may be missing of which some come by the path between two locators; 0: that
 * is no long one.
 */
__noinline int waits_for(const struct session_entry *p, __u64 near, __u64 far)
{
	struct flow_table *t;
	__u32 i, rank;

	if (!p || !may_cross(p))
		return 0;
	t = table_of(p, 0);
	if (!t || !t->longs)
		return 0;
	for (i = 0; i < MAX_PATHS; i++) {
		struct uplink *u;
		__u32 index;

		if (i >= p->n_paths)
			break;
		index = path_uplink(p, i);
		u = bpf_map_lookup_elem(&uplinks, &index);
		if (!u || u->l64.v != near || p->remote[path_remote(p, i)].v != far)
			continue;
		rank = __builtin_popcount(t->longs & ((1U << i) - 1));
		return t->longs >> i & 1 ? t->waits[rank & (CROSSED_LONGS - 1)] : 0;
	}
	return 0;
}

/* Notes by which kind of path data of TCP have come, once some came by a long one. The header is at an offset. */
__noinline int note_data_path(struct __sk_buff *skb, const struct session_entry *p, __u32 l3, __u32 at)
{
	struct crossed_flow first = {}, *f;
	struct crossed_key key;
	struct cross_tcp tcp;
	union half near, far;
	__u32 wait, end;

	if (!p || !may_cross(p) || bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)) || skb->len <= at + (tcp.words >> 4 << 2) ||
	    bpf_skb_load_bytes(skb, l3 + 8, &far, sizeof(far)) || bpf_skb_load_bytes(skb, l3 + 24, &near, sizeof(near)))
		return 0;
	wait = waits_for(p, near.v, far.v);
	key.slot = p->slot;
	key.birth = p->birth;
	key.near_port = tcp.to;
	key.far_port = tcp.from;
	f = bpf_map_lookup_elem(&crossed_flows, &key);
	end = bpf_ntohl(tcp.seq) + skb->len - at - (tcp.words >> 4 << 2);
	if (f && wait) {
		f->at = now_ms();
		f->wait = wait;
		if (!f->came || (__s32)(end - f->newest) > 0) {
			f->newest = end;
			f->came = 1;
			f->moved = f->moved ? f->at : 0;
		}
	} else if (f) {
		f->both = now_ms();
	} else if (wait) {
		first.at = now_ms();
		first.both = first.at - CROSSED_LASTS; /* it may be whole on that path */
		first.wait = wait;
		first.newest = end;
		first.came = 1;
		bpf_map_update_elem(&crossed_flows, &key, &first, BPF_NOEXIST);
	}
	return 0;
}

/* Withholds the blocks of these connections from now on, as the peer asks before it sends any data along the long path
 * between two locators. Is it done?
 */
__noinline int cross_asked(const struct session_entry *p, __u64 near, __u64 far, const struct asked_connections *asked)
{
	struct crossed_flow first = {};
	struct crossed_key key;

	if (!p || !asked)
		return 0;
	first.wait = waits_for(p, near, far);
	if (!first.wait)
		return 0;
	first.at = first.both = now_ms();
	key.slot = p->slot;
	key.birth = p->birth;
	for (int i = 0; i < ASKED_CONNECTIONS; i++) {
		key.near_port = asked->ports[i].near;
		key.far_port = asked->ports[i].far;
		if (key.near_port | key.far_port)
			bpf_map_update_elem(&crossed_flows, &key, &first, BPF_ANY);
	}
	return 1;
}

#define STAMP_WORDS 3 /* of a time stamp with two NOPs before it */
#define BLOCKS_MOST 4 /* in a segment */

/* Offset of the blocks of SACK in a segment (RFC 2018), where common stacks have them: behind two NOPs, and behind the
 * time stamp. 0: there are none. The header is this long.
 */
__noinline int blocks_at(struct __sk_buff *skb, __u32 tcp, __u32 len)
{
	__u32 at = tcp + 20, size;
	__be32 word;

	if (len < 24 || bpf_skb_load_bytes(skb, at, &word, sizeof(word)))
		return 0;
	if (word == bpf_htonl(0x0101080a)) {
		at += 4 * STAMP_WORDS;
		if (len < 24 + 4 * STAMP_WORDS || bpf_skb_load_bytes(skb, at, &word, sizeof(word)))
			return 0;
	}
	size = 2 + (bpf_ntohl(word) & 0xff);
	if ((word & bpf_htonl(0xffffff00)) != bpf_htonl(0x01010500) || size < 12 || size > 4 + 8 * BLOCKS_MOST ||
	    (size & 7) != 4 || at + size > tcp + len)
		return 0;
	return at;
}

struct sack_block {
	__be32 begin, end;
};

/* Is a block to be told, which is this one of its segment? What is not is cut off. A first one of data that came twice
 * stays (RFC 2883).
 */
static __always_inline int is_block_told(struct sack_block *b, __u32 which, __u32 ack, const struct crossed_flow *f)
{
	if (!which && (__s32)(bpf_ntohl(b->end) - ack) <= 0)
		return 1;
	if (!f->came || (__s32)(bpf_ntohl(b->begin) - f->newest) >= 0)
		return 0;
	if ((__s32)(bpf_ntohl(b->end) - f->newest) > 0)
		b->end = bpf_htonl(f->newest);
	return 1;
}

/* Takes out of these blocks what is behind the newest data that came by the long path. */
__noinline int hide_blocks(struct __sk_buff *skb, __u32 tcp, __u32 at, __u32 ack, const struct crossed_flow *f)
{
	struct sack_block b, none = { bpf_htonl(0x01010101), bpf_htonl(0x01010101) };
	__be32 word, head = none.begin;
	__u32 i, n, told = 0;
	__s64 sum = 0;

	if (!f || bpf_skb_load_bytes(skb, at, &word, sizeof(word)))
		return 0;
	n = (bpf_ntohl(word) & 0xff) >> 3;
	for (i = 0; i < BLOCKS_MOST; i++) {
		if (i >= n || bpf_skb_load_bytes(skb, at + 4 + 8 * i, &b, sizeof(b)))
			break;
		sum = bpf_csum_diff((__be32 *)&b, sizeof(b), 0, 0, sum);
		if (!is_block_told(&b, i, ack, f))
			continue;
		sum = bpf_csum_diff(0, 0, (__be32 *)&b, sizeof(b), sum);
		if (bpf_skb_store_bytes(skb, at + 4 + 8 * told, &b, sizeof(b), 0))
			break;
		told++;
	}
	if (told)
		head = bpf_htonl(0x01010502 + 8 * told);
	sum = bpf_csum_diff(&word, sizeof(word), &head, sizeof(head), sum);
	bpf_skb_store_bytes(skb, at, &head, sizeof(head), 0);
	for (i = 0; i < BLOCKS_MOST; i++) {
		if (i < told)
			continue;
		if (i >= n)
			break;
		sum = bpf_csum_diff(0, 0, (__be32 *)&none, sizeof(none), sum);
		if (bpf_skb_store_bytes(skb, at + 4 + 8 * i, &none, sizeof(none), 0))
			break;
	}
	bpf_l4_csum_replace(skb, tcp + TCP_CSUM_AT, 0, sum, 0);
	return 0;
}

/* Withholds the blocks of a segment of ours that is to be without them. The header is at an offset. */
__noinline int withhold(struct __sk_buff *skb, const struct session_entry *p, __u32 at)
{
	__u32 now = now_ms(), ack, blocks;
	struct crossed_key key;
	struct crossed_flow *f;
	struct cross_tcp tcp;

	if (!p || bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)) || tcp.flags & TCP_BEGINS)
		return 0;
	blocks = blocks_at(skb, at, tcp.words >> 4 << 2);
	if (!blocks)
		return 0;
	key.slot = p->slot;
	key.birth = p->birth;
	key.near_port = tcp.from;
	key.far_port = tcp.to;
	f = bpf_map_lookup_elem(&crossed_flows, &key);
	if (!f || now - f->at >= CROSSED_LASTS || now - f->both >= CROSSED_LASTS)
		return 0;
	ack = bpf_ntohl(tcp.ack);
	if (f->ack != ack || !f->moved) {
		f->ack = ack;
		f->moved = now;
	}
	if (now - f->moved < f->wait)
		hide_blocks(skb, at, blocks, ack, f);
	return 0;
}

#endif
