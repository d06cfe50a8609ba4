/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The part of TCP in the kernel that a congestion control uses, and a record of each
 * call, which the lab compares with a model. The structs name only the members that are
 * used; their offsets come from the BTF of the running kernel.
 *
 * Windows are counted in packets. Fractions of a packet are kept in 1/65536.
 */
#ifndef ROAM_CC_TCP_H
#define ROAM_CC_TCP_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define ONE 65536U /* a packet, in fractions of one */
#define LEAST_WINDOW 2U
#define MOST_WINDOW 65535U

#define KERNEL __attribute__((preserve_access_index))

struct sock;

struct inet_connection_sock {
	__u64 icsk_ca_priv[13];
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 snd_cwnd_clamp;
	__u32 max_packets_out;
	__u32 prior_cwnd;
	__u32 srtt_us; /* eight times the smoothed round-trip time */
	__u8 is_cwnd_limited : 1;
} KERNEL;

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
} KERNEL;

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
} KERNEL;

enum cc_call {
	CC_INIT,
	CC_ACKED,  /* cong_avoid */
	CC_SAMPLE, /* pkts_acked */
	CC_LOSS,   /* ssthresh */
};

/* One call: its arguments and its result. */
struct cc_event {
	__u64 sock; /* identifies the connection */
	enum cc_call call;
	__u32 acked;    /* packets */
	__u32 srtt_us8; /* as the kernel keeps it, eighths of a microsecond */
	__s32 rtt_us;
	__u32 window; /* before */
	__u32 threshold;
	__u32 limited; /* the window limits the sender */
	__u32 clamp;
	__u32 result; /* the window after an ack, the threshold after a loss */
	__u32 unused;
};

const struct cc_event *cc_event_unused __attribute__((unused));

/* Set by the loader: record each call. */
const volatile __u32 traced = 0;

struct {
	/* What did the kernel ask, and what did we answer? */
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} cc_calls SEC(".maps");

static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline void *private_of(struct sock *sk)
{
	return tcp_of(sk)->inet_conn.icsk_ca_priv;
}

/* Does the window limit the sender? In slow start a window that is half used may still
 * grow, or a sender that is paced by acknowledgements would never use it whole.
 */
static __always_inline int window_limits(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Bounds a window that grew by whole packets. */
static __always_inline __u32 bounded(__u64 window, __u32 clamp)
{
	__u64 most = clamp < MOST_WINDOW ? clamp : MOST_WINDOW;

	return window < most ? window : most;
}

static __always_inline void note_before(struct cc_event *e, struct sock *sk, enum cc_call call)
{
	struct tcp_sock *tp = tcp_of(sk);

	*e = (struct cc_event){
		.sock = (__u64)(long)sk,
		.call = call,
		.srtt_us8 = tp->srtt_us,
		.window = tp->snd_cwnd,
		.threshold = tp->snd_ssthresh,
		.limited = window_limits(tp),
		.clamp = tp->snd_cwnd_clamp,
	};
}

static __always_inline void note_after(struct cc_event *e, __u32 result)
{
	e->result = result;
	if (traced)
		bpf_ringbuf_output(&cc_calls, e, sizeof(*e), 0);
}

/* Handles an acknowledgement: where the window limited the sender, it grows by the rule
 * of the algorithm.
 */
static __always_inline void take_acked(struct sock *sk, __u32 acked, __u32 (*grow)(struct sock *, __u32))
{
	struct cc_event e;

	note_before(&e, sk, CC_ACKED);
	e.acked = acked;
	if (e.limited)
		tcp_of(sk)->snd_cwnd = grow(sk, acked);
	note_after(&e, tcp_of(sk)->snd_cwnd);
}

/* Handles a loss: the threshold is the part of the window that the algorithm leaves. */
static __always_inline __u32 take_loss(struct sock *sk, __u32 left)
{
	struct cc_event e;

	note_before(&e, sk, CC_LOSS);
	left = left < LEAST_WINDOW ? LEAST_WINDOW : left;
	note_after(&e, left);
	return left;
}

/* Restores the window when a loss turns out to have been none. */
SEC("struct_ops")
__u32 BPF_PROG(undo_loss, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

#endif
