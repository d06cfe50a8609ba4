/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Crossed acknowledgements. Where a short and a long path carry data of one connection, what
 * acknowledges data of the one returns by the other: each round trip then has a way along either.
 * Acknowledgements arrive in the order in which the data left, and TCP at the other end takes nothing
 * for lost (multipath/cross.go). A queue before the short path is a part of its way there, so while
 * there is one, all acknowledgements return by the short path; and while that is longer than both ways of the
 * long path, each returns by the path of its data. Time stamps of TCP show how long the ways there are.
 * Programs cross what they see to need it, without a word of the peer: the worst that data on
 * odd paths bring about is that acknowledgements to that peer are late, and that those to others
 * come out of order for a moment, as their entries were evicted.
 */
#ifndef ROAM_ILNP_CROSS_H
#define ROAM_ILNP_CROSS_H

#include "flowtable.h"

#define CROSSED_LASTS 1000 /* ms, from the last data on that came by a long path */
#define TCP_ENDS 0x07      /* FIN, SYN, RST */
#define ODDLY_LATE 8000    /* 1/8 ms: the peer's time stamps are no milliseconds */

/* What crossing needs of a TCP header. */
struct cross_tcp {
	__be16 from, to;
	__be32 seq, ack;
	__u8 words, flags;
};

/* May acknowledgements of the session be crossed? Those of one whose data are not counted are not, as the
 * compact path notes no way of its packets.
 */
static __always_inline int may_cross(const struct session_entry *p)
{
	return p->flags & ENTRY_PLACED && p->flags & ENTRY_COUNTED;
}

/* Does this host cross acknowledgements of the session? */
__noinline int crosses(const struct session_entry *p)
{
	struct flow_table *t;

	if (!p || !may_cross(p))
		return 0;
	t = table_of(p, 0);
	return t && t->longs;
}

/* Index of the path by which a packet came whose IPv6 header is at l3, or -1. */
__noinline int path_back(struct __sk_buff *skb, const struct session_entry *p, __u32 l3)
{
	union half far, near;
	__u32 i;

	if (!p || bpf_skb_load_bytes(skb, l3 + 8, &far, sizeof(far)) || bpf_skb_load_bytes(skb, l3 + 24, &near, sizeof(near)))
		return -1;
	for (i = 0; i < MAX_PATHS; i++) {
		struct uplink *u;
		__u32 index;

		if (i >= p->n_paths)
			break;
		index = path_uplink(p, i);
		u = bpf_map_lookup_elem(&uplinks, &index);
		if (u && u->l64.v == near.v && p->remote[path_remote(p, i)].v == far.v)
			return i;
	}
	return -1;
}

static __always_inline __u32 now_ms(void)
{
	return bpf_ktime_get_ns() / 1000000;
}

/* The time stamp of a segment in the place where common stacks have it: behind two NOPs at the
 * beginning of the options. The header is at an offset, and this long.
 */
static __always_inline int time_stamp(struct __sk_buff *skb, __u32 at, __u32 len, __u32 *stamp)
{
	__be32 option[2];

	if (len < 32 || bpf_skb_load_bytes(skb, at + 20, option, sizeof(option)) || option[0] != bpf_htonl(0x0101080a))
		return 0;
	*stamp = bpf_ntohl(option[1]);
	return 1;
}

/* Notes how late data have come by a short path, or by a long one: a mean of some eight segments. */
static __always_inline void note_late(struct crossed_flow *f, __u32 stamp, __u32 now, int is_long)
{
	__u32 known = is_long ? CROSSED_LATE_LONG : CROSSED_LATE_SHORT;
	__s32 late;

	if (!(f->flags & (CROSSED_LATE_SHORT | CROSSED_LATE_LONG)))
		f->base = now - stamp;
	late = now - stamp - f->base;
	if (f->flags & known)
		late = f->late[is_long] + late - (f->late[is_long] >> 3);
	else
		late *= 8;
	f->late[is_long] = late;
	f->flags |= known;
}

/* Notes by which path data of TCP have come. Its header is at an offset. */
__noinline int note_data_path(struct __sk_buff *skb, const struct session_entry *p, __u32 l3, __u32 at)
{
	struct crossed_flow first = {}, *f;
	struct crossed_key key;
	__u32 stamp, is_long, header, now;
	struct cross_tcp tcp;
	struct flow_table *t;
	int i;

	if (!p || !may_cross(p) || bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)))
		return 0;
	header = tcp.words >> 4 << 2;
	if (skb->len <= at + header)
		return 0;
	t = table_of(p, 0);
	i = t && t->longs ? path_back(skb, p, l3) : -1;
	if (i < 0)
		return 0;
	is_long = t->longs >> (i & (MAX_PATHS - 1)) & 1;
	key.slot = p->slot;
	key.birth = p->birth;
	key.near_port = tcp.to;
	key.far_port = tcp.from;
	f = bpf_map_lookup_elem(&crossed_flows, &key);
	if (!f && is_long) {
		bpf_map_update_elem(&crossed_flows, &key, &first, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&crossed_flows, &key);
	}
	if (!f)
		return 0;
	now = now_ms();
	if (is_long && now - f->at >= CROSSED_LASTS)
		f->flags = 0; /* another connection may have had these ports */
	if (is_long) {
		f->seq = p->seq;
		f->path = i;
		f->at = now;
		f->flags |= CROSSED_BY_LONG;
	} else {
		f->flags &= ~CROSSED_BY_LONG;
	}
	if (time_stamp(skb, at, header, &stamp))
		note_late(f, stamp, now, is_long);
	return 0;
}

/* By how much longer the way back is along a long path, in 1/8 ms. */
static __always_inline __s32 gap_of(const struct flow_table *t, __u32 path)
{
	__u32 rank = __builtin_popcount(t->longs & ((1U << path) - 1));

	return 8 * t->gaps[rank & (CROSSED_LONGS - 1)];
}

/* Index of the path by which what acknowledges the last data of a connection returns. Of three ways to
 * do so the one by which both paths take most nearly the same time.
 */
static __always_inline __u32 way_back(const struct flow_table *t, const struct crossed_flow *f)
{
	__u32 path = f->path & (MAX_PATHS - 1), by_long = f->flags & CROSSED_BY_LONG;
	__s32 gap = gap_of(t, path), late = f->late[0] - f->late[1];

	if (!(f->flags & CROSSED_LATE_SHORT) || !(f->flags & CROSSED_LATE_LONG) || 2 * late < -gap || late > ODDLY_LATE)
		return by_long ? t->mate : path;
	return by_long && 2 * late > gap ? path : t->mate;
}

/* Index of the path by which a segment without data returns, whose TCP header is at an offset, or -1: any. */
__noinline int crossed_path(struct __sk_buff *skb, const struct session_entry *p, __u32 at)
{
	struct crossed_key key;
	struct crossed_flow *f;
	struct cross_tcp tcp;
	struct flow_table *t;
	__u32 i;

	if (!p || bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)) || tcp.flags & TCP_ENDS ||
	    skb->len != at + (tcp.words >> 4 << 2))
		return -1;
	key.slot = p->slot;
	key.birth = p->birth;
	key.near_port = tcp.from;
	key.far_port = tcp.to;
	f = bpf_map_lookup_elem(&crossed_flows, &key);
	t = f && f->seq == p->seq && now_ms() - f->at < CROSSED_LASTS ? table_of(p, 0) : 0;
	if (!t)
		return -1;
	i = way_back(t, f);
	return choose_path(p, &t->turns, ~(1U << (i & (MAX_PATHS - 1))) << NO_PATH, MAX_PATHS);
}

#endif
