/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sockets on the host's real addresses: those of plain IPv6, whose packets look like
 * those of a session, and servers that are bound to one address and know no session
 * addresses.
 */
#ifndef ROAM_ILNP_REALSOCKET_H
#define ROAM_ILNP_REALSOCKET_H

#include "segdev.h"
#include "listener.h"
#include "session.h"

/* Reads the addresses and ports of the packet at l3 as they stand on the wire. Those of a
 * quoted packet, which we sent, are swapped. Returns its protocol; 0 if it is too short.
 * A packet with extension headers has none, except for the first fragment of a datagram.
 */
static __always_inline __u8 read_ends(struct __sk_buff *skb, __u32 l3, __u32 swapped, struct bpf_sock_tuple *t)
{
	__u32 ends = l3 + 8, ports = l3 + IP6_LEN, other = !!swapped;
	__u8 proto, f[4];

	if (bpf_skb_load_bytes(skb, l3 + 6, &proto, 1))
		return 0;
	if (proto == NEXT_FRAGMENT) {
		if (bpf_skb_load_bytes(skb, ports, f, sizeof(f)) || f[0] != IPPROTO_UDP || f[2] || f[3] & 0xf8)
			return 0;
		proto = f[0];
		ports += FRAGMENT_LEN;
	}
	if (bpf_skb_load_bytes(skb, ends + 16 * other, t->ipv6.saddr, 16) ||
	    bpf_skb_load_bytes(skb, ends + 16 - 16 * other, t->ipv6.daddr, 16) ||
	    bpf_skb_load_bytes(skb, ports + 2 * other, &t->ipv6.sport, 2) ||
	    bpf_skb_load_bytes(skb, ports + 2 - 2 * other, &t->ipv6.dport, 2))
		return 0;
	return proto;
}

/* Is there a connection between these ends? A half-open one counts, a listening socket
 * does not.
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

/* Is there a connection on these ports between the session addresses of these nodes? */
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

/* Is there a TCP socket bound to the destination? A half-open connection has an address
 * of its own, whatever its server is bound to.
 */
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

/* Is there a socket bound to the very addresses of the packet at l3, as they stand on the
 * wire? Wildcard sockets do not count, as they receive session packets as well. Nor does
 * a server on one address whose connection on these ports belongs to a session (see
 * serve).
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

/* Does a datagram of a node with a session belong to a socket of plain IPv6? A connected
 * socket has no other correspondent. One that is only bound also serves sessions if no
 * socket at the session address does.
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

/* The same, for the datagram at l3. */
__noinline int real_datagram_of(struct __sk_buff *skb, __u32 l3)
{
	struct bpf_sock_tuple t = {};

	return read_ends(skb, l3, 0, &t) == IPPROTO_UDP && real_datagram(skb, &t);
}

/* Does this segment belong to a connection of this host between session addresses? Asked
 * for segments without nonce and without session: the session was forgotten, is not made
 * yet, or its first packets came from another locator. To the stack this would be a
 * segment of no connection, and its reset would end the connection at the other end. If
 * it is dropped instead, the peer retransmits it, and probes with its nonce when nothing
 * comes back, which restores the session. A first segment may come from a correspondent
 * that has fallen back to plain IPv6. Global, as locator_accepted.
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

/* Assigns a segment to the server that is bound to one of our real addresses. True if
 * there is one.
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

/* Offers a first segment that was just translated to a server: if no socket listens on
 * the session address, one on a real address of the host may. The connection uses session
 * addresses like any other; the hook of getsockname shows the server its own address.
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
