/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Fragments of datagrams to sockets on the host's real addresses. Only the first one has the
 * ports by which such a socket is found.
 */
#ifndef ROAM_ILNP_REALFRAGMENTS_H
#define ROAM_ILNP_REALFRAGMENTS_H

#include "deliver.h"
#include "realmarks.h"
#include "realsocket.h"

#define FRAGMENT_LIFE 60000000000ULL /* ns; no host keeps fragments longer (RFC 8200 §4.5) */

/* A datagram in fragments. */
struct fragment_key {
	struct addr src, dst;
	__be32 id;
	__u32 pad;
};

struct {
	/* Which datagrams in fragments are for sockets on real addresses, and since when? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct fragment_key);
	__type(value, __u64);
} real_fragments SEC(".maps");

/* Does a fragment without nonce belong to a datagram of such a socket? The first one notes
 * the datagram for the others. One that overtakes it goes to the session, and the datagram
 * is lost.
 */
__noinline int real_fragment(struct __sk_buff *skb, const struct inbound *in)
{
	struct fragment_key key = {};
	__u64 now = coarse_ns(), *since;
	__be16 port;

	if (!in || in->c.proto != IPPROTO_UDP || in->c.at != in->l3 + IP6_LEN + FRAGMENT_LEN ||
	    bpf_skb_load_bytes(skb, in->c.at - 4, &key.id, 4))
		return 0;
	key.src = in->src;
	key.dst = in->dst;
	if (in->c.fragment == LATER_FRAGMENT) {
		since = bpf_map_lookup_elem(&real_fragments, &key);
		return since && now - *since < FRAGMENT_LIFE;
	}
	if (bpf_skb_load_bytes(skb, in->c.at + 2, &port, 2) || !may_be_real(in->src.nid, port) ||
	    !real_socket(skb, in->l3, 0))
		return 0;
	bpf_map_update_elem(&real_fragments, &key, &now, BPF_ANY);
	return 1;
}

#endif
