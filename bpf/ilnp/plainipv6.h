/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Connections of plain IPv6 with a node that has a session by now. They started when one
 * of the two had no ILNP, or did not want it. Here their sockets use real addresses,
 * while the other end may send them as packets of the session, with the nonce and along
 * any of its paths.
 */
#ifndef ROAM_ILNP_PLAINIPV6_H
#define ROAM_ILNP_PLAINIPV6_H

#include "deliver.h"
#include "inbound.h"
#include "realmarks.h"
#include "realfragments.h"
#include "realsocket.h"
#include "session.h"

/* Results of find_real. */
#define REAL_HERE 1      /* a socket on the very addresses of the packet */
#define REAL_ELSEWHERE 2 /* a socket on other addresses of the two nodes. Above stand */
#define REAL_REMOTE 4    /* the index in remote[] of the session, from this bit on, */
#define REAL_OWN 8       /* and that in reals[] of the host */

/* Notes that a node without a session speaks plain IPv6 to an identifier of ours, in case
 * it gets one. Where the identifiers are those of plain IPv6 anyhow, all sessions are
 * checked and nothing is noted. Returns whether this is new.
 */
static __always_inline int note_plain(const struct inbound *in)
{
	struct session_key key = { .local = in->dst.nid, .remote = in->src.nid };
	struct host *h = this_host();
	__u8 one = 1;

	if (!h || h->flags & HOST_REAL_NIDS || (in->c.proto != IPPROTO_TCP && in->c.proto != IPPROTO_UDP) ||
	    bpf_map_lookup_elem(&plain_nodes, &key))
		return 0;
	bpf_map_update_elem(&plain_nodes, &key, &one, BPF_ANY);
	return 1;
}

/* Passes a packet of a node without a session. The daemon writes a session first and then
 * looks whether the node has spoken plain IPv6; here the order is reversed. So if the
 * daemon has not seen this packet, the packet sees the session, and is dropped: its
 * connection would be on the wire addresses, where nobody looks for it.
 */
static __always_inline int pass_plain(const struct inbound *in)
{
	return note_plain(in) && session_of(in, UNSETTLED) ? drop(DROP_NO_NONCE_YET) : PASS_ON;
}

#define MOST_LOOKUPS 24 /* look-ups of sockets for one segment, about 0.1 us each */

/* The number of the host's addresses with this identifier. Global: the verifier would go
 * through the loop of real_elsewhere for each number.
 */
__noinline __u32 count_reals(__u64 nid)
{
	struct host *h = this_host();
	__u32 n = 0;

	for (int i = 0; h && i < MAX_REALS; i++)
		n += h->reals[i].nid.v == nid;
	return n;
}

/* Finds a connection on these ports between other locators of the two nodes: segments
 * take all paths of a session, and this end has the connection on one of them. Only
 * locators of the correspondent that are sent to count, as a connection of plain IPv6
 * does not move. Anyone can send segments of no connection, so not all of the 64
 * combinations are tried.
 */
__noinline int real_elsewhere(struct __sk_buff *skb, const struct session_entry *p, const struct inbound *in)
{
	struct bpf_sock_tuple t = {};
	struct host *h = this_host();
	__u32 owns;

	if (!h || !p || !in || bpf_skb_load_bytes(skb, in->c.at, &t.ipv6.sport, 4))
		return 0;
	__builtin_memcpy(t.ipv6.saddr, &in->src, 32);
	owns = count_reals(in->dst.nid.v);
	for (__u32 i = 0; i < MAX_REMOTE * MAX_REALS; i++) {
		__u32 own = i & (MAX_REALS - 1), remote = i / MAX_REALS;

		if (remote >= p->n_remote || (remote + 1) * owns > MOST_LOOKUPS)
			break;
		if (h->reals[own].nid.v != in->dst.nid.v)
			continue;
		__builtin_memcpy(t.ipv6.saddr, &p->remote[remote & (MAX_REMOTE - 1)], 8);
		__builtin_memcpy(t.ipv6.daddr, &h->reals[own].l64, 8);
		if (is_connection(skb, &t))
			return REAL_ELSEWHERE | remote << REAL_REMOTE | own << REAL_OWN;
	}
	return 0;
}

