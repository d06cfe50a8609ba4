/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Finds the path of a TCP connection among several. By default each segment takes its
 * own path. A stateful firewall on one path then sees a part of each connection, and
 * Linux conntrack calls a segment invalid that acknowledges data which did not pass
 * there. So first segments keep to the home of their connection, by which the answer
 * comes too. All segments keep to it where TCP stalled though each path works
 * (multipath/perflow.go). The daemon decides which path is the home of which bucket of connections, and
 * where the segments of others go (multipath/choice.go).
 */
#ifndef ROAM_ILNP_FLOW_H
#define ROAM_ILNP_FLOW_H

#include "cross.h"

#define STALL_AGAIN tick(200000000ULL) /* ticks between two reports of one session */
#define QUEUE_AGAIN tick(50000000ULL)

/* The path of a connection whose session has no table, as their map is full, or -1: the usable one
 * of the greatest weight over its locators and the ports. As both ends compare the same numbers, they
 * agree while the same paths are usable. The index goes with the weight, as in choose_path.
 */
__noinline int hashed_path(const struct session_entry *p, __u32 ports)
{
	__u64 best = MAX_PATHS;
	__u32 i;

	if (!p)
		return -1;
	for (i = 0; i < MAX_PATHS; i++) {
		struct uplink *u;
		__u64 score;
		__u32 index;

		if (i >= p->n_paths)
			break;
		index = path_uplink(p, i);
		u = bpf_map_lookup_elem(&uplinks, &index);
		if (!u || !(u->flags & UPLINK_USABLE))
			continue;
		score = (__u64)flow_weight(u->l64, p->remote[path_remote(p, i)], ports) << 32 | 1U << 31 | i;
		if (score > best)
			best = score;
	}
	i = best & (2 * MAX_PATHS - 1);
	return i | -(i / MAX_PATHS);
}

/* Does TCP retransmit the segment of a time-out? Then the window is one segment, and this
 * is the oldest unacknowledged one. The same holds without a time-out where paths of
 * unequal length have shut the window.
 */
static __always_inline int after_timeout(const struct bpf_tcp_sock *tp, __be32 seq)
{
	return tp->icsk_retransmits && tp->snd_cwnd == 1 && tp->snd_una != tp->snd_nxt && tp->snd_una == bpf_ntohl(seq);
}

/* Has TCP retransmitted two of five segments, and retransmits now? A queue that overflows
 * when a connection begins costs at most one of three. Losses of an outage long ago do
 * not count, nor do duplicates: on paths of unequal length TCP treats late segments as
 * lost.
 */
static __always_inline int loses_much(const struct bpf_tcp_sock *tp)
{
	__u64 again = tp->total_retrans, twice = tp->dsack_dups;

	return tp->lost_out && tp->data_segs_out > 100 && again > twice && (again - twice) * 5 > tp->data_segs_out * 2ULL;
}

/* Is the round-trip time of a busy connection far above its minimum? */
static __always_inline int is_queued(const struct bpf_tcp_sock *tp)
{
	return tp->packets_out > 8 && tp->srtt_us >> 3 > tp->rtt_min + tp->rtt_min / 2 + 5000;
}

/* Reports a connection of ours that stalls or nearly so, with its ports and what it has delivered if it had a
 * time-out, and one whose segments wait in queues.
 */
static __always_inline void watch_tcp(struct __sk_buff *skb, const struct session_entry *p,
				      struct session_details *d, __u32 ports, __be32 seq)
{
	__u32 now = tick(coarse_ns());
	int timeout;
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tp;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	tp = sk ? bpf_tcp_sock(sk) : 0;
	if (!tp)
		return;
	timeout = after_timeout(tp, seq);
	if ((timeout || loses_much(tp)) && now - d->stall_told >= STALL_AGAIN) {
		d->stall_told = now;
		tell_session(skb, p, EV_STALL, timeout ? ports : 0, timeout ? tp->delivered : 0);
	}
	if (is_queued(tp) && now - d->queue_told >= QUEUE_AGAIN) {
		d->queue_told = now;
		tell_session(skb, p, EV_QUEUE, 0, 0);
	}
}

/* The path to which a segment must keep for its connection, as table_path has it, or -1 if any
 * will do. Its header is at that offset.
 */
__noinline int flow_path(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d, __u32 at)
{
	struct {
		__be16 from, to;
		__be32 seq, ack;
		__u8 words, flags, window[2];
	} t;
	__u32 ports;
	int keep, i;

	if (!p || !d || bpf_skb_load_bytes(skb, at, &t, sizeof(t)))
		return -1;
	keep = p->flags & ENTRY_PER_FLOW || t.flags & TCP_SYN;
	if (!keep)
		watch_tcp(skb, p, d, (__u32)bpf_ntohs(t.from) << 16 | bpf_ntohs(t.to), t.seq);
	if (!keep && !(p->flags & ENTRY_PLACED))
		return -1;
	if (!keep)
		withhold(skb, p, at);
	ports = ports_of(bpf_ntohs(t.from), bpf_ntohs(t.to));
	i = table_path(p, 0, ports, keep);
	return i < 0 && p->flags & ENTRY_PER_FLOW ? hashed_path(p, ports) : i;
}

#endif
