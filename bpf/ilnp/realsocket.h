/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sockets on the host's real addresses beside the sessions: those of plain
 * IPv6, whose packets look like a session's, and servers that are bound to one
 * address and know nothing of session addresses.
 */
#ifndef ROAM_ILNP_REALSOCKET_H
#define ROAM_ILNP_REALSOCKET_H

#include "segdev.h"
#include "listener.h"
#include "session.h"

/* Reads the ends of the packet at l3 as they stand on the wire. Of a quoted one,
 * which we sent, they are swapped. Returns its protocol; 0 if it is too short. One
 * behind extension headers is not looked for.
 */
static __always_inline __u8 read_ends(struct __sk_buff *skb, __u32 l3, __u32 swapped, struct bpf_sock_tuple *t)
{
	__u32 ends = l3 + 8, ports = l3 + IP6_LEN, other = !!swapped;
	__u8 proto;

	if (bpf_skb_load_bytes(skb, l3 + 6, &proto, 1) ||
	    bpf_skb_load_bytes(skb, ends + 16 * other, t->ipv6.saddr, 16) ||
	    bpf_skb_load_bytes(skb, ends + 16 - 16 * other, t->ipv6.daddr, 16) ||
	    bpf_skb_load_bytes(skb, ports + 2 * other, &t->ipv6.sport, 2) ||
	    bpf_skb_load_bytes(skb, ports + 2 - 2 * other, &t->ipv6.dport, 2))
		return 0;
	return proto;
}

/* Is there a connection between these ends? Half of one counts, a socket that only
 * listens does not.
 */
static __always_inline int is_connection(struct __sk_buff *skb, struct bpf_sock_tuple *t)
{
	struct bpf_sock *sk = bpf_skc_lookup_tcp(skb, t, sizeof(t->ipv6), BPF_F_CURRENT_NETNS, 0);
	int is;

	if (!sk)
		return 0;
	is = sk->state != BPF_TCP_LISTEN;
	bpf_sk_release(sk);
	return is;
}

/* Is there one on these ports between the session addresses of these nodes? */
static __always_inline int session_connection(struct __sk_buff *skb, struct bpf_sock_tuple *t)
{
	struct host *h = this_host();

	if (!h)
		return 0;
	__builtin_memcpy(t->ipv6.saddr, &h->session_prefix, 8);
	__builtin_memcpy(t->ipv6.daddr, &h->session_prefix, 8);
	return is_connection(skb, t);
}

static __always_inline int stands_at(const struct bpf_sock *sk, const struct bpf_sock_tuple *t)
{
	return sk->src_ip6[0] == t->ipv6.daddr[0] && sk->src_ip6[1] == t->ipv6.daddr[1] &&
	       sk->src_ip6[2] == t->ipv6.daddr[2] && sk->src_ip6[3] == t->ipv6.daddr[3];
}

/* Half of a connection stands on its own addresses, whatever its server is bound to. */
static __always_inline int real_stream(struct __sk_buff *skb, struct bpf_sock_tuple *t)
{
	struct bpf_sock *sk = bpf_skc_lookup_tcp(skb, t, sizeof(t->ipv6), BPF_F_CURRENT_NETNS, 0);
	int is, listens;

	if (!sk)
		return 0;
	is = stands_at(sk, t);
	listens = sk->state == BPF_TCP_LISTEN;
	bpf_sk_release(sk);
	return is && !(listens && session_connection(skb, t));
}

/* Is there a socket that is bound to the very addresses of the packet at l3, as
 * they stand on the wire? Wildcard sockets do not count: they take session
 * packets as well. Nor does a server on one address whose connection on these
 * ports is one of a session (see serve).
 */
