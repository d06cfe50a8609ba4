// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Bounds slow start of TCP connections over several paths by what these hold, which the daemon knows before a
 * connection does (multipath/slowstart.go). Once a round trip, while a connection is in its first slow start, a hook of
 * a cgroup gives it a congestion control for a moment that sets its threshold, and its own one again: no socket option
 * sets a threshold without a bound for the window.
 */
#include <linux/bpf.h>
#include <linux/in6.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../lib/addr.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define KERNEL __attribute__((preserve_access_index))
#define ACCEPT 1
#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define NAME_MAX 16
#define NO_THRESHOLD 0x7fffffff /* TCP_INFINITE_SSTHRESH: a first slow start */
#define FIRST_WINDOW 10         /* TCP_INIT_CWND: a window that has not grown yet */
#define HEADERS 86              /* of a segment on a link: Ethernet, IPv6, TCP with timestamps */

struct sock_common {
	struct in6_addr skc_v6_daddr;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
} KERNEL;

struct tcp_sock {
	__u32 snd_ssthresh;
	__u32 mss_cache;
} KERNEL;

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[NAME_MAX];
} KERNEL;

/* Set by the loader. Hooks of a cgroup see every network namespace; this is the cookie of
 * ours. 0: the kernel cannot tell them apart, and the cgroup alone decides.
 */
const volatile __u64 netns_cookie = 0;
const volatile __u64 session_prefix = 0; /* as it lies in memory */

/* The name of the congestion control below, as it is registered. */
volatile const char setter_name[NAME_MAX];

struct {
	/* How many bytes do the paths to this correspondent hold in a round trip? The key is the alias of its session
	 * address.
	 */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, union half);
	__type(value, __u32);
} slow_starts SEC(".maps");

/* Half an address. That of a context is read by words of 32 bits only. */
static __always_inline union half half_of(const volatile __u32 *words)
{
	__u64 first = words[0], second = words[1];

	return (union half){ .v = second << 32 | first };
}

static __always_inline __u32 *bound_of(union half alias)
{
	return bpf_map_lookup_elem(&slow_starts, &alias);
}

SEC("struct_ops")
void BPF_PROG(threshold_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	const struct in6_addr *remote = &sk->__sk_common.skc_v6_daddr;
	__u32 *bytes = bound_of(half_of(remote->in6_u.u6_addr32 + 2));
	__u32 segments;

	if (!bytes)
		return;
	segments = *bytes / (tp->mss_cache + HEADERS);
	tp->snd_ssthresh = segments > FIRST_WINDOW ? segments : FIRST_WINDOW;
}

SEC("struct_ops")
__u32 BPF_PROG(threshold_loss, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(threshold_undo, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops")
void BPF_PROG(threshold_ack, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC(".struct_ops.link")
struct tcp_congestion_ops threshold_setter = {
	.init = (void *)threshold_init,
	.ssthresh = (void *)threshold_loss,
	.undo_cwnd = (void *)threshold_undo,
	.cong_avoid = (void *)threshold_ack,
	.name = "roam",
};

/* Are these the same up to the end of the second one? */
static __always_inline int is(const char *name, const char *wanted, int size)
{
	for (int i = 0; i < size; i++) {
		if (name[i] != wanted[i])
			return 0;
	}
	return 1;
}

/* Has a congestion control a threshold, up to which slow start goes, and a window of its own beyond? */
static __always_inline int has_threshold(const char *name)
{
	return is(name, "cubic", sizeof("cubic")) || is(name, "reno", sizeof("reno"));
}

static __always_inline void bound(struct bpf_sock_ops *ctx)
{
	char own[NAME_MAX] = {}, name[NAME_MAX];

	if (ctx->snd_ssthresh < NO_THRESHOLD || ctx->snd_cwnd <= FIRST_WINDOW ||
	    !bound_of(half_of(ctx->remote_ip6 + 2)))
		return;
	if (bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, own, sizeof(own)) || !has_threshold(own))
		return;
	for (int i = 0; i < NAME_MAX; i++)
		name[i] = setter_name[i];
	if (!bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, own, sizeof(own));
}

SEC("sockops")
int bound_slow_start(struct bpf_sock_ops *ctx)
{
	if (ctx->family != AF_INET6 || half_of(ctx->local_ip6).v != session_prefix ||
	    (netns_cookie && bpf_get_netns_cookie(ctx) != netns_cookie))
		return ACCEPT;
	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		/* Others may want this, too, so it is never taken back. */
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		bound(ctx);
		break;
	}
	return ACCEPT;
}
