// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Lists the TCP connections of the network namespace that sit in a backed-off
 * retransmission time-out, for the daemon, which reads it when a correspondent
 * is within reach again. The structs name only the members that are used; their
 * places come from the running kernel's BTF.
 */
#include <linux/bpf.h>
#include <linux/in6.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define KERNEL __attribute__((preserve_access_index))
#define AF_INET6 10

struct seq_file;

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
	__u8 icsk_backoff;
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_una;
} KERNEL;

/* One connection. */
struct stall {
	struct in6_addr local, remote;
	__u16 local_port, remote_port; /* host order */
	__u32 seq;                     /* oldest octet that is not acknowledged */
	__u32 backoff;                 /* how often the time-out was doubled */
};

const struct stall *stall_unused __attribute__((unused));

SEC("iter/tcp")
int list_stalled(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct stall s = {};
	struct tcp_sock *tp;

	if (!skc || skc->skc_family != AF_INET6)
		return 0;
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(skc);
	if (!tp || !tp->inet_conn.icsk_backoff)
		return 0;
	s.backoff = tp->inet_conn.icsk_backoff;
	s.seq = tp->snd_una;
	s.local_port = skc->skc_num;
	s.remote_port = bpf_ntohs(skc->skc_dport);
	bpf_probe_read_kernel(&s.local, sizeof(s.local), &skc->skc_v6_rcv_saddr);
	bpf_probe_read_kernel(&s.remote, sizeof(s.remote), &skc->skc_v6_daddr);
	bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
	return 0;
}
