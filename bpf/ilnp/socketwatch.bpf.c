// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Watches for sockets on real addresses of this host: TCP and UDP sockets whose own
 * address is neither a session address nor the unspecified one. Hooks of a cgroup mark a
 * socket when it gets such an address, before a packet can be for it; two iterators mark
 * those that there are, so that the marks of the others run out.
 */
#include "realmarks.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define KERNEL __attribute__((preserve_access_index))
#define ACCEPT 1
#define AF_INET6 10
#define TCP_LISTEN 10

/* Set by the loader. Hooks of a cgroup see every network namespace; this is the cookie of
 * ours. 0: the kernel cannot tell them apart, and the cgroup alone decides.
 */
const volatile __u64 netns_cookie = 0;
const volatile __u64 session_prefix = 0; /* as it lies in memory */

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__be16 skc_dport;
	__u16 skc_num;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
} KERNEL;

struct inet_sock {
	struct sock sk;
} KERNEL;

struct udp_sock {
	struct inet_sock inet;
} KERNEL;

struct bpf_iter__tcp {
	struct sock_common *sk_common;
} KERNEL;

struct bpf_iter__udp {
	struct udp_sock *udp_sk;
} KERNEL;

static __always_inline struct socket_marks *table(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&real_sockets, &zero);
}

/* Half an address of a context, which is read by words of 32 bits only. */
static __always_inline union half half_of(const volatile __u32 *words)
{
	__u64 first = words[0], second = words[1];

	return (union half){ .v = second << 32 | first };
}

/* Is the upper half of an address that of a real one? The unspecified address and those
 * of IPv4 and of the loopback have none.
 */
static __always_inline int is_real(union half l64)
{
	return l64.v && l64.v != session_prefix;
}

static __always_inline void set_mark(__u32 at)
{
	struct socket_marks *r = table();
	__u32 epoch;

	if (!r)
		return;
	epoch = r->epoch;
	at &= REAL_MARKS - 1;
	if (r->mark[at] < epoch)
		r->mark[at] = epoch;
}

/* A UDP socket connects. Its own address may be chosen after this. It is not connected
 * where the correspondent's address is a session address: literal.bpf.c has turned it, or
 * the application knows it.
 */
SEC("cgroup/connect6")
int watch_connect6(struct bpf_sock_addr *ctx)
{
	if (ctx->protocol == IPPROTO_UDP && is_real(half_of(ctx->user_ip6)) &&
	    (!netns_cookie || bpf_get_netns_cookie(ctx) == netns_cookie))
		set_mark(node_mark(half_of(ctx->user_ip6 + 2)));
	return ACCEPT;
}

/* A UDP socket was bound, and the application does not know it yet. */
SEC("cgroup/post_bind6")
int watch_bind6(struct bpf_sock *ctx)
{
	if (ctx->protocol == IPPROTO_UDP && is_real(half_of(ctx->src_ip6)) &&
	    (!netns_cookie || bpf_get_netns_cookie(ctx) == netns_cookie))
		set_mark(ctx->src_port);
	return ACCEPT;
}

/* A TCP socket does something: it listens, is about to send its first segment, answers
 * one, or is established. The socket may be a half-open connection.
 */
SEC("sockops")
int watch_stream(struct bpf_sock_ops *ctx)
{
	if (ctx->family != AF_INET6 || !is_real(half_of(ctx->local_ip6)) ||
	    (netns_cookie && bpf_get_netns_cookie(ctx) != netns_cookie))
		return ACCEPT;
	if (ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
		set_mark(ctx->local_port);
	else
		set_mark(node_mark(half_of(ctx->remote_ip6 + 2)));
	return ACCEPT;
}

/* Marks a socket that a search has found. One without a mark has escaped the hooks, and
 * is counted instead: the daemon searches again, for a hook that is about to run.
 */
static __always_inline void found(__u32 at)
{
	struct socket_marks *r = table();

	if (!r)
		return;
	at &= REAL_MARKS - 1;
	if (r->mark[at] < r->valid)
		__sync_fetch_and_add(&r->missed, 1);
	else
		r->mark[at] = r->epoch;
}

static __always_inline int is_found(const struct sock_common *sk)
{
	const struct in6_addr *own = &sk->skc_v6_rcv_saddr;

	return sk->skc_family == AF_INET6 && is_real(half_of(own->in6_u.u6_addr32));
}

static __always_inline __u32 remote_mark(const struct sock_common *sk)
{
	const struct in6_addr *other = &sk->skc_v6_daddr;

	return node_mark(half_of(other->in6_u.u6_addr32 + 2));
}

SEC("iter/tcp")
int search_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;

	if (sk && is_found(sk))
		found(sk->skc_state == TCP_LISTEN ? sk->skc_num : remote_mark(sk));
	return 0;
}

/* A connected socket that was bound before is only bound after it has disconnected, of
 * which no hook is told: its port keeps its mark.
 */
SEC("iter/udp")
int search_udp(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;
	struct sock_common *sk;

	if (!udp)
		return 0;
	sk = &udp->inet.sk.__sk_common;
	if (!is_found(sk))
		return 0;
	if (!sk->skc_dport) {
		found(sk->skc_num);
		return 0;
	}
	found(remote_mark(sk));
	set_mark(sk->skc_num);
	return 0;
}
