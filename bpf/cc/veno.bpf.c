// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* TCP Veno (Fu and Liew, 2003): Reno that guesses whether a loss was congestion. The
 * backlog N = W (RTT - base) / RTT is the number of packets of the connection that wait
 * in queues. While N < 3 the window grows, and a loss counts as one of the medium: the
 * threshold becomes 4/5 of the window. From N = 3 on the window grows for every other
 * acknowledgement only, and a loss halves it. Slow start is that of Reno.
 *
 * The base is the least round-trip time since the last loss, RTT the smoothed one. lab/cc
 * has the same in Go.
 */
#include "tcp.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define BETA 3U /* packets of backlog that mean congestion */

struct veno {
	__u32 part;    /* of the next packet */
	__u32 base_us; /* 0: none yet */
};

/* Is N >= BETA? Compared without division, times in eighths of microseconds. */
static __always_inline int congested(struct veno *v, struct tcp_sock *tp)
{
	__u64 base = (__u64)v->base_us * 8, rtt = tp->srtt_us;

	return v->base_us && rtt > base && tp->snd_cwnd * (rtt - base) >= BETA * rtt;
}

/* The window after acked packets. */
static __always_inline __u32 grow(struct sock *sk, __u32 acked)
{
	struct veno *v = private_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	__u32 window = tp->snd_cwnd ? tp->snd_cwnd : 1;
	__u64 gain = (__u64)acked * ONE;

	if (window < tp->snd_ssthresh) {
		if (window + acked > tp->snd_ssthresh)
			gain = (__u64)(tp->snd_ssthresh - window) * ONE;
	} else {
		gain /= window;
		if (congested(v, tp))
			gain /= 2; /* every other acknowledgement, on average */
	}
	gain += v->part;
	v->part = gain % ONE;
	return bounded(window + gain / ONE, tp->snd_cwnd_clamp);
}

SEC("struct_ops")
void BPF_PROG(veno_init, struct sock *sk)
{
	struct veno *v = private_of(sk);
	struct cc_event e;

	note_before(&e, sk, CC_INIT);
	v->part = 0;
	v->base_us = 0;
	note_after(&e, tcp_of(sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(veno_sample, struct sock *sk, const struct ack_sample *sample)
{
	struct veno *v = private_of(sk);
	struct cc_event e;

	note_before(&e, sk, CC_SAMPLE);
	e.rtt_us = sample->rtt_us;
	if (e.rtt_us > 0 && (!v->base_us || e.rtt_us < v->base_us))
		v->base_us = e.rtt_us;
	note_after(&e, tcp_of(sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(veno_acked, struct sock *sk, __u32 ack, __u32 acked)
{
	take_acked(sk, acked, grow);
}

SEC("struct_ops")
__u32 BPF_PROG(veno_loss, struct sock *sk)
{
	struct veno *v = private_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	__u32 left = congested(v, tp) ? tp->snd_cwnd / 2 : tp->snd_cwnd * 4 / 5;

	v->base_us = 0;
	return take_loss(sk, left);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops veno = {
	.init = (void *)veno_init,
	.pkts_acked = (void *)veno_sample,
	.cong_avoid = (void *)veno_acked,
	.ssthresh = (void *)veno_loss,
	.undo_cwnd = (void *)undo_loss,
	.name = "roam_veno",
};
