// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* TCP Hybla (Caini and Firrincieli, 2004): a connection with a long round-trip
 * time grows its window as fast, in time, as one with the reference time of
 * 25 ms. With rho = RTT / 25 ms, at least 1, the window W grows for each
 * acknowledged packet by 2^rho - 1 in slow start and by rho^2 / W after it.
 *
 * rho follows the smoothed round-trip time, so it changes with a handoff. The
 * initial window is the kernel's. lab/cc has the same in Go.
 */
#include "tcp.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define REFERENCE_US 25000U
#define RHO_ONE 128U /* rho is kept in 1/128 */
#define RHO_MOST (16 * RHO_ONE)

struct hybla {
	__u32 part; /* of the next packet */
};

/* rho for eight times a round-trip time. */
static __always_inline __u32 rho_of(__u32 srtt_us8)
{
	__u64 rho = (__u64)srtt_us8 * (RHO_ONE / 8) / REFERENCE_US;

	if (rho < RHO_ONE)
		return RHO_ONE;
	return rho < RHO_MOST ? rho : RHO_MOST;
}

/* 2^rho in fractions of a packet. Between whole exponents a parabola through
 * 1, sqrt(2) and 2 stands in, which is at most 0.3 % off.
 */
static __always_inline __u64 power_of_two(__u32 rho)
{
	__u32 rest = rho % RHO_ONE;
	__u64 mantissa = ONE + (43030 + 22506 * rest / RHO_ONE) * rest / RHO_ONE;

	return mantissa << (rho / RHO_ONE);
}

/* The window after acked packets. */
static __always_inline __u32 grow(struct sock *sk, __u32 acked)
{
	struct hybla *h = private_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	__u32 rho = rho_of(tp->srtt_us), window = tp->snd_cwnd ? tp->snd_cwnd : 1;
	__u64 gain = h->part;

	if (window < tp->snd_ssthresh) {
		gain += (power_of_two(rho) - ONE) * acked;
		/* Growth beyond the threshold would be congestion avoidance. */
		if (window + gain / ONE > tp->snd_ssthresh)
			gain = (__u64)(tp->snd_ssthresh - window) * ONE;
	} else {
		gain += (__u64)rho * rho * (ONE / RHO_ONE / RHO_ONE) * acked / window;
	}
	h->part = gain % ONE;
	return bounded(window + gain / ONE, tp->snd_cwnd_clamp);
}

SEC("struct_ops")
void BPF_PROG(hybla_init, struct sock *sk)
{
	struct hybla *h = private_of(sk);
	struct cc_event e;

	note_before(&e, sk, CC_INIT);
	h->part = 0;
	note_after(&e, tcp_of(sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(hybla_acked, struct sock *sk, __u32 ack, __u32 acked)
{
	take_acked(sk, acked, grow);
}

SEC("struct_ops")
__u32 BPF_PROG(hybla_loss, struct sock *sk)
{
	return take_loss(sk, tcp_of(sk)->snd_cwnd / 2);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops hybla = {
	.init = (void *)hybla_init,
	.cong_avoid = (void *)hybla_acked,
	.ssthresh = (void *)hybla_loss,
	.undo_cwnd = (void *)undo_loss,
	.name = "roam_hybla",
};
