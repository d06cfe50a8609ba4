// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Sockets that use a real address of a correspondent: these hooks turn them to its
 * session address when they connect or send, and show them the address that they used
 * when they ask. Only exact (locator, NID) addresses that the daemon has listed are
 * changed.
 */
#include "listener.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define ACCEPT 1
#define MAX_SOCKETS 16384

/* Set by the loader. Hooks of a cgroup see every network namespace; this is the cookie of
 * ours. 0: the kernel cannot tell them apart, and the cgroup alone decides.
 */
const volatile __u64 netns_cookie = 0;
const volatile __u64 session_prefix = 0; /* as it lies in memory */

struct {
	/* Whose real address is this? The value is the alias of its session address. */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct addr);
	__type(value, union half);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} literals SEC(".maps");

struct original_key {
	__u64 cookie;
	union half alias;
};

struct {
	/* Which real address did this socket use for that correspondent? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SOCKETS);
	__type(key, struct original_key);
	__type(value, struct addr);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} originals SEC(".maps");

static __always_inline void read_ip(struct bpf_sock_addr *ctx, struct addr *a)
{
	a->l64.v = (__u64)ctx->user_ip6[1] << 32 | ctx->user_ip6[0];
	a->nid.v = (__u64)ctx->user_ip6[3] << 32 | ctx->user_ip6[2];
}

static __always_inline void write_ip(struct bpf_sock_addr *ctx, const struct addr *a)
{
	ctx->user_ip6[0] = (__u32)a->l64.v;
	ctx->user_ip6[1] = a->l64.v >> 32;
	ctx->user_ip6[2] = (__u32)a->nid.v;
	ctx->user_ip6[3] = a->nid.v >> 32;
}

static __always_inline int elsewhere(struct bpf_sock_addr *ctx)
{
	return netns_cookie && bpf_get_netns_cookie(ctx) != netns_cookie;
}

/* Is a socket bound to a real address of ours? It stays with plain IPv6. One bound to our
 * session address can reach session addresses only.
 */
static __always_inline int bound(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	__u64 l64;

	if (!sk)
		return 0;
	l64 = (__u64)sk->src_ip6[1] << 32 | sk->src_ip6[0];
	return l64 != session_prefix && (l64 || sk->src_ip6[2] || sk->src_ip6[3]);
}

/* The same for one datagram that names its source (IPV6_PKTINFO). */
static __always_inline int sent_from(struct bpf_sock_addr *ctx)
{
	__u64 l64 = (__u64)ctx->msg_src_ip6[1] << 32 | ctx->msg_src_ip6[0];

	return l64 != session_prefix && (l64 || ctx->msg_src_ip6[2] || ctx->msg_src_ip6[3]);
}

/* Replaces the address that the application names by the session address. */
static __always_inline int to_session(struct bpf_sock_addr *ctx)
{
	struct original_key k = {};
	struct addr real, session;
	struct addr *known;
	union half *alias;

	if (elsewhere(ctx))
		return ACCEPT;
	read_ip(ctx, &real);
	alias = bpf_map_lookup_elem(&literals, &real);
	if (!alias || bound(ctx))
		return ACCEPT;
	k.cookie = bpf_get_socket_cookie(ctx);
	k.alias = *alias;
	/* Most datagrams go to the address of the one before: a look-up is enough, and
	 * renews the place of the entry in the LRU.
	 */
	known = bpf_map_lookup_elem(&originals, &k);
	if (!known || known->l64.v != real.l64.v || known->nid.v != real.nid.v)
		bpf_map_update_elem(&originals, &k, &real, BPF_ANY);
	session.l64.v = session_prefix;
	session.nid = *alias;
	write_ip(ctx, &session);
	return ACCEPT;
}

/* Shows the application the address that it used for its peer. */
static __always_inline int to_real(struct bpf_sock_addr *ctx)
{
	struct original_key k = {};
	struct addr session, *real;

	if (elsewhere(ctx))
		return ACCEPT;
	read_ip(ctx, &session);
	if (session.l64.v != session_prefix)
		return ACCEPT;
	k.cookie = bpf_get_socket_cookie(ctx);
	k.alias = session.nid;
	real = bpf_map_lookup_elem(&originals, &k);
	if (real)
		write_ip(ctx, real);
	return ACCEPT;
}

SEC("cgroup/connect6")
int literal_connect6(struct bpf_sock_addr *ctx)
{
	return to_session(ctx);
}

SEC("cgroup/sendmsg6")
int literal_sendmsg6(struct bpf_sock_addr *ctx)
{
	return sent_from(ctx) ? ACCEPT : to_session(ctx);
}

SEC("cgroup/recvmsg6")
int literal_recvmsg6(struct bpf_sock_addr *ctx)
{
	return to_real(ctx);
}

SEC("cgroup/getpeername6")
int literal_getpeername6(struct bpf_sock_addr *ctx)
{
	return to_real(ctx);
}

/* Shows a connection of a server that is bound to a real address that address as its own.
 * A socket that was turned here used no address of its own: it sees its session address,
 * which is true.
 */
SEC("cgroup/getsockname6")
int literal_getsockname6(struct bpf_sock_addr *ctx)
{
	struct served_key k = {};
	struct addr own, *real;

	if (elsewhere(ctx) || ctx->protocol != IPPROTO_TCP)
		return ACCEPT;
	read_ip(ctx, &own);
	if (own.l64.v != session_prefix)
		return ACCEPT;
	k.alias = own.nid;
	k.port = (__be16)ctx->user_port;
	real = bpf_map_lookup_elem(&served, &k);
	if (real)
		write_ip(ctx, real);
	return ACCEPT;
}