__noinline int real_socket(struct __sk_buff *skb, __u32 l3, int swapped)
{
	struct bpf_sock_tuple t = {};
	__u8 proto = read_ends(skb, l3, swapped, &t);
	struct bpf_sock *sk;
	int is;

	if (proto == IPPROTO_TCP)
		return real_stream(skb, &t);
	if (proto != IPPROTO_UDP)
		return 0;
	sk = bpf_sk_lookup_udp(skb, &t, sizeof(t.ipv6), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	is = stands_at(sk, &t);
	bpf_sk_release(sk);
	return is;
}

/* Does a datagram of a node with a session belong to a socket of plain IPv6? One that is
 * connected has no other correspondent; one that is only bound has those of
 * sessions as well if nobody takes them at the session address.
 */
static __always_inline int real_datagram(struct __sk_buff *skb, struct bpf_sock_tuple *t)
{
	struct bpf_sock *sk = bpf_sk_lookup_udp(skb, t, sizeof(t->ipv6), BPF_F_CURRENT_NETNS, 0);
	struct host *h = this_host();
	int is, connected;

	if (!sk)
		return 0;
	is = sk->src_ip6[2] == t->ipv6.daddr[2] && sk->src_ip6[3] == t->ipv6.daddr[3];
	connected = !!sk->dst_port;
	bpf_sk_release(sk);
	if (!is || connected || !h)
		return is;
	__builtin_memcpy(t->ipv6.saddr, &h->session_prefix, 8);
	__builtin_memcpy(t->ipv6.daddr, &h->session_prefix, 8);
	sk = bpf_sk_lookup_udp(skb, t, sizeof(t->ipv6), BPF_F_CURRENT_NETNS, 0);
	if (sk)
		bpf_sk_release(sk);
	return !sk;
}

/* The same, of the datagram at l3. */
__noinline int real_datagram_of(struct __sk_buff *skb, __u32 l3)
{
	struct bpf_sock_tuple t = {};

	return read_ends(skb, l3, 0, &t) == IPPROTO_UDP && real_datagram(skb, &t);
}

/* Is this segment one of a connection that this host has between session
 * addresses? Asked of those without nonce for which no session is there: it was
 * forgotten, is not made yet, or its first packets came from elsewhere. To the
 * stack it would be a segment of no connection, and the answer a reset, which ends
 * the connection at the other end. Dropped, it is sent again; and who hears nothing
 * asks with its nonce, which brings the session back. A first segment may be that
 * of a correspondent which has fallen back to plain IPv6. Global, as locator_accepted.
 */
__noinline int lacks_session(struct __sk_buff *skb, __u32 l3)
{
	struct bpf_sock_tuple t = {};
	__u8 flags;

	if (read_ends(skb, l3, 0, &t) != IPPROTO_TCP || bpf_skb_load_bytes(skb, l3 + IP6_LEN + TCP_FLAGS_AT, &flags, 1) ||
	    (flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		return 0;
	return session_connection(skb, &t);
}

/* Offers a connection to the server that is bound to one of our real addresses.
 * True if it has it.
 */
static __always_inline int offer(struct __sk_buff *skb, struct bpf_sock_tuple *t, const struct addr *real)
{
	struct bpf_sock *sk;
	int taken;

	__builtin_memcpy(t->ipv6.daddr, real, 16);
	sk = bpf_skc_lookup_tcp(skb, t, sizeof(t->ipv6), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	taken = sk->state == BPF_TCP_LISTEN && !bpf_sk_assign(skb, sk, 0);
	bpf_sk_release(sk);
	return taken;
}

/* A first segment that was just translated: if nobody listens on the session
 * address, a server on one of the host's real addresses does. The connection
 * lives on session addresses like any other; where it asks for its own, it is
 * told the server's.
 */
__noinline int serve(struct __sk_buff *skb, __u32 l3)
{
	struct bpf_sock_tuple t = {};
	struct served_key key = {};
	struct host *h = this_host();
	struct bpf_sock *sk;
	__u8 b;

	if (!h || bpf_skb_load_bytes(skb, l3 + 6, &b, 1) || b != IPPROTO_TCP ||
	    bpf_skb_load_bytes(skb, l3 + IP6_LEN + TCP_FLAGS_AT, &b, 1) || (b & (TCP_SYN | TCP_ACK)) != TCP_SYN ||
	    bpf_skb_load_bytes(skb, l3 + 8, t.ipv6.saddr, 32) ||
	    bpf_skb_load_bytes(skb, l3 + IP6_LEN, &t.ipv6.sport, 4))
		return 0;
	sk = bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv6), BPF_F_CURRENT_NETNS, 0);
	if (sk) {
		bpf_sk_release(sk);
		return 0;
	}
	__builtin_memcpy(&key.alias, &t.ipv6.daddr[2], 8);
	key.port = t.ipv6.dport;
	for (int i = 0; i < MAX_REALS; i++) {
		struct addr *real = &h->reals[i];

		if (!real->l64.v)
			break;
		if (!offer(skb, &t, real))
			continue;
		bpf_map_update_elem(&served, &key, real, BPF_ANY);
		count(RX_LISTENER);
		return 1;
	}
	return 0;
}

#endif