/* Has a datagram without nonce come to another locator than the one from which its plain
 * session sends? Its answer must leave from the locator to which it came.
 */
static __always_inline int off_path(const struct session_entry *p, const struct inbound *in)
{
	__u32 index = p ? path_uplink(p, 0) : 0;
	struct uplink *u = bpf_map_lookup_elem(&uplinks, &index);

	return p && p->flags & ENTRY_PLAIN && u && u->l64.v != in->dst.l64.v;
}

/* Does a packet between two nodes belong to a socket of plain IPv6? p is their session,
 * or 0. A first segment with a nonce begins a connection of the session; one without
 * nonce, of a node that has no ILNP, does not. Sockets are looked up only where a mark says
 * that there may be one.
 */
__noinline int find_real(struct __sk_buff *skb, const struct session_entry *p, const struct inbound *in)
{
	struct bpf_sock_tuple t = {};
	int marked;
	__u8 flags;

	if (!in)
		return 0;
	if (in->c.fragment != WHOLE)
		return p && !in->c.nonce.len && in->c.proto == IPPROTO_UDP && (off_path(p, in) || real_fragment(skb, in));
	if (bpf_skb_load_bytes(skb, in->c.at, &t.ipv6.sport, 4))
		return 0;
	marked = may_be_real(in->src.nid, t.ipv6.dport);
	__builtin_memcpy(t.ipv6.saddr, &in->src, 32);
	if (in->c.proto == IPPROTO_UDP && in->c.nonce.len)
		return marked && real_datagram(skb, &t);
	if (in->c.proto == IPPROTO_UDP)
		return off_path(p, in) || (marked && real_socket(skb, in->l3, 0));
	if (in->c.proto != IPPROTO_TCP || bpf_skb_load_bytes(skb, in->c.at + TCP_FLAGS_AT, &flags, 1))
		return 0;
	if ((flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		return !in->c.nonce.len && ((p && p->flags & ENTRY_PLAIN) || (marked && real_socket(skb, in->l3, 0)));
	if (!marked || session_connection(skb, &t))
		return 0;
	__builtin_memcpy(t.ipv6.saddr, &in->src, 32);
	if (in->c.nonce.len ? is_connection(skb, &t) : real_socket(skb, in->l3, 0))
		return REAL_HERE;
	return p ? real_elsewhere(skb, p, in) : 0;
}

/* Delivers a packet to the socket that find_real has found. The NIDs in in may be the
 * aliases of the session by now.
 */
__noinline int deliver_real(struct __sk_buff *skb, const struct inbound *in, const struct session_entry *p, __u32 found,
			    int rfc6741)
{
	struct host *h = this_host();
	struct addr ends[2];
	__u32 gone, new, diff;

	if (!h || !in || bpf_skb_load_bytes(skb, in->l3 + 8, ends, sizeof(ends)))
		return drop(DROP_KERNEL_HELPER);
	gone = sum_fold(sum_half(in->src.l64) + sum_half(in->dst.l64));
	if (p && found & REAL_ELSEWHERE) {
		ends[0].l64 = p->remote[found >> REAL_REMOTE & (MAX_REMOTE - 1)];
		ends[1].l64 = h->reals[found >> REAL_OWN & (MAX_REALS - 1)].l64;
	}
	new = sum_fold(sum_half(ends[0].l64) + sum_half(ends[1].l64));
	diff = rfc6741 ? new : sum_fold(new + sum_neg(gone));
	if (csum_adjust(skb, in->c.at, in->c.proto, diff))
		return drop(DROP_KERNEL_HELPER);
	keep_device_sum(skb, sum_fold(gone + sum_neg(new)), sum_neg(diff));
	if (write_addresses(skb, in->l3 & ETH_LEN, ends) || (in->c.nonce.len && strip_nonce(skb, in, checksum_state(skb))))
		return drop(DROP_KERNEL_HELPER);
	count(RX_REAL_SOCKET);
	return PASS_ON;
}

#endif
