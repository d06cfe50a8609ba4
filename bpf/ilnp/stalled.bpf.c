// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Lists the TCP connections of sessions for the daemon: those in a backed-off
 * retransmission time-out, when a correspondent is reachable again, and those that
 * receive nothing after a move. The structs name only the members that are used; their
 * offsets come from the BTF of the running kernel.
 */
#include <linux/bpf.h>
#include <linux/in6.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define KERNEL __attribute__((preserve_access_index))
#define AF_INET6 10
#define TCP_LISTEN 10

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} KERNEL;

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__be16 skc_dport;
	__u16 skc_num;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} KERNEL;

struct sock {
	unsigned long sk_max_pacing_rate;
} KERNEL;

struct tcp_congestion_ops {
	char name[16];
} KERNEL;

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} KERNEL;

struct inet_connection_sock {
	__u8 icsk_backoff;
	const struct tcp_congestion_ops *icsk_ca_ops;
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 segs_in;
	__u64 tcp_mstamp;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 snd_wnd;
} KERNEL;

/* One connection. Sequence numbers are in host order. */
struct connection {
	struct in6_addr local, remote;
	__u16 local_port, remote_port; /* host order */
	__u32 state;                   /* of TCP, as the kernel numbers them */
	__u32 unacked;                 /* oldest unacknowledged byte */
	__u32 next;                    /* next byte to be sent */
	__u32 wanted;                  /* next byte to be received */
	__u32 arrived;                 /* segments received so far */
	__u32 backoff;                 /* how often the time-out has doubled */
	__u32 rest;                    /* ms since TCP last sent or received a segment */
	__u32 window;                  /* segments: the congestion window */
	__u32 srtt_us8;                /* as the kernel keeps it, eighths of a microsecond */
	__u32 mss;                     /* bytes */
	__u32 peer_window;             /* bytes that the peer would take */
	__u32 pace;                    /* bytes a second at most; all bits: without limit */
	char control[16];              /* the name of its congestion control */
};

const struct connection *connection_unused __attribute__((unused));

/* Connections whose local address begins with this prefix are listed. The daemon writes
 * it before each run, in network order.
 */
volatile __u64 session_prefix;

SEC("iter/tcp")
int list_connections(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct connection c = {};
	struct tcp_sock *tp;
	__u64 prefix = 0, rest, pace;

	if (!skc || skc->skc_family != AF_INET6 || skc->skc_state == TCP_LISTEN)
		return 0;
	bpf_probe_read_kernel(&prefix, sizeof(prefix), &skc->skc_v6_rcv_saddr);
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(skc);
	if (!tp || prefix != session_prefix)
		return 0;
	c.state = skc->skc_state;
	c.backoff = tp->inet_conn.icsk_backoff;
	c.unacked = tp->snd_una;
	c.next = tp->snd_nxt;
	c.wanted = tp->rcv_nxt;
	c.arrived = tp->segs_in;
	rest = bpf_ktime_get_ns() / 1000000 - tp->tcp_mstamp / 1000;
	c.rest = rest < (1U << 31) ? rest : 1U << 31;
	c.window = tp->snd_cwnd;
	c.srtt_us8 = tp->srtt_us;
	c.mss = tp->mss_cache;
	c.peer_window = tp->snd_wnd;
	pace = ((struct sock *)tp)->sk_max_pacing_rate;
	c.pace = pace < -1U ? pace : -1U;
	BPF_CORE_READ_STR_INTO(&c.control, tp, inet_conn.icsk_ca_ops, name);
	c.local_port = skc->skc_num;
	c.remote_port = bpf_ntohs(skc->skc_dport);
	bpf_probe_read_kernel(&c.local, sizeof(c.local), &skc->skc_v6_rcv_saddr);
	bpf_probe_read_kernel(&c.remote, sizeof(c.remote), &skc->skc_v6_daddr);
	bpf_seq_write(ctx->meta->seq, &c, sizeof(c));
	return 0;
}
