// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Sets the congestion windows of TCP connections, where the daemon changes their round trip itself
 * (tcpassist/stretch.go). No socket option sets a window. A congestion control may, so the connection gets one for
 * a moment that does nothing else, under the lock of its socket, and its own one again: that begins anew with this
 * window. The structs name only the members that are used; their offsets come from the BTF of the running kernel.
 */
#include <linux/bpf.h>
#include <linux/in6.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define KERNEL __attribute__((preserve_access_index))
#define AF_INET6 10
#define SOL_SOCKET 1
#define SOL_TCP 6
#define SO_MAX_PACING_RATE 47
#define TCP_CONGESTION 13
#define NO_MOST 0x7fffffff /* TCP_INFINITE_SSTHRESH */
#define NAME_MAX 16
#define CA_DISORDER 1 /* TCP_CA_Disorder: no loss is being repaired */

struct seq_file;
struct sock;

struct bpf_iter_meta {
	struct seq_file *seq;
} KERNEL;

struct sock_common {
	unsigned short skc_family;
	__be16 skc_dport;
	__u16 skc_num;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} KERNEL;

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} KERNEL;

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
} KERNEL;

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[NAME_MAX];
} KERNEL;

/* A connection. */
struct window_key {
	struct in6_addr local, remote;
	__u16 local_port, remote_port; /* host order */
};

/* What it gets. */
struct window_order {
	__u32 window; /* segments */
	__u32 least;  /* only if it still has this window or a larger one, and repairs no loss */
	__u32 most;   /* segments that its window may have from then on; NO_MOST: without limit, in any case */
	__u32 pace;   /* bytes a second at most from then on; all ones: without limit; 0: as it is */
	__u32 paced;  /* pace counts also where the window is not set */
};

const struct window_key *window_key_unused __attribute__((unused));
const struct window_order *window_order_unused __attribute__((unused));

struct {
	/* Which window shall a connection have? The daemon writes them before each run, and empties it afterwards. */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct window_key);
	__type(value, struct window_order);
} window_orders SEC(".maps");

/* The name of the congestion control below, as it is registered. */
volatile char setter_name[NAME_MAX];

/* What it sets. Programs of one process run one after the other; 0: it sets nothing. */
__u32 window_wanted, threshold_wanted;

SEC("struct_ops")
void BPF_PROG(window_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (!window_wanted)
		return;
	tp->snd_cwnd = window_wanted;
	tp->snd_ssthresh = threshold_wanted;
}

SEC("struct_ops")
__u32 BPF_PROG(window_loss, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
__u32 BPF_PROG(window_undo, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(window_ack, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC(".struct_ops.link")
struct tcp_congestion_ops window_setter = {
	.init = (void *)window_init,
	.ssthresh = (void *)window_loss,
	.undo_cwnd = (void *)window_undo,
	.cong_avoid = (void *)window_ack,
	.name = "roam",
};

/* Sets window and threshold of a connection. */
static __always_inline int set_window(struct tcp_sock *tp, __u32 window, __u32 threshold)
{
	char own[NAME_MAX] = {}, name[NAME_MAX];

	if (bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, own, sizeof(own)))
		return 0;
	for (int i = 0; i < NAME_MAX; i++)
		name[i] = setter_name[i];
	threshold_wanted = threshold;
	window_wanted = window;
	if (bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return 0;
	window_wanted = 0;
	return !bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, own, sizeof(own));
}

/* Has a connection the window that it shall have? */
static __always_inline int obey(struct tcp_sock *tp, const struct window_order *o)
{
	__u32 window = tp->snd_cwnd, threshold = tp->snd_ssthresh;
	int may = window >= o->least && BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) <= CA_DISORDER;
	int most = o->most;

	if (!may && most != NO_MOST)
		return 0;
	/* This sets the threshold, too, which is put right by what follows. */
	if (bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &most, sizeof(most)))
		return 0;
	return set_window(tp, may ? o->window : window, may ? o->window : threshold) && may;
}

SEC("iter/tcp")
int set_windows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct window_key key = {};
	struct window_order *o;
	struct tcp_sock *tp;
	int pace, done;

	if (!skc || skc->skc_family != AF_INET6)
		return 0;
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	bpf_probe_read_kernel(&key.local, sizeof(key.local), &skc->skc_v6_rcv_saddr);
	bpf_probe_read_kernel(&key.remote, sizeof(key.remote), &skc->skc_v6_daddr);
	key.local_port = skc->skc_num;
	key.remote_port = bpf_ntohs(skc->skc_dport);
	o = bpf_map_lookup_elem(&window_orders, &key);
	if (!o)
		return 0;
	done = obey(tp, o);
	pace = o->pace;
	if (pace && (done || o->paced))
		bpf_setsockopt(tp, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof(pace));
	if (done)
		bpf_seq_write(ctx->meta->seq, &key, sizeof(key));
	return 0;
}
